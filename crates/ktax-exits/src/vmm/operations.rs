//! Times costly instructions on this machine's processor, in cycles of its time-stamp counter:
//! guests without an operating system execute them in the kernel's mode.

use std::sync::Arc;

use vm_memory::{Bytes, GuestAddress};

use super::raw::{END_PORT, RawPorts, vcpu_at, wrmsr};
use super::{
    GuestEnd, GuestOutcome, Machine, Memory, run_vcpus, too_little_memory, write_memory,
    write_page_tables,
};
use ktax_model::{Costly, ErrorKind, LowHigh, Result, hull};
use ktax_stats::repeats::cost_interval;

const MEMORY_BYTES: usize = 1 << 20;

/// Returns the cycles of one such instruction: 9 of 10 values lie between. `None` if this
/// processor, or the hypervisor below it, does not execute it, if it cannot be timed this way, and
/// if the user stops it.
pub fn cycles(kind: Costly) -> Result<Option<LowHigh>> {
    let each: Result<Vec<_>> = timed_codes(kind).iter().map(measure).collect();
    Ok(hull(each?.into_iter().flatten()))
}

/// Returns the cycles of an instruction that does nothing. Where that is many, the hypervisor
/// executes each instruction itself, and no time here is the processor's.
pub fn cycles_of_nothing() -> Result<Option<f64>> {
    Ok(measure(&nop())?.map(|[low, _]| low))
}

fn measure(timed: &TimedCode) -> Result<Option<LowHigh>> {
    let machine = Machine::new(MEMORY_BYTES)?;
    write_page_tables(&machine.memory)?;
    write_memory(&machine.memory, "the code", &timed.assemble(), TimedCode::address())?;
    let vcpu = vcpu_at(&machine, 0, CODE.into())?;
    let GuestOutcome { ended, .. } = run_vcpus(vec![vcpu], &Arc::new(RawPorts))?;
    match ended {
        Ok(GuestEnd::ByGuest) => Ok(Some(cost_interval(&times(&machine.memory)?, timed.count()))),
        // A missing instruction is an exception, for which this guest has no handler.
        Ok(GuestEnd::BySignal) => Ok(None),
        Err(error) if error.kind == ErrorKind::GuestFault => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the cycles of each warm round: of the empty chain, and of the other one.
fn times(memory: &Memory) -> Result<Vec<[u64; 2]>> {
    let mut bytes = [0; ROUNDS as usize * 16];
    let read = memory.read_slice(&mut bytes, GuestAddress(RESULTS.into()));
    read.map_err(|_| too_little_memory("the times"))?;
    let mut words =
        bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8")));
    let rounds = std::iter::from_fn(|| Some([words.next()?, words.next()?]));
    Ok(rounds.skip(WARM_UP).collect())
}

/// Length of a chain: the counter's own time is small beside it.
const CHAIN: usize = 64;

const ROUNDS: u32 = 240;
/// Number of first rounds that are left out, because the caches are cold.
const WARM_UP: usize = 40;

/// Addresses of the code, of its data, and of two times for each round.
pub(super) const CODE: u32 = 0x1_0000;
const DATA: u32 = 0x2_0000;
const RESULTS: u32 = 0x3_0000;
/// Address to which `syscall` jumps: before the code.
const HANDLER: u32 = CODE - 0x10;

const EFER: u32 = 0xc000_0080;
const STAR: u32 = 0xc000_0081;
const LSTAR: u32 = 0xc000_0082;
const SFMASK: u32 = 0xc000_0084;
/// An MSR that `swapgs` loads, so no hypervisor intercepts it.
const KERNEL_GS_BASE: u32 = 0xc000_0102;
/// Long mode, which is active, with `syscall`.
const WITH_SYSCALL: u32 = 0x501;
/// `syscall` loads CS 0x10 and SS 0x18, `sysret` CS 0x33 and SS 0x2b.
const SELECTORS: u32 = 0x0020_0010;
/// Flags for user mode: the reserved bit, and I/O allowed, so that the guest can end itself there.
const USER_FLAGS: u32 = 0x3002;

/// Code that executes instructions of one kind.
struct TimedCode {
    /// Executed once, before both chains of each round.
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

    fn after(self, before: &[u8]) -> TimedCode {
        TimedCode { before: before.to_vec(), ..self }
    }

    pub fn count(&self) -> f64 {
        (self.times * CHAIN) as f64
    }

    /// Assembles all code of the guest, from [`HANDLER`] on; it starts at [`CODE`].
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
            // mov r8, rax: when it began
            code.extend(TIME.iter().chain(&[0x49, 0x89, 0xc0]));
            code.extend(&self.before);
            code.extend(self.body.repeat(times));
            // sub rax, r8; mov [rbx + offset], rax
            code.extend(TIME.iter().chain(&[0x4c, 0x29, 0xc0, 0x48, 0x89, 0x43, offset]));
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

    /// Returns the address of the bytes of [`TimedCode::assemble`].
    pub fn address() -> u64 {
        HANDLER.into()
    }
}

/// lfence; rdtsc; lfence; shl rdx, 32; or rax, rdx
const TIME: [u8; 15] =
    [0x0f, 0xae, 0xe8, 0x0f, 0x31, 0x0f, 0xae, 0xe8, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0];

/// Assembles code that allows `syscall` and continues in user mode with the following code;
/// `before` bytes are before this.
fn to_user_mode(before: usize) -> Vec<u8> {
    let mut code = Vec::new();
    for (msr, low, high) in
        [(EFER, WITH_SYSCALL, 0), (STAR, 0, SELECTORS), (LSTAR, HANDLER, 0), (SFMASK, 0, 0)]
    {
        code.extend(wrmsr(msr, low, high));
    }
    // mov r11d, USER_FLAGS
    code.extend([0x41, 0xbb].into_iter().chain(USER_FLAGS.to_le_bytes()));
    // mov ecx, what follows; sysretq
    let here = HANDLER + (before + code.len()) as u32;
    code.extend([0xb9].into_iter().chain((here + 8).to_le_bytes()).chain([0x48, 0x0f, 0x07]));
    code
}

/// Returns the timed codes of a kind that only the kernel may execute; empty for kinds that leave
/// the guest.
fn timed_codes(kind: Costly) -> Vec<TimedCode> {
    // mov ecx, KERNEL_GS_BASE; xor eax, eax; xor edx, edx
    let [a, b, c, d] = KERNEL_GS_BASE.to_le_bytes();
    let msr = [0xb9, a, b, c, d, 0x31, 0xc0, 0x31, 0xd2];
    match kind {
        // mov rax, cr3; then: mov cr3, rax
        Costly::Cr3Write => vec![TimedCode::new(&[0x0f, 0x22, 0xd8]).after(&[0x0f, 0x20, 0xd8])],
        // mov edi, 4 MiB: no page that is used; then: invlpg [rdi]
        Costly::Invlpg => vec![TimedCode::new(&[0x0f, 0x01, 0x3f]).after(&[0xbf, 0, 0, 0x40, 0])],
        // mov eax, 2; then: invpcid rax, [rdi]
        Costly::Invpcid => {
            vec![TimedCode::new(&[0x66, 0x0f, 0x38, 0x82, 0x07]).after(&[0xb8, 2, 0, 0, 0])]
        }
        Costly::Wrmsr => vec![TimedCode::new(&[0x0f, 0x30]).after(&msr)],
        Costly::Rdmsr => vec![TimedCode::new(&[0x0f, 0x32]).after(&msr)],
        Costly::Swapgs => vec![TimedCode::new(&[0x0f, 0x01, 0xf8])],
        // mov word [rdi], 0x18: a segment that can be written; then: verw [rdi]
        Costly::Verw => {
            vec![TimedCode::new(&[0x0f, 0x00, 0x2f]).after(&[0x66, 0xc7, 0x07, 0x18, 0])]
        }
        // Each is half of a pair.
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

/// mov rsi, rsp; push 0x18; push rsi; push 2; push 0x10; lea rax, [rip + 3]; push rax; iretq
const IRET: [u8; 20] = [
    0x48, 0x89, 0xe6, 0x6a, 0x18, 0x56, 0x6a, 2, 0x6a, 0x10, 0x48, 0x8d, 0x05, 3, 0, 0, 0, 0x50,
    0x48, 0xcf,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_has_the_chain_once_and_fits_before_its_data() {
        for timed in Costly::ALL.into_iter().flat_map(timed_codes).chain([nop()]) {
            let code = timed.assemble();
            let chain = timed.body.repeat(CHAIN);
            assert_eq!(code.windows(chain.len()).filter(|window| *window == chain).count(), 1);
            assert!(code.len() < (DATA - HANDLER) as usize);
        }
        assert_eq!(TimedCode::address() + 16, u64::from(CODE));
    }

    #[test]
    fn user_mode_begins_behind_what_enters_it() {
        let code = timed_codes(Costly::Syscall).remove(0).assemble();
        let enters = code.windows(3).rposition(|window| window == [0x48, 0x0f, 0x07]).unwrap();
        let target = u32::from_le_bytes(code[enters - 4..enters].try_into().unwrap());
        assert_eq!(target, HANDLER + enters as u32 + 3);
    }
}
