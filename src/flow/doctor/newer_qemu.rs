//! A newer QEMU beside the installed one.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::engine::qemu::Qemu;
use crate::flow::context::OrHost;
use crate::flow::error::Error;
use crate::text::{escape_bytes, shell_path};

/// Asks the distribution's own tools; `make newer-qemu` runs the same.
const SCRIPT: &str = include_str!("../../../scripts/qemu-backports.sh");

const NEXT: &str = "look whether this distribution has backports with QEMU 10, or use Debian 13";

/// Unpacks the QEMU of the distribution's backports into a new directory.
///
/// # Errors
/// The directory has something else in it, or there is no such QEMU.
pub fn newer_qemu(dir: &Path) -> Result<Qemu, Error> {
    let dir = std::path::absolute(dir).context("cannot find the current directory", "go to one")?;
    let program = dir.join("qemu-system-x86_64");
    if !program.is_file() {
        check_empty(&dir)?;
        unpack(&dir).inspect_err(|_| drop(fs::remove_dir_all(&dir)))?;
    }
    Ok(Qemu::find(Some(&program))?)
}

fn check_empty(dir: &Path) -> Result<(), Error> {
    let is_empty = match fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    match is_empty {
        true => Ok(()),
        false => Err(Error::NotEmpty { path: shell_path(dir).to_string() }),
    }
}

fn unpack(dir: &Path) -> Result<(), Error> {
    let mut script = Command::new("sh");
    script.arg("-c").arg(SCRIPT).arg("qemu-backports").arg(dir).stdin(Stdio::null());
    let ran = script.output().context("cannot start sh", "install it")?;
    let last = ran.stderr.trim_ascii_end().rsplit(|byte| *byte == b'\n').next();
    let last = escape_bytes(last.unwrap_or_default());
    let result = if ran.status.success() { Ok(()) } else { Err(io::Error::other(last)) };
    result.context("cannot unpack a newer QEMU", NEXT)
}
