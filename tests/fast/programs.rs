//! Programs of the user's: what is found and packed.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use cpio::newc;
use ktax::model::{BlockDevice, Disk, Result, Side, UserProgram};
use ktax::program::{ArchiveContents, PackedPrograms, open_packed, pack, pack_single};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use crate::common::mounts::{in_namespace, may_mount};
use crate::common::{KERNEL, assert_has, cache, counts_plan, ktax, run, scratch, scratch_path};

const MIB: u64 = 1 << 20;

fn program(command: &[&str]) -> UserProgram {
    let command = command.iter().map(|word| (*word).to_owned()).collect();
    UserProgram { name: "p".into(), command, ..UserProgram::default() }
}

fn contents(programs: &[UserProgram]) -> ArchiveContents {
    ArchiveContents { programs: programs.to_vec(), ..ArchiveContents::default() }
}

fn packed(program: &UserProgram, here: &Path) -> Result<PackedPrograms> {
    pack(&contents(std::slice::from_ref(program)), here, 256 * MIB, &here.join("../cache"))
}

/// A directory for a program, below one that goes away with the test; a cache is beside it.
pub fn here() -> (TempDir, PathBuf) {
    let (dir, here) = scratch_path("here");
    fs::create_dir(&here).unwrap();
    (dir, here)
}

/// Mode, owner and content of everything in the archive, by name.
fn entries(packed: &PackedPrograms) -> BTreeMap<String, (u32, u32, Vec<u8>)> {
    let mut archive = BTreeMap::new();
    let mut rest = fs::File::open(&packed.archive).unwrap();
    loop {
        let mut reader = newc::Reader::new(rest).unwrap();
        if reader.entry().is_trailer() {
            return archive;
        }
        let (name, entry) = (reader.entry().name().to_owned(), reader.entry().clone());
        let mut content = Vec::new();
        reader.read_to_end(&mut content).unwrap();
        archive.insert(name, (entry.mode(), entry.uid(), content));
        rest = reader.finish().unwrap();
    }
}

#[test]
fn a_script_has_its_interpreter_and_that_its_libraries() {
    let (_dir, here) = here();
    fs::write(here.join("run.sh"), "#!/bin/sh\necho\n").unwrap();
    fs::set_permissions(here.join("run.sh"), PermissionsExt::from_mode(0o6755)).unwrap();
    let archive = entries(&packed(&program(&["./run.sh", "word"]), &here).unwrap());
    let has = |name: &str| archive.keys().any(|known| known.ends_with(name));
    for name in ["/work/run.sh", "/dash", "/libc.so.6", "/ld-linux-x86-64.so.2", "/ktax-mark"] {
        assert!(has(name), "{name}: {:?}", archive.keys());
    }
    let (mode, owner, _) = archive["program/0/root/work/run.sh"];
    assert_eq!((mode, owner), (0o100_755, 0));
    let words = "/work/./run.sh\0./run.sh\0word\0";
    assert_eq!(String::from_utf8_lossy(&archive["program/0/words"].2), words);
}

#[test]
fn the_guests_clock_starts_after_the_newest_file() {
    let (_dir, here) = here();
    fs::write(here.join("own"), "own").unwrap();
    let newest = std::time::UNIX_EPOCH + std::time::Duration::from_secs(4_000_000_000);
    fs::File::options().write(true).open(here.join("own")).unwrap().set_modified(newest).unwrap();
    let archive = entries(&packed(&program(&["cat", "own"]), &here).unwrap());
    assert_eq!(archive["program/0/clock"].2, b"4000000001\0");
}

#[test]
fn programs_of_shell_scripts_and_hooks_are_packed() {
    let (_dir, here) = here();
    fs::write(here.join("data.txt"), "data").unwrap();
    fs::write(here.join("more.sh"), "wc -l < data.txt\nno-such-program\n").unwrap();
    let asked = UserProgram {
        setup: Some("sort data.txt > sorted".into()),
        prepare: Some("sh more.sh".into()),
        ..program(&["sh", "-c", "head -n 1 data.txt; exec tail /dev/null"])
    };
    let archive = entries(&packed(&asked, &here).unwrap());
    let has = |name: &str| archive.keys().any(|known| known.ends_with(name));
    for name in ["bin/sort", "bin/wc", "bin/head", "bin/tail", "work/data.txt", "work/more.sh"] {
        assert!(has(name), "{name}: {:?}", archive.keys());
    }
    let words = String::from_utf8_lossy(&archive["program/0/setup"].2);
    assert_eq!(words, "/bin/sh\0sh\0-ec\0sort data.txt > sorted\0");
}

#[test]
fn programs_share_unchanged_files() {
    let (dir, here) = here();
    fs::write(here.join("own"), "own").unwrap();
    let programs = [program(&["cat", "own"]), program(&["cat", "own"])];
    let cache = dir.path().join("cache");
    let both = pack(&contents(&programs), &here, 256 * MIB, &cache).unwrap();
    let first = pack(&contents(&programs[..1]), &here, 256 * MIB, &cache).unwrap();
    let bytes = |packed: &PackedPrograms| fs::metadata(&packed.archive).unwrap().len();
    assert!(
        bytes(&both) < bytes(&first) + bytes(&first) / 10,
        "{} {}",
        bytes(&both),
        bytes(&first)
    );
    let archive = entries(&both);
    let content = |number: u32, name: &str| {
        let wanted = format!("program/{number}/root/work/{name}");
        archive[wanted.as_str()].2.clone()
    };
    assert_eq!(content(0, "own"), content(1, "own"));
}

#[test]
fn files_that_cannot_be_on_the_disk_are_refused_before_a_boot() {
    let (dir, here) = here();
    fs::File::create(here.join("half")).unwrap().set_len(9 * MIB).unwrap();
    let (fs, options, device) = ("ext4".to_owned(), String::new(), BlockDevice::Brd);
    let disk = Disk { fs, mib: 16, options, mkfs: String::new(), device, latency_us: 0 };
    let (mkfs, cat) = (program(&["true"]), program(&["cat", "half"]));
    let packed = |programs: &[UserProgram], disk| {
        let contents = ArchiveContents { disk, ..contents(programs) };
        pack(&contents, &here, 256 * MIB, &dir.path().join("cache"))
    };
    let disk = Some((disk, Some(mkfs)));
    packed(std::slice::from_ref(&cat), disk.clone()).unwrap();
    let both = [cat.clone(), cat];
    packed(&both, None).unwrap();
    assert_has(packed(&both, disk).unwrap_err().to_string(), "the files below /work exceed 16 MiB");
}

#[test]
fn arguments_files_and_a_root_are_where_the_program_looks_for_them() {
    let (_dir, here) = here();
    fs::create_dir_all(here.join("repo/sub")).unwrap();
    fs::write(here.join("repo/sub/file"), "in repo").unwrap();
    // Not below a /work of this machine: there it would be one of the user's files.
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("outside"), "outside").unwrap();
    fs::create_dir_all(here.join("root/etc")).unwrap();
    fs::write(here.join("root/etc/own"), "own").unwrap();
    let outside = elsewhere.path().join("outside").display().to_string();
    let asked = UserProgram {
        files: vec![format!("{outside}:below/it")],
        root: Some("root".into()),
        env: vec!["LANG=de".into(), "OWN=a=b".into()],
        user: 7,
        ..program(&["sh", "-C", "repo", &outside, "/dev/null", "nothing"])
    };
    let archive = entries(&packed(&asked, &here).unwrap());
    let content = |name: &str| {
        let (_, owner, content) = &archive[&format!("program/0/root{name}")];
        (*owner, String::from_utf8_lossy(content).into_owned())
    };
    assert_eq!(content("/work/repo/sub/file"), (7, "in repo".into()));
    assert_eq!(content("/work/below/it"), (7, "outside".into()));
    assert_eq!(content(&outside), (0, "outside".into()));
    assert_eq!(content("/etc/own"), (0, "own".into()));
    assert!(!archive.contains_key("program/0/root/dev/null"));
    let env = String::from_utf8_lossy(&archive["program/0/env"].2).into_owned();
    assert!(env.contains("LANG=de\0OWN=a=b\0") && !env.contains("LANG=C"), "{env}");
}

#[test]
fn named_files_do_not_replace_files_of_a_root() {
    let (_dir, here) = here();
    fs::create_dir_all(here.join("root/etc")).unwrap();
    fs::create_dir_all(here.join("root/work")).unwrap();
    symlink("/etc/passwd", here.join("root/etc/passwd")).unwrap();
    fs::write(here.join("root/work/file"), "of the root").unwrap();
    fs::write(here.join("file"), "of this machine").unwrap();
    let text = "cat /etc/passwd file; cat /etc/group";
    for named in [&["sh", "-c", text][..], &["cat", "/etc/passwd", "file", "/etc/group"]] {
        let asked = UserProgram { root: Some("root".into()), ..program(named) };
        let archive = entries(&packed(&asked, &here).unwrap());
        let content = |name: &str| archive[&format!("program/0/root{name}")].2.clone();
        assert_eq!(content("/etc/passwd"), b"/etc/passwd", "{named:?}");
        assert_eq!(content("/work/file"), b"of the root", "{named:?}");
        assert_eq!(content("/etc/group"), fs::read("/etc/group").unwrap(), "{named:?}");
    }
    // The root may also be the directory in which the program starts.
    let asked = UserProgram { root: Some("root".into()), ..program(&["ls", "."]) };
    let archive = entries(&packed(&asked, &here).unwrap());
    assert!(archive.contains_key("program/0/root/work/root/etc/passwd"), "{:?}", archive.keys());
}

/// An archive's file in the root directory of the first program.
fn content(archive: &BTreeMap<String, (u32, u32, Vec<u8>)>, path: &str) -> String {
    let (_, _, content) = archive.get(&format!("program/0/root{path}")).expect(path);
    String::from_utf8_lossy(content).into_owned()
}

#[test]
fn a_file_may_replace_any_of_the_guest_and_users_are_there_without_one() {
    let (_dir, here) = here();
    let usual = UserProgram { user: 7, ..program(&["cat"]) };
    let archive = entries(&packed(&usual, &here).unwrap());
    let users = content(&archive, "/etc/passwd");
    for user in ["root:x:0:", "user:x:7:7:", "nobody:x:65534:"] {
        assert!(users.contains(user), "{user}: {users}");
    }
    assert!(content(&archive, "/etc/group").contains("nogroup:x:65534:"));
    fs::write(here.join("own"), "own:x:7:7::/:/bin/sh\n").unwrap();
    let asked = UserProgram { files: vec!["own:/etc/passwd".into()], ..usual };
    let archive = entries(&packed(&asked, &here).unwrap());
    assert_eq!(content(&archive, "/etc/passwd"), "own:x:7:7::/:/bin/sh\n");
    assert_eq!(archive["program/0/root/etc/passwd"].1, 0);
}

#[test]
fn paths_outside_the_working_directory_stay_in_the_guest() {
    let (_dir, here) = here();
    fs::create_dir_all(here.join("root")).unwrap();
    symlink("../../../..", here.join("root/out")).unwrap();
    fs::write(here.join("data"), "data").unwrap();
    let files = vec!["data:/out/etc/data".into()];
    let asked = UserProgram { files, root: Some("root".into()), ..program(&["cat"]) };
    let archive = entries(&packed(&asked, &here).unwrap());
    assert_eq!(content(&archive, "/etc/data"), "data");
    assert!(archive.keys().all(|name| !name.contains("..")), "{:?}", archive.keys());
}

#[test]
fn libraries_are_found_next_to_the_target_of_a_link() {
    let (_dir, here) = here();
    for path in ["home/bin", "home/lib", "links"] {
        fs::create_dir_all(here.join(path)).unwrap();
    }
    let gcc = |args: &[&str], source: &str| {
        fs::write(here.join("source.c"), source).unwrap();
        let mut gcc = Command::new("gcc");
        assert!(gcc.current_dir(&here).args(args).arg("source.c").status().unwrap().success());
    };
    gcc(&["-shared", "-fPIC", "-o", "home/lib/libown.so"], "int own(void) { return 0; }");
    let linked = ["-o", "home/bin/program", "-Lhome/lib", "-Wl,--no-as-needed,-l:libown.so"];
    let run_path = ["-Wl,-rpath,$ORIGIN/../lib"];
    gcc(&[&linked[..], &run_path].concat(), "int main(void) { return 0; }");
    symlink("../home/bin/program", here.join("links/program")).unwrap();
    let link = here.join("links/program").display().to_string();
    let archive = entries(&packed(&program(&[&link]), &here).unwrap());
    assert!(
        archive.keys().any(|name| name.ends_with("home/lib/libown.so")),
        "{:?}",
        archive.keys()
    );
}

#[test]
fn java_and_perl_are_packed_with_the_files_that_they_need() {
    let (_dir, here) = here();
    // Laid out like a Java installation, a part of which is elsewhere.
    for path in ["java/bin", "java/lib/server", "java/conf", "etc"] {
        fs::create_dir_all(here.join(path)).unwrap();
    }
    for path in ["java/lib/modules", "java/lib/ct.sym", "java/conf/logging", "etc/jvm.cfg"] {
        fs::write(here.join(path), path).unwrap();
    }
    fs::copy("/bin/sh", here.join("java/bin/java")).unwrap();
    fs::copy("/bin/sh", here.join("java/lib/server/libjvm.so")).unwrap();
    symlink("../../etc/jvm.cfg", here.join("java/lib/jvm.cfg")).unwrap();
    symlink("java/bin/java", here.join("link")).unwrap();
    let link = here.join("link").display().to_string();
    let archive = entries(&packed(&program(&[&link]), &here).unwrap());
    let has = |name: &str| archive.keys().any(|known| known.ends_with(name));
    for name in ["server/libjvm.so", "lib/modules", "lib/jvm.cfg", "etc/jvm.cfg", "conf/logging"] {
        assert!(has(name), "{name}: {:?}", archive.keys());
    }
    assert!(!has("lib/ct.sym"));
    if Path::new("/usr/lib/x86_64-linux-gnu/perl-base/strict.pm").is_file() {
        let archive = entries(&packed(&program(&["/usr/bin/perl"]), &here).unwrap());
        assert!(archive.keys().any(|name| name.ends_with("/perl-base/strict.pm")));
    }
}

#[test]
fn files_that_were_traced_are_packed_without_a_second_run() {
    let (_dir, here) = here();
    fs::create_dir_all(here.join("listed")).unwrap();
    fs::write(here.join("listed/other"), "other").unwrap();
    fs::write(here.join("data"), "data").unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("file"), "outside").unwrap();
    let outside = elsewhere.path().join("file").display().to_string();
    let traced = vec!["data".into(), "listed".into(), outside.clone()];
    let asked = UserProgram { trace_files: true, traced, ..program(&["cat"]) };
    let archive = entries(&packed(&asked, &here).unwrap());
    assert_eq!(content(&archive, "/work/data"), "data");
    assert_eq!(content(&archive, &outside), "outside");
    assert!(archive.contains_key("program/0/root/work/listed"));
    assert!(!archive.contains_key("program/0/root/work/listed/other"));
}

#[test]
fn a_program_is_packed_alone_and_with_shared_files() {
    let (dir, here) = here();
    fs::File::create(here.join("half")).unwrap().set_len(9 * MIB).unwrap();
    let cache = dir.path().join("cache");
    let (cat, ls) = (program(&["cat", "half"]), program(&["ls"]));
    let alone = |program: &UserProgram, beside, disk: Option<&Disk>| {
        pack_single(program, (beside, disk), &here, 32 * MIB, &cache)
    };
    let archive = entries(&alone(&ls, 0, None).unwrap());
    assert!(archive.contains_key("program/0/words") && !archive.contains_key("program/1"));
    assert!(!archive.keys().any(|name| name.ends_with("/work/half")));
    let beside = alone(&cat, 24 * MIB, None).unwrap_err().to_string();
    assert!(beside.contains("the files of the program exceed 32 MiB"), "{beside}");
    let (fs, options, device) = ("ext4".to_owned(), String::new(), BlockDevice::Brd);
    let disk = Disk { fs, mib: 8, options, mkfs: String::new(), device, latency_us: 0 };
    let small = alone(&cat, 0, Some(&disk)).unwrap_err().to_string();
    assert!(small.contains("the files below /work exceed 8 MiB"), "{small}");
}

#[test]
fn pipes_are_refused_and_not_read() {
    let (_dir, here) = here();
    let (pipe, cat) = (Some("pipe".to_owned()), program(&["cat"]));
    mknodat(CWD, here.join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let stdin = UserProgram { stdin: pipe.clone(), ..cat.clone() };
    let root = UserProgram { root: pipe, ..cat };
    for asked in [stdin, root] {
        let refused = packed(&asked, &here).unwrap_err();
        assert!(refused.message().ends_with(" is not a regular file"), "{refused}");
    }
}

#[test]
fn a_python_has_its_modules() {
    let (_dir, here) = here();
    // Laid out like a Python installation.
    fs::create_dir_all(here.join("bin")).unwrap();
    fs::create_dir_all(here.join("lib/python3.99/json")).unwrap();
    fs::write(here.join("lib/python3.99/json/tool.py"), "pass").unwrap();
    fs::copy("/bin/sh", here.join("bin/python3.99")).unwrap();
    symlink("python3.99", here.join("bin/python3")).unwrap();
    let python = here.join("bin/python3").display().to_string();
    let archive = entries(&packed(&program(&[&python]), &here).unwrap());
    assert!(archive.keys().any(|name| name.ends_with("/lib/python3.99/json/tool.py")));
    let link = archive.iter().find(|(name, _)| name.ends_with("/bin/python3")).unwrap().1;
    assert_eq!((link.0, link.2.as_slice()), (0o120_777, b"python3.99".as_slice()));
}

#[test]
fn a_program_that_only_this_users_path_has_is_found_by_its_name() {
    let (_dir, here) = here();
    let manager = here.join("manager");
    for path in ["shims", "versions/1/bin"] {
        fs::create_dir_all(manager.join(path)).unwrap();
    }
    let (shim, real) = (manager.join("shims/own-tool"), manager.join("versions/1/bin/own-tool"));
    for (path, text) in [(&shim, "#!/bin/sh\npyenv exec own-tool\n"), (&real, "#!/bin/sh\n")] {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    fs::write(manager.join("version"), "1\n").unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", manager.join("shims").display());
    for command in [&["own-tool"][..], &["sh", "-c", "own-tool"]] {
        let plan = counts_plan(
            &run(ktax()
                .current_dir(&here)
                .env("PATH", &path)
                .args(["plan", "--same", "--kernel", KERNEL, "--layouts", "1", "--"])
                .args(command))
            .exits(0)
            .stdout,
        );
        let packed = open_packed(&plan.key.programs, &cache()).unwrap();
        let archive = entries(&packed);
        let link = &archive["program/0/root/usr/local/bin/own-tool"].2;
        assert_eq!(*link, real.display().to_string().into_bytes(), "{command:?}");
        assert!(!archive.keys().any(|name| name.contains("shims")), "{:?}", archive.keys());
    }
}

#[test]
fn files_of_a_directory_stay_inside_the_guest_and_are_harmless() {
    let (_dir, here) = here();
    let tree = here.join("tree");
    fs::create_dir(&tree).unwrap();
    symlink("/etc/shadow", tree.join("out")).unwrap();
    symlink(".", tree.join("loop")).unwrap();
    fs::write(tree.join("two\nlines\u{1b}[2J"), "x").unwrap();
    let _socket = UnixListener::bind(tree.join("socket")).unwrap();
    let before = fs::read_dir(&tree).unwrap().count();
    let archive = entries(&packed(&program(&["sh", "tree"]), &here).unwrap());
    let entry = |name: &str| &archive[&format!("program/0/root/work/tree/{name}")];
    assert_eq!(entry("out").2, b"/etc/shadow");
    assert_eq!(entry("two\nlines\u{1b}[2J").2, b"x");
    assert!(!archive.keys().any(|name| name.ends_with("/socket") || name.contains("loop/")));
    assert_eq!(fs::read_dir(&tree).unwrap().count(), before);
    // Sizes are those that the files claim to have.
    fs::File::create(tree.join("sparse")).unwrap().set_len(1 << 40).unwrap();
    let refused = packed(&program(&["sh", "tree"]), &here).unwrap_err();
    assert!(refused.message().contains("the files of the program exceed 256 MiB"), "{refused}");
}

#[test]
fn the_same_files_are_the_same_bytes_and_a_damaged_archive_is_packed_again() {
    let (dir, here) = here();
    fs::write(here.join("data"), "one").unwrap();
    let asked = program(&["sh", "data"]);
    let first = packed(&asked, &here).unwrap();
    assert_eq!(packed(&asked, &here).unwrap().sha256, first.sha256);
    let other =
        pack(&contents(std::slice::from_ref(&asked)), &here, 64 * MIB, &dir.path().join("other"))
            .unwrap();
    assert_eq!(other.sha256, first.sha256);
    assert_eq!(fs::read(&other.symbols).unwrap(), fs::read(&first.symbols).unwrap());
    fs::write(&first.archive, "damaged").unwrap();
    let cache = here.join("../cache");
    assert!(open_packed(&first.sha256, &cache).is_none());
    drop(packed(&asked, &here).unwrap());
    assert!(open_packed(&first.sha256, &cache).is_some());
    fs::write(here.join("data"), "two").unwrap();
    assert_ne!(packed(&asked, &here).unwrap().sha256, first.sha256);
}

#[test]
fn named_links_are_followed_and_wrappers_bring_their_program() {
    let (_dir, here) = here();
    fs::write(here.join("real"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(here.join("real"), PermissionsExt::from_mode(0o755)).unwrap();
    symlink("real", here.join("link")).unwrap();
    let archive = entries(&packed(&program(&["./link", "link"]), &here).unwrap());
    let (mode, _, content) = &archive["program/0/root/work/link"];
    assert_eq!((mode & 0o170_777, content.as_slice()), (0o100_755, &b"#!/bin/sh\n"[..]));
    let wrapped = program(&["nice", "-n", "5", "env", "A=1", "./real"]);
    let archive = entries(&packed(&wrapped, &here).unwrap());
    let has = |name: &str| archive.keys().any(|known| known.ends_with(name));
    assert!(has("/bin/env") && has("work/real") && has("/dash"), "{:?}", archive.keys());
}

// Programs of the user's that are refused before anything boots, and what files they are rows of.

/// `ktax plan` of a program, which boots nothing.
fn refused(here: &Path, words: &[&str]) -> String {
    let ran = run(ktax()
        .current_dir(here)
        .args(["plan", "--same", "--kernel", "/nonexistent/kernel"])
        .args(words))
    .exits(2);
    ran.stderr
}

#[test]
fn missing_files_are_named_before_the_kernel_is_fetched() {
    let (_dir, here) = here();
    fs::write(here.join("text"), "no program").unwrap();
    fs::write(here.join("nested"), "#!nothing\n").unwrap();
    fs::write(here.join("damaged"), b"\x7fELF").unwrap();
    fs::File::create(here.join("large")).unwrap().set_len(8 << 20).unwrap();
    fs::create_dir(here.join("dir")).unwrap();
    fs::write(here.join("plain"), "echo\n").unwrap();
    fs::write(here.join("dos"), "#!/bin/sh\r\necho\r\n").unwrap();
    for name in ["nested", "damaged", "plain", "dos"] {
        fs::set_permissions(here.join(name), PermissionsExt::from_mode(0o755)).unwrap();
    }
    let file = tempfile::NamedTempFile::new_in("/tmp").unwrap();
    let below_tmp = file.path().to_str().unwrap();
    for (words, reason) in [
        (&["--", "no-such-program"][..], "no directory of PATH has a program"),
        (&["--", "./absent"], "cannot read"),
        (&["--", "./text"], "cannot be executed"),
        (&["--", "./nested"], "names no interpreter"),
        (&["--", "./damaged"], "is not a program for x86-64"),
        (&["--file", "absent", "--", "sh"], "cannot read"),
        (&["--file", "/dev/zero", "--", "sh"], "neither a file nor a directory"),
        (&["--file", "text:../text", "--", "sh"], "has no path in the guest"),
        (&["--stdin", "dir", "--", "sh"], "is not a regular file"),
        (&["--root", "/dev/zero", "--", "sh"], "is not a regular file"),
        (&["sh"], "write -- before it: -- sh"),
        (&["--env", "A", "--", "sh"], "is not NAME=VALUE"),
        (&["--", "sh", "../here"], "leads out of the current directory"),
        (&["--memory", "128", "--file", "large", "--", "sh"], "--memory"),
        (&["--name", "A b", "--", "sh"], "its name must consist"),
        (&["--ops", "0", "--", "sh"], "its ops must be"),
        (&["--ops", "2"], "write one after them: -- ./program"),
        (&["--", "./dir"], "is a directory"),
        (&["--disk", "ext4", "--", "sh", below_tmp], "where the disk is mounted"),
        (&["--", "./plain"], "neither an ELF file nor a script"),
        (&["--", "./dos"], "cannot read /bin/sh\\r"),
        (&["--", "."], "--name"),
        (&["./plain"], "write -- before it: -- ./plain"),
        (&["--"], "there is no program after --"),
        (&["--user", "root", "--", "sh"], "it takes a whole number"),
        (&["--number", "a=x", "--number", "a=y", "--", "sh"], "two numbers the name"),
        (&["-w", "program:bash", "--", "sh"], "choose one of program:sh"),
        (&["-w", "program:bash"], "because none is defined"),
        (&["--prepare", "true", "-w", "git-status"], "with rows that are not programs"),
    ] {
        let message = refused(&here, words);
        assert!(message.contains(reason), "{words:?}: {message}");
        assert!(!message.contains("/nonexistent/kernel"), "{message}");
    }
}

#[test]
fn a_traced_program_writes_nothing_and_its_files_are_in_the_plan() {
    if !may_mount() {
        return;
    }
    // Below a file system that the sandbox makes anew, beside the usual ones.
    let in_memory = tempfile::Builder::new().prefix("ktax-test-").tempdir_in("/dev/shm").unwrap();
    let below_tmp = tempfile::Builder::new().prefix("ktax-test-").tempdir_in("/tmp").unwrap();
    for dir in [scratch(), in_memory, below_tmp] {
        traces_and_writes_nothing(dir.path());
    }
}

fn traces_and_writes_nothing(dir: &Path) {
    let here = dir.join("here");
    fs::create_dir(&here).unwrap();
    fs::write(here.join("data.txt"), "text").unwrap();
    let text = "name=data; cat $name.txt > made; cat made; echo x > /etc/ktax-made; exit $1";
    fs::write(here.join("run"), format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(here.join("run"), PermissionsExt::from_mode(0o755)).unwrap();
    let before = fs::read_dir(&here).unwrap().count();
    let plan = |args: &[&str]| {
        let kernel = ["plan", "--same", "--kernel", KERNEL, "--layouts", "1", "--trace-files"];
        run(ktax().current_dir(&here).args(kernel).args(args))
    };
    let ran = plan(&["--", "./run", "0"]).exits(0);
    let traced = &crate::common::counts_plan(&ran.stdout).asked.guest.programs[0].traced;
    for name in ["data.txt", "run"] {
        assert!(traced.iter().any(|file| file == name), "{here:?}: {name}: {traced:?}");
    }
    assert!(!traced.iter().any(|file| file.contains("here")), "{traced:?}");
    assert!(!traced.iter().any(|file| file.ends_with("made")), "{traced:?}");
    assert!(!Path::new("/etc/ktax-made").exists());
    assert_eq!(fs::read_dir(&here).unwrap().count(), before);
    plan(&["--", "./run", "3"]).exits(2).says("its exit status is 3, expected 0");
}

#[test]
fn a_traced_program_changes_no_setting_and_needs_no_processes_of_its_own() {
    if !may_mount() {
        return;
    }
    let (_dir, here) = here();
    let text = "for file in /proc/sys/kernel/printk /sys/kernel/mm/transparent_hugepage/enabled; do
                    ! test -e $file || ! test -w $file || exit 4
                done; test -e /proc/self/stat";
    let words = ["plan", "--same", "--kernel", KERNEL, "--layouts", "1", "--trace-files"];
    let words: Vec<&str> = words.iter().copied().chain(["--", "sh", "-c", text]).collect();
    run(ktax().current_dir(&here).args(&words)).exits(0);
    // If a part of /proc is hidden, the kernel lets nobody mount another.
    let script = "mount --bind /dev/null /proc/meminfo && cd \"$1\" && shift && exec \"$@\"";
    let command = [here.to_str().unwrap(), env!("CARGO_BIN_EXE_ktax")];
    let command: Vec<&str> = command.into_iter().chain(words).collect();
    in_namespace(script, &command).exits(0);
}

#[test]
fn a_missing_library_is_named() {
    let (_dir, here) = here();
    // The C library's name in a copy of a program becomes that of one that nobody has.
    let mut bytes = fs::read("/bin/sh").unwrap();
    let offset = bytes.windows(10).position(|window| window == b"libc.so.6\0").unwrap();
    bytes[offset..offset + 9].copy_from_slice(b"libX.so.6");
    fs::write(here.join("program"), bytes).unwrap();
    fs::set_permissions(here.join("program"), PermissionsExt::from_mode(0o755)).unwrap();
    assert_has(refused(&here, &["--", "./program"]), "needs the library libX.so.6");
}

#[test]
fn a_program_is_a_row_of_an_experiment_file_and_of_no_campaign() {
    let (_dir, here) = here();
    let text = format!(
        "title = \"t\"\nsame = true\nlayouts = 1\nbase = {{ kernel = \"{KERNEL}\" }}\n\
         change = {{ kernel = \"{KERNEL}\" }}\n[[program]]\ncommand = [\"sh\", \"-c\", \"\"]\n\
         [[program]]\nname = \"other\"\ncommand = [\"sh\"]\nops = 5\n"
    );
    fs::write(here.join("e.toml"), &text).unwrap();
    let ran = run(ktax().current_dir(&here).args(["plan", "e.toml"])).exits(0);
    let plan = crate::common::counts_plan(&ran.stdout);
    let rows: Vec<&str> = plan.workloads.iter().map(|row| row.row.as_str()).collect();
    assert_eq!(rows, ["program:sh", "program:other"]);
    // An archive for each, in which it is the first program: other programs change nothing of it.
    assert_eq!(plan.asked.guest.programs.len(), 2);
    assert!(plan.workloads.iter().all(|row| row.params["number"] == 0), "{:?}", plan.workloads);
    let alone = text.split("[[program]]\nname").next().unwrap();
    fs::write(here.join("alone.toml"), alone).unwrap();
    let ran = run(ktax().current_dir(&here).args(["plan", "alone.toml"]));
    let alone = crate::common::counts_plan(&ran.stdout);
    assert_eq!(alone.key.programs.len(), 64);
    assert!(plan.key.programs.starts_with(&format!("{}+", alone.key.programs)));
    assert_eq!(plan.key_of(Side::Base, "program:sh"), alone.key);
    assert_ne!(plan.key_of(Side::Base, "program:other"), alone.key);
    let campaign =
        "title = \"t\"\nsubjects = [{ kernel = \"k\" }]\n[[program]]\ncommand = [\"sh\"]\n";
    fs::write(here.join("c.toml"), campaign).unwrap();
    let ran =
        run(ktax().current_dir(&here).args(["campaign", "plan", "c.toml", "--out", "c"])).exits(2);
    ran.says("remove programs");
}
