//! Waits for a program, shows how far it is, and stops it once the user has cancelled.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::thread;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process_group};

use super::talk::{PAUSE, Talk};

/// A file in memory for what a program complains about, which may be that the disk is full.
pub(super) fn complaints() -> io::Result<File> {
    Ok(memfd_create("complaints", MemfdFlags::CLOEXEC)?.into())
}

/// Starts a program in a process group of its own, so that it can be stopped with all its children.
pub(super) fn start(command: &mut Command) -> io::Result<Child> {
    command.process_group(0).spawn()
}

/// Waits for a program, and calls `look` five times a second. `None` if the user has cancelled; the
/// program has ended then too.
pub(super) fn wait(
    child: &mut Child,
    talk: &Talk<'_>,
    mut look: impl FnMut(),
) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if (talk.is_cancelled)() {
            let _ = kill_process_group(Pid::from_child(child), Signal::TERM);
            child.wait()?;
            return Ok(None);
        }
        look();
        thread::sleep(PAUSE);
    }
}
