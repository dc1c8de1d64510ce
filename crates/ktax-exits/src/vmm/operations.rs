//! Times privileged instructions on this machine's processor, in cycles of the TSC. Guests without
//! an operating system execute the instructions in kernel mode.

use std::sync::Arc;

use vm_memory::{Bytes, GuestAddress};

use super::raw::{END_PORT, RawPorts, create_vcpu_at, wrmsr};
use super::{
    GuestEnd, GuestOutcome, Machine, Memory, run_vcpus, too_little_memory, write_memory,
    write_page_tables,
};
use ktax_model::{Costly, ErrorKind, LowHigh, Result, hull};
use ktax_stats::repeats::cost_interval;

const MEMORY_BYTES: usize = 1 << 20;

/// Returns an interval with 9 of 10 measured values of the cycles of one instruction. `None` if
/// this processor or a hypervisor does not execute the instruction, if it cannot be timed in a
/// guest, or if the user interrupts the measurement.
pub fn cycles(kind: Costly) -> Result<Option<LowHigh>> {
    let intervals: Result<Vec<_>> = timed_codes(kind).iter().map(measure).collect();
    Ok(hull(intervals?.into_iter().flatten()))
}

/// Returns the cycles of a NOP. If they are many, a hypervisor emulates each instruction, so that
/// no measured time is the processor's own.
pub fn nop_cycles() -> Result<Option<f64>> {
    Ok(measure(&nop())?.map(|[low, _]| low))
}

fn measure(timed: &TimedCode) -> Result<Option<LowHigh>> {
    let machine = Machine::new(MEMORY_BYTES)?;
    write_page_tables(&machine.memory)?;
    write_memory(&machine.memory, "the code", &timed.assemble(), TimedCode::address())?;
    let vcpu = create_vcpu_at(&machine, 0, CODE.into())?;
    let GuestOutcome { end, .. } = run_vcpus(vec![vcpu], &Arc::new(RawPorts))?;
    match end {
        Ok(GuestEnd::ByGuest) => {
            Ok(Some(cost_interval(&read_times(&machine.memory)?, timed.count())))
        }
        // An instruction that the processor lacks raises an exception, and the guest has no
        // handler.
        Ok(GuestEnd::BySignal) => Ok(None),
        Err(error) if error.kind == ErrorKind::GuestFault => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the cycles of each round after the warm-up: those of the empty chain, and those of the
/// chain of instructions.
fn read_times(memory: &Memory) -> Result<Vec<[u64; 2]>> {
    let mut bytes = [0; ROUNDS as usize * 16];
    let read = memory.read_slice(&mut bytes, GuestAddress(RESULTS.into()));
    read.map_err(|_| too_little_memory("the times"))?;
    let mut words = bytes
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("a word has eight bytes")));
    let rounds = std::iter::from_fn(|| Some([words.next()?, words.next()?]));
    Ok(rounds.skip(WARM_UP).collect())
}

/// Number of repetitions in a chain, so many that reading the TSC is a small part of its time.
const CHAIN: usize = 64;

const ROUNDS: u32 = 240;
/// Number of first rounds that are not counted, because caches are cold.
const WARM_UP: usize = 40;

// Addresses of the code, its data, and the results: two times for each round.

pub(super) const CODE: u32 = 0x1_0000;
const DATA: u32 = 0x2_0000;
const RESULTS: u32 = 0x3_0000;
/// Address to which `syscall` jumps, before the code.
const HANDLER: u32 = CODE - 0x10;

// MSRs.

const EFER: u32 = 0xc000_0080;
const STAR: u32 = 0xc000_0081;
const LSTAR: u32 = 0xc000_0082;
const SFMASK: u32 = 0xc000_0084;
/// An MSR that `swapgs` also changes, so that hypervisors do not intercept it.
const KERNEL_GS_BASE: u32 = 0xc000_0102;
/// EFER with active long mode and `syscall` enabled.
const EFER_WITH_SYSCALL: u32 = 0x501;
/// Upper half of STAR: `syscall` loads CS 0x10 and SS 0x18, `sysret` loads CS 0x33 and SS 0x2b.
const STAR_SELECTORS: u32 = 0x0020_0010;
/// RFLAGS in user mode: the reserved bit, and IOPL 3, so that the guest can end itself by an OUT.
const USER_FLAGS: u32 = 0x3002;

/// Code to time: instructions of one kind.
struct TimedCode {
    /// Code that runs before each of the two chains of a round.
    before: Vec<u8>,
    body: Vec<u8>,
    /// Number of instructions of the kind in the body.
    times: usize,
    /// True if the kind needs user mode.
    in_user_mode: bool,
}

impl TimedCode {
    fn new(body: &[u8]) -> TimedCode {
        TimedCode { before: Vec::new(), body: body.to_vec(), times: 1, in_user_mode: false }
    }

    /// Adds code that runs before each chain.
    fn with_setup(self, before: &[u8]) -> TimedCode {
        TimedCode { before: before.to_vec(), ..self }
    }

    /// Returns the number of instructions of the kind in a chain.
    pub fn count(&self) -> f64 {
        (self.times * CHAIN) as f64
    }

    /// Assembles the guest: the handler of `syscall` at [`HANDLER`], and the code at [`CODE`],
    /// where the guest starts.
    pub fn assemble(&self) -> Vec<u8> {
        // sysretq
        let mut code = vec![0x48, 0x0f, 0x07];
        code.resize((CODE - HANDLER) as usize, 0xcc);
        if self.in_user_mode {
            code.extend(to_user_mode(code.len()));
        }
        // mov edi, DATA; mov ebx, RESULTS; mov r15d, ROUNDS
        code.extend([0xbf].into_iter().chain(DATA.to_le_bytes()));
        code.extend([0xbb].into_iter().chain(RESULTS.to_le_bytes()));
        code.extend([0x41, 0xbf].into_iter().chain(ROUNDS.to_le_bytes()));
        let again = code.len();
        for (offset, times) in [(0, 0), (8, CHAIN)] {
            // mov r8, rax: the start time
            code.extend(READ_TSC.iter().chain(&[0x49, 0x89, 0xc0]));
            code.extend(&self.before);
            code.extend(self.body.repeat(times));
            // sub rax, r8; mov [rbx + offset], rax
            code.extend(READ_TSC.iter().chain(&[0x4c, 0x29, 0xc0, 0x48, 0x89, 0x43, offset]));
        }
        // add rbx, 16; dec r15; jnz again
        code.extend([0x48, 0x83, 0xc3, 16, 0x49, 0xff, 0xcf, 0x0f, 0x85]);
        let back = again as i32 - (code.len() as i32 + 4);
        code.extend(back.to_le_bytes());
        // mov dx, END_PORT; out dx, al; jmp to itself
        let [low, high] = END_PORT.to_le_bytes();
        code.extend([0x66, 0xba, low, high, 0xee, 0xeb, 0xfe]);
        code
    }

    /// Returns the address of the first byte of [`TimedCode::assemble`].
    pub fn address() -> u64 {
        HANDLER.into()
    }
}

/// Code that reads the TSC into RAX: lfence; rdtsc; lfence; shl rdx, 32; or rax, rdx
const READ_TSC: [u8; 15] =
    [0x0f, 0xae, 0xe8, 0x0f, 0x31, 0x0f, 0xae, 0xe8, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0];

/// Assembles code that enables `syscall` and continues in user mode with the next instruction. The
/// code is `offset` bytes after [`HANDLER`].
fn to_user_mode(offset: usize) -> Vec<u8> {
    let mut code = Vec::new();
    for (msr, low, high) in [
        (EFER, EFER_WITH_SYSCALL, 0),
        (STAR, 0, STAR_SELECTORS),
        (LSTAR, HANDLER, 0),
        (SFMASK, 0, 0),
    ] {
        code.extend(wrmsr(msr, low, high));
    }
    // mov r11d, USER_FLAGS
    code.extend([0x41, 0xbb].into_iter().chain(USER_FLAGS.to_le_bytes()));
    // mov ecx, the address after these 8 bytes; sysretq
    let address = HANDLER + (offset + code.len()) as u32;
    code.extend([0xb9].into_iter().chain((address + 8).to_le_bytes()).chain([0x48, 0x0f, 0x07]));
    code
}

/// Returns the code to time for a kind of instruction; empty for kinds that cause exits, which
/// cannot be timed in a guest.
fn timed_codes(kind: Costly) -> Vec<TimedCode> {
    // mov ecx, KERNEL_GS_BASE; xor eax, eax; xor edx, edx
    let [a, b, c, d] = KERNEL_GS_BASE.to_le_bytes();
    let msr = [0xb9, a, b, c, d, 0x31, 0xc0, 0x31, 0xd2];
    match kind {
        // mov rax, cr3; then: mov cr3, rax
        Costly::Cr3Write => {
            vec![TimedCode::new(&[0x0f, 0x22, 0xd8]).with_setup(&[0x0f, 0x20, 0xd8])]
        }
        // mov edi, 4 MiB: a page without data; then: invlpg [rdi]
        Costly::Invlpg => {
            vec![TimedCode::new(&[0x0f, 0x01, 0x3f]).with_setup(&[0xbf, 0, 0, 0x40, 0])]
        }
        // mov eax, 2; then: invpcid rax, [rdi]
        Costly::Invpcid => {
            vec![TimedCode::new(&[0x66, 0x0f, 0x38, 0x82, 0x07]).with_setup(&[0xb8, 2, 0, 0, 0])]
        }
        Costly::Wrmsr => vec![TimedCode::new(&[0x0f, 0x30]).with_setup(&msr)],
        Costly::Rdmsr => vec![TimedCode::new(&[0x0f, 0x32]).with_setup(&msr)],
        Costly::Swapgs => vec![TimedCode::new(&[0x0f, 0x01, 0xf8])],
        // mov word [rdi], 0x18: a writable segment; then: verw [rdi]
        Costly::Verw => {
            vec![TimedCode::new(&[0x0f, 0x00, 0x2f]).with_setup(&[0x66, 0xc7, 0x07, 0x18, 0])]
        }
        // syscall and sysret are timed as a pair.
        Costly::Syscall | Costly::Sysret => {
            vec![TimedCode { times: 2, in_user_mode: true, ..TimedCode::new(&[0x0f, 0x05]) }]
        }
        Costly::Iret => vec![TimedCode::new(&IRET)],
        // cli; sti. pushfq; popfq
        Costly::InterruptFlag => {
            vec![
                TimedCode { times: 2, ..TimedCode::new(&[0xfa, 0xfb]) },
                TimedCode::new(&[0x9c, 0x9d]),
            ]
        }
        _ => vec![],
    }
}

fn nop() -> TimedCode {
    TimedCode::new(&[0x90])
}

/// Code that returns to the next instruction by iretq: mov rsi, rsp; push 0x18; push rsi; push 2;
/// push 0x10; lea rax, [rip + 3]; push rax; iretq
const IRET: [u8; 20] = [
    0x48, 0x89, 0xe6, 0x6a, 0x18, 0x56, 0x6a, 2, 0x6a, 0x10, 0x48, 0x8d, 0x05, 3, 0, 0, 0, 0x50,
    0x48, 0xcf,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_has_one_chain_and_ends_before_its_data() {
        for timed in Costly::ALL.into_iter().flat_map(timed_codes).chain([nop()]) {
            let code = timed.assemble();
            let chain = timed.body.repeat(CHAIN);
            assert_eq!(code.windows(chain.len()).filter(|window| *window == chain).count(), 1);
            assert!(code.len() < (DATA - HANDLER) as usize);
        }
        assert_eq!(TimedCode::address() + 16, u64::from(CODE));
    }

    #[test]
    fn user_mode_starts_after_the_code_that_enters_it() {
        let code = timed_codes(Costly::Syscall).remove(0).assemble();
        let enters = code.windows(3).rposition(|window| window == [0x48, 0x0f, 0x07]).unwrap();
        let target = u32::from_le_bytes(code[enters - 4..enters].try_into().unwrap());
        assert_eq!(target, HANDLER + enters as u32 + 3);
    }
}
