//! A process that ktax starts does not outlive ktax.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Makes the kernel kill the command's process when this thread ends, and lets the process inherit
/// these descriptors.
pub fn die_with_parent(command: &mut Command, inherited: [Option<RawFd>; 2]) {
    let parent = getpid();
    let in_child = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the line above took effect.
        if getppid() != Some(parent) {
            return Err(io::Error::other("ktax has ended"));
        }
        for fd in inherited.into_iter().flatten() {
            // SAFETY: the parent holds both descriptors open until spawn returns.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            fcntl_setfd(fd.as_fd(), FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: the closure runs between fork and exec and only makes system calls: prctl, getppid,
    // fcntl; it takes no lock and allocates nothing on its successful path.
    unsafe { command.pre_exec(in_child) };
}
