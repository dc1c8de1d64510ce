//! The guest programs that the build put into ktax, as files that can be run here.

use std::fs::{self, Permissions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use cpio::newc;
use ktax::engine::payload;
use ktax::model::Workload;
use ktax::wire::arguments;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::common::{scratch, until};

/// The directory with `init` and `hello`, from the very archive that guests boot.
pub fn programs() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guest");
        fs::create_dir_all(&dir).unwrap();
        let cache = scratch();
        let payload = payload::install(cache.path()).unwrap();
        let archive = fs::read(payload.initrd).unwrap();
        for (name, program) in [("init", "init"), ("bin/hello", "hello")] {
            put(&dir.join(program), &extract(&archive, name));
        }
        dir
    })
}

fn extract(mut archive: &[u8], name: &str) -> Vec<u8> {
    loop {
        let mut reader = newc::Reader::new(archive).unwrap();
        assert!(!reader.entry().is_trailer(), "no {name} in the initramfs");
        if reader.entry().name() == name {
            let mut content = Vec::new();
            reader.read_to_end(&mut content).unwrap();
            return content;
        }
        archive = reader.finish().unwrap();
    }
}

/// Whole and executable at once: another test process may be running the one that is there.
fn put(path: &Path, content: &[u8]) {
    if fs::read(path).is_ok_and(|found| found == content) {
        return;
    }
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap()).unwrap();
    file.write_all(content).unwrap();
    file.as_file().set_permissions(Permissions::from_mode(0o755)).unwrap();
    file.into_temp_path().persist(path).unwrap();
}

/// The guest as a plain process, in a process group of its own.
pub fn guest() -> Command {
    let mut command = Command::new(programs().join("init"));
    command.env("KTAX_HELLO", programs().join("hello")).process_group(0).stdin(Stdio::null());
    command
}

/// Runs a workload in an empty directory, and looks at what it leaves there and among the
/// processes.
pub fn run(workload: &Workload) -> Output {
    let (dir, temporary) = (scratch(), scratch());
    let mut said = [tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap()];
    let mut command = guest();
    command.args(arguments(workload)).current_dir(dir.path());
    command.env("TMPDIR", temporary.path());
    // Files: the end of a pipe would only come when every process that is left is gone.
    let [stdout, stderr] = said.each_ref().map(|file| file.try_clone().unwrap());
    let mut child = command.stdout(stdout).stderr(stderr).spawn().unwrap();
    let (group, status) = (Pid::from_child(&child), child.wait().unwrap());
    if !group_members(group).is_empty() {
        kill_process_group(group, Signal::KILL).unwrap();
        panic!("{}: processes are left", workload.row);
    }
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
    assert!(left.is_empty(), "{}: {left:?}", workload.row);
    assert_goes(temporary.path());
    let [stdout, stderr] = said.each_mut().map(|file| {
        let mut content = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut content).unwrap();
        content
    });
    Output { status, stdout, stderr }
}

/// A workload's directory is gone, or goes soon: its janitor may still be at it.
pub fn assert_goes(temporary: &Path) {
    until("the directory goes", || fs::read_dir(temporary).unwrap().next().is_none());
}

/// The processes of a group: field 5 of stat, behind the name in parentheses.
pub fn group_members(group: Pid) -> Vec<u32> {
    let group = group.as_raw_nonzero().to_string();
    let of_group = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
        fields.split(' ').nth(2) == Some(&group)
    };
    let names = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).filter(of_group).collect()
}
