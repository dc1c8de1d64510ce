//! Keeps source trees as tree objects in a git repository in the cache.
//!
//! The id of a tree is a hash of its content, so the same source is built once, whatever it was
//! called. A check-out writes only the files that differ from the last tree, so make compiles only
//! those. ktax only reads the user's tree and repository: its objects and indexes are in the cache.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::git::{Result, ask, command, resolve, said};
use crate::error::BuildError;
use crate::patch::Patch;
use ktax_host::cache::Holder;
use ktax_host::text::{escape, escape_path};

/// The repository of source trees.
pub(super) struct Trees {
    pub(super) git_dir: PathBuf,
    scratch: PathBuf,
    _holder: Holder,
}

/// A source tree with all its patches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    /// The id of the tree object.
    pub id: String,
    /// The object directory of the user's repository, if some objects are there.
    pub(super) objects: Option<PathBuf>,
}

impl Trees {
    /// Opens the repository in `root`, and creates it if it does not exist.
    pub(super) fn open(root: &Path) -> Result<Trees> {
        let (git_dir, scratch) = (root.join("trees.git"), root.join("tmp"));
        let failed = |path: &Path, error| BuildError::Cache {
            action: "create",
            path: escape_path(path),
            error,
        };
        let holder = Holder::of_directory(&git_dir).map_err(|error| failed(&git_dir, error))?;
        for directory in [&scratch, &root.join("indexes")] {
            fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
        }
        let trees = Trees { git_dir, scratch, _holder: holder };
        if !trees.git_dir.join("HEAD").exists() {
            let mut init = command(None);
            init.args(["init", "--quiet", "--bare"]).arg(&trees.git_dir);
            said(&mut init, "create a repository in the cache")?;
        }
        Ok(trees)
    }

    /// The tree of a revision in the user's repository.
    pub(super) fn of_revision(&self, repository: &Path, revision: &str) -> Result<Tree> {
        let id = resolve(repository, revision, "tree")?;
        let objects = ask(repository, &["rev-parse", "--git-path", "objects"], "find the objects")?;
        let tree = Tree { id, objects: Some(repository.join(objects)) };
        match self.list(&tree, |path| matches!(path, "Kconfig" | "Makefile"))?.lines().count() {
            2 => Ok(tree),
            _ => Err(BuildError::NotATree { path: escape(revision) }),
        }
    }

    /// The tree with a patch applied.
    pub(super) fn patched(&self, tree: &Tree, patch: &Patch) -> Result<Tree> {
        let strip = format!("-p{}", patch.diff.strip);
        let content = &patch.bytes;
        let scratch = self.temporary()?;
        let [index, patch] = ["index", "patch"].map(|name| scratch.path().join(name));
        fs::write(&patch, content).map_err(|error| BuildError::Cache {
            action: "write",
            path: escape_path(&patch),
            error,
        })?;
        let objects = tree.objects.as_deref();
        said(self.git(Some(&index), objects).args(["read-tree", &tree.id]), "read the tree")?;
        let mut apply = self.git(Some(&index), objects);
        apply.args(["apply", "--cached", "--whitespace=nowarn", &strip, "--"]).arg(&patch);
        said(&mut apply, "apply the patch")?;
        self.write_tree(&index, tree.objects.clone())
    }

    /// Makes `directory` contain this tree, and leaves files alone that are the same already.
    /// `index` is the git index of the directory.
    pub(super) fn check_out(&self, tree: &Tree, directory: &Path, index: &Path) -> Result<()> {
        let mut read = self.git(Some(index), tree.objects.as_deref());
        read.arg("--work-tree").arg(directory).args(["read-tree", "--reset", "-u", &tree.id]);
        said(read.current_dir(directory), "check out the tree").map(drop)
    }

    /// One line for each file whose path is `wanted`, with the hash of its content.
    pub(super) fn list(&self, tree: &Tree, wanted: impl Fn(&str) -> bool) -> Result<String> {
        let mut list = self.git(None, tree.objects.as_deref());
        let all = said(list.args(["ls-tree", "-r", &tree.id]), "list the tree")?;
        let path = |line: &&str| line.split_once('\t').is_some_and(|(_, path)| wanted(path));
        Ok(all.lines().filter(path).collect::<Vec<_>>().join("\n"))
    }

    /// The kernel version in the tree's Makefile, for example `6.12`; `0` if there is none.
    pub(super) fn version(&self, tree: &Tree) -> Result<String> {
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

    /// The tree with this id, if it is in the cache's repository.
    pub(super) fn own(&self, id: &str) -> Option<Tree> {
        let is_id = id.len() >= 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then_some(())?;
        let mut exists = self.git(None, None);
        exists.args(["cat-file", "-e", id]);
        said(&mut exists, "look for a tree").ok()?;
        Some(Tree { id: id.to_owned(), objects: None })
    }

    /// Writes the tree of an index.
    pub(super) fn write_tree(&self, index: &Path, objects: Option<PathBuf>) -> Result<Tree> {
        let mut write = self.git(Some(index), objects.as_deref());
        let id = said(write.arg("write-tree"), "write the tree")?;
        Ok(Tree { id, objects })
    }

    /// A new directory, removed when the value is dropped.
    pub(super) fn temporary(&self) -> Result<tempfile::TempDir> {
        tempfile::TempDir::new_in(&self.scratch).map_err(|error| BuildError::Cache {
            action: "write in",
            path: escape_path(&self.scratch),
            error,
        })
    }

    /// A git command on the cache's repository, without the user's configuration and hooks.
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

/// A path quoted for a list that is separated by colons.
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
