//! The guest programs that the build put into ktax, as files that can be run here.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use cpio::newc;
use ktax::engine::payload;
use ktax::model::Workload;

use super::common::scratch;

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

/// The arguments that say what an order would.
pub fn arguments(workload: &Workload) -> Vec<String> {
    let params = workload.params.iter().map(|(name, value)| format!("{name}={value}"));
    [workload.program.clone(), format!("ops={}", workload.ops)].into_iter().chain(params).collect()
}

/// Runs a workload in an empty directory, and looks at what it leaves there and among the processes.
pub fn run(workload: &Workload) -> Output {
    let dir = scratch();
    let mut command = guest();
    command.args(arguments(workload)).current_dir(dir.path());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let group = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(group_members(group), [0u32; 0], "{}: processes are left", workload.row);
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
    assert!(left.is_empty(), "{}: {left:?}", workload.row);
    output
}

/// The processes of a group: field 5 of stat, behind the name in parentheses.
fn group_members(group: u32) -> Vec<u32> {
    let of_group = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
        fields.split(' ').nth(2) == Some(&group.to_string())
    };
    let names = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).filter(of_group).collect()
}
