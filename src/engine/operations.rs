//! What costly instructions take that user mode may execute, in cycles of the time-stamp counter.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, _mm_lfence, _rdtsc};
use std::time::{Duration, Instant};

use crate::model::{Costly, LowHigh, hull};
use crate::stats::repeats::nine_of_ten;

/// So many in a row: the counter's own time is little beside them.
const CHAIN: usize = 64;

/// So many rounds, of which the first ones find nothing in the caches.
const ROUNDS: usize = 440;
const WARM_UP: usize = 40;

/// How long the counter is compared with the clock.
const COMPARED: Duration = Duration::from_millis(100);

/// What is written to, on lines of its own.
#[repr(align(64))]
struct Area([u8; AREA]);

/// As much as a page, of which `fxsave64` writes a part.
const AREA: usize = 4096;

/// Executes the instruction [`CHAIN`] times, or nothing.
type Chain = fn(&mut Area);

macro_rules! chain {
    ($($instruction:literal),+) => {
        |area: &mut Area| {
            // SAFETY: it writes to `area` alone and to registers that a call may change. What
            // `fxrstor64` restores, also MXCSR and the x87's control word, was saved in the same
            // thread: `cycles_of` begins with that.
            unsafe {
                asm!(
                    ".rept {chain}", $($instruction,)+ ".endr",
                    chain = const CHAIN,
                    inout("rdi") area.0.as_mut_ptr() => _, clobber_abi("sysv64"),
                )
            }
        }
    };
}

/// Cycles of one such instruction: 9 of 10 values lie between. `None` where only the kernel may
/// execute it, or where it depends on where it goes.
pub fn cycles(kind: Costly) -> Option<LowHigh> {
    hull(chains(kind).into_iter().map(cycles_of))
}

fn chains(kind: Costly) -> Vec<Chain> {
    match kind {
        Costly::Locked => vec![chain!("lock inc qword ptr [rdi]"), chain!("xchg [rdi], rax")],
        Costly::Fence => vec![chain!("lfence"), chain!("mfence"), chain!("sfence")],
        Costly::Serializing => vec![|_| {
            for _ in 0..CHAIN {
                __cpuid(0);
            }
        }],
        Costly::Pause => vec![chain!("pause")],
        Costly::Xsave => vec![chain!("fxsave64 [rdi]"), chain!("fxrstor64 [rdi]")],
        Costly::Clflush => vec![chain!("clflush [rdi]")],
        Costly::Rdtsc => vec![chain!("rdtsc")],
        Costly::Rdrand if is_x86_feature_detected!("rdrand") => vec![chain!("rdrand rax")],
        _ => Vec::new(),
    }
}

/// Cycles of an iteration of a repeated string instruction that clears a page, or copies within
/// it, by bytes or by words of 8: 9 of 10 values lie between.
pub fn cycles_of_iteration() -> LowHigh {
    const HALF: usize = AREA / 2;
    let ways: [(Chain, usize); 4] = [
        (chain!("mov ecx, 4096", "rep stosb", "sub rdi, 4096"), AREA),
        (chain!("mov ecx, 512", "rep stosq", "sub rdi, 4096"), AREA / 8),
        (chain!("lea rsi, [rdi + 2048]", "mov ecx, 2048", "rep movsb", "sub rdi, 2048"), HALF),
        (chain!("lea rsi, [rdi + 2048]", "mov ecx, 256", "rep movsq", "sub rdi, 2048"), HALF / 8),
    ];
    let each = ways.map(|(chain, times)| cycles_of(chain).map(|cycles| cycles / times as f64));
    hull(each).unwrap_or_default()
}

fn cycles_of(chain: Chain) -> LowHigh {
    let mut area = Area([0; AREA]);
    chain!("fxsave64 [rdi]")(&mut area);
    let nothing: Chain = |_| {};
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        rounds.push([nothing, chain].map(|of| ticks_of(of, &mut area)));
    }
    nine_of_ten(&rounds[WARM_UP..], CHAIN as f64)
}

fn ticks_of(chain: Chain, area: &mut Area) -> u64 {
    let before = ticks();
    chain(area);
    ticks().wrapping_sub(before)
}

/// The counter, when all before is done.
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has SSE2 and the counter.
    unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    }
}

/// How many cycles the time-stamp counter counts in a nanosecond, as the clock says.
pub fn cycles_per_ns() -> f64 {
    let (clock, before) = (Instant::now(), ticks());
    std::thread::sleep(COMPARED);
    let after = ticks();
    after.wrapping_sub(before) as f64 / clock.elapsed().as_nanos() as f64
}
