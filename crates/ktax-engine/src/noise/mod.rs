//! Facts of the machine that change times, and noise: what else runs during a measurement.
//!
//! All of it is read from the kernel's files in /proc and /sys, below a root that tests can plant.

mod facts;
mod quiet;
mod ticks;
mod watch;

pub use facts::{facts, facts_below};
pub use quiet::{CpuShare, list, look, shares, sort};
pub(super) use ticks::own;
pub use watch::Watch;
