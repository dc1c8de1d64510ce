//! Records a running VM: the events of its vCPUs' threads, added up.
//!
//! ```text
//! tracefs ─► points ─┬► program ─► kernel (eBPF)  ─┬─► Recording ─► table ─► ExitTable
//!                    └► decode ─► fold ─► ring     ┘
//! ```

mod asm;
mod bpf;
mod decode;
mod error;
mod hook;
mod kernel;
mod names;
mod points;
mod process;
mod program;
mod recorder;
mod ring;
mod source;
mod stats;
mod timing;
mod tracefs;
mod whole;
mod words;

#[cfg(test)]
mod tests;

pub use error::LiveError;
pub use names::Names;
pub use points::Level;
pub use process::{Process, by_name};
pub use recorder::{Recorder, RecorderChoice, Via};
pub use tracefs::{EventFormat, Tracefs};
