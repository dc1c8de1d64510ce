//! Files that a program named while it was traced on this machine, as files for its guest.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::tree::GuestTree;
use crate::{MAX_FILE_BYTES, WORK, elf, script};
use ktax_host::disk::read_limited;
use ktax_host::text::escape;
use ktax_model::{NamedFiles, Result};

/// Directories whose content the guest itself creates.
const GUEST_DIRECTORIES: [&str; 4] = ["/dev", "/proc", "/sys", "/run"];

/// Files with secrets, which are copied to a guest only if the user names them.
const SECRET_FILES: [&str; 4] = ["/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-"];

/// Optional files of the dynamic loader, whose absence cannot be the cause of a failure.
const OPTIONAL_FILES: [&str; 2] = ["/etc/ld.so.cache", "/etc/ld.so.preload"];

/// Files and directories that a traced program named and this machine has, sorted. Paths below the
/// guest's working directory are relative to `here`. Files that the program created are not among
/// them, but their directories are.
pub fn traced_files(named: &NamedFiles, here: &Path) -> Vec<String> {
    let work = start_directory(here);
    let executed = named.executed.iter().flat_map(|path| {
        let loaders =
            locate(path, here, work).map(|(_, host)| interpreters(&host)).unwrap_or_default();
        [path.clone()].into_iter().chain(loaders)
    });
    let paths: BTreeSet<PathBuf> = named.opened.iter().cloned().chain(executed).collect();
    let existing_name = |path: &Path| {
        let (name, host) = locate(path, here, work)?;
        let about = fs::metadata(&host).ok()?;
        (about.is_file() || about.is_dir()).then_some(name)
    };
    // A program that created a file needs the directory of the file.
    let in_guest = paths.iter().filter(|path| locate(path, here, work).is_some());
    let names = in_guest
        .filter_map(|path| existing_name(path).or_else(|| path.parent().and_then(existing_name)));
    let names: BTreeSet<String> = names.collect();
    names.into_iter().collect()
}

/// Files that a program did not find in its guest and that this machine has, in the form that
/// `--file` takes. The file that the program missed last is first, because it is the most likely
/// cause of its failure.
pub fn missing_files(named: &NamedFiles, here: &Path) -> Vec<String> {
    let mut known = BTreeSet::new();
    let missing = named.missing.iter().rev().filter_map(|path| {
        let (name, host) = locate(path, here, Path::new(WORK))?;
        let is_needed = !OPTIONAL_FILES.contains(&name.as_str());
        let is_new = is_needed && (host.is_file() || host.is_dir()) && known.insert(name.clone());
        is_new.then(|| escape(&name))
    });
    missing.collect()
}

/// End of a program's output in a file: at most 300 bytes, escaped, on one line.
pub fn output_end(path: &Path) -> String {
    const MAX_BYTES: usize = 300;
    let bytes = read_limited(path, MAX_FILE_BYTES).unwrap_or_default();
    let end = &bytes[bytes.len().saturating_sub(MAX_BYTES)..];
    let text = String::from_utf8_lossy(end).trim_end().replace('\n', "|");
    match text.is_empty() {
        true => "it printed nothing".to_owned(),
        false => escape(&text),
    }
}

/// Directory in which a traced program starts on this machine: `/work` as in a guest, or `here` if
/// `here` is in a `/work` of this machine.
fn start_directory(here: &Path) -> &Path {
    if here.starts_with(WORK) { here } else { Path::new(WORK) }
}

/// Path of a file in the sandbox of a traced program. A file below `here` has the path that it
/// would have in a guest.
pub(super) fn sandbox_path(path: &Path, here: &Path) -> PathBuf {
    match path.strip_prefix(here) {
        Ok(below) => start_directory(here).join(below),
        Err(_) => path.to_owned(),
    }
}

/// Name of a file for its guest, and its path on this machine. `path` was named by a program that
/// started in `work`. `None` for secret files, and for files that the guest itself creates.
fn locate(path: &Path, here: &Path, work: &Path) -> Option<(String, PathBuf)> {
    let is_in_guest = GUEST_DIRECTORIES.iter().any(|directory| path.starts_with(directory));
    let is_secret = SECRET_FILES.iter().any(|secret| path == Path::new(secret));
    if is_in_guest || is_secret {
        return None;
    }
    let (name, host) = match path.strip_prefix(work) {
        Ok(below) => (below, here.join(below)),
        Err(_) => (path, path.to_owned()),
    };
    let name = name.to_str()?.to_owned();
    (!name.is_empty() && name != "/").then_some((name, host))
}

/// Files that the kernel opens to execute a file: the dynamic loader of a program, or the
/// interpreter of a script and its dynamic loader.
fn interpreters(host: &Path) -> Vec<PathBuf> {
    let Ok(bytes) = read_limited(host, MAX_FILE_BYTES) else { return Vec::new() };
    let interpreter = match elf::is_elf(&bytes) {
        true => elf::elf_needs(&bytes, host).ok().and_then(|needs| needs.interpreter),
        false => script::interpreter(&bytes, host).ok().flatten().map(|words| words[0].clone()),
    };
    let Some(interpreter) = interpreter.map(PathBuf::from) else { return Vec::new() };
    // The interpreter of a script may itself be a script. A dynamic loader has no interpreter.
    let nested = if interpreter == host { Vec::new() } else { interpreters(&interpreter) };
    [interpreter].into_iter().chain(nested).collect()
}

/// Adds a file or directory that a traced program named. A directory is added without its content,
/// because the list also has the files that the program named.
pub(super) fn add_traced(tree: &mut GuestTree, name: &str, here: &Path) -> Result<()> {
    let (name, host) = (Path::new(name), here.join(name));
    let guest = Path::new(WORK).join(name);
    if tree.is_in_users_root(&guest) || tree.node_at(&guest).is_some() {
        return Ok(());
    }
    match name.is_absolute() {
        true => tree.add_without_content(name),
        false if host.is_dir() => tree.add_directory(&guest).map(drop),
        false => tree.add(&host, &guest),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::tree::GuestNode;

    fn named(opened: &[&Path], executed: &[&Path]) -> NamedFiles {
        let paths = |paths: &[&Path]| paths.iter().map(|path| path.to_path_buf()).collect();
        NamedFiles { opened: paths(opened), executed: paths(executed), ..NamedFiles::default() }
    }

    #[test]
    fn files_of_the_working_directory_are_relative_and_guest_files_are_omitted() {
        let dir = tempfile::Builder::new().tempdir_in("/tmp").unwrap();
        let here = dir.path();
        fs::write(here.join("data"), "x").unwrap();
        let opened = ["/work/data", "/work/made", "/proc/self/maps", "/etc/shadow", "/", "/work"];
        let opened = opened.map(Path::new);
        assert_eq!(traced_files(&named(&opened, &[]), here), ["data"]);
        let made = here.join("made");
        assert_eq!(traced_files(&named(&[&made], &[]), Path::new("/")), [here.to_str().unwrap()]);
        let data = here.join("data");
        assert_eq!(traced_files(&named(&[&data], &[]), here), [data.to_str().unwrap()]);
    }

    #[test]
    fn missing_files_are_those_of_this_machine_without_optional_ones() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("data"), "x").unwrap();
        let paths = ["/etc/ld.so.cache", "/etc/passwd", "/work/data", "/work/made"];
        let lacking =
            NamedFiles { missing: paths.map(PathBuf::from).into(), ..NamedFiles::default() };
        assert_eq!(missing_files(&lacking, dir.path()), ["data", "/etc/passwd"]);
    }

    #[test]
    fn a_program_of_the_working_directory_has_its_path_in_a_guest() {
        let path = |path: &str, here: &str| sandbox_path(Path::new(path), Path::new(here));
        assert_eq!(path("/home/user/./run", "/home/user"), Path::new("/work/run"));
        assert_eq!(path("/work/tree/bin/run", "/work/tree"), Path::new("/work/tree/bin/run"));
        assert_eq!(path("/usr/bin/ls", "/home/user"), Path::new("/usr/bin/ls"));
    }

    #[test]
    fn executed_files_come_with_loader_and_interpreter() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        let found = traced_files(&named(&[], &[&script]), Path::new("/"));
        let wanted = [script.to_str().unwrap(), "/bin/sh", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(BTreeSet::from_iter(found), BTreeSet::from(wanted.map(str::to_owned)));
    }

    #[test]
    fn a_directory_is_added_alone_and_a_link_with_its_target() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        fs::create_dir(real.join("share")).unwrap();
        fs::write(real.join("share/other"), "x").unwrap();
        fs::write(real.join("share/wanted"), "x").unwrap();
        symlink("share/wanted", real.join("link")).unwrap();
        let mut tree = GuestTree::new(1 << 20);
        for name in ["share", "link"] {
            add_traced(&mut tree, real.join(name).to_str().unwrap(), Path::new("/")).unwrap();
        }
        assert_eq!(tree.get(&real.join("share")), Some(&GuestNode::Directory));
        assert_eq!(tree.get(&real.join("share/other")), None);
        assert_eq!(tree.get(&real.join("link")), Some(&GuestNode::Link("share/wanted".into())));
        assert!(matches!(tree.get(&real.join("share/wanted")), Some(GuestNode::File(_))));
    }
}
