//! A guest with more workloads than ktax's: the C of a directory of the user's, compiled with that
//! of ktax by the user's compiler: [docs/workloads.md](../../../docs/workloads.md).

use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

use thiserror::Error;

use ktax_host::cache::Scratch;
use ktax_host::disk::{read_own, read_text};
use ktax_host::text::{escape_lines, escape_path};
use ktax_model::Blame;

/// Path and text of every file of ktax's guest, put in by the build.
const GUEST_SOURCES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/guest.rs"));

/// Flags of the C compiler, the same as in `build.rs`.
const FLAGS: [&str; 11] = [
    "-std=gnu11",
    "-Wall",
    "-Wextra",
    "-Iguest",
    "-Iworkloads",
    "-fno-ident",
    "-Wl,--build-id=none",
    "-static",
    "-O2",
    "-s",
    "-oktax-guest",
];
const MOST_PROGRAM_BYTES: u64 = 256 << 20;
const LONGEST_MESSAGE: usize = 600;

/// Compiles ktax's guest with these files, and returns the program; `directory` is for messages.
/// Equal files and one compiler give equal bytes, wherever the files lie.
pub fn compile(
    files: &WorkloadFiles,
    directory: &Path,
    cache: &Path,
) -> Result<Vec<u8>, CompileError> {
    let scratch = Scratch::create(&cache.join("runs")).map_err(CompileError::Cache)?;
    let root = scratch.path().to_owned();
    let own = GUEST_SOURCES.iter().map(|(path, text)| (PathBuf::from(path), *text));
    let users = files.c.iter().map(|(path, text)| (Path::new("workloads").join(path), &**text));
    let mut sources = Vec::new();
    for (path, text) in own.chain(users) {
        write_source(&root.join(&path), text).map_err(CompileError::Cache)?;
        if path.extension().is_some_and(|extension| extension == "c") {
            sources.push(path);
        }
    }
    let compiler = env::var("CC").ok().filter(|name| !name.is_empty()).unwrap_or("cc".to_owned());
    let mut command = Command::new(&compiler);
    command.current_dir(&root).args(FLAGS).args(&sources).stdin(Stdio::null());
    let ran = command.output();
    let ran = ran.map_err(|reason| CompileError::NoCompiler { compiler, reason })?;
    // Ctrl-C stops the compiler, too, which says nothing about the C.
    if let Some(signal) = ran.status.signal() {
        return Err(CompileError::Stopped { signal });
    }
    if !ran.status.success() {
        let message = first_error(&String::from_utf8_lossy(&ran.stderr));
        return Err(CompileError::Refused { path: escape_path(directory), message });
    }
    read_own(&root.join("ktax-guest"), MOST_PROGRAM_BYTES).map_err(CompileError::Cache)
}

fn write_source(path: &Path, text: &str) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
    fs::write(path, text)
}

/// First error in the output of the compiler, with paths as the user has them.
fn first_error(output: &str) -> String {
    let is_error = |line: &&str| line.contains("error:") || line.contains("undefined reference");
    let line = output.lines().find(is_error).or_else(|| output.lines().last()).unwrap_or_default();
    let line = line.trim().strip_prefix("workloads/").unwrap_or(line.trim());
    escape_lines(&line.chars().take(LONGEST_MESSAGE).collect::<String>())
}

const MOST_FILES: usize = 1000;
const MOST_FILE_BYTES: u64 = 1 << 20;

/// Files of a directory of workloads: each file's path below it, and its text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkloadFiles {
    /// Workload files.
    pub toml: Vec<(PathBuf, String)>,
    /// C files and headers.
    pub c: Vec<(PathBuf, String)>,
}

/// Reads a directory and those in it, in the order of their names.
pub fn read(directory: &Path) -> Result<WorkloadFiles, CompileError> {
    let unreadable = |path: &Path| {
        let path = escape_path(path);
        move |reason: io::Error| CompileError::Unreadable { path, reason }
    };
    let (mut files, mut left) = (WorkloadFiles::default(), vec![directory.to_owned()]);
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(&next).map_err(unreadable(&next))? {
            let path = entry.map_err(unreadable(&next))?.path();
            // A link may lead to where the search began.
            if fs::symlink_metadata(&path).map_err(unreadable(&path))?.is_dir() {
                left.push(path);
                continue;
            }
            let list = match path.extension().and_then(OsStr::to_str) {
                Some("toml") => &mut files.toml,
                Some("c" | "h") => &mut files.c,
                _ => continue,
            };
            let text = read_text(&path, MOST_FILE_BYTES).map_err(unreadable(&path))?;
            list.push((path.strip_prefix(directory).unwrap_or(&path).to_owned(), text));
        }
        if files.toml.len() + files.c.len() + left.len() > MOST_FILES {
            let path = escape_path(directory);
            return Err(CompileError::TooMany { path, most: MOST_FILES });
        }
    }
    files.toml.sort();
    files.c.sort();
    match files.toml.is_empty() {
        true => Err(CompileError::Nothing { path: escape_path(directory) }),
        false => Ok(files),
    }
}

/// Reasons why a directory of workloads cannot be used. Paths are escaped.
// The messages say what the fields are.
#[allow(missing_docs)]
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
    #[error("{path} does not compile: {message}")]
    Refused { path: String, message: String },
    #[error("cannot keep the guest in the cache: {0}; free disk space or fix the permissions")]
    Cache(io::Error),
}

impl From<CompileError> for ktax_model::Error {
    fn from(error: CompileError) -> ktax_model::Error {
        ktax_model::Error::blamed(error.blame(), error.to_string())
    }
}

impl CompileError {
    /// Party that can do something about the error.
    pub fn blame(&self) -> Blame {
        match self {
            CompileError::Cache(_) | CompileError::Stopped { .. } => Blame::Host,
            _ => Blame::User,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN_WORKLOAD: &str = "#include \"ktax.h\"\nstatic int op(void) { return 0; }\n\
        static void run(const struct order *o) { measure(o, 1, op, \"nothing\"); }\n\
        WORKLOAD(\"mine\", run);\n";

    #[test]
    fn the_same_files_give_the_same_bytes_and_errors_name_the_line() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("mine.toml"), "").unwrap();
        fs::write(dir.path().join("sub/mine.c"), OWN_WORKLOAD).unwrap();
        let made = |cache: &str| {
            let files = read(dir.path()).unwrap();
            compile(&files, dir.path(), &dir.path().join(cache))
        };
        let program = made("one").unwrap();
        assert!(program == made("another").unwrap());
        fs::write(dir.path().join("sub/mine.c"), OWN_WORKLOAD.replace("op,", "oops,")).unwrap();
        let refused = made("one").unwrap_err().to_string();
        assert!(refused.contains("sub/mine.c:3:") && refused.contains("oops"), "{refused}");
    }

    #[test]
    fn a_directory_without_workload_files_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("mine.c"), OWN_WORKLOAD).unwrap();
        assert!(matches!(read(dir.path()), Err(CompileError::Nothing { .. })));
        let missing = read(&dir.path().join("missing"));
        assert!(matches!(missing, Err(CompileError::Unreadable { .. })));
    }
}
