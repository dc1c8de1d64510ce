//! Within the host: the first process. It makes a KVM host of the bare kernel, runs the commands
//! and says what they said; then the machine goes off.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, finit_module, reboot};
use rustix::termios::{OptionalActions, tcdrain, tcgetattr, tcsetattr};

use super::frame::{self, Said};
use super::initramfs::{MODULES, ORDER};

/// The second serial port.
const FRAMES: &str = "/dev/ttyS1";
/// What a command's output goes to while it runs: a pipe could fill up.
const STDOUT: &str = "/tmp/stdout";
const STDERR: &str = "/tmp/stderr";

/// Type and place; the last two are not in every kernel.
const MOUNTS: [(&str, &str); 5] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("tracefs", "/sys/kernel/tracing"),
    ("debugfs", "/sys/kernel/debug"),
];
const NEEDED: usize = 3;
/// Of the kernel's `linux/module.h`.
const MODULE_INIT_COMPRESSED_FILE: i32 = 4;

/// Why init does not begin or go on. What was to be done next, whoever booted it says.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    #[error("this is the first process of a KVM host and of nothing else: use `ktax kvm-host`")]
    NotInit,
    #[error("cannot {action}: {error}")]
    Host { action: String, error: io::Error },
}

/// Does all of it. Where it returns, the kernel panics, which whoever booted it sees.
///
/// # Errors
/// When this is not the first process, or there is nowhere to say anything.
pub fn main() -> Result<(), InitError> {
    if !rustix::process::getpid().is_init() {
        return Err(InitError::NotInit);
    }
    mount_all()?;
    let mut frames = open_frames().map_err(failed("open the second serial port"))?;
    let said = prepare().and_then(|commands| {
        for command in &commands {
            let said = run(command);
            frame::write(&mut frames, &said).map_err(failed("say what a command said"))?;
        }
        Ok(())
    });
    if let Err(error) = said {
        frame::write_failure(&mut frames, &error.to_string()).map_err(failed("say so"))?;
    }
    tcdrain(&frames).map_err(|error| failed("wait for the serial port")(error.into()))?;
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

/// Every byte as it is.
fn open_frames() -> io::Result<File> {
    let frames = File::options().read(true).write(true).open(FRAMES)?;
    let mut mode = tcgetattr(&frames)?;
    mode.make_raw();
    tcsetattr(&frames, OptionalActions::Now, &mode)?;
    Ok(frames)
}

/// Loads the modules and reads the order.
fn prepare() -> Result<Vec<Vec<String>>, InitError> {
    let entries = fs::read_dir(MODULES).map_err(failed("list the modules"))?;
    let mut modules: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    modules.sort();
    for module in modules {
        load(&module).map_err(failed(format!("load module {}", module.display())))?;
    }
    fs::metadata("/dev/kvm").map_err(failed("find /dev/kvm"))?;
    let order = fs::read(ORDER).map_err(failed("read the order"))?;
    serde_json::from_slice(&order).map_err(|error| failed("read the order")(error.into()))
}

/// A compressed one is left to the kernel to unpack.
fn load(module: &Path) -> io::Result<()> {
    const ELF: &[u8] = b"\x7fELF";
    let mut file = File::open(module)?;
    let mut magic = [0; ELF.len()];
    file.read_exact(&mut magic)?;
    let flags = if magic == ELF { 0 } else { MODULE_INIT_COMPRESSED_FILE };
    Ok(finit_module(&file, c"", flags)?)
}

/// Runs one command in a process group of its own.
fn run(command: &[String]) -> Said {
    let ran = start(command).and_then(|status| {
        Ok(Said { status: code(status), stdout: fs::read(STDOUT)?, stderr: fs::read(STDERR)? })
    });
    // As a shell says that it cannot execute something.
    ran.unwrap_or_else(|error| {
        let name = command.first().map_or("", String::as_str);
        Said { status: 127, stdout: Vec::new(), stderr: format!("{name}: {error}\n").into() }
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

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_for_the_first_process() {
        let error = main().unwrap_err().to_string();
        assert!(error.ends_with("use `ktax kvm-host`"), "{error}");
    }

    #[test]
    fn statuses_are_those_of_a_shell() {
        assert_eq!(code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(code(ExitStatus::from_raw(9)), 137);
    }
}
