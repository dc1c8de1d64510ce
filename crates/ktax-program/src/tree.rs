//! The files of a guest's root directory, as names: nothing is read yet but directories.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom, Take};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::error::ProgramError;
use super::walk::Walk;
use ktax_host::text::escape_path;

/// More are most likely a mistake, such as `/`.
const MOST_NODES: usize = 200_000;

/// What is at a path of the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GuestNode {
    Directory,
    Link(PathBuf),
    File(HostFile),
    /// A file of ktax's.
    Text(Vec<u8>),
}

/// A file of the host that becomes one of the guest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HostFile {
    pub path: PathBuf,
    /// Where its content begins there.
    pub offset: u64,
    /// Without set-user-ID, set-group-ID and sticky.
    pub mode: u32,
    pub bytes: u64,
    pub modified: u32,
}

impl HostFile {
    /// Its content. A link is not followed, and a pipe does not block.
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
    /// What the user's own root directory has.
    of_root: BTreeSet<PathBuf>,
    bytes: u64,
    most_bytes: u64,
}

impl GuestTree {
    pub fn new(most_bytes: u64) -> GuestTree {
        GuestTree { nodes: BTreeMap::new(), of_root: BTreeSet::new(), bytes: 0, most_bytes }
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

    pub fn get(&self, at: &Path) -> Option<&GuestNode> {
        self.nodes.get(at)
    }

    /// What a path of the guest leads to: links are followed.
    pub fn look(&self, at: &Path) -> Option<&GuestNode> {
        self.nodes.get(&self.end_of(at, true)?)
    }

    /// Where a path ends; a link at its end may be followed. None: there are too many links.
    fn end_of(&self, at: &Path, follows_last: bool) -> Option<PathBuf> {
        let mut walk = Walk::along(at);
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

    /// Says that what is here now is the user's own root directory.
    pub fn end_root(&mut self) {
        self.of_root = self.nodes.keys().cloned().collect();
    }

    /// Whether the user's own root directory has this, be it a link that leads nowhere.
    pub fn is_of_root(&self, at: &Path) -> bool {
        self.end_of(at, false).is_none_or(|end| self.of_root.contains(&end))
    }

    /// Puts something at a path, behind the links on the way to it.
    pub fn put(&mut self, at: &Path, node: GuestNode) -> Result<(), ProgramError> {
        let parent = self.directory(at.parent().unwrap_or(Path::new("/")))?;
        let name = at.file_name().unwrap_or_default();
        self.insert(parent.join(name), node)
    }

    /// Makes a directory and those that it is in, behind the links on the way to it.
    pub fn directory(&mut self, at: &Path) -> Result<PathBuf, ProgramError> {
        let mut walk = Walk::along(at);
        while let Some(next) = walk.next() {
            match self.nodes.get(&next) {
                Some(GuestNode::Link(target)) => {
                    if !walk.follow(target) {
                        return Err(too_many_links(at));
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

    /// The first that is in this directory.
    pub fn first_below(&self, directory: &Path) -> Option<&Path> {
        let mut paths = self.nodes.keys().map(PathBuf::as_path);
        paths.find(|path| *path != directory && path.starts_with(directory))
    }

    /// How much is in this directory.
    pub fn bytes_below(&self, directory: &Path) -> u64 {
        self.files().filter(|(at, _)| at.starts_with(directory)).map(|(_, file)| file.bytes).sum()
    }

    /// Adds a file or a directory of the host, with all that is in it, at the same path, and the
    /// links on the way to it. Returns the path behind the links.
    pub fn in_place(&mut self, path: &Path) -> Result<PathBuf, ProgramError> {
        let end = self.along(path)?;
        self.add(&end, &end)?;
        Ok(end)
    }

    /// Adds a file or a directory of the host at the same path, and the links on the way to it: of
    /// a directory nothing that is in it.
    pub fn alone(&mut self, path: &Path) -> Result<(), ProgramError> {
        let end = self.along(path)?;
        match end.is_dir() {
            true => self.directory(&end).map(drop),
            false => self.add(&end, &end),
        }
    }

    /// Adds a file or a directory of the host at the same path, and what the links in it lead to.
    pub fn with_targets(&mut self, path: &Path) -> Result<(), ProgramError> {
        let end = self.in_place(path)?;
        let links = self.nodes.range(end.clone()..).take_while(|(at, _)| at.starts_with(&end));
        let links = links.filter(|(_, node)| matches!(node, GuestNode::Link(_)));
        let links: Vec<PathBuf> = links.map(|(at, _)| at.clone()).collect();
        for link in links.into_iter().filter(|link| link.exists()) {
            self.alone(&link)?;
        }
        Ok(())
    }

    /// Adds the directories and links on the way to a path of the host, and returns the path behind
    /// the links.
    fn along(&mut self, path: &Path) -> Result<PathBuf, ProgramError> {
        let unreadable = ProgramError::unreadable(path);
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
    pub fn add(&mut self, host: &Path, at: &Path) -> Result<(), ProgramError> {
        let about = fs::metadata(host).map_err(ProgramError::unreadable(host))?;
        let parent = self.directory(at.parent().unwrap_or(Path::new("/")))?;
        let at = at.file_name().map_or(parent.clone(), |name| parent.join(name));
        if about.is_file() {
            // A link that is named stands for the file.
            let host = fs::canonicalize(host).map_err(ProgramError::unreadable(host))?;
            return self.file(&host, at, &about);
        }
        if !about.is_dir() {
            return Err(ProgramError::Special { path: escape_path(host).to_string() });
        }
        let mut directories = vec![(host.to_owned(), self.directory(&at)?)];
        while let Some((host, at)) = directories.pop() {
            for entry in fs::read_dir(&host).map_err(ProgramError::unreadable(&host))? {
                let name = entry.map_err(ProgramError::unreadable(&host))?.file_name();
                let (host, at) = (host.join(&name), at.join(&name));
                let unreadable = ProgramError::unreadable(&host);
                let about = fs::symlink_metadata(&host).map_err(&unreadable)?;
                if about.is_symlink() {
                    let target = fs::read_link(&host).map_err(&unreadable)?;
                    self.insert(at, GuestNode::Link(target))?;
                } else if about.is_dir() {
                    self.insert(at.clone(), GuestNode::Directory)?;
                    directories.push((host.clone(), at));
                } else if about.is_file() {
                    self.file(&host, at, &about)?;
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, host: &Path, at: PathBuf, about: &Metadata) -> Result<(), ProgramError> {
        let file = HostFile {
            path: host.to_owned(),
            offset: 0,
            mode: about.mode() & 0o777,
            bytes: about.len(),
            modified: u32::try_from(about.mtime()).unwrap_or_default(),
        };
        self.insert(at, GuestNode::File(file))
    }

    fn insert(&mut self, at: PathBuf, node: GuestNode) -> Result<(), ProgramError> {
        let bytes = |node: &GuestNode| match node {
            GuestNode::File(file) => file.bytes,
            GuestNode::Text(text) => text.len() as u64,
            GuestNode::Directory | GuestNode::Link(_) => 0,
        };
        let (path, added) = (escape_path(&at).to_string(), bytes(&node));
        let before = self.nodes.insert(at, node).as_ref().map_or(0, bytes);
        self.bytes = (self.bytes - before).saturating_add(added);
        if self.bytes > self.most_bytes {
            return Err(ProgramError::TooLarge { path, most_mib: self.most_bytes >> 20 });
        }
        match self.nodes.len() > MOST_NODES {
            true => Err(ProgramError::TooMany { path, most: MOST_NODES }),
            false => Ok(()),
        }
    }
}

fn too_many_links(path: &Path) -> ProgramError {
    ProgramError::unreadable(path)(io::Error::other("too many links"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

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
        assert_eq!(tree.in_place(&real.join("bin/program")).unwrap(), real.join("usr/program"));
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
        let refused = tree.add(Path::new("/dev/null"), Path::new("/x"));
        assert!(matches!(refused, Err(ProgramError::Special { .. })));
        let refused = tree.add(dir.path(), Path::new("/x"));
        assert!(matches!(refused, Err(ProgramError::TooLarge { most_mib: 1, .. })));
    }
}
