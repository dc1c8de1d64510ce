//! `ktax compare --engine host` on this machine. What it says of times: `tests/fake/timed*.rs`.

#[path = "timed/blocks.rs"]
mod blocks;
#[path = "timed/command.rs"]
mod command;
mod common;
#[path = "timed/refused.rs"]
mod refused;
#[path = "timed/sweep.rs"]
mod sweep;
