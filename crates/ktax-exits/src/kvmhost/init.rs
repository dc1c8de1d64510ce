//! The host's initramfs (a ktax, the modules, the given files, and the order), and the first
//! process in it. That mounts the file systems of a KVM host, loads KVM, runs the commands, writes
//! their output to the second serial port, and switches the machine off.
//!
//! The format of that port: one line of JSON for each command, then as many bytes as that line
//! says. The reader trusts none of it.

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

use super::unprepared;
use ktax_engine::payload::pack_initramfs;
use ktax_host::cache::Holder;
use ktax_host::disk::{sha256, unpack, write_atomically};
use ktax_host::text::{counted, escape_bytes};
use ktax_model::{Error, Failure, Result};

const FRAMES: &str = "/dev/ttyS1";
/// Files for a command's output while it runs, since a pipe could fill up.
const STDOUT: &str = "/tmp/stdout";
const STDERR: &str = "/tmp/stderr";

/// File systems and their mount points; not every kernel has the last two.
const MOUNTS: [(&str, &str); 5] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("tracefs", "/sys/kernel/tracing"),
    ("debugfs", "/sys/kernel/debug"),
];
const NEEDED: usize = 3;
/// Flag of finit_module (include/uapi/linux/module.h).
const MODULE_INIT_COMPRESSED_FILE: i32 = 4;

/// Runs the host from its first process to power-off. An init that returns makes the kernel panic,
/// so its caller sees the error.
pub fn main() -> Result<()> {
    if !rustix::process::getpid().is_init() {
        let message =
            "kvm-host-init only runs as the first process of a KVM host, which ktax itself boots";
        return Err(Error::host(message).next("remove it"));
    }
    mount_all()?;
    let mut frames = open_frames().map_err(failed("open the second serial port"))?;
    let done = prepare(&mut frames).and_then(|order| {
        spin(order.phase);
        for command in &order.commands {
            let output = run_command(command);
            write_frame(&mut frames, &output).map_err(failed("say what a command said"))?;
        }
        Ok(())
    });
    if let Err(error) = done {
        write_failure(&mut frames, &error.to_string()).map_err(failed("say so"))?;
    }
    drain(&frames)?;
    reboot(RebootCommand::Restart).map_err(|error| failed("go off")(error.into()))
}

/// Makes an error of init, not of a command; its caller adds the next step.
fn failed(action: impl Display) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::host(format!("cannot {action}: {error}"))
}

fn mount_all() -> Result<()> {
    for (number, (kind, directory)) in MOUNTS.into_iter().enumerate() {
        let mounted = mount(kind, directory, kind, MountFlags::empty(), None);
        match mounted {
            Err(error) if number < NEEDED => {
                return Err(failed(format!("mount {directory}"))(error.into()));
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

fn drain(frames: &File) -> Result<()> {
    tcdrain(frames).map_err(|error| failed("wait for the serial port")(error.into()))
}

fn prepare(frames: &mut File) -> Result<Order> {
    let entries = fs::read_dir(MODULES).map_err(failed("list the modules"))?;
    let mut modules: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    modules.sort();
    for module in modules {
        load(&module).map_err(failed(format!("load module {}", module.display())))?;
    }
    fs::metadata("/dev/kvm").map_err(failed("find /dev/kvm"))?;
    let order = match fs::read(ORDER) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => freeze(frames),
        read => read.map_err(failed("read the order")),
    }?;
    serde_json::from_slice(&order).map_err(|error| failed("read the order")(error.into()))
}

/// Waits until the kernel is idle, says which tasks still ran if it never is, and stops the machine
/// until QEMU goes on from this state. Returns the order that QEMU then has.
fn freeze(frames: &mut File) -> Result<Vec<u8>> {
    let busy = run_command(&[FREEZE.to_owned(), "quiet".to_owned()]);
    write_frame(frames, &busy).map_err(failed("say which tasks still run"))?;
    drain(frames)?;
    let CommandOutput { status, stdout, stderr } = run_command(&[FREEZE.to_owned()]);
    match status {
        0 => Ok(stdout),
        _ => {
            let message = String::from_utf8_lossy(&stderr).trim_end().to_owned();
            Err(failed("freeze the machine")(io::Error::other(message)))
        }
    }
}

/// Runs an empty loop, which takes the same time for the same number of iterations.
fn spin(iterations: u64) {
    let mut left = iterations;
    while left > 0 {
        left = std::hint::black_box(left - 1);
    }
}

fn load(module: &Path) -> io::Result<()> {
    const ELF: &[u8] = b"\x7fELF";
    let mut file = File::open(module)?;
    let mut magic = [0; ELF.len()];
    file.read_exact(&mut magic)?;
    let flags = if magic == ELF { 0 } else { MODULE_INIT_COMPRESSED_FILE };
    Ok(finit_module(&file, c"", flags)?)
}

fn run_command(command: &[String]) -> CommandOutput {
    let ran = start(command).and_then(|status| {
        Ok(CommandOutput {
            status: exit_code(status),
            stdout: fs::read(STDOUT)?,
            stderr: fs::read(STDERR)?,
        })
    });
    // The status with which a shell says that it cannot execute a program.
    ran.unwrap_or_else(|error| {
        let name = command.first().map_or("", String::as_str);
        CommandOutput {
            status: 127,
            stdout: Vec::new(),
            stderr: format!("{name}: {error}\n").into(),
        }
    })
}

fn start(command: &[String]) -> io::Result<ExitStatus> {
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

/// A header of a frame is shorter than this.
const HEADER_MAX: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// The exit status; 128 and the signal's number if it was killed, as in a shell.
    pub status: u8,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// Line before the output of a command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Header {
    /// A command has ended; with the lengths of its stdout and stderr.
    Ran { status: u8, stdout: usize, stderr: usize },
    /// Init cannot go on.
    Failed { reason: String },
}

pub(super) fn write_frame(out: &mut impl Write, output: &CommandOutput) -> io::Result<()> {
    let (stdout, stderr) = (output.stdout.len(), output.stderr.len());
    let header = Header::Ran { status: output.status, stdout, stderr };
    out.write_all(&header_line(&header)?)?;
    out.write_all(&output.stdout)?;
    out.write_all(&output.stderr)
}

pub(super) fn write_failure(out: &mut impl Write, reason: &str) -> io::Result<()> {
    // A header that is too long could not be parsed.
    let reason = reason.chars().take(HEADER_MAX / 16).collect();
    out.write_all(&header_line(&Header::Failed { reason })?)
}

fn header_line(header: &Header) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(header)?;
    line.push(b'\n');
    Ok(line)
}

pub(super) fn parse_frames(
    mut bytes: &[u8],
    commands: usize,
) -> Result<Vec<CommandOutput>, Failure> {
    let garbled = |reason: String| Failure::Garbled { reason };
    let mut answers = Vec::new();
    while !bytes.is_empty() {
        let end = bytes.iter().take(HEADER_MAX).position(|byte| *byte == b'\n');
        let end = end.ok_or_else(|| garbled("a line has no end".into()))?;
        let header = serde_json::from_slice(&bytes[..end]).map_err(|error| {
            garbled(format!("`{}`: {error}", ktax_engine::wire::tail(&bytes[..end])))
        })?;
        bytes = &bytes[end + 1..];
        let (status, stdout, stderr) = match header {
            Header::Ran { status, stdout, stderr } => (status, stdout, stderr),
            Header::Failed { reason } => {
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
            return Err(garbled("it ends within the words of a command".into()));
        };
        answers.push(CommandOutput { status, stdout, stderr });
    }
    match answers.len() == commands {
        true => Ok(answers),
        false => {
            Err(garbled(format!("{} of {} answered", answers.len(), counted(commands, "command"))))
        }
    }
}

/// QEMU's fw_cfg has the order of a frozen host under this name.
pub(super) const ORDER_ITEM: &str = "opt/ktax/order";

/// Work of the host's init.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Order {
    /// Iterations of an empty loop before the first command, which move it against the timer tick.
    pub phase: u64,
    /// Each command's program and arguments, in the order in which they run.
    pub commands: Vec<Vec<String>>,
}

impl Order {
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and text have a form in JSON")
    }
}

// The initramfs.

/// A file that commands find at `/files/NAME`.
#[derive(Debug, Clone)]
pub struct Given {
    pub name: String,
    pub content: Vec<u8>,
}

/// Most bytes of all given files together. While the host unpacks them, its memory has them twice,
/// and no more than half of the rest may be files.
pub const GIVEN_MAX: u64 = 256 << 20;

/// File with init's order, unless init is to freeze and read the order from QEMU.
const ORDER: &str = "/order.json";
/// Program by which init freezes the machine and reads the order: `guest/vm/freeze.c`.
const FREEZE: &str = "/freeze";
static FREEZE_PROGRAM: &[u8] = include_bytes!(env!("KTAX_FREEZE_Z"));

/// Path of that program in the build, for tests that execute it here.
#[doc(hidden)]
pub const FREEZE_PATH: &str = env!("KTAX_FREEZE");

/// Directory of the modules; they are loaded in the order of their names.
const MODULES: &str = "/modules";

const DIRECTORIES: [&str; 6] = ["dev", "files", "modules", "proc", "sys", "tmp"];

/// Builds the archive: the same bytes for the same files and order. Without an order the host
/// freezes once it has booted.
pub(super) fn build(
    program: &Path,
    modules: &[PathBuf],
    order: Option<&Order>,
    files: &[Given],
) -> Result<Vec<u8>> {
    let mut members: Vec<(String, Cow<[u8]>)> =
        vec![("/ktax".into(), read_program(program)?.into())];
    for (number, path) in modules.iter().enumerate() {
        let module = fs::read(path).map_err(unprepared(path))?;
        members.push((format!("{MODULES}/{number:02}"), module.into()));
    }
    for file in files {
        members.push((format!("/files/{}", file.name), file.content.as_slice().into()));
    }
    members.push(match order {
        Some(order) => (ORDER.into(), order.to_json().into()),
        None => (FREEZE.into(), unpack(FREEZE_PROGRAM).into()),
    });
    let members = members.iter().map(|(path, content)| (&path[1..], &**content));
    pack_initramfs(DIRECTORIES, members).map_err(unprepared(Path::new("the archive")))
}

/// Program of this process, even if its file was replaced.
pub const THIS_PROGRAM: &str = "/proc/self/exe";
/// Fields of a 64-bit ELF header: the offset of its sections, and their number.
const SECTIONS_AT: std::ops::Range<usize> = 0x28..0x30;
const SECTIONS_COUNT: std::ops::Range<usize> = 0x3c..0x40;

/// Reads a program that is linked statically, as ktax is: the host has no libraries.
fn read_program(path: &Path) -> Result<Vec<u8>> {
    let program = fs::read(path).map_err(unprepared(path))?;
    check_static(&program).map_err(|reason| {
        Error::host(format!("the KVM host cannot run {}: {reason}", path.display()))
            .next("use a ktax that is built for this machine")
    })?;
    Ok(without_sections(program))
}

fn check_static(program: &[u8]) -> Result<(), &'static str> {
    let elf = FileHeader64::<LittleEndian>::parse(program).map_err(|_| "no 64-bit ELF file")?;
    let segments = elf.program_headers(LittleEndian, program).map_err(|_| "no program")?;
    match segments.iter().any(|segment| segment.p_type(LittleEndian) == PT_INTERP) {
        true => Err("it is linked dynamically"),
        false => Ok(()),
    }
}

/// Cuts a program off behind its last loaded byte: most of a debug build is debug information.
fn without_sections(mut file: Vec<u8>) -> Vec<u8> {
    let end = FileHeader64::<LittleEndian>::parse(file.as_slice()).ok().and_then(|elf| {
        let segments = elf.program_headers(LittleEndian, file.as_slice()).ok()?;
        let end = |segment: &object::elf::ProgramHeader64<LittleEndian>| {
            let (start, length) = segment.file_range(LittleEndian);
            start.checked_add(length)
        };
        usize::try_from(segments.iter().filter_map(end).max()?).ok()
    });
    match end.filter(|end| (SECTIONS_COUNT.end..file.len()).contains(end)) {
        None => file,
        Some(end) => {
            file.truncate(end);
            file[SECTIONS_AT].fill(0);
            file[SECTIONS_COUNT].fill(0);
            file
        }
    }
}

/// An archive in the cache, which is in use until the last copy of this is dropped.
#[derive(Debug, Clone)]
pub(super) struct HostArchive {
    pub path: PathBuf,
    _holder: Arc<Holder>,
}

/// Puts an archive into the cache, named by its hash.
pub(super) fn keep_archive(cache: &Path, archive: &[u8]) -> Result<HostArchive> {
    keep(cache, archive).map_err(unprepared(Path::new("the cache")))
}

fn keep(cache: &Path, archive: &[u8]) -> io::Result<HostArchive> {
    let dir = cache.join("hosts");
    fs::create_dir_all(&dir)?;
    let path = dir.join(format!("{}.cpio", sha256(archive)));
    loop {
        let holder = Holder::hold(&path)?;
        // The content is compared, not the name trusted: a damaged file is replaced.
        match holder.filter(|_| fs::read(&path).is_ok_and(|found| found == archive)) {
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
    fn it_is_for_the_first_process() {
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

    fn written(answers: &[CommandOutput]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for answer in answers {
            write_frame(&mut bytes, answer).unwrap();
        }
        bytes
    }

    #[test]
    fn any_bytes_come_through() {
        let answers = [
            command_output(b"", b""),
            command_output(b"\0\n\xff{}\r\n", b"\x1b["),
            command_output(b"x", b""),
        ];
        assert_eq!(parse_frames(&written(&answers), 3), Ok(answers.to_vec()));
    }

    #[test]
    fn what_is_missing_is_said() {
        let bytes = written(&[command_output(b"abc", b"def")]);
        for (bytes, commands, expected) in [
            (&bytes[..], 2, "1 of 2 commands answered"),
            (&bytes[..bytes.len() - 1], 1, "it ends within the words of a command"),
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
    fn init_says_why() {
        let mut bytes = Vec::new();
        write_failure(&mut bytes, "no \x1b[module").unwrap();
        let message = "the KVM host cannot be used: no \\x1b[module".to_owned();
        assert_eq!(parse_frames(&bytes, 1), Err(Failure::Refused { message }));
    }

    proptest! {
        #[test]
        fn noise_is_an_answer_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_frames(&bytes, 1);
            let mut framed = written(&[command_output(b"abc", b"")]);
            framed.extend(bytes);
            let _ = parse_frames(&framed, 1);
        }
    }

    #[test]
    fn a_program_without_its_sections_still_runs() {
        let program = fs::read(THIS_PROGRAM).unwrap();
        let cut = without_sections(program.clone());
        assert!(cut.len() < program.len());
        let dir = tempfile::tempdir().unwrap();
        let [written, path] = ["written", "program"].map(|name| dir.path().join(name));
        fs::write(&written, &cut).unwrap();
        // A child that another test starts meanwhile has our descriptors for a moment, and a file
        // that is open for writing cannot be executed: so another process writes it.
        let copied = std::process::Command::new("cp").args([&written, &path]).status();
        assert!(copied.unwrap().success());
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, mode).unwrap();
        let listed = std::process::Command::new(&path).args(["--list", "kvmhost"]).output();
        let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
        assert!(listed.contains("a_program_without_its_sections_still_runs"), "{listed}");
    }

    /// Tests are linked with the libraries of this machine, which ktax is not.
    #[test]
    fn a_program_that_needs_libraries_is_refused() {
        let error = read_program(Path::new(THIS_PROGRAM)).unwrap_err().to_string();
        let reason = ": it is linked dynamically; use a ktax that is built for this machine";
        assert!(error.ends_with(reason), "{error}");
    }

    #[test]
    fn what_is_no_program_is_left_as_it_is() {
        for bytes in [&b""[..], b"#!/bin/sh\n", &[0x7f; 100]] {
            assert_eq!(without_sections(bytes.to_vec()), bytes);
            assert!(check_static(bytes).is_err());
        }
    }

    #[test]
    fn the_same_archive_is_one_file_that_stays_while_it_is_used() {
        let cache = tempfile::tempdir().unwrap();
        let kept = keep_archive(cache.path(), b"one").unwrap();
        fs::write(&kept.path, "damaged").unwrap();
        assert_eq!(keep_archive(cache.path(), b"one").unwrap().path, kept.path);
        assert_eq!(fs::read(&kept.path).unwrap(), b"one");
        let kept = keep_archive(cache.path(), b"one").unwrap();
        let clean = || clean(cache.path(), Budget::Bytes(0), true).unwrap().unwrap();
        assert_eq!(clean().removed, []);
        let path = kept.path.clone();
        drop(kept);
        assert_eq!(clean().removed.len(), 1);
        assert!(!path.exists());
    }
}
