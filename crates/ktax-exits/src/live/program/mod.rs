//! The programs that add exits up in the kernel. `fold.rs` says the same in Rust, and a test holds
//! them against each other.
//!
//! Registers: R6 the record, later a row; R7 the thread; R8 now; R9 a duration. Only integers; no
//! loops; a thread's words are written only where it runs, is switched, or sleeps.

mod assemble;
mod place;
mod row;
mod stack;
mod thread;
mod writer;

pub use assemble::assemble;
pub use writer::Maps;
