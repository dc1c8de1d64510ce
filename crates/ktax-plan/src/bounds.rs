//! Bounds of the numbers in an Experiment, for keys and for the flags that set them.

use std::ops::RangeInclusive;

use ktax_model::Machine;
use ktax_stats::timed::MIN_PAIRS;

/// Default threshold of counts in percent; a smaller change gets no verdict.
pub const THRESHOLD_PERCENT: f64 = 0.1;

/// Default threshold of times in percent; times are never the same twice.
pub const TIMED_THRESHOLD_PERCENT: f64 = 1.0;

/// Most characters of a boot line: the kernel takes 2047 (COMMAND_LINE_SIZE of arch/x86), and some
/// are ktax's own.
pub const LONGEST_BOOT_LINE: usize = 1800;

/// Layouts per Side.
pub const LAYOUTS: RangeInclusive<u32> = 1..=99;

/// A guest's memory in MiB.
pub const MEMORY_MIB: RangeInclusive<u32> = 128..=65_536;

/// A fixed number of pairs.
pub const PAIRS: RangeInclusive<u32> = MIN_PAIRS as u32..=10_000;

/// Cap of the number of pairs.
pub const MOST_PAIRS: RangeInclusive<u32> = 20..=10_000;

/// Runs of a row in a timed Boot.
pub const LOOPS: RangeInclusive<u32> = 1..=1000;

/// CPUs of a counted guest.
pub const CPUS: RangeInclusive<u32> = 1..=Machine::MOST_CPUS;

/// Instructions that each of several CPUs executes in turn.
pub const QUANTUM: RangeInclusive<u32> = 20..=1_000_000_000;

/// CPUs of a timed guest.
pub const VCPUS: RangeInclusive<u32> = 1..=255;

/// Range of a guest's CPUs, for messages.
pub fn cpus() -> String {
    let [counted, timed] = [CPUS, VCPUS].map(|range| range.into_inner());
    let ((least, most), (of_timed, most_of_timed)) = (counted, timed);
    format!("{least} to {most}, or {of_timed} to {most_of_timed} with --engine kvm")
}

/// CPUs of this machine that a timed guest runs on.
pub const CORES: RangeInclusive<u32> = 1..=1023;
