//! Runs git on the user's repositories, and never writes to them.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::error::BuildError;
use crate::last_line::last_line;
use ktax_host::text::{escape, escape_path};

/// The result of what git does.
pub(super) type Result<T> = std::result::Result<T, BuildError>;

/// The absolute path of a repository, with a work tree or bare.
pub(super) fn repository(path: &Path) -> Result<PathBuf> {
    fs::canonicalize(path).map_err(|error| BuildError::Unreadable {
        path: escape_path(path),
        error,
        wanted: "a git repository",
    })
}

/// The id of the object of this `kind`, `commit` or `tree`, that a revision leads to.
pub(super) fn resolve(repository: &Path, revision: &str, kind: &str) -> Result<String> {
    let mut parse = command(Some(repository));
    parse.args(["rev-parse", "--verify", "--quiet", "--end-of-options"]);
    parse.arg(format!("{revision}^{{{kind}}}"));
    said(&mut parse, "find the revision").map_err(|_| unknown(repository, revision))
}

fn unknown(repository: &Path, revision: &str) -> BuildError {
    BuildError::UnknownRevision { revision: escape(revision), tree: escape_path(repository) }
}

/// The output of git on the user's repository. `arguments` must not make it write.
pub(super) fn ask(repository: &Path, arguments: &[&str], action: &str) -> Result<String> {
    said(command(Some(repository)).args(arguments), action)
}

/// A git command that never asks a question and takes no optional locks.
pub(super) fn command(in_directory: Option<&Path>) -> Command {
    let mut git = Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"GIT_") {
            git.env_remove(name);
        }
    }
    git.env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
    // A partial clone would download missing objects, and so change.
    git.env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "").args(["-c", "color.ui=false"]);
    if let Some(directory) = in_directory {
        git.args([OsStr::new("-C"), directory.as_os_str()]);
    }
    git.stdin(Stdio::null());
    git
}

/// The output of a git command. `action` says in the error what it was to do.
pub(super) fn said(git: &mut Command, action: &str) -> Result<String> {
    let Output { status, stdout, stderr } =
        git.output().map_err(|error| BuildError::Start { tool: "git".into(), error })?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).trim_end_matches('\n').to_owned());
    }
    Err(BuildError::Git { action: action.to_owned(), said: last_line(&stderr) })
}
