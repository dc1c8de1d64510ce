//! Gets the tree of the distribution's `linux-source-*` package.

use std::fs;
use std::io::{BufReader, Read, Seek};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::trees::{Tree, Trees};
use crate::cache::Cache;
use crate::debian::Apt;
use crate::error::{BuildError, KernelError, full_disk_in};
use crate::talk::{KernelTask, Talk, TaskKind};
use crate::watched;
use ktax_host::disk::write_atomically;
use ktax_host::text::{escape, escape_path};

/// The tree of the newest version of `linux-source-VERSION`, and its name for messages. Downloads
/// and unpacks each version of the package once.
pub(super) fn tree(
    version: &str,
    trees: &Trees,
    cache: &Cache<'_>,
    talk: &Talk<'_>,
) -> Result<(Tree, String), KernelError> {
    let apt = Apt::of(cache).with(talk);
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
    let size = apt.size(&package).map(|bytes| format!(" ({} MiB)", bytes >> 20));
    cache.note(&format!(
        "downloading {package}{} and unpacking it to about 1.5 GB in the cache, once",
        size.unwrap_or_default()
    ));
    let scratch = cache.scratch()?;
    let archive = apt.fetch_source(&package, scratch.path())?;
    let unpacked = scratch.path().join("unpacked");
    fs::create_dir(&unpacked).map_err(|error| failed("create", error))?;
    let files = unpack(&archive, &unpacked, &label, talk)?;
    let task = |is_over| KernelTask {
        kind: TaskKind::Import,
        what: label.clone(),
        done: if is_over { files } else { 0 },
        total: Some(files),
        is_over,
    };
    (talk.task)(&task(false));
    let tree = trees.of_directory(&unpacked)?;
    (talk.task)(&task(true));
    write_atomically(&known, tree.id.as_bytes()).map_err(|error| failed("write in", error))?;
    Ok((tree, label))
}

/// Files and directories of Linux 6.1.
const USUAL_FILES: u64 = 83_731;

/// Unpacks the content of the one directory in the archive, and returns the number of its files
/// and directories.
fn unpack(archive: &Path, into: &Path, label: &str, talk: &Talk<'_>) -> Result<u64, KernelError> {
    let start = |error| BuildError::Start { tool: "tar".into(), error };
    let mut complaints = watched::complaints().map_err(start)?;
    let mut tar = Command::new("tar");
    // With --verbose tar prints a line for each file.
    tar.args(["--extract", "--verbose", "--xz", "--strip-components=1", "--no-same-owner"]);
    tar.arg("--file").arg(archive).arg("--directory").arg(into).stdin(Stdio::null());
    tar.env("LC_ALL", "C").stdout(Stdio::piped());
    tar.stderr(complaints.try_clone().map_err(start)?);
    let mut child = watched::start(&mut tar).map_err(start)?;
    let done = Arc::new(AtomicU64::new(0));
    let lines = child.stdout.take();
    let counter = {
        let done = Arc::clone(&done);
        thread::spawn(move || {
            let mut bytes = lines.into_iter().flat_map(|lines| BufReader::new(lines).bytes());
            while let Some(Ok(byte)) = bytes.next() {
                done.fetch_add(u64::from(byte == b'\n'), Ordering::Relaxed);
            }
        })
    };
    let show = |is_over| {
        let done = done.load(Ordering::Relaxed);
        let (kind, what) = (TaskKind::Unpack, label.to_owned());
        (talk.task)(&KernelTask { kind, what, done, total: Some(USUAL_FILES.max(done)), is_over });
    };
    show(false);
    let status = watched::wait(&mut child, talk, || show(false)).map_err(start)?;
    let _ = counter.join();
    let status = status.ok_or(KernelError::Cancelled)?;
    if status.success() {
        show(true);
        return Ok(done.load(Ordering::Relaxed));
    }
    let mut said = Vec::new();
    complaints.rewind().and_then(|()| complaints.read_to_end(&mut said)).map_err(start)?;
    let text = String::from_utf8_lossy(&said).trim().chars().take(300).collect::<String>();
    let error = full_disk_in(&said).unwrap_or_else(|| std::io::Error::other(escape(&text)));
    Err(BuildError::Cache { action: "unpack into", path: escape_path(into), error }.into())
}
