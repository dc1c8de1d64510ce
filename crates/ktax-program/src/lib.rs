//! Packs programs of the user, with all files that they need, into archives that the guest unpacks:
//! [docs/program.md](../../../docs/program.md). [`pack`] finds scripts, loaders and libraries from
//! the program's file. Files that a program opens while it runs (data, plugins) are listed by a
//! tracer; [`traced_files`] reads this list. [`compile`] compiles ktax's guest with the user's own
//! workloads. The crate never writes to the user's files.
//!
//! ```no_run
//! use std::path::Path;
//!
//! println!("end of the output: {}", ktax_program::output_end(Path::new("printed")));
//! ```

use std::path::Path;
use std::{fs, io};

use ktax_host::text::escape_path;
use ktax_model::{Error, Result};

pub mod compile;
mod elf;
mod needs;
mod pack;
mod script;
mod traced;
mod tree;

pub use pack::{
    ArchiveContents, LoadedModule, NativePrograms, PackedModules, PackedPrograms, SideArchives,
    open_packed, pack, pack_modules, pack_single, prepare_native, prepare_trace,
};
pub use traced::{missing_files, output_end, traced_files};

const WORK: &str = ktax_model::UserProgram::WORK;

/// Maximum size of a program, a script or a library.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Error for a file that cannot be read.
fn unreadable(path: &Path) -> impl Fn(io::Error) -> Error {
    let path = escape_path(path);
    move |reason| {
        Error::user(format!("cannot read {path}: {reason}"))
            .next("give a path that exists and that you may read")
    }
}

/// Error for a file of the cache that cannot be written.
fn cache_error(error: io::Error) -> Error {
    Error::host(format!("cannot keep the program in the cache: {error}"))
        .next("free disk space or fix the permissions")
}

/// Error for a path that is not UTF-8, which an archive cannot have.
pub fn not_utf8_error(path: &Path) -> Error {
    Error::user(format!("the name of {} is not UTF-8", escape_path(path)))
        .next("rename it, or leave it out")
}

/// Error for a program whose files do not fit into the guest's memory. `path` is escaped.
fn too_large(path: &str, max_mib: u64) -> Error {
    Error::user(format!(
        "with {path} the files of the program exceed {max_mib} MiB, which is what fits in this \
         guest's memory"
    ))
    .next("give it more with --memory, or fewer files")
}

/// Refuses all but regular files, because a read from a pipe may block forever.
fn check_regular(path: &Path) -> Result<()> {
    match fs::metadata(path).map_err(unreadable(path))?.is_file() {
        true => Ok(()),
        false => Err(Error::user(format!("{} is not a regular file", escape_path(path)))
            .next("give a regular file")),
    }
}
