//! Why a kernel could not be built.

use std::io;

use crate::model::Blame;

/// Why a Kernel could not be built. As [`KernelError`](crate::kernel::KernelError): each message
/// ends with the next step, and foreign text in it is escaped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    #[error("to build a kernel {missing} is missing: `sudo apt-get install {packages}`")]
    NoTools { missing: String, packages: String },
    #[error("cannot start `{tool}`: {error}: run it by hand to see why")]
    Start { tool: String, error: io::Error },
    #[error("git cannot {action}: {said}: mend that, or give a copy of the tree as `src:PATH`")]
    Git { action: String, said: String },
    #[error("{path} is no kernel tree (no Kconfig and Makefile in it): give its top directory")]
    NotATree { path: String },
    #[error("{revision} is no revision of {tree}: `git -C {tree} log` shows those that are")]
    UnknownRevision { revision: String, tree: String },
    #[error(
        "{base} is not on the line of first parents of {change}: name one of \
         `git -C {tree} log --first-parent {change}`"
    )]
    NoLine { base: String, change: String, tree: String },
    #[error("{patch} does not apply to {source_name}: {said}: rebase it, or name another source")]
    Patch { patch: String, source_name: String, said: String },
    #[error("cannot read {path}: {error}: give the path of {wanted}")]
    Unreadable { path: String, error: io::Error, wanted: &'static str },
    #[error("`{text}` is no option: write CONFIG_NAME=VALUE, or the path of a file of such lines")]
    Option { text: String },
    #[error("Kconfig does not take {name}={wanted} and makes it {found}: {why}")]
    Dropped { name: String, wanted: String, found: String, why: String },
    #[error(
        "the build failed: {first}\n  the command: {command}\n  all that it said: {log}\n\
         mend the source or the options, and try again: what is built is kept"
    )]
    Failed { first: String, command: String, log: String },
    #[error(
        "the build was killed, perhaps for lack of memory: run the same command again, and it goes on"
    )]
    Killed,
    #[error("the build was stopped, as asked for: run the same command again, and it goes on")]
    Cancelled,
    #[error(
        "the disk is too full to build: {free_mib} MiB are free in {path}, {needed_mib} are \
         needed: make room, or name another cache with --cache"
    )]
    DiskFull { free_mib: u64, needed_mib: u64, path: String },
    #[error("cannot {action} {path}: {error}: make the cache directory writable")]
    Cache { action: &'static str, path: String, error: io::Error },
}

impl BuildError {
    /// Who can do something about it: the source that does not compile is the guest's fault.
    pub fn blame(&self) -> Blame {
        use BuildError::{Cache, Cancelled, Failed, Killed, Start};
        match self {
            Failed { .. } => Blame::Guest,
            Start { .. } | Cache { .. } | Killed | Cancelled => Blame::Host,
            _ => Blame::User,
        }
    }

    /// Whether the host is to blame.
    pub fn is_of_the_host(&self) -> bool {
        self.blame() == Blame::Host
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
        for host in [start, cache, BuildError::Killed, BuildError::Cancelled] {
            assert!(host.blame() == Blame::Host && host.is_of_the_host(), "{host}");
        }
        let dropped =
            BuildError::Dropped { name: text(), wanted: text(), found: text(), why: text() };
        for user in [dropped, BuildError::Option { text: text() }] {
            assert!(user.blame() == Blame::User && !user.is_of_the_host(), "{user}");
        }
    }
}
