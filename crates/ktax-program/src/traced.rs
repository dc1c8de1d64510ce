//! The files that a program named when it ran once on this machine, as files for its guest.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::tree::GuestTree;
use crate::{MOST_BYTES, WORK, elf, script};
use ktax_host::disk::read_limited;
use ktax_host::text::escape;
use ktax_model::{NamedFiles, Result};

/// Directories whose content a guest makes itself.
const MADE_ANEW: [&str; 4] = ["/dev", "/proc", "/sys", "/run"];

/// Files that nobody puts into a guest unless somebody names them.
const SECRET: [&str; 4] = ["/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-"];

/// Files that the dynamic loader asks for and does without: their absence is no cause of a failure.
const DISPENSABLE: [&str; 2] = ["/etc/ld.so.cache", "/etc/ld.so.preload"];

/// The files of this machine among those that a program named, sorted: relative to `here` where the
/// guest has them below its working directory. What the program made itself is not there any more.
pub fn found(named: &NamedFiles, here: &Path) -> Vec<String> {
    let work = start_directory(here);
    let executed = named.executed.iter().flat_map(|path| {
        let loaders =
            locate(path, here, work).map(|(_, host)| interpreters(&host)).unwrap_or_default();
        [path.clone()].into_iter().chain(loaders)
    });
    let paths: BTreeSet<PathBuf> = named.opened.iter().cloned().chain(executed).collect();
    let on_this_machine = |path: &Path| {
        let (name, host) = locate(path, here, work)?;
        let about = fs::metadata(&host).ok()?;
        (about.is_file() || about.is_dir()).then_some(name)
    };
    // A file that the program made needs the directory that it is in.
    let in_guest = paths.iter().filter(|path| locate(path, here, work).is_some());
    let found = in_guest.filter_map(|path| {
        on_this_machine(path).or_else(|| path.parent().and_then(on_this_machine))
    });
    let names: BTreeSet<String> = found.collect();
    names.into_iter().collect()
}

/// The files of this machine that a program did not find in a guest, as `--file` takes them. What
/// it missed last, which is most likely why it failed, comes first.
pub fn missing(named: &NamedFiles, here: &Path) -> Vec<String> {
    let mut known = BTreeSet::new();
    let missing = named.missing.iter().rev().filter_map(|path| {
        let (name, host) = locate(path, here, Path::new(WORK))?;
        let is_needed = !DISPENSABLE.contains(&name.as_str());
        let is_new = is_needed && (host.is_file() || host.is_dir()) && known.insert(name.clone());
        is_new.then(|| escape(&name))
    });
    missing.collect()
}

/// The end of what a program printed into a file, on one line and escaped.
pub fn last_words(path: &Path) -> String {
    const LONGEST: usize = 300;
    let bytes = read_limited(path, MOST_BYTES).unwrap_or_default();
    let last = &bytes[bytes.len().saturating_sub(LONGEST)..];
    let words = String::from_utf8_lossy(last).trim_end().replace('\n', "|");
    match words.is_empty() {
        true => "it printed nothing".to_owned(),
        false => escape(&words),
    }
}

/// The directory in which a program starts that runs on this machine: `/work` as in a guest, or
/// where it is if that is below this machine's own `/work`.
fn start_directory(here: &Path) -> &Path {
    if here.starts_with(WORK) { here } else { Path::new(WORK) }
}

/// The path of a file of this machine as a program in a sandbox sees it: relative to where it
/// starts if the file is below `here`, so that what it names is named as in a guest.
pub(super) fn in_sandbox(path: &Path, here: &Path) -> PathBuf {
    match path.strip_prefix(here) {
        Ok(below) => start_directory(here).join(below),
        Err(_) => path.to_owned(),
    }
}

/// The name of a file that a program named which started in `work`, and where it is on this
/// machine.
fn locate(path: &Path, here: &Path, work: &Path) -> Option<(String, PathBuf)> {
    let is_made_anew = MADE_ANEW.iter().any(|directory| path.starts_with(directory));
    let is_secret = SECRET.iter().any(|secret| path == Path::new(secret));
    if is_made_anew || is_secret {
        return None;
    }
    let (name, host) = match path.strip_prefix(work) {
        Ok(below) => (below, here.join(below)),
        Err(_) => (path, path.to_owned()),
    };
    let name = name.to_str()?.to_owned();
    (!name.is_empty() && name != "/").then_some((name, host))
}

/// Files that the kernel opens to execute a file: the dynamic loader, or the interpreter of a
/// script and its loader.
fn interpreters(host: &Path) -> Vec<PathBuf> {
    let Ok(bytes) = read_limited(host, MOST_BYTES) else { return Vec::new() };
    let interpreter = match elf::is_elf(&bytes) {
        true => elf::elf_needs(&bytes, host).ok().and_then(|needs| needs.interpreter),
        false => script::interpreter(&bytes, host).ok().flatten().map(|words| words[0].clone()),
    };
    let Some(interpreter) = interpreter.map(PathBuf::from) else { return Vec::new() };
    // A dynamic loader has no interpreter, and one script may name another.
    let nested = if interpreter == host { Vec::new() } else { interpreters(&interpreter) };
    [interpreter].into_iter().chain(nested).collect()
}

/// Adds a file that a program named; a directory without its content, whose files it named too.
pub(super) fn add_traced(tree: &mut GuestTree, name: &str, here: &Path) -> Result<()> {
    let (name, host) = (Path::new(name), here.join(name));
    let guest = Path::new(WORK).join(name);
    if tree.is_in_users_root(&guest) || tree.look(&guest).is_some() {
        return Ok(());
    }
    match name.is_absolute() {
        true => tree.add_alone(name),
        false if host.is_dir() => tree.directory(&guest).map(drop),
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
    fn files_of_the_working_directory_are_relative_and_those_of_a_guest_are_none() {
        let dir = tempfile::Builder::new().tempdir_in("/tmp").unwrap();
        let here = dir.path();
        fs::write(here.join("data"), "x").unwrap();
        let opened = ["/work/data", "/work/made", "/proc/self/maps", "/etc/shadow", "/", "/work"];
        let opened = opened.map(Path::new);
        assert_eq!(found(&named(&opened, &[]), here), ["data"]);
        let made = here.join("made");
        assert_eq!(found(&named(&[&made], &[]), Path::new("/")), [here.to_str().unwrap()]);
        let data = here.join("data");
        assert_eq!(found(&named(&[&data], &[]), here), [data.to_str().unwrap()]);
    }

    #[test]
    fn a_file_that_a_guest_lacks_is_looked_for_here_and_what_a_loader_does_without_is_not() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("data"), "x").unwrap();
        let paths = ["/etc/ld.so.cache", "/etc/passwd", "/work/data", "/work/made"];
        let lacking =
            NamedFiles { missing: paths.map(PathBuf::from).into(), ..NamedFiles::default() };
        assert_eq!(missing(&lacking, dir.path()), ["data", "/etc/passwd"]);
    }

    #[test]
    fn a_program_of_the_working_directory_has_its_path_in_a_guest() {
        let path = |path: &str, here: &str| in_sandbox(Path::new(path), Path::new(here));
        assert_eq!(path("/home/user/./run", "/home/user"), Path::new("/work/run"));
        assert_eq!(path("/work/tree/bin/run", "/work/tree"), Path::new("/work/tree/bin/run"));
        assert_eq!(path("/usr/bin/ls", "/home/user"), Path::new("/usr/bin/ls"));
    }

    #[test]
    fn what_is_executed_has_its_loader_and_its_interpreter() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        let found = found(&named(&[], &[&script]), Path::new("/"));
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
