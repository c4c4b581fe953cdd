//! From one frame of a stack to the one that called it, by the unwind tables of the code.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EhFrameOffset, Encoding, EndianSlice, EvaluationResult,
    LittleEndian, Pointer, Register, RegisterRule, UnwindContext, UnwindExpression, UnwindSection, Value,
};
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};

use super::registers::{RETURN_ADDRESS, RSP, Registers};
use crate::elf::Contents;
use crate::host::memory::RemoteMemory;

type Bytes<'d> = EndianSlice<'d, LittleEndian>;

/// The entry of no function is longer: it is gone through from its beginning for each frame.
const LONGEST_ENTRY_BYTES: usize = 64 << 10;

/// Where a file's unwind tables are. Addresses are those of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tables {
    header_vaddr: u64,
    header_offset: u64,
    frame_vaddr: u64,
    frame_offset: u64,
}

/// Why a frame has no caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnwindError {
    /// The outermost frame.
    #[error("no caller: the thread began here")]
    Outermost,
    /// No table for this code.
    #[error("its code has no unwind table")]
    NoTable,
    /// A register or a place in memory that the table needs is not known.
    #[error("what its unwind table needs cannot be read")]
    Unknown,
}

impl From<gimli::Error> for UnwindError {
    fn from(_: gimli::Error) -> Self {
        Self::NoTable
    }
}

/// A frame's caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Its registers after the call returns; `pc` is the return address.
    pub registers: Registers,
    /// The stack pointer just before the call: the return address lies below it.
    pub cfa: u64,
    /// The frame was interrupted by a signal, not called: `pc` is the interrupted instruction.
    pub interrupted: bool,
}

impl Tables {
    /// Finds the tables of a file; `None`: it has none.
    pub fn find(file: &Contents) -> Option<Self> {
        let header = elf::FileHeader64::<object::LittleEndian>::parse(file).ok()?;
        let endian = header.endian().ok()?;
        let segments = header.program_headers(endian, file).ok()?;
        let place = segments.iter().find(|s| s.p_type(endian) == elf::PT_GNU_EH_FRAME)?;
        let (header_vaddr, header_offset) = (place.p_vaddr(endian), place.p_offset(endian));
        let bases = BaseAddresses::default().set_eh_frame_hdr(header_vaddr);
        let header = file.bytes_from(header_offset)?;
        has_sane_count(header).then_some(())?;
        let parsed = EhFrameHdr::new(header, LittleEndian).parse(&bases, size_of::<u64>() as u8).ok()?;
        let Pointer::Direct(frame_vaddr) = parsed.eh_frame_ptr() else { return None };
        let within = |s: &&elf::ProgramHeader64<object::LittleEndian>| {
            let start = s.p_vaddr(endian);
            s.p_type(endian) == elf::PT_LOAD
                && (start..start.saturating_add(s.p_filesz(endian))).contains(&frame_vaddr)
        };
        let segment = segments.iter().find(within)?;
        let distance = frame_vaddr - segment.p_vaddr(endian);
        let frame_offset = segment.p_offset(endian).checked_add(distance)?;
        Some(Self { header_vaddr, header_offset, frame_vaddr, frame_offset })
    }

    /// The caller of a frame, and the address of the frame's function in the file. `bias`: what is added to addresses of the file. `called`: whether the frame's
    /// `pc` is a return address (then the call before it counts).
    ///
    /// # Errors
    /// There is none, or none can be found.
    pub fn caller(
        &self,
        file: &Contents,
        bias: u64,
        frame: &Registers,
        called: bool,
        memory: &dyn RemoteMemory,
    ) -> Result<(Caller, u64), UnwindError> {
        let bases =
            BaseAddresses::default().set_eh_frame_hdr(self.header_vaddr).set_eh_frame(self.frame_vaddr);
        let part = |at| file.bytes_from(at).ok_or(UnwindError::NoTable);
        let eh_frame = EhFrame::new(part(self.frame_offset)?, LittleEndian);
        let header = EhFrameHdr::new(part(self.header_offset)?, LittleEndian);
        let header = header.parse(&bases, size_of::<u64>() as u8)?;
        let table = header.table().ok_or(UnwindError::NoTable)?;
        let vaddr = frame.pc.wrapping_sub(bias).wrapping_sub(u64::from(called));
        // A table may point to before the frames, which gimli takes for granted that none does.
        let entry = table.lookup(vaddr, &bases)?.direct()?;
        let entry = entry.checked_sub(self.frame_vaddr).and_then(|at| usize::try_from(at).ok());
        let entry = EhFrameOffset(entry.ok_or(UnwindError::NoTable)?);
        let fde = eh_frame.fde_from_offset(&bases, entry, |s, bases, at| s.cie_from_offset(bases, at))?;
        if !fde.contains(vaddr) {
            return Err(UnwindError::NoTable);
        }
        if fde.entry_len().max(fde.cie().entry_len()) > LONGEST_ENTRY_BYTES {
            return Err(UnwindError::NoTable);
        }
        let mut context = UnwindContext::new();
        let row = fde.unwind_info_for_address(&eh_frame, &bases, &mut context, vaddr)?;
        let step = UnwindStep { eh_frame: &eh_frame, encoding: fde.cie().encoding(), frame, memory };
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                frame.get(register.0).map(|value| value.wrapping_add_signed(*offset))
            }
            CfaRule::Expression(expression) => step.evaluate(expression, None),
        }
        .ok_or(UnwindError::Unknown)?;
        let mut caller = frame.kept_by_calls();
        let mut return_address = None;
        for (register, rule) in row.registers() {
            let value = step.register(*register, rule, cfa);
            match register.0 {
                RETURN_ADDRESS if matches!(rule, RegisterRule::Undefined) => {
                    return Err(UnwindError::Outermost);
                }
                RETURN_ADDRESS => return_address = value,
                number => caller.set(number, value),
            }
        }
        caller.pc = return_address.ok_or(UnwindError::Unknown)?;
        if caller.get(RSP).is_none() {
            caller.set(RSP, Some(cfa));
        }
        if caller.pc == 0 {
            return Err(UnwindError::Outermost);
        }
        let caller = Caller { registers: caller, cfa, interrupted: fde.is_signal_trampoline() };
        Ok((caller, fde.initial_address()))
    }
}

/// Whether the number of entries has four bytes or two, without a sign, as linkers write it: gimli multiplies it.
fn has_sane_count(header: &[u8]) -> bool {
    const ENCODING_AT: usize = 2;
    const FORMAT: u8 = 0x0f;
    header.get(ENCODING_AT).is_some_and(|encoding| {
        [gimli::DW_EH_PE_udata2, gimli::DW_EH_PE_udata4].iter().any(|sane| sane.0 == encoding & FORMAT)
    })
}

/// What a row of a table refers to.
struct UnwindStep<'s, 'd> {
    eh_frame: &'s EhFrame<Bytes<'d>>,
    encoding: Encoding,
    frame: &'s Registers,
    memory: &'s dyn RemoteMemory,
}

impl UnwindStep<'_, '_> {
    fn register(&self, register: Register, rule: &RegisterRule<usize>, cfa: u64) -> Option<u64> {
        match rule {
            RegisterRule::SameValue => self.frame.get(register.0),
            RegisterRule::Offset(offset) => self.memory.word(cfa.wrapping_add_signed(*offset)),
            RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(*offset)),
            RegisterRule::Register(other) => self.frame.get(other.0),
            RegisterRule::Expression(expression) => {
                self.evaluate(expression, Some(cfa)).and_then(|at| self.memory.word(at))
            }
            RegisterRule::ValExpression(expression) => self.evaluate(expression, Some(cfa)),
            RegisterRule::Constant(value) => Some(*value),
            _ => None,
        }
    }

    /// `cfa`: what the stack of the expression begins with.
    fn evaluate(&self, expression: &UnwindExpression<usize>, cfa: Option<u64>) -> Option<u64> {
        /// No table of a compiler asks for more.
        const MOST_STEPS: u32 = 64;
        let mut evaluation = expression.get(self.eh_frame).ok()?.evaluation(self.encoding);
        evaluation.set_max_iterations(MOST_STEPS);
        if let Some(cfa) = cfa {
            evaluation.set_initial_value(cfa);
        }
        let mut state = evaluation.evaluate().ok()?;
        loop {
            state = match state {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    evaluation.resume_with_register(Value::Generic(self.frame.get(register.0)?)).ok()?
                }
                EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                    evaluation.resume_with_memory(Value::Generic(self.memory.word(address)?)).ok()?
                }
                _ => return None,
            };
        }
        match evaluation.as_result().first()?.location {
            gimli::Location::Address { address } => Some(address),
            _ => None,
        }
    }
}
