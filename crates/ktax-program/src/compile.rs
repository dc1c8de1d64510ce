//! A guest with more workloads than ktax's: the C of a directory of the user's, compiled with that
//! of ktax by the user's compiler: [docs/workloads.md](../../../docs/workloads.md).

use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

use ktax_host::cache::Scratch;
use ktax_host::disk::{read_own, read_text};
use ktax_host::text::{escape_lines, escape_path};
use ktax_model::{Error, Result};

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
pub fn compile(files: &WorkloadFiles, directory: &Path, cache: &Path) -> Result<Vec<u8>> {
    let scratch = Scratch::create(&cache.join("runs")).map_err(cache_error)?;
    let root = scratch.path().to_owned();
    let bundled = GUEST_SOURCES.iter().map(|(path, text)| (PathBuf::from(path), *text));
    let users = files.c.iter().map(|(path, text)| (Path::new("workloads").join(path), &**text));
    let mut sources = Vec::new();
    for (path, text) in bundled.chain(users) {
        write_source(&root.join(&path), text).map_err(cache_error)?;
        if path.extension().is_some_and(|extension| extension == "c") {
            sources.push(path);
        }
    }
    let compiler = env::var("CC").ok().filter(|name| !name.is_empty()).unwrap_or("cc".to_owned());
    let mut command = Command::new(&compiler);
    command.current_dir(&root).args(FLAGS).args(&sources).stdin(Stdio::null());
    let ran = command.output().map_err(|reason| {
        Error::user(format!("cannot run the C compiler {compiler:?}: {reason}"))
            .next("install gcc, or set CC")
    })?;
    // Ctrl-C stops the compiler, too, which says nothing about the C.
    if let Some(signal) = ran.status.signal() {
        return Err(Error::host(format!("signal {signal} stopped the C compiler"))
            .next("run the same command again"));
    }
    if !ran.status.success() {
        let message = first_error(&String::from_utf8_lossy(&ran.stderr));
        let path = escape_path(directory);
        return Err(Error::user(format!("{path} does not compile: {message}")));
    }
    read_own(&root.join("ktax-guest"), MOST_PROGRAM_BYTES).map_err(cache_error)
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
pub fn read(directory: &Path) -> Result<WorkloadFiles> {
    let unreadable = |path: &Path| {
        let path = escape_path(path);
        move |reason: io::Error| {
            Error::user(format!("cannot read {path}: {reason}"))
                .next("give a directory with workload files")
        }
    };
    let refused = |problem: &str, next: &str| {
        Err(Error::user(format!("{} has {problem}", escape_path(directory))).next(next))
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
            let problem = format!("more than {MOST_FILES} files");
            return refused(&problem, "give a directory of workloads alone");
        }
    }
    files.toml.sort();
    files.c.sort();
    match files.toml.is_empty() {
        true => refused("no workload file", "write NAME.toml, as docs/workloads.md says"),
        false => Ok(files),
    }
}

fn cache_error(error: io::Error) -> Error {
    Error::host(format!("cannot keep the guest in the cache: {error}"))
        .next("free disk space or fix the permissions")
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
        assert!(read(dir.path()).unwrap_err().message().ends_with(" has no workload file"));
        let missing = read(&dir.path().join("missing")).unwrap_err();
        assert!(missing.message().starts_with("cannot read "), "{missing}");
    }
}
