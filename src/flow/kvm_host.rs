//! Runs a command in a KVM host within QEMU.

use std::io;
use std::path::PathBuf;

use super::Error;
use super::results::unreadable;
use super::session::Session;
use crate::disk::read_limited;
use crate::engine::qemu::Qemu;
use crate::kvmhost::{HOST_FILES_MAX, HostFile, KvmHost, PLAIN_LAYOUT};
use crate::model::Subject;
use crate::text::escape_path;

pub use crate::kvmhost::{CommandOutput, init};

/// File that is copied into a KVM host.
#[derive(Debug, Clone)]
pub struct FileForHost {
    /// Name in the host.
    pub name: String,
    /// Path on this machine.
    pub path: PathBuf,
}

/// Runs a command in a host with this kernel; the command's program is a path in the host. If
/// `exact`, time is counted in instructions of one CPU.
pub fn run(
    kernel: &Subject,
    exact: bool,
    files: &[FileForHost],
    command: Vec<String>,
    session: &Session<'_>,
) -> Result<CommandOutput, Error> {
    let files = read(files, HOST_FILES_MAX)?;
    let qemu = Qemu::find(session.qemu.as_deref())?;
    let kernel = session.kvm_host(kernel)?;
    let host = KvmHost {
        qemu: &qemu,
        kernel: &kernel,
        is_exact: exact,
        layout: &PLAIN_LAYOUT,
        limits: &session.limits,
        cancel: &session.cancel,
        scratch: &session.cache.join("runs"),
    };
    let answers = session.unless_cancelled(host.run(&[command], &files))?;
    Ok(answers.into_iter().next().expect("there is an answer to each command"))
}

/// Reads all files, at most `max_bytes` together: special files such as `/dev/zero` have no end.
fn read(files: &[FileForHost], max_bytes: u64) -> Result<Vec<HostFile>, Error> {
    let mut left = max_bytes;
    let mut read = |FileForHost { name, path }: &FileForHost| {
        let content = read_limited(path, left).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => {
                let (path, max_mib) = (escape_path(path), max_bytes >> 20);
                Error::user(format!("with {path} the host's files exceed {max_mib} MiB"))
                    .next("give fewer or smaller files")
            }
            _ => unreadable(path, "a file for the host", error),
        })?;
        left -= content.len() as u64;
        Ok(HostFile { name: name.clone(), content })
    };
    files.iter().map(&mut read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_all_files_together_is_limited() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("three");
        std::fs::write(&path, "abc").unwrap();
        let files = |paths: &[&str]| -> Vec<FileForHost> {
            let named = |path: &&str| FileForHost { name: "a".into(), path: PathBuf::from(path) };
            paths.iter().map(named).collect()
        };
        let three = path.to_str().unwrap();
        let given = read(&files(&[three, three]), 6).unwrap();
        assert_eq!(
            given.iter().map(|file| file.content.as_slice()).collect::<Vec<_>>(),
            [b"abc"; 2]
        );
        for (paths, max_bytes) in [(&[three, three][..], 5), (&["/dev/zero"], 1 << 20)] {
            let error = read(&files(paths), max_bytes).unwrap_err();
            let max_mib = max_bytes >> 20;
            let path = paths.last().unwrap();
            let beginning =
                format!("with {path} the host's files exceed {max_mib} MiB; give fewer or");
            assert!(error.to_string().starts_with(&beginning), "{error}");
        }
        let error = read(&files(&["/no/such\x1b"]), 5).unwrap_err().to_string();
        assert!(error.starts_with("cannot read /no/such\\u{1b}: No such file"), "{error}");
    }
}
