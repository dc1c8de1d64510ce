//! Source trees as git's tree objects, in a repository of our own. A tree's id is its content, so
//! that the same source, reached by whatever way, is built once; what differs between two trees is
//! all that a check-out touches, so that make rebuilds no more.
//!
//! The user's tree and repository are only read: the objects that we write, and the index that says
//! what is in them, are in the cache.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::git::{Result, ask, command, resolve, said};
use crate::kernel::error::BuildError;
use crate::kernel::text::{escape, printable};

/// The repository of source trees.
pub(super) struct Trees {
    pub(super) git_dir: PathBuf,
    scratch: PathBuf,
}

/// A source tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    /// git's name of the tree object.
    pub id: String,
    /// The user's repository, where its objects may be.
    pub(super) objects: Option<PathBuf>,
}

impl Trees {
    /// Opens the repository in `root`, or makes it.
    pub fn open(root: &Path) -> Result<Trees> {
        let trees = Trees { git_dir: root.join("trees.git"), scratch: root.join("tmp") };
        for directory in [&trees.scratch, &root.join("indexes")] {
            fs::create_dir_all(directory).map_err(|error| BuildError::Cache {
                action: "make",
                path: printable(directory),
                error,
            })?;
        }
        if !trees.git_dir.join("HEAD").exists() {
            let mut init = command(None);
            init.args(["init", "--quiet", "--bare"]).arg(&trees.git_dir);
            said(&mut init, "make a repository in the cache")?;
        }
        Ok(trees)
    }

    /// The tree of a revision of the user's repository.
    pub fn of_revision(&self, repository: &Path, revision: &str) -> Result<Tree> {
        let id = resolve(repository, revision, "tree")?;
        let objects = ask(repository, &["rev-parse", "--git-path", "objects"], "find the objects")?;
        let tree = Tree { id, objects: Some(repository.join(objects)) };
        match self.list(&tree, |path| matches!(path, "Kconfig" | "Makefile"))?.lines().count() {
            2 => Ok(tree),
            _ => Err(BuildError::NotATree { path: escape(revision) }),
        }
    }

    /// The tree with a patch, as `git diff` or `diff -u` writes it.
    pub fn patched(&self, tree: &Tree, patch: &Path) -> Result<Tree> {
        let index = self.temporary()?;
        let index = index.path().join("index");
        let objects = tree.objects.as_deref();
        said(self.git(Some(&index), objects).args(["read-tree", &tree.id]), "read the tree")?;
        let mut apply = self.git(Some(&index), objects);
        apply.args(["apply", "--cached", "--whitespace=nowarn", "--"]).arg(patch);
        said(&mut apply, "apply the patch")?;
        self.write_tree(&index, tree.objects.clone())
    }

    /// Makes `directory` hold this tree; files that are the same already are left alone. `index`
    /// says what is there, and goes with the directory.
    pub fn check_out(&self, tree: &Tree, directory: &Path, index: &Path) -> Result<()> {
        let mut read = self.git(Some(index), tree.objects.as_deref());
        read.arg("--work-tree").arg(directory).args(["read-tree", "--reset", "-u", &tree.id]);
        said(read.current_dir(directory), "check the tree out").map(drop)
    }

    /// The files whose path is `wanted`, with what says their content: a line each.
    pub fn list(&self, tree: &Tree, wanted: impl Fn(&str) -> bool) -> Result<String> {
        let mut list = self.git(None, tree.objects.as_deref());
        let all = said(list.args(["ls-tree", "-r", &tree.id]), "list the tree")?;
        let path = |line: &&str| line.split_once('\t').is_some_and(|(_, path)| wanted(path));
        Ok(all.lines().filter(path).collect::<Vec<_>>().join("\n"))
    }

    /// Which line of kernels a tree is of, as its Makefile says: `6.12`; `0` where it does not.
    pub fn version(&self, tree: &Tree) -> Result<String> {
        let mut show = self.git(None, tree.objects.as_deref());
        let name = format!("{}:Makefile", tree.id);
        let makefile = said(show.args(["cat-file", "blob", &name]), "read the Makefile")?;
        let number = |wanted: &str| {
            let is_wanted =
                |line: &&str| line.split('=').next().is_some_and(|n| n.trim() == wanted);
            let value = makefile.lines().find(is_wanted)?.split_once('=')?.1.trim().parse::<u32>();
            value.ok()
        };
        let numbers = number("VERSION").zip(number("PATCHLEVEL"));
        Ok(numbers.map_or("0".into(), |(version, level)| format!("{version}.{level}")))
    }

    /// The tree of that id, if its objects are ours.
    pub fn own(&self, id: &str) -> Option<Tree> {
        let is_id = id.len() >= 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then_some(())?;
        let mut exists = self.git(None, None);
        exists.args(["cat-file", "-e", id]);
        said(&mut exists, "look for a tree").ok()?;
        Some(Tree { id: id.to_owned(), objects: None })
    }

    pub(super) fn write_tree(&self, index: &Path, objects: Option<PathBuf>) -> Result<Tree> {
        let mut write = self.git(Some(index), objects.as_deref());
        let id = said(write.arg("write-tree"), "write the tree")?;
        Ok(Tree { id, objects })
    }

    pub(super) fn temporary(&self) -> Result<tempfile::TempDir> {
        tempfile::TempDir::new_in(&self.scratch).map_err(|error| BuildError::Cache {
            action: "write in",
            path: printable(&self.scratch),
            error,
        })
    }

    /// git on our repository: no configuration, hook or attribute of the user's.
    pub(super) fn git(&self, index: Option<&Path>, objects: Option<&Path>) -> Command {
        let mut git = command(None);
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        git.args(["-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", "-c", "core.compression=0"]);
        git.args(["-c", "core.autocrlf=false", "-c", "core.safecrlf=false"]);
        git.arg("--git-dir").arg(&self.git_dir);
        git.envs(index.map(|index| ("GIT_INDEX_FILE", index.as_os_str())));
        git.envs(objects.map(|path| ("GIT_ALTERNATE_OBJECT_DIRECTORIES", quoted(path))));
        git
    }
}

/// A path in a list that colons part.
fn quoted(path: &Path) -> OsString {
    let mut text = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        if matches!(byte, b'"' | b'\\') {
            text.push(b'\\');
        }
        text.push(*byte);
    }
    text.push(b'"');
    OsString::from_vec(text)
}
