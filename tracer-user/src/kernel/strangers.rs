//! What processes that are not watched run into.

use std::collections::BTreeMap;

use analyzer::plan::ProbeClass;
use libbpf_rs::{MapCore, MapFlags};
use tracer_ebpf::DmscopeSkel;

/// Hits by class; classes without any are left out.
pub type StrangerHits = BTreeMap<ProbeClass, u64>;

/// `enum probe_class` in `common.h`, in its order.
const CLASSES: [ProbeClass; 14] = [
    ProbeClass::Copy,
    ProbeClass::Pack,
    ProbeClass::Unpack,
    ProbeClass::Call,
    ProbeClass::CallResults,
    ProbeClass::PollSuccess,
    ProbeClass::PollReturn,
    ProbeClass::Alloc,
    ProbeClass::Free,
    ProbeClass::Error,
    ProbeClass::VerbsPost,
    ProbeClass::VerbsPoll,
    ProbeClass::VerbsQueue,
    ProbeClass::VerbsBuild,
];

pub(super) fn stranger_hits(skel: &DmscopeSkel<'_>) -> StrangerHits {
    let hits = |index: u32| {
        let by_cpu = skel.maps.stranger_hits.lookup_percpu(&index.to_ne_bytes(), MapFlags::ANY);
        let by_cpu = by_cpu.ok().flatten().unwrap_or_default();
        by_cpu.iter().filter_map(|hits| Some(u64::from_ne_bytes(hits.get(..8)?.try_into().ok()?))).sum()
    };
    let all = (0..).zip(CLASSES).map(|(index, class)| (class, hits(index)));
    all.filter(|(_, hits)| *hits > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_in_the_order_in_which_the_programs_count_them() {
        let header = include_str!("../../../tracer-ebpf/src/bpf/common.h");
        let (_, listed) = header.split_once("enum probe_class {").expect("the enumeration");
        let listed: Vec<&str> =
            listed.split(',').map_while(|name| name.trim().strip_prefix("CLASS_")).collect();
        let name =
            |class: ProbeClass| serde_json::to_value(class).expect("a name").as_str().map(str::to_uppercase);
        assert_eq!(CLASSES.map(|class| name(class).expect("text")).as_slice(), listed);
    }
}
