//! Gets the source tree that a specification names, and applies patches to it.

use std::fs;
use std::path::{Path, PathBuf};

use super::debian;
use super::git::repository;
use super::trees::{Tree, Trees};
use crate::cache::Cache;
use crate::error::{BuildError, KernelError};
use crate::patch::Patch;
use crate::spec::KernelSpec;
use crate::talk::Talk;
use ktax_host::text::escape_path;
use ktax_model::Subject;

/// The tree that the specification names, and its name for messages.
pub(super) fn tree(
    spec: &KernelSpec,
    subject: &Subject,
    trees: &Trees,
    (cache, talk): (&Cache<'_>, &Talk<'_>),
) -> Result<(Tree, String), KernelError> {
    match spec {
        KernelSpec::Source(path) => {
            let directory = directory(path)?;
            Ok((trees.of_directory(&directory)?, format!("src:{}", escape_path(&directory))))
        }
        KernelSpec::Revision(revision) => {
            let directory = repository(Path::new(subject.tree.as_deref().unwrap_or(".")))?;
            let tree = trees.of_revision(&directory, revision)?;
            Ok((tree, format!("git:{}", escape_path(&directory))))
        }
        KernelSpec::DebianSource(version) => debian::tree(version, trees, cache, talk),
        KernelSpec::Debian { .. } | KernelSpec::File(_) => unreachable!("not a source"),
    }
}

fn directory(path: &Path) -> Result<PathBuf, BuildError> {
    let not_a_tree = || BuildError::NotATree { path: escape_path(path) };
    let directory = fs::canonicalize(path).map_err(|_| not_a_tree())?;
    let is_tree = ["Kconfig", "Makefile"].iter().all(|file| directory.join(file).is_file());
    if is_tree { Ok(directory) } else { Err(not_a_tree()) }
}

/// Applies a patch to a tree. `file` is where the patch was read, and `label` names the source in
/// the error.
pub(super) fn patched(
    trees: &Trees,
    tree: &Tree,
    (file, patch): (&Path, &Patch),
    label: &str,
) -> Result<Tree, BuildError> {
    trees.patched(tree, patch).map_err(|error| match error {
        BuildError::Git { said, .. } => {
            let place = match patch.name.as_str() {
                "" => String::new(),
                name => format!(" ({name})"),
            };
            let patch = format!("{}{place}", escape_path(file));
            BuildError::Patch { patch, source_name: label.to_owned(), said }
        }
        other => other,
    })
}
