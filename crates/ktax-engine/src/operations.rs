//! What costly instructions take that user mode may execute, in cycles of the time-stamp counter.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, _mm_lfence, _rdtsc};
use std::time::{Duration, Instant};

use ktax_model::{Costly, LowHigh, hull};
use ktax_stats::repeats::nine_of_ten;

/// So many in a row: the counter's own time is little beside them.
const CHAIN: usize = 64;

/// So many rounds, of which the first ones find nothing in the caches.
const ROUNDS: usize = 440;
const WARM_UP: usize = 40;

/// So many pages are tried in turn.
const HOMES: usize = 16;

/// How long the counter is compared with the clock.
const COMPARED: Duration = Duration::from_millis(100);

/// What is written to, on lines of its own.
#[repr(align(64))]
struct Area([u8; AREA]);

/// As much as a page, of which `fxsave64` writes a part.
const AREA: usize = 4096;

/// Executes the instruction [`CHAIN`] times, or nothing.
type Chain = fn(&mut Area);

macro_rules! execute {
    ($($instruction:literal),+; $($operands:tt)*) => {
        // SAFETY: it writes to an area alone and to registers that a call may change; string
        // instructions get no more iterations than an area has units. What `fxrstor64` restores,
        // also MXCSR and the x87's control word, was saved in the same thread: `cycles_of` begins
        // each area with that.
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

/// Cycles of one such instruction: 9 of 10 values lie between. `None` where only the kernel may
/// execute it, or where it depends on where it goes.
pub fn cycles(kind: Costly) -> Option<LowHigh> {
    start(kind).or_else(|| hull(chains(kind).into_iter().map(cycles_of)))
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

/// A repeated string instruction, and the bytes of an iteration.
fn string(kind: Costly) -> Option<(StringInstruction, usize)> {
    Some(match kind {
        Costly::RepStosb => (string!("rep stosb"), 1),
        Costly::RepStos => (string!("rep stosq"), 8),
        Costly::RepMovsb => (string!("rep movsb"), 1),
        Costly::RepMovs => (string!("rep movsq"), 8),
        _ => return None,
    })
}

/// So many pages are more than the second cache of any core has.
const PAGES: usize = 4096;

/// Another page each time, which no prefetcher expects.
const STRIDE: usize = 1021;

/// Cycles of an iteration that clears or copies a page: from one that the first cache has to one
/// that is behind the second; 9 of 10 values of each lie between.
pub fn iterations(kind: Costly) -> Option<LowHigh> {
    let (instruction, bytes) = string(kind)?;
    let count = AREA / bytes;
    let places = [1, PAGES].map(|pages| {
        let mut rounds = rounds_of(instruction, [0, count], pages);
        rounds.drain(..WARM_UP);
        nine_of_ten(&rounds, (CHAIN * count) as f64)
    });
    hull(places)
}

/// Cycles of a start that clears or copies little.
fn start(kind: Costly) -> Option<LowHigh> {
    let (instruction, bytes) = string(kind)?;
    let nothing: StringInstruction = |_, _, _| {};
    let cycles_of_start = |iterations: usize| {
        let mut rounds = rounds_of(instruction, [0, iterations], 1);
        let empty = rounds_of(nothing, [0, 0], 1);
        rounds.iter_mut().zip(empty).for_each(|(round, [empty, _])| round[0] = empty);
        nine_of_ten(&rounds[WARM_UP..], CHAIN as f64)
    };
    hull([1, 64 / bytes].map(cycles_of_start))
}

/// What rounds of a chain take, with two numbers of iterations.
fn rounds_of(instruction: StringInstruction, counts: [usize; 2], pages: usize) -> Vec<[u64; 2]> {
    let mut to: Vec<Area> = (0..pages).map(|_| Area([1; AREA])).collect();
    let from: Vec<Area> = (0..pages).map(|_| Area([2; AREA])).collect();
    let mut at = 0;
    let mut round = |count: usize| {
        let before = ticks();
        for _ in 0..CHAIN {
            instruction(&mut to[at], &from[pages - 1 - at], count);
            at = (at + STRIDE) % pages;
        }
        ticks().wrapping_sub(before)
    };
    (0..ROUNDS).map(|_| counts.map(&mut round)).collect()
}

fn cycles_of(chain: Chain) -> LowHigh {
    // What `clflush` takes depends on where a line is at home, and pages are at home all over.
    let mut areas: Vec<Area> = (0..HOMES).map(|_| Area([0; AREA])).collect();
    let nothing: Chain = |_| {};
    let mut rounds = Vec::with_capacity(HOMES * (ROUNDS - WARM_UP));
    for area in &mut areas {
        chain!("fxsave64 [rdi]")(area);
        let mut round = || [nothing, chain].map(|each| ticks_of(each, area));
        rounds.extend((0..ROUNDS).map(|_| round()).skip(WARM_UP));
    }
    nine_of_ten(&rounds, CHAIN as f64)
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
