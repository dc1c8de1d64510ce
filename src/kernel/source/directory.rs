//! The tree in a directory of the user's, which may be a work tree of git: it is only read.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::git::{Result, command, said};
use super::trees::{Tree, Trees};

impl Trees {
    /// The tree in a directory as it is now, without what its .gitignore leaves out (unless that is
    /// everything, as in a package of the distribution) and without results of ours.
    pub fn of_directory(&self, directory: &Path) -> Result<Tree> {
        let users = Users::of(directory);
        let temporary = self.temporary()?;
        let index = temporary.path().join("index");
        // With what is known of the files, only those that have changed are read.
        let known = self.index_of(directory);
        let of_user = users.as_ref().and_then(|users| users.index.as_ref());
        drop(copy_index(of_user.unwrap_or(&known), &index));
        let whole = users.is_none() && leaves_out_everything(directory);
        let objects = users.map(|users| users.objects);
        let add = |index: &Path| {
            let mut add = self.git(Some(index), objects.as_deref());
            add.arg("--work-tree").arg(directory).args(["add", "--all"]);
            add.args(whole.then_some("--force")).arg(".").current_dir(directory);
            add.args(results(directory).map(|name| excluded(&name)));
            add.args(
                whole.then_some(BUILT).into_iter().flatten().map(|name| excluded(name.as_ref())),
            );
            said(&mut add, "read the tree")
        };
        if add(&index).is_err() {
            // An index that needs more than itself: without it all is read.
            drop(fs::remove_file(&index));
            add(&index)?;
        }
        let tree = self.write_tree(&index, objects)?;
        // Without it the next time takes longer, and that is all.
        drop(fs::rename(&index, &known));
        Ok(tree)
    }

    /// Where the index of a directory is kept.
    fn index_of(&self, directory: &Path) -> PathBuf {
        let name = Sha256::digest(directory.as_os_str().as_encoded_bytes());
        self.git_dir.with_file_name("indexes").join(format!("{name:x}"))
    }
}

/// A work tree of the user's.
struct Users {
    objects: PathBuf,
    index: Option<PathBuf>,
}

impl Users {
    /// Nothing where the directory is not the top of a work tree.
    fn of(directory: &Path) -> Option<Users> {
        let ask = |arguments: &[&str]| {
            let mut git = command(Some(directory));
            said(git.arg("rev-parse").args(arguments), "look at the tree").ok()
        };
        let top = ask(&["--show-toplevel"])?;
        (fs::canonicalize(top).ok()? == fs::canonicalize(directory).ok()?).then_some(())?;
        let path = |name: &str| Some(directory.join(ask(&["--git-path", name])?));
        Some(Users { objects: path("objects")?, index: path("index").filter(|i| i.exists()) })
    }
}

/// What a build inside the tree leaves there, at which one outside of it refuses to begin.
const BUILT: [&str; 4] =
    [".config", "include/config", "include/generated", "arch/x86/include/generated"];

/// Whether a tree's .gitignore is only there to keep a packager's repository small.
fn leaves_out_everything(directory: &Path) -> bool {
    let text = fs::read_to_string(directory.join(".gitignore")).unwrap_or_default();
    text.lines().any(|line| matches!(line.trim(), "*" | "/*"))
}

/// Directories of runs, ledgers and searches at the top of a tree: they are no source.
fn results(directory: &Path) -> impl Iterator<Item = OsString> {
    let below =
        |path: &Path| fs::read_dir(path).into_iter().flatten().filter_map(std::result::Result::ok);
    let has_plan = move |path: &Path| {
        path.join("plan.json").is_file()
            || below(path).any(|entry| entry.path().join("plan.json").is_file())
    };
    let results = below(directory).filter(move |entry| has_plan(&entry.path()));
    results.map(|entry| entry.file_name()).collect::<Vec<_>>().into_iter()
}

/// A pathspec that leaves out exactly this.
fn excluded(name: &OsStr) -> OsString {
    let mut pathspec = OsString::from(":(exclude,literal)");
    pathspec.push(name);
    pathspec
}

/// With its time: git looks again at files that are not older than the index, since they may have
/// changed after it without their time telling.
fn copy_index(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::copy(from, to)?;
    fs::File::options().write(true).open(to)?.set_modified(fs::metadata(from)?.modified()?)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    /// What git would take for unchanged otherwise cannot be made at will: it takes two writes
    /// within one tick of the file system's clock.
    #[test]
    fn a_copied_index_is_as_old_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        fs::File::create(&from).unwrap().set_modified(then).unwrap();
        copy_index(&from, &to).unwrap();
        assert_eq!(fs::metadata(&to).unwrap().modified().unwrap(), then);
    }
}
