//! Programs of the user's that are refused before anything boots, and what files they are rows of.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ktax::model::Side;

use crate::common::mounts::{in_namespace, may_mount};
use crate::common::{KERNEL, ktax, run, scratch};
use crate::programs::here;

/// `ktax plan` of a program, which boots nothing.
fn refused(here: &Path, words: &[&str]) -> String {
    let ran = run(ktax()
        .current_dir(here)
        .args(["plan", "--same", "--kernel", "/nonexistent/kernel"])
        .args(words));
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    ran.stderr
}

#[test]
fn what_is_missing_is_named_before_a_kernel_is_looked_for() {
    let dir = scratch();
    let here = here(dir.path());
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
        (&["--file", "text:../text", "--", "sh"], "has no place in the guest"),
        (&["--stdin", "dir", "--", "sh"], "is not a regular file"),
        (&["--root", "/dev/zero", "--", "sh"], "is not a regular file"),
        (&["sh"], "write -- before it: -- sh"),
        (&["--env", "A", "--", "sh"], "is not NAME=VALUE"),
        (&["--", "sh", "../here"], "leads out of the current directory"),
        (&["--memory", "128", "--file", "large", "--", "sh"], "--memory"),
        (&["--name", "A b", "--", "sh"], "its name must be"),
        (&["--ops", "0", "--", "sh"], "its ops must be"),
        (&["--ops", "2"], "write it behind them"),
        (&["--", "./dir"], "is a directory"),
        (&["--disk", "ext4", "--", "sh", below_tmp], "where the disk is mounted"),
        (&["--", "./plain"], "neither an ELF file nor a script"),
        (&["--", "./dos"], "cannot read /bin/sh\\r"),
        (&["--", "."], "--name"),
        (&["./plain"], "write -- before it: -- ./plain"),
        (&["--"], "there is no program behind --"),
        (&["--user", "root", "--", "sh"], "it takes a whole number"),
        (&["--number", "a=x", "--number", "a=y", "--", "sh"], "two numbers the name"),
        (&["-w", "program:bash", "--", "sh"], "choose of program:sh"),
        (&["-w", "program:bash"], "and none at all"),
        (&["--prepare", "true", "-w", "git-status"], "beside rows that are no programs"),
    ] {
        let said = refused(&here, words);
        assert!(said.contains(reason), "{words:?}: {said}");
        assert!(!said.contains("/nonexistent/kernel"), "{said}");
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
    let here = here(dir);
    fs::write(here.join("data.txt"), "text").unwrap();
    let text = "name=data; cat $name.txt > made; cat made; echo x > /etc/ktax-made; exit $1";
    fs::write(here.join("run"), format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(here.join("run"), PermissionsExt::from_mode(0o755)).unwrap();
    let before = fs::read_dir(&here).unwrap().count();
    let plan = |args: &[&str]| {
        let kernel = ["plan", "--same", "--kernel", KERNEL, "--layouts", "1", "--trace-files"];
        run(ktax().current_dir(&here).args(kernel).args(args))
    };
    let ran = plan(&["--", "./run", "0"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let traced = &crate::common::counts_plan(&ran.stdout).asked.guest.programs[0].traced;
    for name in ["data.txt", "run"] {
        assert!(traced.iter().any(|file| file == name), "{here:?}: {name}: {traced:?}");
    }
    assert!(!traced.iter().any(|file| file.contains("here")), "{traced:?}");
    assert!(!traced.iter().any(|file| file.ends_with("made")), "{traced:?}");
    assert!(!Path::new("/etc/ktax-made").exists());
    assert_eq!(fs::read_dir(&here).unwrap().count(), before);
    let ran = plan(&["--", "./run", "3"]);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("its exit status is 3, expected 0"), "{}", ran.stderr);
}

#[test]
fn a_traced_program_changes_no_setting_and_needs_no_processes_of_its_own() {
    if !may_mount() {
        return;
    }
    let dir = scratch();
    let here = here(dir.path());
    let text = "for file in /proc/sys/kernel/printk /sys/kernel/mm/transparent_hugepage/enabled; do
                    ! test -e $file || ! test -w $file || exit 4
                done; test -e /proc/self/stat";
    let words = ["plan", "--same", "--kernel", KERNEL, "--layouts", "1", "--trace-files"];
    let words: Vec<&str> = words.iter().copied().chain(["--", "sh", "-c", text]).collect();
    let ran = run(ktax().current_dir(&here).args(&words));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    // Where a part of /proc is hidden, the kernel lets nobody mount another.
    let script = "mount --bind /dev/null /proc/meminfo && cd \"$1\" && shift && exec \"$@\"";
    let command = [here.to_str().unwrap(), env!("CARGO_BIN_EXE_ktax")];
    let command: Vec<&str> = command.into_iter().chain(words).collect();
    let ran = in_namespace(script, &command);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
}

#[test]
fn a_missing_library_is_named() {
    let dir = scratch();
    let here = here(dir.path());
    // The C library's name in a copy of a program becomes that of one that nobody has.
    let mut bytes = fs::read("/bin/sh").unwrap();
    let at = bytes.windows(10).position(|window| window == b"libc.so.6\0").unwrap();
    bytes[at..at + 9].copy_from_slice(b"libX.so.6");
    fs::write(here.join("program"), bytes).unwrap();
    fs::set_permissions(here.join("program"), PermissionsExt::from_mode(0o755)).unwrap();
    let said = refused(&here, &["--", "./program"]);
    assert!(said.contains("needs the library libX.so.6"), "{said}");
}

#[test]
fn a_program_is_a_row_of_an_experiment_file_and_of_no_campaign() {
    let dir = scratch();
    let here = here(dir.path());
    let text = format!(
        "title = \"t\"\nsame = true\nlayouts = 1\nbase = {{ kernel = \"{KERNEL}\" }}\n\
         change = {{ kernel = \"{KERNEL}\" }}\n[[program]]\ncommand = [\"sh\", \"-c\", \"\"]\n\
         [[program]]\nname = \"other\"\ncommand = [\"sh\"]\nops = 5\n"
    );
    fs::write(here.join("e.toml"), &text).unwrap();
    let ran = run(ktax().current_dir(&here).args(["plan", "e.toml"]));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
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
    let ran = run(ktax().current_dir(&here).args(["campaign", "plan", "c.toml", "--out", "c"]));
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("remove programs"), "{}", ran.stderr);
}
