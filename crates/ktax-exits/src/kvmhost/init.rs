//! The host's first process: it mounts what a KVM host needs, loads KVM, runs the commands, writes
//! what they printed to the second serial port, and switches the machine off.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, finit_module, reboot};
use rustix::termios::{OptionalActions, tcdrain, tcgetattr, tcsetattr};

use super::frame::{CommandOutput, Order, write_failure, write_frame};
use super::initramfs::{FREEZE, MODULES, ORDER};
use ktax_model::Blame;

/// The second serial port.
const FRAMES: &str = "/dev/ttyS1";
/// Files for a command's output while it runs, since a pipe could fill up.
const STDOUT: &str = "/tmp/stdout";
const STDERR: &str = "/tmp/stderr";

/// File systems and where they are mounted; not every kernel has the last two.
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

/// Why init cannot start or go on. Whoever booted the host prints the next step.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    #[error(
        "kvm-host-init only runs as the first process of a KVM host, which ktax itself boots; \
         remove it"
    )]
    NotInit,
    #[error("cannot {action}: {error}")]
    Host { action: String, error: io::Error },
}

impl From<InitError> for ktax_model::Error {
    fn from(error: InitError) -> ktax_model::Error {
        ktax_model::Error::blamed(error.blame(), error.to_string())
    }
}

impl InitError {
    /// Who can do something about it.
    pub fn blame(&self) -> Blame {
        Blame::Host
    }
}

/// Runs the host from its first process to power-off. An init that returns makes the kernel panic,
/// which whoever booted the host sees.
pub fn main() -> Result<(), InitError> {
    if !rustix::process::getpid().is_init() {
        return Err(InitError::NotInit);
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

fn failed(action: impl Into<String>) -> impl FnOnce(io::Error) -> InitError {
    move |error| InitError::Host { action: action.into(), error }
}

fn mount_all() -> Result<(), InitError> {
    for (number, (kind, place)) in MOUNTS.into_iter().enumerate() {
        let mounted = mount(kind, place, kind, MountFlags::empty(), None);
        match mounted {
            Err(error) if number < NEEDED => {
                return Err(failed(format!("mount {place}"))(error.into()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Opens the second serial port so that it changes no byte.
fn open_frames() -> io::Result<File> {
    let frames = File::options().read(true).write(true).open(FRAMES)?;
    let mut mode = tcgetattr(&frames)?;
    mode.make_raw();
    tcsetattr(&frames, OptionalActions::Now, &mode)?;
    Ok(frames)
}

fn drain(frames: &File) -> Result<(), InitError> {
    tcdrain(frames).map_err(|error| failed("wait for the serial port")(error.into()))
}

/// Loads the modules, freezes the machine where there is no order yet, and reads the order.
fn prepare(frames: &mut File) -> Result<Order, InitError> {
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
fn freeze(frames: &mut File) -> Result<Vec<u8>, InitError> {
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

/// Loads a module; the kernel unpacks a compressed one.
fn load(module: &Path) -> io::Result<()> {
    const ELF: &[u8] = b"\x7fELF";
    let mut file = File::open(module)?;
    let mut magic = [0; ELF.len()];
    file.read_exact(&mut magic)?;
    let flags = if magic == ELF { 0 } else { MODULE_INIT_COMPRESSED_FILE };
    Ok(finit_module(&file, c"", flags)?)
}

/// Runs one command in a process group of its own.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
