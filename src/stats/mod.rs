//! Pure mathematics: numbers in, numbers out; no files, no formats, nothing of ours beneath it.
//!
//! The caller states what may be assumed of its numbers by choosing the module; [`exact`] is for
//! values that repeat to the last digit under one Layout and that only the Layout moves.

pub mod exact;

#[cfg(test)]
mod simulation;
