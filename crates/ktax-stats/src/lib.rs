//! Pure mathematics: numbers in, numbers out, without files and formats. It uses nothing of ours.
//! The decision rule of exact counts is in [`exact`], that of timed pairs in [`timed`]. Each
//! module's head says what it assumes and why. Simulations beside the code measure how often it
//! errs.
//!
//! ```
//! use ktax_stats::exact::{Decision, judge};
//!
//! let (base, change) = ([100.0, 101.0, 100.0, 102.0, 101.0], [120.0, 121.0, 120.0, 122.0, 121.0]);
//! let difference = judge(&base, &change, |_| 0.1).expect("as many values on each side");
//! assert_eq!(difference.decision, Decision::Slower);
//! ```
//!
//! The modules make different assumptions about their numbers:
//!
//! - [`exact`]: values that repeat to the last digit, and that only the Layout moves.
//! - [`timed`]: pairs of times.
//! - [`tables`]: the formulas of printed tables, whether two orders are alike, and quantiles of
//!   more values than can be kept.
//! - [`constants`]: mixtures of a few things, each with a cost of its own.
//! - [`growth`]: how a cost grows with a size.
//! - [`search`]: which element of a chain carries a difference.
//! - [`random`]: random numbers from a seed.
//! - [`repeats`]: how well values repeat.

pub mod constants;
pub mod exact;
pub mod growth;
pub mod random;
pub mod repeats;
pub mod search;
pub mod tables;
pub mod timed;
