//! Times costly instructions that user mode may execute, in cycles of the time-stamp counter.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, _mm_lfence, _rdtsc};
use std::time::{Duration, Instant};

use ktax_model::{Costly, LowHigh, hull};
use ktax_stats::repeats::cost_interval;

/// Length of a chain: the counter's own time is little beside it.
const CHAIN: usize = 64;

const ROUNDS: usize = 440;
/// Number of first rounds that are left out: they find nothing in the caches.
const WARM_UP: usize = 40;

/// Number of pages that are tried in turn.
const HOMES: usize = 16;

/// The time for which the counter is compared with the clock.
const COMPARED: Duration = Duration::from_millis(100);

/// Memory that is written to, on cache lines of its own.
#[repr(align(64))]
struct Area([u8; AREA]);

/// Size of an area: a page, of which `fxsave64` writes a part.
const AREA: usize = 4096;

/// Executes the instruction [`CHAIN`] times, or nothing.
type Chain = fn(&mut Area);

macro_rules! execute {
    ($($instruction:literal),+; $($operands:tt)*) => {
        // SAFETY: it writes to an area alone and to registers that a call may change; string
        // instructions get no more iterations than an area has units. What `fxrstor64` restores,
        // also MXCSR and the x87's control word, was saved in the same thread: `measure_chain`
        // begins each area with that.
        unsafe { asm!($($instruction,)+ $($operands)*) }
    };
}

macro_rules! chain {
    ($($instruction:literal),+) => {
        |area: &mut Area| {
            execute!(
                ".rept {chain}", $($instruction),+, ".endr";
                chain = const CHAIN,
                inout("rdi") area.0.as_mut_ptr() => _, clobber_abi("sysv64"),
            )
        }
    };
}

/// Returns the cycles of one such instruction: 9 of 10 values lie between. `None` where only the
/// kernel may execute it, or where the cost depends on where it goes.
pub fn cycles(kind: Costly) -> Option<LowHigh> {
    start(kind).or_else(|| hull(chains(kind).into_iter().map(measure_chain)))
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
        // mov word ptr [rdi], ss: a segment that can be written
        Costly::Verw => vec![chain!("mov word ptr [rdi], ss", "verw word ptr [rdi]")],
        Costly::Xsave => vec![chain!("fxsave64 [rdi]"), chain!("fxrstor64 [rdi]")],
        Costly::Clflush => vec![chain!("clflush [rdi]")],
        Costly::Rdtsc => vec![chain!("rdtsc")],
        Costly::Rdrand if is_x86_feature_detected!("rdrand") => vec![chain!("rdrand rax")],
        _ => Vec::new(),
    }
}

/// Executes a repeated string instruction, for so many iterations.
type StringInstruction = fn(&mut Area, &Area, usize);

macro_rules! string {
    ($instruction:literal) => {
        |to: &mut Area, from: &Area, count: usize| {
            execute!(
                $instruction;
                inout("rdi") to.0.as_mut_ptr() => _, inout("rsi") from.0.as_ptr() => _,
                inout("rcx") count => _, in("rax") 0_u64, options(nostack),
            )
        }
    };
}

/// Returns a repeated string instruction, and the bytes of an iteration.
fn string(kind: Costly) -> Option<(StringInstruction, usize)> {
    Some(match kind {
        Costly::RepStosb => (string!("rep stosb"), 1),
        Costly::RepStos => (string!("rep stosq"), 8),
        Costly::RepMovsb => (string!("rep movsb"), 1),
        Costly::RepMovs => (string!("rep movsq"), 8),
        _ => return None,
    })
}

/// Number of pages that are more than the second cache of any core has.
const PAGES: usize = 4096;

/// Distance in pages between two visits, which no prefetcher expects.
const STRIDE: usize = 1021;

/// Returns the cycles of an iteration that clears or copies a page: from one that the first cache
/// has to one that is behind the second; 9 of 10 values of each lie between.
pub fn iterations(kind: Costly) -> Option<LowHigh> {
    let (instruction, bytes) = string(kind)?;
    let count = AREA / bytes;
    let places = [1, PAGES].map(|pages| {
        let mut rounds = time_rounds(instruction, [0, count], pages);
        rounds.drain(..WARM_UP);
        cost_interval(&rounds, (CHAIN * count) as f64)
    });
    hull(places)
}

/// Returns the cycles of a start that clears or copies little.
fn start(kind: Costly) -> Option<LowHigh> {
    let (instruction, bytes) = string(kind)?;
    let nothing: StringInstruction = |_, _, _| {};
    let measure_start = |iterations: usize| {
        let mut rounds = time_rounds(instruction, [0, iterations], 1);
        let empty = time_rounds(nothing, [0, 0], 1);
        rounds.iter_mut().zip(empty).for_each(|(round, [empty, _])| round[0] = empty);
        cost_interval(&rounds[WARM_UP..], CHAIN as f64)
    };
    hull([1, 64 / bytes].map(measure_start))
}

/// Times rounds of a chain, with two numbers of iterations.
fn time_rounds(instruction: StringInstruction, counts: [usize; 2], pages: usize) -> Vec<[u64; 2]> {
    let mut to: Vec<Area> = (0..pages).map(|_| Area([1; AREA])).collect();
    let from: Vec<Area> = (0..pages).map(|_| Area([2; AREA])).collect();
    let mut page = 0;
    let mut round = |count: usize| {
        let before = ticks();
        for _ in 0..CHAIN {
            instruction(&mut to[page], &from[pages - 1 - page], count);
            page = (page + STRIDE) % pages;
        }
        ticks().wrapping_sub(before)
    };
    (0..ROUNDS).map(|_| counts.map(&mut round)).collect()
}

fn measure_chain(chain: Chain) -> LowHigh {
    // The time of `clflush` depends on the home of a line, and pages have homes all over.
    let mut areas: Vec<Area> = (0..HOMES).map(|_| Area([0; AREA])).collect();
    let nothing: Chain = |_| {};
    let mut rounds = Vec::with_capacity(HOMES * (ROUNDS - WARM_UP));
    for area in &mut areas {
        chain!("fxsave64 [rdi]")(area);
        let mut round = || [nothing, chain].map(|each| time_chain(each, area));
        rounds.extend((0..ROUNDS).map(|_| round()).skip(WARM_UP));
    }
    cost_interval(&rounds, CHAIN as f64)
}

fn time_chain(chain: Chain, area: &mut Area) -> u64 {
    let before = ticks();
    chain(area);
    ticks().wrapping_sub(before)
}

/// Reads the counter once all instructions before have ended.
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has SSE2 and the counter.
    unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    }
}

/// Measures how many cycles the time-stamp counter counts in a nanosecond, as the clock says.
pub fn cycles_per_ns() -> f64 {
    let (clock, before) = (Instant::now(), ticks());
    std::thread::sleep(COMPARED);
    let after = ticks();
    after.wrapping_sub(before) as f64 / clock.elapsed().as_nanos() as f64
}
