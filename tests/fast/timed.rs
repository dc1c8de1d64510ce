//! `ktax compare --engine host` on this machine. `tests/fast/fake/timed*.rs` has what it says of
//! times.

mod blocks;
mod command;
mod observed;
mod programs;
mod refused;
mod sweep;
