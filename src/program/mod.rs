//! The programs of the user's, with all that they need, as an archive that is unpacked in the
//! guest: [docs/program.md](../../docs/program.md). The host's files are only read.

mod archive;
mod companions;
mod elf;
mod error;
mod image;
mod libraries;
mod modules;
mod native;
mod needs;
mod pack;
mod script;
mod shell;
mod start;
mod symbols;
mod tree;
mod walk;

pub use error::ProgramError;
pub use modules::{LoadedModule, PackedModules, pack_modules};
pub use native::{NativePrograms, native};
pub use pack::{PackedPrograms, open, pack};

/// What the guest calls the directory that a program starts in.
const WORK: &str = "/work";
