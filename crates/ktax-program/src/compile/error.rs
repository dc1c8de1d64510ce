// The messages say what the fields are.
#![allow(missing_docs)]

use std::io;

use thiserror::Error;

use ktax_model::Blame;

/// Why a directory of workloads cannot be used. Paths are escaped.
#[derive(Debug, Error)]
pub enum CompileError {
    #[error("cannot read {path}: {reason}; give a directory with workload files")]
    Unreadable { path: String, reason: io::Error },
    #[error("{path} has no workload file; write NAME.toml, as docs/workloads.md says")]
    Nothing { path: String },
    #[error("{path} has more than {most} files; give a directory of workloads alone")]
    TooMany { path: String, most: usize },
    #[error("cannot run the C compiler {compiler:?}: {reason}; install gcc, or set CC")]
    NoCompiler { compiler: String, reason: io::Error },
    #[error("signal {signal} stopped the C compiler; run the same command again")]
    Stopped { signal: i32 },
    #[error("{path} does not compile: {said}")]
    Refused { path: String, said: String },
    #[error("cannot keep the guest in the cache: {0}; free disk space or fix the permissions")]
    Cache(io::Error),
}

impl CompileError {
    /// Who can do something about it.
    pub fn blame(&self) -> Blame {
        match self {
            CompileError::Cache(_) | CompileError::Stopped { .. } => Blame::Host,
            _ => Blame::User,
        }
    }
}
