//! The initramfs of a KVM host (ktax, modules, files, and the order) and its first process, which
//! mounts file systems, loads KVM, runs the commands, writes their output to the second serial
//! port, and reboots. QEMU runs with `-no-reboot` or `-action reboot=shutdown`, so a reboot ends
//! the machine.
//!
//! Each frame on that port is a line of JSON with two lengths, then that many bytes of standard
//! output and standard error. The reader trusts none of them.

use std::borrow::Cow;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;

use object::LittleEndian;
use object::elf::{FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};
use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, finit_module, reboot};
use rustix::termios::{OptionalActions, tcdrain, tcgetattr, tcsetattr};
use serde::{Deserialize, Serialize};

use super::prepare_error;
use ktax_engine::payload::pack_initramfs;
use ktax_host::cache::Holder;
use ktax_host::disk::{sha256, unpack, write_atomically};
use ktax_host::text::{counted, escape_bytes};
use ktax_model::{Error, Failure, Result};

/// The second serial port.
const FRAMES: &str = "/dev/ttyS1";

// A command's output goes to files, because a pipe that nobody reads blocks when it is full.
const STDOUT: &str = "/tmp/stdout";
const STDERR: &str = "/tmp/stderr";

/// File systems and their mount points. Some kernels lack the last two.
const MOUNTS: [(&str, &str); 5] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("tracefs", "/sys/kernel/tracing"),
    ("debugfs", "/sys/kernel/debug"),
];
/// Number of mounts, from the first, without which no host can run.
const REQUIRED_MOUNTS: usize = 3;
/// Flag of finit_module (include/uapi/linux/module.h).
const MODULE_INIT_COMPRESSED_FILE: i32 = 4;

/// Runs the commands of a host, as its first process, and reboots, which ends the machine. If init
/// returns an error instead, the kernel panics, and the console shows the error.
pub fn main() -> Result<()> {
    if !rustix::process::getpid().is_init() {
        let message =
            "kvm-host-init only runs as the first process of a KVM host, which ktax itself boots";
        return Err(Error::host(message).next("run another command"));
    }
    mount_all()?;
    let mut frames = open_frames().map_err(init_error("open the second serial port"))?;
    let result = prepare_host(&mut frames).and_then(|order| {
        spin(order.phase);
        for command in &order.commands {
            let output = run_command(command);
            write_frame(&mut frames, &output).map_err(init_error("write a command's output"))?;
        }
        Ok(())
    });
    if let Err(error) = result {
        write_failure(&mut frames, &error.to_string()).map_err(init_error("report an error"))?;
    }
    wait_until_sent(&frames)?;
    reboot(RebootCommand::Restart).map_err(|error| init_error("reboot")(error.into()))
}

/// Makes an error of init itself, without a next step, which `ktax` outside adds.
fn init_error(action: impl Display) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::host(format!("cannot {action}: {error}"))
}

fn mount_all() -> Result<()> {
    for (number, (kind, directory)) in MOUNTS.into_iter().enumerate() {
        let mounted = mount(kind, directory, kind, MountFlags::empty(), None);
        match mounted {
            Err(error) if number < REQUIRED_MOUNTS => {
                return Err(init_error(format!("mount {directory}"))(error.into()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Opens the second serial port in raw mode.
fn open_frames() -> io::Result<File> {
    let frames = File::options().read(true).write(true).open(FRAMES)?;
    let mut mode = tcgetattr(&frames)?;
    mode.make_raw();
    tcsetattr(&frames, OptionalActions::Now, &mode)?;
    Ok(frames)
}

/// Waits until the serial port has sent all bytes.
fn wait_until_sent(frames: &File) -> Result<()> {
    tcdrain(frames).map_err(|error| init_error("wait for the serial port")(error.into()))
}

/// Loads the modules and returns the order. If the initramfs has none, the host freezes first and
/// reads the order after it is resumed.
fn prepare_host(frames: &mut File) -> Result<HostOrder> {
    let entries = fs::read_dir(MODULES_DIR).map_err(init_error("list the modules"))?;
    let mut modules: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    modules.sort();
    for module in modules {
        load_module(&module).map_err(init_error(format!("load module {}", module.display())))?;
    }
    fs::metadata("/dev/kvm").map_err(init_error("find /dev/kvm"))?;
    let order = match fs::read(ORDER_FILE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => freeze(frames),
        read => read.map_err(init_error("read the order")),
    }?;
    serde_json::from_slice(&order).map_err(|error| init_error("read the order")(error.into()))
}

/// Waits until the kernel is idle, and writes a frame with the tasks that are still busy after a
/// while. Then freezes the machine. Returns the order that QEMU passes to the
/// resumed copy.
fn freeze(frames: &mut File) -> Result<Vec<u8>> {
    let busy = run_command(&[FREEZE_COMMAND.to_owned(), "quiet".to_owned()]);
    write_frame(frames, &busy).map_err(init_error("report the busy tasks"))?;
    wait_until_sent(frames)?;
    let CommandOutput { status, stdout, stderr } = run_command(&[FREEZE_COMMAND.to_owned()]);
    match status {
        0 => Ok(stdout),
        _ => {
            let message = String::from_utf8_lossy(&stderr).trim_end().to_owned();
            Err(init_error("freeze the machine")(io::Error::other(message)))
        }
    }
}

/// Runs an empty loop, whose time depends only on the number of iterations.
fn spin(iterations: u64) {
    let mut left = iterations;
    while left > 0 {
        left = std::hint::black_box(left - 1);
    }
}

fn load_module(module: &Path) -> io::Result<()> {
    const ELF: &[u8] = b"\x7fELF";
    let mut file = File::open(module)?;
    let mut magic = [0; ELF.len()];
    file.read_exact(&mut magic)?;
    let flags = if magic == ELF { 0 } else { MODULE_INIT_COMPRESSED_FILE };
    Ok(finit_module(&file, c"", flags)?)
}

/// Runs a command to its end and returns its output; status 127 if it cannot be executed.
fn run_command(command: &[String]) -> CommandOutput {
    let output = execute(command).and_then(|status| {
        Ok(CommandOutput {
            status: exit_code(status),
            stdout: fs::read(STDOUT)?,
            stderr: fs::read(STDERR)?,
        })
    });
    // A shell has the same status for a program that it cannot execute.
    output.unwrap_or_else(|error| {
        let name = command.first().map_or("", String::as_str);
        CommandOutput {
            status: 127,
            stdout: Vec::new(),
            stderr: format!("{name}: {error}\n").into(),
        }
    })
}

fn execute(command: &[String]) -> io::Result<ExitStatus> {
    let (program, args) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    Command::new(program)
        .args(args)
        .env("PATH", "/")
        .stdin(Stdio::null())
        .stdout(File::create(STDOUT)?)
        .stderr(File::create(STDERR)?)
        .process_group(0)
        .status()
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// Maximum size of a frame's header, in bytes.
const MAX_HEADER_BYTES: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// Exit status; 128 plus the signal's number for a killed command, as in a shell.
    pub status: u8,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// Header of a frame: one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum FrameHeader {
    /// Status of a command, and the lengths of its stdout and stderr, which follow.
    Ran { status: u8, stdout: usize, stderr: usize },
    /// Init cannot continue.
    Failed { reason: String },
}

pub(super) fn write_frame(out: &mut impl Write, output: &CommandOutput) -> io::Result<()> {
    let (stdout, stderr) = (output.stdout.len(), output.stderr.len());
    let header = FrameHeader::Ran { status: output.status, stdout, stderr };
    out.write_all(&header_line(&header)?)?;
    out.write_all(&output.stdout)?;
    out.write_all(&output.stderr)
}

pub(super) fn write_failure(out: &mut impl Write, reason: &str) -> io::Result<()> {
    // A reason in JSON escapes takes up to 12 bytes a character, so the header stays below its
    // limit.
    let reason = reason.chars().take(MAX_HEADER_BYTES / 16).collect();
    out.write_all(&header_line(&FrameHeader::Failed { reason })?)
}

fn header_line(header: &FrameHeader) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(header)?;
    line.push(b'\n');
    Ok(line)
}

/// Parses the frames of exactly `commands` commands.
pub(super) fn parse_frames(
    mut bytes: &[u8],
    commands: usize,
) -> Result<Vec<CommandOutput>, Failure> {
    let garbled = |reason: String| Failure::Garbled { reason };
    let mut outputs = Vec::new();
    while !bytes.is_empty() {
        let end = bytes.iter().take(MAX_HEADER_BYTES).position(|byte| *byte == b'\n');
        let end = end.ok_or_else(|| garbled("a line has no end".into()))?;
        let header = serde_json::from_slice(&bytes[..end]).map_err(|error| {
            garbled(format!("`{}`: {error}", ktax_engine::wire::tail(&bytes[..end])))
        })?;
        bytes = &bytes[end + 1..];
        let (status, stdout, stderr) = match header {
            FrameHeader::Ran { status, stdout, stderr } => (status, stdout, stderr),
            FrameHeader::Failed { reason } => {
                let reason = escape_bytes(reason.as_bytes());
                let message = format!("the KVM host cannot be used: {reason}");
                return Err(Failure::Refused { message });
            }
        };
        let mut take = |length| {
            let (taken, rest) = bytes.split_at_checked(length)?;
            bytes = rest;
            Some(taken.to_vec())
        };
        let (Some(stdout), Some(stderr)) = (take(stdout), take(stderr)) else {
            return Err(garbled("it ends within the output of a command".into()));
        };
        outputs.push(CommandOutput { status, stdout, stderr });
    }
    match outputs.len() == commands {
        true => Ok(outputs),
        false => {
            Err(garbled(format!("{} of {} answered", outputs.len(), counted(commands, "command"))))
        }
    }
}

/// The work of a host's init.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostOrder {
    /// Iterations of an empty loop before the first command, which shift the commands against the
    /// timer's ticks.
    pub phase: u64,
    /// Programs with their arguments, which init runs in sequence.
    pub commands: Vec<Vec<String>>,
}

impl HostOrder {
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and strings are valid JSON")
    }
}

// The initramfs.

/// A file that commands find at `/files/NAME`.
#[derive(Debug, Clone)]
pub struct HostFile {
    pub name: String,
    pub content: Vec<u8>,
}

/// Maximum size of all files, in bytes. While the host unpacks the initramfs, its memory has each
/// file twice, and a tmpfs may use only half of the memory.
pub const HOST_FILES_MAX: u64 = 256 << 20;

/// File with init's order. An initramfs without this file makes init freeze and read the order from
/// QEMU.
const ORDER_FILE: &str = "/order.json";
/// Program with which init freezes the machine and reads the order: `guest/vm/freeze.c`.
const FREEZE_COMMAND: &str = "/freeze";
static FREEZE_PROGRAM: &[u8] = include_bytes!(env!("KTAX_FREEZE_Z"));

/// Path of the freezing program in the build directory, for tests that execute it on this machine.
#[doc(hidden)]
pub const FREEZE_PROGRAM_PATH: &str = env!("KTAX_FREEZE");

/// Directory of the modules, which init loads in alphabetical order.
const MODULES_DIR: &str = "/modules";

const DIRECTORIES: [&str; 6] = ["dev", "files", "modules", "proc", "sys", "tmp"];

/// Builds the initramfs; equal inputs give equal bytes. A host without an order freezes after its
/// boot.
pub(super) fn build_initramfs(
    program: &Path,
    modules: &[PathBuf],
    order: Option<&HostOrder>,
    files: &[HostFile],
) -> Result<Vec<u8>> {
    let mut members: Vec<(String, Cow<[u8]>)> =
        vec![("/ktax".into(), read_program(program)?.into())];
    for (number, path) in modules.iter().enumerate() {
        let module = fs::read(path).map_err(prepare_error(path))?;
        members.push((format!("{MODULES_DIR}/{number:02}"), module.into()));
    }
    for file in files {
        members.push((format!("/files/{}", file.name), file.content.as_slice().into()));
    }
    members.push(match order {
        Some(order) => (ORDER_FILE.into(), order.to_json().into()),
        None => (FREEZE_COMMAND.into(), unpack(FREEZE_PROGRAM).into()),
    });
    let members = members.iter().map(|(path, content)| (&path[1..], &**content));
    pack_initramfs(DIRECTORIES, members).map_err(prepare_error(Path::new("the archive")))
}

/// Path of this process's own program, which stays valid if the file is replaced.
pub const THIS_PROGRAM: &str = "/proc/self/exe";
/// Offsets of the field e_shoff in a 64-bit ELF header.
const E_SHOFF: std::ops::Range<usize> = 0x28..0x30;
/// Offsets of the fields e_shnum and e_shstrndx in a 64-bit ELF header.
const E_SHNUM_AND_E_SHSTRNDX: std::ops::Range<usize> = 0x3c..0x40;

/// Reads a statically linked program, without its sections. The host has no libraries.
fn read_program(path: &Path) -> Result<Vec<u8>> {
    let program = fs::read(path).map_err(prepare_error(path))?;
    check_static(&program).map_err(|reason| {
        Error::host(format!("the KVM host cannot run {}: {reason}", path.display()))
            .next("use a statically linked ktax")
    })?;
    Ok(strip_sections(program))
}

/// Checks that a program needs no dynamic loader.
fn check_static(program: &[u8]) -> Result<(), &'static str> {
    let elf =
        FileHeader64::<LittleEndian>::parse(program).map_err(|_| "it is not a 64-bit ELF file")?;
    let segments =
        elf.program_headers(LittleEndian, program).map_err(|_| "it has no program headers")?;
    match segments.iter().any(|segment| segment.p_type(LittleEndian) == PT_INTERP) {
        true => Err("it is linked dynamically"),
        false => Ok(()),
    }
}

/// Truncates a program after its last segment. The sections after it are mostly debug information.
fn strip_sections(mut file: Vec<u8>) -> Vec<u8> {
    let end = FileHeader64::<LittleEndian>::parse(file.as_slice()).ok().and_then(|elf| {
        let segments = elf.program_headers(LittleEndian, file.as_slice()).ok()?;
        let end = |segment: &object::elf::ProgramHeader64<LittleEndian>| {
            let (start, length) = segment.file_range(LittleEndian);
            start.checked_add(length)
        };
        usize::try_from(segments.iter().filter_map(end).max()?).ok()
    });
    match end.filter(|end| (E_SHNUM_AND_E_SHSTRNDX.end..file.len()).contains(end)) {
        None => file,
        Some(end) => {
            file.truncate(end);
            file[E_SHOFF].fill(0);
            file[E_SHNUM_AND_E_SHSTRNDX].fill(0);
            file
        }
    }
}

/// An initramfs in the cache, which is not cleaned up until the last clone is dropped.
#[derive(Debug, Clone)]
pub(super) struct HostArchive {
    pub path: PathBuf,
    _holder: Arc<Holder>,
}

/// Stores an archive in the cache, under its hash.
pub(super) fn store_archive(cache: &Path, archive: &[u8]) -> Result<HostArchive> {
    store_file(cache, archive).map_err(prepare_error(Path::new("the cache")))
}

fn store_file(cache: &Path, archive: &[u8]) -> io::Result<HostArchive> {
    let dir = cache.join("hosts");
    fs::create_dir_all(&dir)?;
    let path = dir.join(format!("{}.cpio", sha256(archive)));
    loop {
        let holder = Holder::hold(&path)?;
        // A file whose content does not match its name is damaged, and is replaced.
        match holder.filter(|_| fs::read(&path).is_ok_and(|content| content == archive)) {
            Some(holder) => return Ok(HostArchive { path, _holder: Arc::new(holder) }),
            None => write_atomically(&path, archive)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ktax_host::cache::{Budget, clean};
    use proptest::prelude::*;

    #[test]
    fn main_refuses_to_run_in_other_processes() {
        let error = main().unwrap_err().to_string();
        assert!(error.contains("which ktax itself boots"), "{error}");
    }

    #[test]
    fn statuses_are_those_of_a_shell() {
        assert_eq!(exit_code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(exit_code(ExitStatus::from_raw(9)), 137);
    }

    fn command_output(stdout: &[u8], stderr: &[u8]) -> CommandOutput {
        CommandOutput { status: 3, stdout: stdout.to_vec(), stderr: stderr.to_vec() }
    }

    fn frames(outputs: &[CommandOutput]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for output in outputs {
            write_frame(&mut bytes, output).unwrap();
        }
        bytes
    }

    #[test]
    fn frames_hold_any_bytes() {
        let outputs = [
            command_output(b"", b""),
            command_output(b"\0\n\xff{}\r\n", b"\x1b["),
            command_output(b"x", b""),
        ];
        assert_eq!(parse_frames(&frames(&outputs), 3), Ok(outputs.to_vec()));
    }

    #[test]
    fn incomplete_frames_are_garbled() {
        let bytes = frames(&[command_output(b"abc", b"def")]);
        for (bytes, commands, expected) in [
            (&bytes[..], 2, "1 of 2 commands answered"),
            (&bytes[..bytes.len() - 1], 1, "it ends within the output of a command"),
            (&bytes[..9], 1, "a line has no end"),
            (b"", 1, "0 of 1 command answered"),
        ] {
            assert_eq!(
                parse_frames(bytes, commands),
                Err(Failure::Garbled { reason: expected.into() })
            );
        }
        assert!(matches!(parse_frames(b"hello\n", 1), Err(Failure::Garbled { .. })));
    }

    #[test]
    fn the_reason_of_init_is_escaped() {
        let mut bytes = Vec::new();
        write_failure(&mut bytes, "no \x1b[module").unwrap();
        let message = "the KVM host cannot be used: no \\x1b[module".to_owned();
        assert_eq!(parse_frames(&bytes, 1), Err(Failure::Refused { message }));
    }

    proptest! {
        #[test]
        fn any_bytes_are_frames_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_frames(&bytes, 1);
            let mut framed = frames(&[command_output(b"abc", b"")]);
            framed.extend(bytes);
            let _ = parse_frames(&framed, 1);
        }
    }

    #[test]
    fn a_program_without_its_sections_still_runs() {
        let program = fs::read(THIS_PROGRAM).unwrap();
        let cut = strip_sections(program.clone());
        assert!(cut.len() < program.len());
        let dir = tempfile::tempdir().unwrap();
        let [written, path] = ["written", "program"].map(|name| dir.path().join(name));
        fs::write(&written, &cut).unwrap();
        // A file that is open for writing cannot be executed, and a child that another test starts
        // meanwhile has this process's descriptors for a moment. So another process writes the
        // file.
        let copied = std::process::Command::new("cp").args([&written, &path]).status();
        assert!(copied.unwrap().success());
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, mode).unwrap();
        let listed = std::process::Command::new(&path).args(["--list", "kvmhost"]).output();
        let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
        assert!(listed.contains("a_program_without_its_sections_still_runs"), "{listed}");
    }

    /// The test program itself is linked dynamically.
    #[test]
    fn a_program_that_needs_libraries_is_refused() {
        let error = read_program(Path::new(THIS_PROGRAM)).unwrap_err().to_string();
        let reason = ": it is linked dynamically; use a statically linked ktax";
        assert!(error.ends_with(reason), "{error}");
    }

    #[test]
    fn a_file_that_is_no_program_is_not_truncated() {
        for bytes in [&b""[..], b"#!/bin/sh\n", &[0x7f; 100]] {
            assert_eq!(strip_sections(bytes.to_vec()), bytes);
            assert!(check_static(bytes).is_err());
        }
    }

    #[test]
    fn an_archive_is_stored_once_and_kept_while_it_is_used() {
        let cache = tempfile::tempdir().unwrap();
        let archive = store_archive(cache.path(), b"one").unwrap();
        fs::write(&archive.path, "damaged").unwrap();
        assert_eq!(store_archive(cache.path(), b"one").unwrap().path, archive.path);
        assert_eq!(fs::read(&archive.path).unwrap(), b"one");
        let archive = store_archive(cache.path(), b"one").unwrap();
        let clean = || clean(cache.path(), Budget::Bytes(0), true).unwrap().unwrap();
        assert_eq!(clean().removed, []);
        let path = archive.path.clone();
        drop(archive);
        assert_eq!(clean().removed.len(), 1);
        assert!(!path.exists());
    }
}
