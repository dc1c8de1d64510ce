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
    Contents, LoadedModule, NativePrograms, PackedModules, PackedPrograms, ProgramsAlone, native,
    open, pack, pack_alone, pack_modules, to_trace,
};
pub use traced::{found, last_words, missing};

const WORK: &str = ktax_model::UserProgram::WORK;

/// Most bytes of a program, a script or a library.
const MOST_BYTES: u64 = 1 << 30;

fn unreadable(path: &Path) -> impl Fn(io::Error) -> Error {
    let path = escape_path(path);
    move |reason| {
        Error::user(format!("cannot read {path}: {reason}"))
            .next("give a path that exists and that you may read")
    }
}

/// A file of the cache cannot be written.
fn cache_error(error: io::Error) -> Error {
    Error::host(format!("cannot keep the program in the cache: {error}"))
        .next("free disk space or fix the permissions")
}

/// A name that no guest can have.
pub fn not_utf8(path: &Path) -> Error {
    Error::user(format!("the name of {} is not UTF-8", escape_path(path)))
        .next("rename it, or leave it out")
}

/// The files of a program do not fit into the guest's memory. `path` is escaped.
fn too_large(path: &str, most_mib: u64) -> Error {
    Error::user(format!(
        "with {path} the files of the program exceed {most_mib} MiB, which is what fits in this \
         guest's memory"
    ))
    .next("give it more with --memory, or fewer files")
}

/// Refuses what is not a regular file: to read a pipe may last for ever.
fn check_regular(path: &Path) -> Result<()> {
    match fs::metadata(path).map_err(unreadable(path))?.is_file() {
        true => Ok(()),
        false => {
            Err(Error::user(format!("{} is not a regular file", escape_path(path)))
                .next("give one"))
        }
    }
}
