//! The archive that the guest's kernel unpacks behind its own.

use std::collections::BTreeMap;
use std::io;
use std::io::{Read, Write};
use std::path::Path;

use cpio::newc::{Builder, trailer};

use crate::tree::{GuestNode, GuestTree, HostFile};
use crate::{cache_error, not_utf8, start, unreadable};
use ktax_host::text::escape_path;
use ktax_model::{Error, Result};

const DIRECTORY: u32 = 0o040_000;
const LINK: u32 = 0o120_777;
const FILE: u32 = 0o100_000;

/// Alignment of the end of an archive in bytes, so that another one can follow.
const BLOCK: u64 = 512;

/// File of the host whose content is in the archive at an offset.
pub(super) struct PlacedFile {
    pub name: String,
    pub file: HostFile,
    pub offset: u64,
}

/// Inode number, by which the kernel tells files apart.
enum FileNumber {
    /// No number: what a program changes is its own.
    Own,
    New(u32),
    Known(u32),
}

/// An archive that is being written.
pub(super) struct Archive<W> {
    to: CountingWriter<W>,
    /// Numbers of the files that are there already, by file and owner. Several programs share
    /// most of their libraries, and a run has one program: one copy is enough.
    shared: BTreeMap<(HostFile, u32), u32>,
}

impl<W: Write> Archive<W> {
    pub fn new(to: W) -> Archive<W> {
        Archive { to: CountingWriter { to, bytes: 0 }, shared: BTreeMap::new() }
    }

    /// Adds a directory.
    pub fn directory(&mut self, name: &str) -> Result<()> {
        let entry = Builder::new(name).mode(DIRECTORY | 0o755).nlink(2);
        self.entry(entry, &[])
    }

    /// Adds a file with this content.
    pub fn text(&mut self, name: &str, mode: u32, content: &[u8]) -> Result<()> {
        self.entry(Builder::new(name).mode(FILE | mode).nlink(1), content)
    }

    /// Adds a guest's files below `root`; `user` owns those in the working directory.
    pub fn tree(&mut self, root: &str, tree: &GuestTree, user: u32) -> Result<Vec<PlacedFile>> {
        let mut placed = Vec::new();
        for (path, node) in tree.nodes() {
            let name = format!("{root}{}", path.to_str().ok_or_else(|| not_utf8(path))?);
            let owner = start::owner(path, user);
            let entry = Builder::new(&name).uid(owner).gid(owner);
            match node {
                GuestNode::Directory => {
                    // All users may make files in /tmp.
                    let mode = if path == Path::new("/tmp") { 0o1777 } else { 0o755 };
                    self.entry(entry.mode(DIRECTORY | mode).nlink(2), &[])?;
                }
                GuestNode::Link(target) => {
                    let target = target.to_str().ok_or_else(|| not_utf8(path))?;
                    self.entry(entry.mode(LINK).nlink(1), target.as_bytes())?;
                }
                GuestNode::Text(text) => self.entry(entry.mode(FILE | 0o755).nlink(1), text)?,
                GuestNode::File(file) => {
                    let entry = entry.mode(FILE | file.mode).mtime(file.modified);
                    let entry = match self.number(path, file, owner) {
                        FileNumber::Own => entry.nlink(1),
                        // The kernel makes hard links of files with the same number.
                        FileNumber::Known(number) => {
                            self.entry(entry.ino(number).nlink(2), &[])?;
                            continue;
                        }
                        FileNumber::New(number) => {
                            self.shared.insert((file.clone(), owner), number);
                            entry.ino(number).nlink(2)
                        }
                    };
                    let offset = self.file(entry, file)?;
                    placed.push(PlacedFile { name, file: file.clone(), offset });
                }
            }
        }
        Ok(placed)
    }

    /// Bytes that a guest's files would add to the archive.
    pub fn added_bytes(&self, tree: &GuestTree, user: u32) -> u64 {
        let is_new = |path: &Path, file: &HostFile| {
            let owner = start::owner(path, user);
            !matches!(self.number(path, file, owner), FileNumber::Known(_))
        };
        tree.files().filter(|(path, file)| is_new(path, file)).map(|(_, file)| file.bytes).sum()
    }

    fn number(&self, path: &Path, file: &HostFile, owner: u32) -> FileNumber {
        let next = u32::try_from(self.shared.len()).unwrap_or(u32::MAX).saturating_add(1);
        match self.shared.get(&(file.clone(), owner)) {
            _ if start::is_below_work(path) => FileNumber::Own,
            Some(number) => FileNumber::Known(*number),
            None => FileNumber::New(next),
        }
    }

    pub fn end(mut self) -> Result<()> {
        trailer(&mut self.to).map_err(cache_error)?;
        let padding = self.to.bytes.next_multiple_of(BLOCK) - self.to.bytes;
        let zeros = vec![0; usize::try_from(padding).unwrap_or_default()];
        self.to.write_all(&zeros).and_then(|()| self.to.flush()).map_err(cache_error)
    }

    fn entry(&mut self, entry: Builder, content: &[u8]) -> Result<()> {
        let size = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let mut writer = entry.write(&mut self.to, size);
        let written = writer.write_all(content).and_then(|()| writer.finish());
        written.map(drop).map_err(cache_error)
    }

    /// A file that shrank since its size was read would damage the archive.
    fn file(&mut self, entry: Builder, file: &HostFile) -> Result<u64> {
        let unreadable = unreadable(&file.path);
        let changed = || {
            let path = escape_path(&file.path);
            Error::user(format!("{path} changed while it was read")).next("try again")
        };
        let mut from = file.open().map_err(&unreadable)?;
        let size = u32::try_from(file.bytes).map_err(|_| changed())?;
        let mut writer = entry.write(&mut self.to, size);
        let mut buffer = vec![0; 1 << 16];
        let mut left = file.bytes;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            let read = from.read(&mut buffer[..most]).map_err(&unreadable)?;
            if read == 0 {
                return Err(changed());
            }
            writer.write_all(&buffer[..read]).map_err(cache_error)?;
            left -= read as u64;
        }
        writer.finish().map_err(cache_error)?;
        let padded = file.bytes.next_multiple_of(4);
        Ok(self.to.bytes - padded)
    }
}

struct CountingWriter<W> {
    to: W,
    bytes: u64,
}

impl<W: Write> Write for CountingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
