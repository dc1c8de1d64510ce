//! The user's compiler, as the build runs it for ktax's own guest.

use std::env;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::CompileError;
use super::source::WorkloadFiles;
use ktax_host::cache::Scratch;
use ktax_host::disk::read_own;
use ktax_host::text::{escape_lines, escape_path};

/// Path and text of every file of ktax's guest, put in by the build.
const OWN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/guest.rs"));

/// As `build.rs` has them.
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
const MOST_BYTES: u64 = 256 << 20;
const LONGEST_SAID: usize = 600;

/// Compiles ktax's guest with these files, and returns the program; `directory` is for messages.
/// The same files and the same compiler give the same bytes, wherever they lie.
///
/// # Errors
///
/// There is no compiler, it refuses a file, or a signal stopped it; or the cache cannot be written.
pub fn compile(
    files: &WorkloadFiles,
    directory: &Path,
    cache: &Path,
) -> Result<Vec<u8>, CompileError> {
    let scratch = Scratch::create(&cache.join("runs")).map_err(CompileError::Cache)?;
    let root = scratch.path().to_owned();
    let own = OWN.iter().map(|(path, text)| (PathBuf::from(path), *text));
    let users = files.c.iter().map(|(path, text)| (Path::new("workloads").join(path), &**text));
    let mut sources = Vec::new();
    for (path, text) in own.chain(users) {
        write(&root.join(&path), text).map_err(CompileError::Cache)?;
        if path.extension().is_some_and(|extension| extension == "c") {
            sources.push(path);
        }
    }
    let compiler = env::var("CC").ok().filter(|it| !it.is_empty()).unwrap_or("cc".to_owned());
    let mut command = Command::new(&compiler);
    command.current_dir(&root).args(FLAGS).args(&sources).stdin(Stdio::null());
    let ran = command.output();
    let ran = ran.map_err(|reason| CompileError::NoCompiler { compiler, reason })?;
    // Ctrl-C stops the compiler too. That says nothing about the C.
    if let Some(signal) = ran.status.signal() {
        return Err(CompileError::Stopped { signal });
    }
    if !ran.status.success() {
        let said = first_error(&String::from_utf8_lossy(&ran.stderr));
        return Err(CompileError::Refused { path: escape_path(directory).to_string(), said });
    }
    read_own(&root.join("ktax-guest"), MOST_BYTES).map_err(CompileError::Cache)
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
    fs::write(path, text)
}

/// The line that says what is wrong, with paths as the user has them.
fn first_error(said: &str) -> String {
    let is_error = |line: &&str| line.contains("error:") || line.contains("undefined reference");
    let line = said.lines().find(is_error).or_else(|| said.lines().last()).unwrap_or_default();
    let line = line.trim().strip_prefix("workloads/").unwrap_or(line.trim());
    escape_lines(&line.chars().take(LONGEST_SAID).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::super::source::read;
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
