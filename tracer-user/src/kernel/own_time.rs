//! Processor time of dmscope itself, as the kernel part counts it.

use libbpf_rs::{MapCore, MapFlags};

use super::tracer::Tracer;

impl Tracer {
    /// How long dmscope's own threads ran since the programs were loaded, on all processors, ns, up to the last time that each
    /// stopped; `None`: it is not followed, or they cannot be told from others.
    pub fn own_time_ns(&self) -> Option<u64> {
        let by_cpu = self.skel.maps.own_times.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??;
        let ran_ns = |cpu: &Vec<u8>| cpu.first_chunk::<8>().map_or(0, |ns| u64::from_ne_bytes(*ns));
        Some(by_cpu.iter().map(ran_ns).sum()).filter(|ns| *ns > 0)
    }
}
