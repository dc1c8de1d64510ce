//! Reads the tree in a directory of the user, and changes nothing there.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use super::git::{Result, command, said};
use super::trees::{Tree, Trees};
use ktax_host::disk::sha256;

impl Trees {
    /// The tree in a directory as it is now, with changes that are not committed. Leaves out what
    /// .gitignore names, unless it names everything, and the results of ktax.
    pub(super) fn of_directory(&self, directory: &Path) -> Result<Tree> {
        let users = Users::of(directory);
        let temporary = self.temporary()?;
        let index = temporary.path().join("index");
        // An earlier index lets git read only the files that have changed.
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
            // A split index needs files that were not copied. Without an index git reads all files.
            drop(fs::remove_file(&index));
            add(&index)?;
        }
        let tree = self.write_tree(&index, objects)?;
        // If this fails, the next time takes longer.
        drop(fs::rename(&index, &known));
        Ok(tree)
    }

    /// The path of the index that ktax keeps for a directory.
    fn index_of(&self, directory: &Path) -> PathBuf {
        let name = sha256(directory.as_os_str().as_encoded_bytes());
        self.git_dir.with_file_name("indexes").join(name)
    }
}

/// The objects and the index of the user's repository.
struct Users {
    objects: PathBuf,
    index: Option<PathBuf>,
}

impl Users {
    /// `None` if the directory is not the top of a work tree.
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

/// Files of a build inside the tree. kbuild refuses to build such a tree from outside.
const BUILT: [&str; 4] =
    [".config", "include/config", "include/generated", "arch/x86/include/generated"];

/// Whether .gitignore names everything, as in the distribution's packages.
fn leaves_out_everything(directory: &Path) -> bool {
    let text = fs::read_to_string(directory.join(".gitignore")).unwrap_or_default();
    text.lines().any(|line| matches!(line.trim(), "*" | "/*"))
}

/// The directories of runs, ledgers and searches at the top of a tree.
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

/// A pathspec that leaves out exactly this name.
fn excluded(name: &OsStr) -> OsString {
    let mut pathspec = OsString::from(":(exclude,literal)");
    pathspec.push(name);
    pathspec
}

/// Copies an index with its time. git reads a file again if it is not older than the index, because
/// it may have changed in the same tick of the clock.
fn copy_index(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::copy(from, to)?;
    fs::File::options().write(true).open(to)?.set_modified(fs::metadata(from)?.modified()?)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    /// A test of git itself would need two writes within one tick of the file system's clock.
    #[test]
    fn a_copied_index_keeps_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        fs::File::create(&from).unwrap().set_modified(then).unwrap();
        copy_index(&from, &to).unwrap();
        assert_eq!(fs::metadata(&to).unwrap().modified().unwrap(), then);
    }
}
