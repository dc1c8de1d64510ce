//! The programs of the user's, with all that they need, as an archive that is unpacked in the
//! guest: [docs/program.md](../../../docs/program.md). [`pack`] follows scripts, loaders and
//! libraries from the program's file. What only a run tells (data files, plugins) a tracer lists,
//! and [`found`] reads that list. [`compile`] makes a guest of the user's own workloads. The host's
//! files are only read.
//!
//! ```no_run
//! use std::path::Path;
//!
//! println!("it printed last: {}", ktax_program::last_words(Path::new("printed")));
//! ```

mod archive;
pub mod compile;
mod elf;
mod error;
mod needs;
mod pack;
mod script;
mod start;
mod traced;
mod tree;

pub use error::ProgramError;
pub use pack::{
    Contents, LoadedModule, NativePrograms, PackedModules, PackedPrograms, ProgramsAlone, native,
    open, pack, pack_alone, pack_modules, to_trace,
};
pub use traced::{found, last_words, missing};

const WORK: &str = ktax_model::UserProgram::WORK;
