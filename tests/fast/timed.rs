//! `ktax compare --engine host` on this machine. `tests/fast/fake/timed*.rs` has what it says of
//! times.

mod command;
mod programs;
