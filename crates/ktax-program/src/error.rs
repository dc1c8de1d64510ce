//! Errors of packing a program.

use std::io;
use std::path::Path;

use thiserror::Error;

use ktax_host::text::escape_path;
use ktax_model::Blame;

/// Reasons why a program cannot be packed. Paths are escaped.
// The messages say what the fields are.
#[allow(missing_docs)]
#[derive(Debug, Error)]
pub enum ProgramError {
    #[error("no directory of PATH has a program {command:?}; install it, or give its path")]
    NotFound { command: String },
    #[error(
        "this machine has no {command}, which makes the disk; type: sudo apt-get install {package}"
    )]
    NoMkfs { command: String, package: &'static str },
    #[error("cannot read {path}: {reason}; give a path that exists and that you may read")]
    Unreadable { path: String, reason: io::Error },
    #[error("{path} is neither a file nor a directory; give a file or a directory")]
    Special { path: String },
    #[error("{path} is not a regular file; give one")]
    Irregular { path: String },
    #[error("{path} cannot be executed; run `chmod +x` on it, or name the program that runs it")]
    NotExecutable { path: String },
    #[error("{path} is a directory; name a program in it")]
    Directory { path: String },
    #[error(
        "{path} is neither an ELF file nor a script with `#!` in its first line; write `#!/bin/sh` \
         there, or name the program that runs it"
    )]
    NoProgram { path: String },
    #[error("{path} is not a program for x86-64; give one that is")]
    Foreign { path: String },
    #[error("{path} is a damaged ELF file; install it again")]
    Damaged { path: String },
    #[error(
        "{path} needs the library {library}, and no directory of the dynamic loader has it; \
         install it, or name it with --file PATH:AT"
    )]
    NoLibrary { path: String, library: String },
    #[error("{path} begins with `#!` and names no interpreter; write `#!/bin/sh`")]
    NoInterpreter { path: String },
    #[error("{path} is a script whose interpreters are scripts themselves; name a program")]
    Nested { path: String },
    #[error(
        "{path} leads out of the current directory; give its absolute path, or \
         --file PATH:AT for its place in the guest"
    )]
    Outside { path: String },
    #[error(
        "{path} would be below /tmp, where the disk is mounted; give it from a directory outside \
         /tmp, or by a relative path"
    )]
    Hidden { path: String },
    #[error("{path} is no tar archive; give an uncompressed one, or a directory")]
    NoTar { path: String },
    #[error("the name of {path} is not UTF-8; rename it, or leave it out")]
    NotUtf8 { path: String },
    #[error("{path} changed while it was read; try again")]
    Changed { path: String },
    #[error(
        "with {path} the files of the program exceed {most_mib} MiB, which is what fits in this \
         guest's memory; give it more with --memory, or fewer files"
    )]
    TooLarge { path: String, most_mib: u64 },
    #[error(
        "with {path} the files below /work exceed {mib} MiB, which is the size of the disk; give \
         it more `mib` in an experiment file, or fewer files"
    )]
    SmallDisk { path: String, mib: u64 },
    #[error("with {path} the program has more than {most} files; give fewer")]
    TooMany { path: String, most: usize },
    #[error("--env {text:?} is not NAME=VALUE; write it as --env LANG=C")]
    Environment { text: String },
    #[error(
        "cannot trace the files of {command} on this machine: {reason}; remove \
         --trace-files, and name what it needs with --file"
    )]
    NotTraced { command: String, reason: String },
    #[error("cannot keep the program in the cache: {0}; free disk space or fix the permissions")]
    Cache(io::Error),
}

impl From<ProgramError> for ktax_model::Error {
    fn from(error: ProgramError) -> ktax_model::Error {
        ktax_model::Error::blamed(error.blame(), error.to_string())
    }
}

impl ProgramError {
    /// Names the package with the program that makes a file system, if that program was not found.
    pub(super) fn with_mkfs_package(self, fs: &str) -> ProgramError {
        let package = match fs {
            "ext4" => "e2fsprogs",
            "xfs" => "xfsprogs",
            "btrfs" => "btrfs-progs",
            _ => "f2fs-tools",
        };
        match self {
            ProgramError::NotFound { command } => ProgramError::NoMkfs { command, package },
            other => other,
        }
    }

    /// Refuses what is not a regular file: to read a pipe may last for ever.
    pub(super) fn if_irregular(path: &Path) -> Result<(), ProgramError> {
        let about = std::fs::metadata(path).map_err(ProgramError::unreadable(path))?;
        match about.is_file() {
            true => Ok(()),
            false => Err(ProgramError::Irregular { path: escape_path(path) }),
        }
    }

    /// Party that can do something about the error.
    pub fn blame(&self) -> Blame {
        match self {
            ProgramError::Cache(_) => Blame::Host,
            _ => Blame::User,
        }
    }

    pub(super) fn unreadable(path: &Path) -> impl Fn(io::Error) -> ProgramError {
        let path = escape_path(path);
        move |reason| ProgramError::Unreadable { path: path.clone(), reason }
    }
}
