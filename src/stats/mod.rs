//! Pure mathematics: numbers in, numbers out, without files and formats. It uses nothing of ours.
//!
//! The modules make different assumptions about their numbers:
//!
//! - [`exact`]: values that repeat to the last digit, and that only the Layout moves.
//! - [`timed`]: pairs of times.
//! - [`tables`]: the formulas of printed tables.
//! - [`constants`]: mixtures of a few things, each with a cost of its own.
//! - [`growth`]: how a cost grows with a size.
//! - [`search`]: which element of a chain carries a difference.
//! - [`histogram`]: quantiles of more values than can be kept.
//! - [`random`]: random numbers from a seed.
//! - [`ranks`]: whether two orders are alike.
//! - [`repeats`]: how well values repeat.

pub mod constants;
pub mod exact;
pub mod growth;
pub mod histogram;
pub mod random;
pub mod ranks;
pub mod repeats;
pub mod search;
pub mod tables;
pub mod timed;

#[cfg(test)]
mod simulation;
