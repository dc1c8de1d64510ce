//! Files of a guest's root directory, as a list of paths. Files come from this machine, or from a
//! tar archive such as an exported container. Their content is read later, when the archive is
//! written.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{Read, Seek, SeekFrom, Take};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use rustix::fs::{Mode, OFlags};
use tar::{Archive, Entry, EntryType};

use crate::{check_regular, too_large, unreadable};
use ktax_host::text::escape_path;
use ktax_model::{Error, Result};

/// Maximum number of files of a guest. More are probably a mistake of the user, such as `/`.
const MAX_NODES: usize = 200_000;

/// Content of a path of the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GuestNode {
    Directory,
    Link(PathBuf),
    File(HostFile),
    /// A file with this content.
    Text(Vec<u8>),
}

/// A file of the host that becomes one of the guest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HostFile {
    pub path: PathBuf,
    /// Offset of the content in the file at `path`: 0, except for files of a tar archive.
    pub offset: u64,
    /// Permissions, without set-user-ID, set-group-ID and sticky.
    pub mode: u32,
    /// Size of the content.
    pub bytes: u64,
    /// Time of modification, in seconds since 1970.
    pub modified: u32,
}

impl HostFile {
    /// Opens the content. The flags refuse a link and do not block on a pipe, in case the file was
    /// replaced.
    pub fn open(&self) -> io::Result<Take<File>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::open(&self.path, flags, Mode::empty())?);
        file.seek(SeekFrom::Start(self.offset))?;
        Ok(file.take(self.bytes))
    }
}

/// Files of a guest by absolute path. A directory sorts before its content.
#[derive(Debug)]
pub(super) struct GuestTree {
    nodes: BTreeMap<PathBuf, GuestNode>,
    /// Paths of the root directory that the user gave.
    root_paths: BTreeSet<PathBuf>,
    /// Size of all files.
    bytes: u64,
    max_bytes: u64,
}

impl GuestTree {
    pub fn new(max_bytes: u64) -> GuestTree {
        GuestTree { nodes: BTreeMap::new(), root_paths: BTreeSet::new(), bytes: 0, max_bytes }
    }

    pub fn nodes(&self) -> impl Iterator<Item = (&Path, &GuestNode)> {
        self.nodes.iter().map(|(path, node)| (path.as_path(), node))
    }

    pub fn files(&self) -> impl Iterator<Item = (&Path, &HostFile)> {
        self.nodes().filter_map(|(path, node)| match node {
            GuestNode::File(file) => Some((path, file)),
            _ => None,
        })
    }

    /// Start of the guest's clock, in seconds since 1970: one second after the newest file was
    /// modified, so that no file is from the future. `None` without files of the host.
    pub fn clock(&self) -> Option<u64> {
        self.files().map(|(_, file)| u64::from(file.modified) + 1).max()
    }

    /// Node at a path of the guest, without following links.
    pub fn get(&self, path: &Path) -> Option<&GuestNode> {
        self.nodes.get(path)
    }

    /// Node at a path of the guest, with links followed.
    pub fn node_at(&self, path: &Path) -> Option<&GuestNode> {
        self.nodes.get(&self.resolve(path, true)?)
    }

    /// Path with all links followed. A link at the end is followed only if `follows_last`. `None`
    /// for too many links.
    fn resolve(&self, path: &Path, follows_last: bool) -> Option<PathBuf> {
        let mut walk = Walk::along(path);
        while let Some(next) = walk.next() {
            match self.nodes.get(&next) {
                Some(GuestNode::Link(target)) if follows_last || !walk.is_last() => {
                    walk.follow(target).then_some(())?;
                }
                _ => walk.enter(next),
            }
        }
        Some(walk.end())
    }

    /// Marks all present paths as those of the root directory that the user gave.
    pub fn mark_users_root(&mut self) {
        self.root_paths = self.nodes.keys().cloned().collect();
    }

    /// Returns true if the root directory that the user gave has this path, even as a dangling
    /// link.
    pub fn is_in_users_root(&self, path: &Path) -> bool {
        self.resolve(path, false).is_none_or(|end| self.root_paths.contains(&end))
    }

    /// Adds a node at a path. Links in its parent directories are followed.
    pub fn put(&mut self, path: &Path, node: GuestNode) -> Result<()> {
        let parent = self.add_directory(path.parent().unwrap_or(Path::new("/")))?;
        let name = path.file_name().unwrap_or_default();
        self.insert(parent.join(name), node)
    }

    /// Adds a directory and its parent directories, and returns its path with links followed.
    pub fn add_directory(&mut self, path: &Path) -> Result<PathBuf> {
        let mut walk = Walk::along(path);
        while let Some(next) = walk.next() {
            match self.nodes.get(&next) {
                Some(GuestNode::Link(target)) => {
                    if !walk.follow(target) {
                        return Err(too_many_links(path));
                    }
                }
                Some(GuestNode::Directory) => walk.enter(next),
                _ => {
                    self.insert(next.clone(), GuestNode::Directory)?;
                    walk.enter(next);
                }
            }
        }
        Ok(walk.end())
    }

    /// First path below a directory; `None` if it is empty.
    pub fn first_below(&self, directory: &Path) -> Option<&Path> {
        let mut paths = self.nodes.keys().map(PathBuf::as_path);
        paths.find(|path| *path != directory && path.starts_with(directory))
    }

    /// Size of all files below a directory.
    pub fn bytes_below(&self, directory: &Path) -> u64 {
        self.files()
            .filter(|(path, _)| path.starts_with(directory))
            .map(|(_, file)| file.bytes)
            .sum()
    }

    /// Adds a file, or a directory with its content, of the host at the same path, and all links in
    /// its path. Returns the path with links followed.
    pub fn add_in_place(&mut self, path: &Path) -> Result<PathBuf> {
        let end = self.add_parents_and_links(path)?;
        self.add(&end, &end)?;
        Ok(end)
    }

    /// Adds a file, or a directory without its content, of the host at the same path, and all links
    /// in its path.
    pub fn add_without_content(&mut self, path: &Path) -> Result<()> {
        let end = self.add_parents_and_links(path)?;
        match end.is_dir() {
            true => self.add_directory(&end).map(drop),
            false => self.add(&end, &end),
        }
    }

    /// Adds a file, or a directory with its content, of the host at the same path, and the targets
    /// of links in the directory.
    pub fn add_with_targets(&mut self, path: &Path) -> Result<()> {
        let end = self.add_in_place(path)?;
        let links = self.nodes.range(end.clone()..).take_while(|(path, _)| path.starts_with(&end));
        let links = links.filter(|(_, node)| matches!(node, GuestNode::Link(_)));
        let links: Vec<PathBuf> = links.map(|(path, _)| path.clone()).collect();
        for link in links.into_iter().filter(|link| link.exists()) {
            self.add_without_content(&link)?;
        }
        Ok(())
    }

    /// Adds the parent directories of a path of the host and all links in the path. Returns the
    /// path with links followed.
    fn add_parents_and_links(&mut self, path: &Path) -> Result<PathBuf> {
        let unreadable = unreadable(path);
        let mut walk = Walk::along(path);
        while let Some(next) = walk.next() {
            let about = fs::symlink_metadata(&next).map_err(&unreadable)?;
            if about.is_symlink() {
                let target = fs::read_link(&next).map_err(&unreadable)?;
                if !walk.follow(&target) {
                    return Err(too_many_links(path));
                }
                self.insert(next, GuestNode::Link(target))?;
                continue;
            }
            if about.is_dir() && !walk.is_last() {
                self.insert(next.clone(), GuestNode::Directory)?;
            }
            walk.enter(next);
        }
        Ok(walk.end())
    }

    /// Adds a file, or a directory with its content, of the host at a path of the guest. Links in
    /// the directory are added as links; sockets, pipes and devices are omitted.
    pub fn add(&mut self, host: &Path, guest: &Path) -> Result<()> {
        let about = fs::metadata(host).map_err(unreadable(host))?;
        let parent = self.add_directory(guest.parent().unwrap_or(Path::new("/")))?;
        let guest = guest.file_name().map_or(parent.clone(), |name| parent.join(name));
        if about.is_file() {
            // The guest gets the target of a link that the user named, not the link.
            let host = fs::canonicalize(host).map_err(unreadable(host))?;
            return self.add_file(&host, guest, &about);
        }
        if !about.is_dir() {
            let path = escape_path(host);
            return Err(Error::user(format!("{path} is neither a file nor a directory"))
                .next("give a file or a directory"));
        }
        let mut directories = vec![(host.to_owned(), self.add_directory(&guest)?)];
        while let Some((host, guest)) = directories.pop() {
            for entry in fs::read_dir(&host).map_err(unreadable(&host))? {
                let name = entry.map_err(unreadable(&host))?.file_name();
                let (host, guest) = (host.join(&name), guest.join(&name));
                let unreadable = unreadable(&host);
                let about = fs::symlink_metadata(&host).map_err(&unreadable)?;
                if about.is_symlink() {
                    let target = fs::read_link(&host).map_err(&unreadable)?;
                    self.insert(guest, GuestNode::Link(target))?;
                } else if about.is_dir() {
                    self.insert(guest.clone(), GuestNode::Directory)?;
                    directories.push((host.clone(), guest));
                } else if about.is_file() {
                    self.add_file(&host, guest, &about)?;
                }
            }
        }
        Ok(())
    }

    fn add_file(&mut self, host: &Path, guest: PathBuf, about: &Metadata) -> Result<()> {
        let file = HostFile {
            path: host.to_owned(),
            offset: 0,
            mode: about.mode() & 0o777,
            bytes: about.len(),
            modified: u32::try_from(about.mtime()).unwrap_or_default(),
        };
        self.insert(guest, GuestNode::File(file))
    }

    fn insert(&mut self, guest: PathBuf, node: GuestNode) -> Result<()> {
        let bytes = |node: &GuestNode| match node {
            GuestNode::File(file) => file.bytes,
            GuestNode::Text(text) => text.len() as u64,
            GuestNode::Directory | GuestNode::Link(_) => 0,
        };
        let (path, added) = (escape_path(&guest), bytes(&node));
        let before = self.nodes.insert(guest, node).as_ref().map_or(0, bytes);
        self.bytes = (self.bytes - before).saturating_add(added);
        if self.bytes > self.max_bytes {
            return Err(too_large(&path, self.max_bytes >> 20));
        }
        if self.nodes.len() > MAX_NODES {
            let problem = format!("with {path} the program has more than {MAX_NODES} files");
            return Err(Error::user(problem).next("give fewer files"));
        }
        Ok(())
    }
}

/// Error for a path with a loop of links.
fn too_many_links(path: &Path) -> Error {
    unreadable(path)(io::Error::other("too many links"))
}

/// Adds the content of a tar archive. Devices, sockets and pipes are omitted.
pub(super) fn add_tar(tree: &mut GuestTree, path: &Path) -> Result<()> {
    check_regular(path)?;
    let damaged = || {
        Error::user(format!("{} is not a tar archive", escape_path(path)))
            .next("give an uncompressed tar archive, or a directory")
    };
    let mut archive = Archive::new(File::open(path).map_err(unreadable(path))?);
    let mut is_empty = true;
    for entry in archive.entries().map_err(|_| damaged())? {
        let entry = entry.map_err(|_| damaged())?;
        is_empty = false;
        let Some(guest) = entry.path().ok().and_then(|path| below_root(&path)) else { continue };
        match tar_node(tree, &entry, path) {
            Some(GuestNode::Directory) => tree.add_directory(&guest).map(drop)?,
            Some(node) => tree.put(&guest, node)?,
            None => {}
        }
    }
    if is_empty { Err(damaged()) } else { Ok(()) }
}

/// Node for an entry of a tar archive; `None` for an entry that is omitted.
fn tar_node(tree: &GuestTree, entry: &Entry<'_, File>, path: &Path) -> Option<GuestNode> {
    let header = entry.header();
    let link = || entry.link_name().ok().flatten().map(std::borrow::Cow::into_owned);
    match header.entry_type() {
        EntryType::Directory => Some(GuestNode::Directory),
        EntryType::Symlink => Some(GuestNode::Link(link()?)),
        // The first name of a hard link is an earlier entry.
        EntryType::Link => tree.get(&below_root(&link()?)?).cloned(),
        EntryType::Regular | EntryType::Continuous => Some(GuestNode::File(HostFile {
            path: path.to_owned(),
            offset: entry.raw_file_position(),
            mode: header.mode().ok()? & 0o777,
            bytes: entry.size(),
            modified: header.mtime().ok().and_then(|time| u32::try_from(time).ok()).unwrap_or(0),
        })),
        _ => None,
    }
}

/// Absolute path for a path of a tar archive; `None` if it leads out of the root directory.
fn below_root(path: &Path) -> Option<PathBuf> {
    let mut absolute = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => absolute.push(name),
            Component::ParentDir | Component::Prefix(_) => return None,
            Component::RootDir | Component::CurDir => {}
        }
    }
    Some(absolute)
}

/// Maximum number of links in a path; Linux has the same limit.
const MAX_LINKS: usize = 40;

/// Walk along a path, name by name. The caller looks up each name, and tells the walk to enter it
/// or to follow a link.
struct Walk {
    /// Path of the names so far, without links.
    current: PathBuf,
    /// Remaining names, the last one first.
    remaining: Vec<OsString>,
    /// Number of followed links.
    links: usize,
}

impl Walk {
    pub fn along(path: &Path) -> Walk {
        Walk { current: PathBuf::from("/"), remaining: names_reversed(path), links: 0 }
    }

    /// Path of the next name; `None` at the end.
    pub fn next(&mut self) -> Option<PathBuf> {
        loop {
            let name = self.remaining.pop()?;
            if name != ".." {
                return Some(self.current.join(name));
            }
            self.current.pop();
        }
    }

    /// Continues at the path of the last name, which is not a link.
    pub fn enter(&mut self, next: PathBuf) {
        self.current = next;
    }

    /// Continues at the target of a link. Returns false after too many links.
    pub fn follow(&mut self, target: &Path) -> bool {
        self.links += 1;
        if target.is_absolute() {
            self.current = PathBuf::from("/");
        }
        self.remaining.extend(names_reversed(target));
        self.links <= MAX_LINKS
    }

    pub fn is_last(&self) -> bool {
        self.remaining.is_empty()
    }

    /// Path at the end of the walk.
    pub fn end(self) -> PathBuf {
        self.current
    }
}

fn names_reversed(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use tar::{Builder, Header};

    use super::*;

    #[test]
    fn links_are_added_as_links() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        fs::create_dir(real.join("usr")).unwrap();
        fs::write(real.join("usr/program"), "x").unwrap();
        symlink("usr", real.join("bin")).unwrap();
        symlink("/etc/shadow", real.join("usr/out")).unwrap();
        let mut tree = GuestTree::new(1 << 20);
        assert_eq!(tree.add_in_place(&real.join("bin/program")).unwrap(), real.join("usr/program"));
        assert_eq!(tree.nodes[&real.join("bin")], GuestNode::Link("usr".into()));
        tree.add(&real, Path::new("/work")).unwrap();
        assert_eq!(tree.nodes[Path::new("/work/usr/out")], GuestNode::Link("/etc/shadow".into()));
        assert_eq!(
            tree.add_directory(Path::new("/work/bin/new")).unwrap(),
            Path::new("/work/usr/new")
        );
    }

    #[test]
    fn devices_are_refused_and_sizes_are_limited() {
        let dir = tempfile::tempdir().unwrap();
        let large = dir.path().join("large");
        fs::File::create(&large).unwrap().set_len(2 << 20).unwrap();
        let mut tree = GuestTree::new(1 << 20);
        let refused = |tree: &mut GuestTree, host: &Path| {
            tree.add(host, Path::new("/x")).unwrap_err().to_string()
        };
        let error = refused(&mut tree, Path::new("/dev/null"));
        assert!(error.starts_with("/dev/null is neither a file nor a directory"), "{error}");
        let error = refused(&mut tree, dir.path());
        assert!(error.contains("the files of the program exceed 1 MiB"), "{error}");
    }

    fn header(kind: EntryType, size: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o4755);
        header.set_size(size);
        header
    }

    #[test]
    fn tar_archives_have_files_links_and_hard_links_but_no_outside_paths() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("root.tar");
        let mut tar = Builder::new(File::create(&path).unwrap());
        tar.append_data(&mut header(EntryType::Regular, 4), "usr/bin/one", &b"text"[..]).unwrap();
        tar.append_link(&mut header(EntryType::Symlink, 0), "bin", "usr/bin").unwrap();
        tar.append_link(&mut header(EntryType::Link, 0), "bin/two", "usr/bin/one").unwrap();
        let mut out = header(EntryType::Regular, 4);
        out.as_old_mut().name[..9].copy_from_slice(b"../../out");
        out.set_cksum();
        tar.append(&out, &b"evil"[..]).unwrap();
        tar.append_data(&mut header(EntryType::Char, 0), "dev/mem", &b""[..]).unwrap();
        tar.into_inner().unwrap();
        let mut tree = GuestTree::new(1 << 20);
        add_tar(&mut tree, &path).unwrap();
        let names: Vec<&Path> = tree.files().map(|(path, _)| path).collect();
        assert_eq!(names, [Path::new("/usr/bin/one"), Path::new("/usr/bin/two")]);
        for (_, file) in tree.files() {
            let mut text = String::new();
            file.open().unwrap().read_to_string(&mut text).unwrap();
            assert_eq!((text.as_str(), file.mode), ("text", 0o755));
        }
        std::fs::write(&path, "no archive").unwrap();
        assert!(
            add_tar(&mut tree, &path).unwrap_err().message().ends_with(" is not a tar archive")
        );
    }
}
