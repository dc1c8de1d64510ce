use std::fs::File;
use std::io;

use rustix::fs::{FlockOperation, flock};

/// A right that a file stands for; held until dropped, and by the operating system let go when the
/// process ends.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Lock {
    /// Takes it for this process alone.
    ///
    /// # Errors
    ///
    /// Another process has it.
    pub fn take(file: File) -> io::Result<Lock> {
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Lock { file })
    }

    /// Takes it beside others who do, and change nothing.
    ///
    /// # Errors
    ///
    /// A process has it for itself alone.
    pub fn share(file: File) -> io::Result<Lock> {
        flock(&file, FlockOperation::NonBlockingLockShared)?;
        Ok(Lock { file })
    }
}

impl Drop for Lock {
    /// Closing the file is not enough: a process that another thread is about to start has it, too,
    /// until it becomes its program.
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}
