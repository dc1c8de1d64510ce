//! Files of a guest's root directory, as names: nothing is read yet but directories. They come from
//! this machine or from a tar archive, as containers are exported, whose files are read where they
//! are.

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

/// Most files of a guest; more are most likely a mistake, such as `/`.
const MOST_NODES: usize = 200_000;

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
    /// Offset of the content in the file at `path`.
    pub offset: u64,
    /// Permissions, without set-user-ID, set-group-ID and sticky.
    pub mode: u32,
    pub bytes: u64,
    pub modified: u32,
}

impl HostFile {
    /// Opens the content. A link is not followed, and a pipe does not block.
    pub fn open(&self) -> io::Result<Take<File>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::open(&self.path, flags, Mode::empty())?);
        file.seek(SeekFrom::Start(self.offset))?;
        Ok(file.take(self.bytes))
    }
}

/// The files, by absolute path in the guest; a directory comes before what is in it.
#[derive(Debug)]
pub(super) struct GuestTree {
    nodes: BTreeMap<PathBuf, GuestNode>,
    /// Paths in the user's own root directory.
    root_paths: BTreeSet<PathBuf>,
    bytes: u64,
    most_bytes: u64,
}

impl GuestTree {
    pub fn new(most_bytes: u64) -> GuestTree {
        GuestTree { nodes: BTreeMap::new(), root_paths: BTreeSet::new(), bytes: 0, most_bytes }
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

    /// The time at which the newest of its files was a second old, in seconds since 1970: no
    /// program should read a file from its future. `None` where there are no files of the host.
    pub fn clock(&self) -> Option<u64> {
        self.files().map(|(_, file)| u64::from(file.modified) + 1).max()
    }

    pub fn get(&self, path: &Path) -> Option<&GuestNode> {
        self.nodes.get(path)
    }

    /// The node that a path of the guest leads to: links are followed.
    pub fn look(&self, path: &Path) -> Option<&GuestNode> {
        self.nodes.get(&self.resolve(path, true)?)
    }

    /// The path behind all links; a link at its end is followed if `follows_last`. `None` if there
    /// are too many links.
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

    /// Marks all paths that are here now as those of the user's own root directory.
    pub fn mark_users_root(&mut self) {
        self.root_paths = self.nodes.keys().cloned().collect();
    }

    /// Returns whether the user's own root directory has this, be it a link that leads nowhere.
    pub fn is_in_users_root(&self, path: &Path) -> bool {
        self.resolve(path, false).is_none_or(|end| self.root_paths.contains(&end))
    }

    /// Puts something at a path, behind the links on the way to it.
    pub fn put(&mut self, path: &Path, node: GuestNode) -> Result<()> {
        let parent = self.directory(path.parent().unwrap_or(Path::new("/")))?;
        let name = path.file_name().unwrap_or_default();
        self.insert(parent.join(name), node)
    }

    /// Makes a directory and those that it is in, behind the links on the way to it.
    pub fn directory(&mut self, path: &Path) -> Result<PathBuf> {
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

    pub fn first_below(&self, directory: &Path) -> Option<&Path> {
        let mut paths = self.nodes.keys().map(PathBuf::as_path);
        paths.find(|path| *path != directory && path.starts_with(directory))
    }

    /// Bytes of the files in this directory.
    pub fn bytes_below(&self, directory: &Path) -> u64 {
        self.files()
            .filter(|(path, _)| path.starts_with(directory))
            .map(|(_, file)| file.bytes)
            .sum()
    }

    /// Adds a file or a directory of the host, with all that is in it, at the same path, and the
    /// links on the way to it. Returns the path behind the links.
    pub fn add_in_place(&mut self, path: &Path) -> Result<PathBuf> {
        let end = self.add_way_to(path)?;
        self.add(&end, &end)?;
        Ok(end)
    }

    /// Adds a file, or a directory without its content, of the host at the same path, and the links
    /// on the way to it.
    pub fn add_alone(&mut self, path: &Path) -> Result<()> {
        let end = self.add_way_to(path)?;
        match end.is_dir() {
            true => self.directory(&end).map(drop),
            false => self.add(&end, &end),
        }
    }

    /// Adds a file or a directory of the host at the same path, and what the links in it lead to.
    pub fn add_with_targets(&mut self, path: &Path) -> Result<()> {
        let end = self.add_in_place(path)?;
        let links = self.nodes.range(end.clone()..).take_while(|(path, _)| path.starts_with(&end));
        let links = links.filter(|(_, node)| matches!(node, GuestNode::Link(_)));
        let links: Vec<PathBuf> = links.map(|(path, _)| path.clone()).collect();
        for link in links.into_iter().filter(|link| link.exists()) {
            self.add_alone(&link)?;
        }
        Ok(())
    }

    /// Adds the directories and links on the way to a path of the host, and returns the path behind
    /// the links.
    fn add_way_to(&mut self, path: &Path) -> Result<PathBuf> {
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

    /// Adds a file or a directory of the host, with all that is in it, at this path of the guest.
    /// Links in a directory stay links; what is neither file, directory nor link is left out.
    pub fn add(&mut self, host: &Path, guest: &Path) -> Result<()> {
        let about = fs::metadata(host).map_err(unreadable(host))?;
        let parent = self.directory(guest.parent().unwrap_or(Path::new("/")))?;
        let guest = guest.file_name().map_or(parent.clone(), |name| parent.join(name));
        if about.is_file() {
            // A link that the user named stands for its file.
            let host = fs::canonicalize(host).map_err(unreadable(host))?;
            return self.file(&host, guest, &about);
        }
        if !about.is_dir() {
            let path = escape_path(host);
            return Err(Error::user(format!("{path} is neither a file nor a directory"))
                .next("give a file or a directory"));
        }
        let mut directories = vec![(host.to_owned(), self.directory(&guest)?)];
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
                    self.file(&host, guest, &about)?;
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, host: &Path, guest: PathBuf, about: &Metadata) -> Result<()> {
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
        if self.bytes > self.most_bytes {
            return Err(too_large(&path, self.most_bytes >> 20));
        }
        if self.nodes.len() > MOST_NODES {
            let problem = format!("with {path} the program has more than {MOST_NODES} files");
            return Err(Error::user(problem).next("give fewer"));
        }
        Ok(())
    }
}

fn too_many_links(path: &Path) -> Error {
    unreadable(path)(io::Error::other("too many links"))
}

/// Adds all of an archive; devices, sockets and FIFOs are left out.
pub(super) fn add_tar(tree: &mut GuestTree, path: &Path) -> Result<()> {
    check_regular(path)?;
    let damaged = || {
        Error::user(format!("{} is no tar archive", escape_path(path)))
            .next("give an uncompressed one, or a directory")
    };
    let mut archive = Archive::new(File::open(path).map_err(unreadable(path))?);
    let mut empty = true;
    for entry in archive.entries().map_err(|_| damaged())? {
        let entry = entry.map_err(|_| damaged())?;
        empty = false;
        let Some(guest) = entry.path().ok().and_then(|path| below_root(&path)) else { continue };
        match tar_node(tree, &entry, path) {
            Some(GuestNode::Directory) => tree.directory(&guest).map(drop)?,
            Some(node) => tree.put(&guest, node)?,
            None => {}
        }
    }
    if empty { Err(damaged()) } else { Ok(()) }
}

fn tar_node(tree: &GuestTree, entry: &Entry<'_, File>, path: &Path) -> Option<GuestNode> {
    let header = entry.header();
    let link = || entry.link_name().ok().flatten().map(std::borrow::Cow::into_owned);
    match header.entry_type() {
        EntryType::Directory => Some(GuestNode::Directory),
        EntryType::Symlink => Some(GuestNode::Link(link()?)),
        // The entry with the first name came before.
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

/// Path below the root directory; `None` if it leads out of it.
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

/// Most links on a way; a kernel follows as many.
const MOST_LINKS: usize = 40;

/// A path, name by name, with the links on the way to its end.
struct Walk {
    here: PathBuf,
    /// The names that are left, the last one first.
    left: Vec<OsString>,
    links: usize,
}

impl Walk {
    pub fn along(path: &Path) -> Walk {
        Walk { here: PathBuf::from("/"), left: names_reversed(path), links: 0 }
    }

    /// The path of the next name; `None` at the end.
    pub fn next(&mut self) -> Option<PathBuf> {
        loop {
            let name = self.left.pop()?;
            if name != ".." {
                return Some(self.here.join(name));
            }
            self.here.pop();
        }
    }

    /// Goes on from a path that was next and is no link.
    pub fn enter(&mut self, next: PathBuf) {
        self.here = next;
    }

    /// Goes on where a link leads to; false if there were too many.
    pub fn follow(&mut self, target: &Path) -> bool {
        self.links += 1;
        if target.is_absolute() {
            self.here = PathBuf::from("/");
        }
        self.left.extend(names_reversed(target));
        self.links <= MOST_LINKS
    }

    pub fn is_last(&self) -> bool {
        self.left.is_empty()
    }

    /// The path at which the walk ended.
    pub fn end(self) -> PathBuf {
        self.here
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
    fn links_stay_links_and_lead_nowhere_else() {
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
        assert_eq!(tree.directory(Path::new("/work/bin/new")).unwrap(), Path::new("/work/usr/new"));
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
    fn files_links_and_second_names_are_found_and_nothing_leads_out() {
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
        assert!(add_tar(&mut tree, &path).unwrap_err().message().ends_with(" is no tar archive"));
    }
}
