//! Memory as a stack is read from: as it was when it was sampled, and as if nobody watched.

use crate::host::memory::RemoteMemory;

/// A stack as it was when a thread was sampled, and the process's memory beyond it.
pub struct Sampled<'a, M> {
    /// Address of the first byte.
    pub start: u64,
    /// The bytes from there on.
    pub bytes: &'a [u8],
    /// The rest.
    pub beyond: &'a M,
}

impl<M: RemoteMemory> RemoteMemory for Sampled<'_, M> {
    fn word(&self, address: u64) -> Option<u64> {
        let at = address.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        let sampled = at.and_then(|at| self.bytes.get(at..at.checked_add(8)?));
        match sampled {
            Some(bytes) => bytes.try_into().ok().map(u64::from_le_bytes),
            None => self.beyond.word(address),
        }
    }
}

/// Memory with a return address as it would be if nobody watched.
pub struct Unhooked<'a> {
    /// Where it lies, and what it is.
    pub hooked: Option<(u64, u64)>,
    /// The kernel's code that is returned to instead.
    pub trampoline: std::ops::Range<u64>,
    /// The rest.
    pub beyond: &'a dyn RemoteMemory,
}

impl RemoteMemory for Unhooked<'_> {
    fn word(&self, address: u64) -> Option<u64> {
        let word = self.beyond.word(address)?;
        match self.hooked {
            Some((at, hooked)) if at == address && self.trampoline.contains(&word) => Some(hooked),
            _ => Some(word),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::memory::ProcessMemory;

    #[test]
    fn only_the_kernels_own_return_address_is_put_right() {
        let stack = [0x7000u64, 0x5000];
        let at = &raw const stack[0] as u64;
        let process = ProcessMemory::new(std::process::id());
        let read = |hooked| {
            let memory = Unhooked { hooked: Some((hooked, 9)), trampoline: 0x7000..0x8000, beyond: &process };
            (memory.word(at), memory.word(at + 8))
        };
        assert_eq!(read(at), (Some(9), Some(0x5000)));
        assert_eq!(read(at + 8), (Some(0x7000), Some(0x5000)));
    }

    #[test]
    fn what_was_sampled_counts_before_what_is_there_now() {
        let now = [1u64, 2, 3];
        let process = ProcessMemory::new(std::process::id());
        let start = &raw const now[0] as u64;
        let memory = Sampled { start, bytes: &5u64.to_le_bytes(), beyond: &process };
        assert_eq!((memory.word(start), memory.word(start + 8)), (Some(5), Some(2)));
    }
}
