//! Why a kernel could not be built.

use std::io;

use super::cache::mend_of;
use crate::patch::PatchError;
use ktax_model::Blame;

/// Why a kernel could not be built. Each message ends with the next step.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Programs or headers are missing.
    #[error("cannot build a kernel without {missing}; run `sudo apt-get install {packages}`")]
    NoTools { missing: String, packages: String },
    /// A tool does not start.
    #[error("cannot start `{tool}`: {error}; run `{tool}` yourself to see why")]
    Start { tool: String, error: io::Error },
    /// git fails; `said` is the last line of what it said.
    #[error(
        "git cannot {action}: {said}; check the tree with `git fsck`, or copy it without `.git` \
         and give the copy as `src:PATH`"
    )]
    Git { action: String, said: String },
    /// A directory or a revision holds no kernel source.
    #[error(
        "{path} is not a kernel tree: it has no Kconfig and Makefile; \
         give the top directory of a kernel tree"
    )]
    NotATree { path: String },
    /// The repository does not have the revision.
    #[error("{tree} has no revision {revision}; run `git -C {tree} log` to see its revisions")]
    UnknownRevision { revision: String, tree: String },
    /// A search needs a base that the change descends from.
    #[error(
        "{base} is not a first-parent ancestor of {change}; give a commit that \
         `git -C {tree} log --first-parent {change}` lists"
    )]
    NoLine { base: String, change: String, tree: String },
    /// The file is not a patch.
    #[error("cannot use the patch {patch}: {reason}")]
    NotAPatch { patch: String, reason: PatchError },
    /// The patch does not fit the source.
    #[error(
        "{patch} does not apply to {source_name}: {said}; rebase the patch, or give another source"
    )]
    Patch { patch: String, source_name: String, said: String },
    /// A file that the user named cannot be read.
    #[error("cannot read {path}: {error}; give the path of {wanted}")]
    Unreadable { path: String, error: io::Error, wanted: &'static str },
    /// The text is neither an option nor a file.
    #[error("`{text}` is not an option; give CONFIG_NAME=VALUE, or a file of such lines")]
    Option { text: String },
    /// Kconfig sets an option to another value.
    #[error("Kconfig does not accept {name}={wanted} and sets it to {found}: {why}")]
    Dropped { name: String, wanted: String, found: String, why: String },
    /// The source does not compile or link; `first` is the first error in the log.
    #[error(
        "the build failed: {first}\n  command: {command}\n  log: {log}\n\
         fix the source or the options, and run again; make rebuilds only what has changed"
    )]
    Failed { first: String, command: String, log: String },
    /// make or a compiler was killed.
    #[error(
        "the build was killed, perhaps because memory ran out; \
         run the same command again to continue"
    )]
    Killed,
    /// The user has asked to stop.
    #[error("the build was cancelled; run the same command again to continue")]
    Cancelled,
    /// The build needs more disk space; sizes in MiB.
    #[error(
        "cannot build: {path} has {free_mib} MiB of free space, but a build needs {needed_mib} \
         MiB; free some space, or choose another cache with --cache"
    )]
    DiskFull { free_mib: u64, needed_mib: u64, path: String },
    /// The cache cannot be read or written.
    #[error("cannot {action} {path}: {error}; {}", mend_of(.error))]
    Cache { action: &'static str, path: String, error: io::Error },
}

impl BuildError {
    /// Who can do something about it. Source that does not compile is the guest's fault.
    pub fn blame(&self) -> Blame {
        use BuildError::{Cache, Cancelled, DiskFull, Failed, Killed, Start};
        match self {
            Failed { .. } => Blame::Guest,
            Start { .. } | Cache { .. } | DiskFull { .. } | Killed | Cancelled => Blame::Host,
            _ => Blame::User,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_blames_the_one_who_can_act() {
        let text = String::new;
        let failed = BuildError::Failed { first: text(), command: text(), log: text() };
        assert_eq!(failed.blame(), Blame::Guest);
        let error = || io::Error::other("x");
        let start = BuildError::Start { tool: text(), error: error() };
        let cache = BuildError::Cache { action: "read", path: text(), error: error() };
        let full = BuildError::DiskFull { free_mib: 1, needed_mib: 2, path: text() };
        for host in [start, cache, full, BuildError::Killed, BuildError::Cancelled] {
            assert_eq!(host.blame(), Blame::Host, "{host}");
        }
        let dropped =
            BuildError::Dropped { name: text(), wanted: text(), found: text(), why: text() };
        for user in [dropped, BuildError::Option { text: text() }] {
            assert_eq!(user.blame(), Blame::User, "{user}");
        }
    }
}
