//! Measures the cost of the costly instructions that user mode may execute, in cycles of the
//! time-stamp counter.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, _mm_lfence, _rdtsc};
use std::time::{Duration, Instant};

use ktax_model::{Costly, LowHigh, hull};
use ktax_stats::repeats::cost_interval;

/// Number of instructions in a chain. In comparison, the time to read the counter is short.
const CHAIN_LENGTH: usize = 64;

/// Number of rounds, each of which times every chain once.
const ROUNDS: usize = 440;
/// Number of first rounds that are dropped, because the caches are cold.
const WARM_UP: usize = 40;

/// Number of pages on which a chain is timed in turn.
const CHAIN_PAGES: usize = 16;

/// The time for which the counter is compared with the clock.
const CLOCK_PERIOD: Duration = Duration::from_millis(100);

/// Size of a page in bytes.
const PAGE_BYTES: usize = 4096;

/// A page of memory on which chains work. It is aligned as the kernel's pages are, so that an
/// instruction on a whole page touches no other page.
#[repr(align(4096))]
struct Page([u8; PAGE_BYTES]);

const _: () = assert!(align_of::<Page>() == PAGE_BYTES && size_of::<Page>() == PAGE_BYTES);

/// Executes an instruction [`CHAIN_LENGTH`] times, or nothing.
type Chain = fn(&mut Page);

macro_rules! execute {
    ($($instruction:literal),+; $($operands:tt)*) => {
        // SAFETY: the instructions write only to a page, and to registers that a call may change.
        // String instructions get at most as many iterations as a page has units. `fxrstor64`
        // restores a state that the same thread saved, with MXCSR and the x87 control word:
        // `measure_chain` executes `fxsave64` first on each page.
        unsafe { asm!($($instruction,)+ $($operands)*) }
    };
}

macro_rules! chain {
    ($($instruction:literal),+) => {
        |page: &mut Page| {
            execute!(
                ".rept {length}", $($instruction),+, ".endr";
                length = const CHAIN_LENGTH,
                inout("rdi") page.0.as_mut_ptr() => _, clobber_abi("sysv64"),
            )
        }
    };
}

/// Measures the cycles of one instruction of this kind: bounds between which 9 of 10 values lie.
/// For a string instruction these are the cycles of its start. `None` for instructions that only
/// the kernel may execute, and for those whose cost depends on their target.
pub fn cycles(kind: Costly) -> Option<LowHigh> {
    string_start(kind).or_else(|| hull(chains(kind).into_iter().map(measure_chain)))
}

/// Returns the chains that are timed for a kind of instruction.
fn chains(kind: Costly) -> Vec<Chain> {
    match kind {
        Costly::Locked => vec![chain!("lock inc qword ptr [rdi]"), chain!("xchg [rdi], rax")],
        Costly::Fence => vec![chain!("lfence"), chain!("mfence"), chain!("sfence")],
        Costly::Serializing => vec![|_| {
            for _ in 0..CHAIN_LENGTH {
                __cpuid(0);
            }
        }],
        Costly::Pause => vec![chain!("pause")],
        // `verw` needs the selector of a writable segment in memory, so store that of `ss`.
        Costly::Verw => vec![chain!("mov word ptr [rdi], ss", "verw word ptr [rdi]")],
        Costly::Xsave => vec![chain!("fxsave64 [rdi]"), chain!("fxrstor64 [rdi]")],
        Costly::Clflush => vec![chain!("clflush [rdi]")],
        Costly::Rdtsc => vec![chain!("rdtsc")],
        Costly::Rdrand if is_x86_feature_detected!("rdrand") => vec![chain!("rdrand rax")],
        _ => Vec::new(),
    }
}

/// Executes a repeated string instruction with this number of iterations.
type StringInstruction = fn(&mut Page, &Page, usize);

macro_rules! string_instruction {
    ($instruction:literal) => {
        |to: &mut Page, from: &Page, count: usize| {
            execute!(
                $instruction;
                inout("rdi") to.0.as_mut_ptr() => _, inout("rsi") from.0.as_ptr() => _,
                inout("rcx") count => _, in("rax") 0_u64, options(nostack),
            )
        }
    };
}

/// Returns a repeated string instruction, and the number of bytes in an iteration. `None` for other
/// kinds.
fn string_instruction(kind: Costly) -> Option<(StringInstruction, usize)> {
    Some(match kind {
        Costly::RepStosb => (string_instruction!("rep stosb"), 1),
        Costly::RepStos => (string_instruction!("rep stosq"), 8),
        Costly::RepMovsb => (string_instruction!("rep movsb"), 1),
        Costly::RepMovs => (string_instruction!("rep movsq"), 8),
        _ => return None,
    })
}

/// Number of pages that do not fit the L2 cache of any CPU.
const UNCACHED_PAGES: usize = 4096;

/// Distance in pages between two visits, which no prefetcher expects. The distance is odd and the
/// number of pages a power of two, so every page is visited.
const STRIDE: usize = 1021;

/// Measures the cycles of an iteration that clears or copies a page. The lower bound is that of a
/// page in the L1 cache, the upper bound that of a page that is not in the L2 cache. Each bound is
/// that of the middle 90 % of the values. `None` for other kinds than string instructions.
pub fn iterations(kind: Costly) -> Option<LowHigh> {
    let (instruction, bytes) = string_instruction(kind)?;
    let count = PAGE_BYTES / bytes;
    let measure_iterations = |pages: usize| {
        let rounds = time_rounds([(instruction, 0), (instruction, count)], pages);
        cost_interval(&rounds, (CHAIN_LENGTH * count) as f64)
    };
    hull([1, UNCACHED_PAGES].map(measure_iterations))
}

/// Measures the cycles of a string instruction that clears or copies one unit, or a cache line.
fn string_start(kind: Costly) -> Option<LowHigh> {
    let (instruction, bytes) = string_instruction(kind)?;
    let no_instruction: StringInstruction = |_, _, _| {};
    let measure_start = |iterations: usize| {
        let rounds = time_rounds([(no_instruction, 0), (instruction, iterations)], 1);
        cost_interval(&rounds, CHAIN_LENGTH as f64)
    };
    hull([1, 64 / bytes].map(measure_start))
}

/// Times two chains of string instructions, each with its number of iterations, in turn. Returns
/// the ticks of both in each round after the warm-up.
fn time_rounds(chains: [(StringInstruction, usize); 2], pages: usize) -> Vec<[u64; 2]> {
    let mut to: Vec<Page> = (0..pages).map(|_| Page([1; PAGE_BYTES])).collect();
    let from: Vec<Page> = (0..pages).map(|_| Page([2; PAGE_BYTES])).collect();
    let mut page = 0;
    let mut time_chain = |(instruction, count): (StringInstruction, usize)| {
        let before = ticks();
        for _ in 0..CHAIN_LENGTH {
            instruction(&mut to[page], &from[pages - 1 - page], count);
            page = (page + STRIDE) % pages;
        }
        ticks().wrapping_sub(before)
    };
    (0..ROUNDS).map(|_| chains.map(&mut time_chain)).skip(WARM_UP).collect()
}

/// Measures the cycles of one instruction of a chain.
fn measure_chain(chain: Chain) -> LowHigh {
    // The time of `clflush` depends on the slice of the last-level cache that a line belongs to, so
    // time several pages.
    let mut pages: Vec<Page> = (0..CHAIN_PAGES).map(|_| Page([0; PAGE_BYTES])).collect();
    let no_instruction: Chain = |_| {};
    let mut rounds = Vec::with_capacity(CHAIN_PAGES * (ROUNDS - WARM_UP));
    for page in &mut pages {
        chain!("fxsave64 [rdi]")(page);
        let mut time_both = || [no_instruction, chain].map(|chain| time_chain(chain, page));
        rounds.extend((0..ROUNDS).map(|_| time_both()).skip(WARM_UP));
    }
    cost_interval(&rounds, CHAIN_LENGTH as f64)
}

/// Returns the ticks of a chain on a page.
fn time_chain(chain: Chain, page: &mut Page) -> u64 {
    let before = ticks();
    chain(page);
    ticks().wrapping_sub(before)
}

/// Reads the time-stamp counter after all earlier instructions have ended.
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has SSE2 and the counter.
    unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    }
}

/// Measures how many cycles the time-stamp counter counts in a nanosecond of the system's clock.
pub fn cycles_per_ns() -> f64 {
    let (clock, before) = (Instant::now(), ticks());
    std::thread::sleep(CLOCK_PERIOD);
    let after = ticks();
    after.wrapping_sub(before) as f64 / clock.elapsed().as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_instructions_and_chains_have_costs() {
        for kind in [Costly::RepStosb, Costly::RepMovs, Costly::Locked, Costly::Xsave] {
            let [low, high] = cycles(kind).unwrap();
            assert!(0.0 <= low && low <= high && high > 0.0, "{kind:?}: {low} to {high}");
        }
        let [low, high] = iterations(Costly::RepStos).unwrap();
        assert!(0.0 <= low && low <= high && high > 0.0, "{low} to {high}");
        assert!(iterations(Costly::Locked).is_none());
    }
}
