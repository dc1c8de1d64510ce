//! A guest with more workloads than ktax's: the C of a directory of the user's, compiled with that
//! of ktax by the user's compiler: [docs/workloads.md](../../../docs/workloads.md).

mod compiler;
mod error;
mod source;

pub use compiler::compile;
pub use error::CompileError;
pub use source::{WorkloadFiles, read};
