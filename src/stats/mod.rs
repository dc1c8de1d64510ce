//! Pure mathematics: numbers in, numbers out; no files, no formats, nothing of ours beneath it.
//!
//! The caller states what may be assumed of its numbers by choosing the module; [`exact`] is for
//! values that repeat to the last digit under one Layout and that only the Layout moves,
//! [`tables`] has the formulas of printed tables, [`growth`] says how a cost grows with a size,
//! [`search`] finds which element of a chain carries a difference, [`histogram`] has quantiles of
//! more values than can be kept, [`random`] draws from a seed, [`repeats`] says how
//! well values repeat, [`timed`] has what follows from pairs of times.

pub mod exact;
pub mod growth;
pub mod histogram;
pub mod random;
pub mod repeats;
pub mod search;
pub mod tables;
pub mod timed;

#[cfg(test)]
mod simulation;
