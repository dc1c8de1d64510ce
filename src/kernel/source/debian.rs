//! Gets the tree of the distribution's `linux-source-*` package.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::trees::{Tree, Trees};
use crate::disk::write_atomically;
use crate::kernel::cache::Cache;
use crate::kernel::debian::Apt;
use crate::kernel::error::{BuildError, KernelError, full_disk_in};
use crate::text::{escape, escape_path};

/// The tree of the newest version of `linux-source-VERSION`, and its name for messages. Downloads
/// and unpacks each version of the package once.
pub(super) fn tree(
    version: &str,
    trees: &Trees,
    cache: &Cache<'_>,
) -> Result<(Tree, String), KernelError> {
    let apt = Apt::of(cache);
    let package = apt.newest(&format!("linux-source-{version}"))?;
    let label = format!("debian-src:{version}");
    let sources = cache.builds().join("packages");
    let failed = |action, error| BuildError::Cache { action, path: escape_path(&sources), error };
    fs::create_dir_all(&sources).map_err(|error| failed("create", error))?;
    let known = sources.join(format!("{}_{}", package.name, package.version));
    if let Ok(id) = fs::read_to_string(&known) {
        if let Some(tree) = trees.own(&id) {
            return Ok((tree, label));
        }
    }
    cache.note(&format!("downloading and unpacking {package}; this takes a few minutes, once"));
    let scratch = cache.scratch()?;
    let archive = apt.fetch_source(&package, scratch.path())?;
    let unpacked = scratch.path().join("unpacked");
    fs::create_dir(&unpacked).map_err(|error| failed("create", error))?;
    unpack(&archive, &unpacked)?;
    let tree = trees.of_directory(&unpacked)?;
    write_atomically(&known, tree.id.as_bytes()).map_err(|error| failed("write in", error))?;
    Ok((tree, label))
}

/// Unpacks the content of the one directory in the archive.
fn unpack(archive: &Path, into: &Path) -> Result<(), BuildError> {
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--xz", "--strip-components=1", "--no-same-owner", "--file"]);
    tar.arg(archive).arg("--directory").arg(into).stdin(Stdio::null()).env("LC_ALL", "C");
    let output = tar.output().map_err(|error| BuildError::Start { tool: "tar".into(), error })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().chars().take(300).collect::<String>();
    let error =
        full_disk_in(&output.stderr).unwrap_or_else(|| std::io::Error::other(escape(&said)));
    Err(BuildError::Cache { action: "unpack into", path: escape_path(into), error })
}
