//! Releases: two builds are the same bytes, and an installation in a clean Debian 12 and 13 counts
//! the same.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::common::kvm::kernel;
use crate::common::{Need, require, run, scratch};

/// In a Debian 13: the QEMU of the Debian 12 within it, which has the same /tmp.
const OLDER_QEMU: &str = r#"#!/bin/sh
mountpoint --quiet /older/tmp || mount --bind /tmp /older/tmp
exec chroot /older /usr/bin/qemu-system-x86_64 "$@"
"#;

fn succeed(command: &mut Command) -> String {
    let ran = run(command).exits(0);
    ran.stderr
}

fn script(tree: &Path, name: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg(tree.join("scripts").join(name)).env_remove("CARGO_TARGET_DIR");
    command.current_dir(tree);
    command
}

/// A copy of what is committed, in a directory of its own.
fn clone(tree: &Path) -> &Path {
    let mut git = Command::new("git");
    succeed(git.args(["clone", "--quiet", env!("CARGO_MANIFEST_DIR")]).arg(tree));
    tree
}

/// The one file of this directory whose name ends so.
fn only(dir: &Path, ending: &str) -> PathBuf {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let found: Vec<PathBuf> =
        entries.filter(|path| path.to_str().unwrap().ends_with(ending)).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

/// The rows that ktax counts in a root in which it is installed in this way.
fn counted(root: &Path, way: &[&str]) -> Value {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--root"]);
    command.arg(root).args(["sh", "/given/in-root.sh"]).args(way).env_clear();
    command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    let ran = run(&mut command).exits(0);
    let json: Value = serde_json::from_str(&ran.stdout).expect(&ran.stdout);
    let rows = json.pointer("/result/comparison/rows").expect("rows").clone();
    assert_eq!(rows.as_array().map(Vec::len), Some(3));
    rows
}

/// Builds the tarball here and, as another user would who lets nobody read his files, elsewhere
/// with another home of cargo's.
fn two_builds(dir: &Path, tree: &Path) -> [PathBuf; 2] {
    let [dist, again] = ["dist", "again"].map(|name| dir.join(name));
    succeed(script(tree, "dist.sh").arg(&dist));
    let other = dir.join("another/and/longer/path");
    fs::create_dir_all(other.parent().unwrap()).unwrap();
    let mut private = Command::new("sh");
    private.args(["-c", "umask 077; exec sh scripts/dist.sh \"$0\""]).arg(&again);
    private.current_dir(clone(&other)).env_remove("CARGO_TARGET_DIR");
    succeed(private.env("CARGO_HOME", dir.join("home")));
    [dist, again]
}

/// Puts what is installed, and what it is tried with, into one directory.
fn give(dir: &Path, tree: &Path, dist: &Path) -> PathBuf {
    let given = dir.join("given");
    fs::create_dir_all(given.join("cargo")).unwrap();
    succeed(script(tree, "deb.sh").arg(dist));
    let mut archive = Command::new("git");
    archive.args(["archive", "--format=tar.gz", "HEAD", "--output"]);
    succeed(archive.arg(given.join("source.tar.gz")).current_dir(tree));
    for (from, to) in [
        (only(dist, ".deb"), "ktax.deb"),
        (only(dist, ".tar.gz"), "ktax.tar.gz"),
        (kernel(), "vmlinuz"),
        (tree.join("tests/data/in-root.sh"), "in-root.sh"),
    ] {
        fs::copy(from, given.join(to)).unwrap();
    }
    let mut vendor = Command::new("cargo");
    vendor.args(["vendor", "--locked"]).arg(given.join("cargo/crates"));
    let ran = run(vendor.current_dir(tree)).exits(0);
    let config = ran.stdout.replace(given.to_str().unwrap(), "/given");
    fs::write(given.join("cargo/config.toml"), config).unwrap();
    given
}

/// A clean Debian with what is given.
fn root(dir: &Path, tree: &Path, codename: &str) -> PathBuf {
    let root = dir.join(codename);
    succeed(script(tree, "clean-root.sh").arg(codename).arg(&root));
    succeed(Command::new("cp").arg("-r").arg(dir.join("given")).arg(root.join("given")));
    root
}

#[test]
fn two_builds_are_the_same_bytes_and_count_the_same_on_debian_12_and_13() {
    let has =
        ["mmdebstrap", "dh"].iter().all(|program| Path::new("/usr/bin").join(program).exists());
    let why = "mmdebstrap or dh is missing; scripts/setup-roots.sh installs them";
    if !require(Need::Root, rustix::process::geteuid().is_root(), "a clean Debian needs root")
        || !require(Need::Roots, has, why)
    {
        return;
    }
    let dir = scratch();
    let dir = dir.path();
    let tree = dir.join("tree");
    let [dist, again] = two_builds(dir, clone(&tree));
    assert!(
        fs::read(only(&dist, ".tar.gz")).unwrap() == fs::read(only(&again, ".tar.gz")).unwrap(),
        "two builds differ"
    );
    give(dir, &tree, &dist);
    let roots = ["bookworm", "trixie"].map(|codename| root(dir, &tree, codename));
    let rows = roots.each_ref().map(|root| {
        let [deb, tarball, source] = ["deb", "tarball", "source"].map(|way| counted(root, &[way]));
        assert_eq!(deb, tarball);
        (deb, source)
    });
    let ([(older_rows, source), (newer_rows, _)], [older, newer]) = (rows, &roots);
    // With the same compiler. That of Debian 13 makes another guest of the source.
    assert_eq!(older_rows, source);
    // Another QEMU is another machine. With one QEMU both Debians count the same.
    assert_ne!(older_rows, newer_rows);
    succeed(Command::new("cp").arg("-a").arg(older).arg(newer.join("older")));
    let qemu = newer.join("usr/local/bin/older-qemu");
    fs::write(&qemu, OLDER_QEMU).unwrap();
    succeed(Command::new("chmod").arg("755").arg(&qemu));
    assert_eq!(counted(newer, &["tarball", "/usr/local/bin/older-qemu"]), older_rows);
}
