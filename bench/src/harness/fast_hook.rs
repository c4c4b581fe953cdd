//! A fast probe in the process with the places, at the slot that the function `through` jumps through.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use injector::{
    CounterClock, HookKind, HookRequest, Installation, RecordLosses, SharedRings, SlotHook, Switch,
    WritableMemory, counter, install,
};

use super::probed_process::PROGRAM;

/// The function that jumps through the slot.
pub const THROUGH: &str = "through";
const SLOT: &str = "through_slot";
/// All that is recorded between two looks of the reader finds room.
const RING_BYTES: usize = 4 << 20;
const PATIENCE: Duration = Duration::from_secs(5);

/// Dropping it takes the probe out.
pub struct FastHook {
    installation: Installation,
    switch: Switch,
    taken: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<RecordLosses>>,
}

impl FastHook {
    /// Puts it into a process, and reads what it records. Nothing is recorded yet. `kind`: what it does with calls.
    ///
    /// # Errors
    /// The process does not allow it.
    pub fn put_into(pid: u32, kind: HookKind) -> Result<Self> {
        let slot = slot_address(pid)?;
        let original = WritableMemory::open(pid.cast_signed())?.word(slot)?;
        let hook = SlotHook { number: 1, kind, slot, original, target: original };
        let request = HookRequest { pid, hooks: vec![hook], ring_bytes: RING_BYTES };
        let installation = install(&request, |_| Ok(()))?;
        let mut shared = SharedRings::open(installation.file(), request.ring_bytes)?;
        let switch = shared.switch().clone();
        let (taken, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (counted, stopped) = (Arc::clone(&taken), Arc::clone(&stop));
        let reader = std::thread::spawn(move || {
            while !stopped.load(Ordering::Acquire) {
                let found = shared.drain(|| (), |(), _| {}).map_or(0, |(drained, ())| drained.records as u64);
                counted.fetch_add(found, Ordering::AcqRel);
                std::thread::sleep(Duration::from_millis(1));
            }
            shared.lost()
        });
        Ok(Self { installation, switch, taken, stop, reader: Some(reader) })
    }

    /// Records from now on, or not.
    pub fn record(&self, is_on: bool) {
        let until = counter() + CounterClock::begin().steps(Duration::from_secs(600));
        self.switch.record_until(if is_on { until } else { 0 });
    }

    /// Fails unless so many calls were recorded so far.
    ///
    /// # Errors
    /// What was counted instead.
    pub fn check_records(&self, expected: u64) -> Result<()> {
        let begin = Instant::now();
        while self.taken.load(Ordering::Acquire) < expected && begin.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        let taken = self.taken.load(Ordering::Acquire);
        ensure!(taken == expected, "{taken} records instead of {expected}: such a figure means nothing");
        Ok(())
    }
}

impl Drop for FastHook {
    fn drop(&mut self) {
        self.switch.end();
        self.stop.store(true, Ordering::Release);
        let _ = self.reader.take().map(JoinHandle::join);
        let _ = self.installation.take_out();
    }
}

/// Where the slot is in a process.
fn slot_address(pid: u32) -> Result<u64> {
    let bytes = std::fs::read(PROGRAM)?;
    let contents = bytes.into();
    let elf = dmscope::elf::parse(&contents)?;
    // It has no code, so its address stands in the program itself, behind a function that says it.
    let function = elf.function("through_slot_address").context("no function that tells the slot")?;
    let code = elf.code_from(function.vaddr).context("code")?;
    // lea SLOT(%rip), %rax
    let lea: [u8; 7] = code.get(..7).context("an instruction")?.try_into()?;
    ensure!(lea[..3] == [0x48, 0x8d, 0x05], "{SLOT} is told another way");
    let distance = i32::from_le_bytes([lea[3], lea[4], lea[5], lea[6]]);
    let vaddr = (function.vaddr + 7).wrapping_add_signed(i64::from(distance));
    let segment = elf.segments.iter().find(|segment| segment.exec).context("no code")?;
    let mappings = dmscope::host::gather::read_maps(pid)?;
    let is_code = |m: &&analyzer::input::Mapping| m.exec && m.name.ends_with("/places");
    let mapping = mappings.iter().find(is_code).context("no code of the program")?;
    let first = mapping.start - mapping.offset_bytes;
    Ok(first.wrapping_add(vaddr.wrapping_sub(segment.vaddr - segment.offset_bytes)))
}
