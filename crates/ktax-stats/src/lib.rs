//! Pure mathematics: numbers in, numbers out, without files and formats, and without other crates
//! of ktax. The decision rule of exact counts is in [`exact`], the decision rule of timed pairs in
//! [`timed`]. The head of each module has its assumptions and their reasons. Simulations among the
//! tests measure the rates of wrong decisions.
//!
//! ```
//! use ktax_stats::exact::{Decision, judge};
//!
//! let (base, change) = ([100.0, 101.0, 100.0, 102.0, 101.0], [120.0, 121.0, 120.0, 122.0, 121.0]);
//! let difference = judge(&base, &change, |_| 0.1).expect("both sides have five values");
//! assert_eq!(difference.decision, Decision::Slower);
//! ```
//!
//! The modules make different assumptions about their numbers:
//!
//! - [`exact`]: values that repeat exactly, and that differ only between Layouts.
//! - [`timed`]: pairs of times.
//! - [`tables`]: the formulas of printed tables, rank correlation, and quantiles from histograms.
//! - [`constants`]: fitted costs of a few things, from the costs of their mixtures.
//! - [`growth`]: the growth of a cost with a size.
//! - [`search`]: the search for the elements of a chain that carry a difference.
//! - [`random`]: random numbers from a seed.
//! - [`repeats`]: the repeatability of values.

pub mod constants;
pub mod exact;
pub mod growth;
pub mod random;
pub mod repeats;
pub mod search;
pub mod tables;
pub mod timed;
