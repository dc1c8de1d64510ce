//! A root directory in a tar archive, as containers are exported: its files are read where they
//! are.

use std::fs::File;
use std::path::{Component, Path, PathBuf};

use tar::{Archive, Entry, EntryType};

use super::error::ProgramError;
use super::tree::{GuestNode, GuestTree, HostFile};
use ktax_host::text::escape_path;

/// Adds all of an archive; devices, sockets and FIFOs are left out.
pub(super) fn add(tree: &mut GuestTree, path: &Path) -> Result<(), ProgramError> {
    let unreadable = ProgramError::unreadable(path);
    ProgramError::if_irregular(path)?;
    let damaged = || ProgramError::NoTar { path: escape_path(path).to_string() };
    let mut archive = Archive::new(File::open(path).map_err(&unreadable)?);
    let mut empty = true;
    for entry in archive.entries().map_err(|_| damaged())? {
        let entry = entry.map_err(|_| damaged())?;
        empty = false;
        let Some(at) = place(&entry) else { continue };
        match node(tree, &entry, path) {
            Some(GuestNode::Directory) => tree.directory(&at).map(drop)?,
            Some(node) => tree.put(&at, node)?,
            None => {}
        }
    }
    if empty { Err(damaged()) } else { Ok(()) }
}

fn node(tree: &GuestTree, entry: &Entry<'_, File>, path: &Path) -> Option<GuestNode> {
    let header = entry.header();
    let link = || entry.link_name().ok().flatten().map(std::borrow::Cow::into_owned);
    match header.entry_type() {
        EntryType::Directory => Some(GuestNode::Directory),
        EntryType::Symlink => Some(GuestNode::Link(link()?)),
        // What it is another name of came before.
        EntryType::Link => tree.get(&absolute(&link()?)?).cloned(),
        EntryType::Regular | EntryType::Continuous => Some(GuestNode::File(HostFile {
            path: path.to_owned(),
            offset: entry.raw_file_position(),
            mode: header.mode().ok()? & 0o777,
            bytes: entry.size(),
            modified: header.mtime().ok().and_then(|at| u32::try_from(at).ok()).unwrap_or(0),
        })),
        _ => None,
    }
}

fn place(entry: &Entry<'_, File>) -> Option<PathBuf> {
    absolute(&entry.path().ok()?)
}

/// The path below the root directory; nothing of one that leads out of it.
fn absolute(path: &Path) -> Option<PathBuf> {
    let mut at = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => at.push(name),
            Component::ParentDir | Component::Prefix(_) => return None,
            Component::RootDir | Component::CurDir => {}
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use tar::{Builder, Header};

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
        add(&mut tree, &path).unwrap();
        let names: Vec<&Path> = tree.files().map(|(at, _)| at).collect();
        assert_eq!(names, [Path::new("/usr/bin/one"), Path::new("/usr/bin/two")]);
        for (_, file) in tree.files() {
            let mut text = String::new();
            file.open().unwrap().read_to_string(&mut text).unwrap();
            assert_eq!((text.as_str(), file.mode), ("text", 0o755));
        }
        std::fs::write(&path, "no archive").unwrap();
        assert!(matches!(add(&mut tree, &path), Err(ProgramError::NoTar { .. })));
    }
}
