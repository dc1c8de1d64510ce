//! Checks what this machine can do, and says what fixes the rest.

mod checks;
mod kvm;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use serde::Serialize;

use super::error::{Error, OrHost};
use super::session::Session;
use crate::cache::{Budget, survey};
use crate::disk::check_writable;
use crate::engine::exact::Exact;
use crate::engine::host::{Look, Replayed, look_at_journal, replay, state_dir};
use crate::engine::qemu::Qemu;
use crate::engine::{Cancel, payload};
use crate::kernel::{self, Kernel};
use crate::model::{FREE_DISK_GIB, Failure, Subject};
use crate::text::{binary_size, counted, escape_bytes, shell_path};

/// Result of one check.
#[derive(Debug, Serialize)]
pub struct Check {
    /// Name of the check.
    pub what: &'static str,
    /// Whether it works.
    pub ok: bool,
    /// Whether counting needs it.
    pub needed: bool,
    /// Description for people.
    pub found: String,
    /// Command or advice that fixes it; empty if it works.
    pub fix: String,
}

impl Check {
    /// Whether it prevents counting.
    pub fn is_bad(&self) -> bool {
        self.needed && !self.ok
    }
}

/// Successful check.
fn good(what: &'static str, found: String) -> Check {
    Check { what, ok: true, needed: true, found, fix: String::new() }
}

/// Failed check that prevents counting.
fn bad(what: &'static str, found: String, fix: &str) -> Check {
    Check { what, ok: false, needed: true, found, fix: fix.to_owned() }
}

/// Check that only some commands need.
fn optional(what: &'static str, ok: bool, found: String, fix: &str) -> Check {
    Check { what, ok, needed: false, found, fix: fix.to_owned() }
}

/// Checks this machine. KVM is tried with `kernel`, or with the newest kernel in the cache. `None`
/// if the user stopped it.
pub fn look(
    kernel: Option<&Path>,
    budget: Budget,
    session: &Session<'_>,
) -> Result<Option<Vec<Check>>, Error> {
    let kernel = kernel_to_try(kernel, session)?;
    let qemu = Qemu::find(session.qemu.as_deref());
    let mut findings = vec![look_at_qemu(&qemu), look_at_cache(&session.cache, budget)];
    if let Ok(qemu) = &qemu {
        findings.push(look_at_engine(qemu.clone(), session));
        findings.extend([checks::newer_qemu(qemu), look_at_several_cpus(qemu, session)]);
    }
    findings.extend([look_at_packages(), checks::network(), look_at_machine(session.jobs)]);
    findings.push(checks::quiet_cpus());
    session.observer.status("trying KVM");
    let limits = session.limits.clone().for_trial();
    let tried = kvm::look(qemu.ok(), &session.cache, kernel.as_ref(), &limits, &session.cancel);
    session.observer.status("");
    let Some(tried) = tried else { return Ok(None) };
    findings.push(tried);
    findings.extend([checks::tracefs(), checks::pmu(), checks::root(), look_at_settings()]);
    Ok(Some(findings))
}

fn look_at_qemu(qemu: &Result<Qemu, Error>) -> Check {
    match qemu {
        Ok(qemu) => good("QEMU", format!("{} at {}", qemu.version, qemu.program.display())),
        Err(error) => bad(
            "QEMU",
            error.to_string(),
            "sudo apt-get install qemu-system-x86, or name another QEMU with --qemu PROGRAM",
        ),
    }
}

/// Starts QEMU with the plugin and without a machine, so that it can refuse what it does not
/// support.
fn look_at_engine(qemu: Qemu, session: &Session<'_>) -> Check {
    let tried = Exact::new(qemu, &session.cache, session.limits.clone(), Cancel::default())
        .and_then(|engine| engine.try_plugin());
    match tried {
        Ok(()) => {
            good("plugin", format!("loads; guest program {}", &payload::guest_sha256()[..12]))
        }
        Err(failure) => bad("plugin", failure.to_string(), plugin_fix(&failure)),
    }
}

/// Runs the self-test, which takes a second, if this QEMU has not passed it yet.
fn look_at_several_cpus(qemu: &Qemu, session: &Session<'_>) -> Check {
    checks::several_cpus(qemu, || {
        session.observer.status("testing QEMU with several CPUs");
        let (limits, cancel) = (session.limits.clone(), session.cancel.clone());
        Exact::new(qemu.clone(), &session.cache, limits, cancel)?.check_slices()
    })
}

/// Advice for a failure of the plugin. The failure's own next step may be this command.
fn plugin_fix(failure: &Failure) -> &'static str {
    match failure {
        Failure::Host { .. } => "name a directory that you can write with --cache DIR",
        Failure::RealTime { .. } | Failure::CpuTime { .. } => {
            "end other programs, or use a longer --time-limit"
        }
        Failure::QemuLost { .. } => {
            "sudo apt-get install --reinstall qemu-system-x86, or name another QEMU with --qemu \
             PROGRAM"
        }
        _ => "name a QEMU 7.2 or later that is built with plugins, with --qemu PROGRAM",
    }
}

fn look_at_cache(cache: &Path, budget: Budget) -> Check {
    let path = cache.display();
    let space = std::fs::create_dir_all(cache).and_then(|()| Ok(rustix::fs::statvfs(cache)?));
    match space {
        Ok(space) => {
            let free_mib = (space.f_bavail * space.f_frsize) >> 20;
            let taken = binary_size(survey(cache).bytes());
            let most = match budget {
                Budget::Unlimited => String::new(),
                Budget::Bytes(_) => format!(" of at most {budget}"),
            };
            let found = format!(
                "{path}, {taken}{most}, {free_mib} MiB free; a snapshot takes about 120 MiB"
            );
            if let Some((directory, error)) = unwritable(cache) {
                let found = format!("cannot write into {}: {error}", directory.display());
                return bad("cache", found, "name a directory that you can write with --cache DIR");
            }
            match free_mib >> 10 < FREE_DISK_GIB {
                true => {
                    let fix = format!(
                        "free {FREE_DISK_GIB} GiB there, such as with `ktax cache clean --all`, or \
                         name another directory with --cache DIR"
                    );
                    bad("cache", found, &fix)
                }
                false => good("cache", found),
            }
        }
        Err(error) => {
            bad("cache", format!("{path}: {error}"), "name another directory with --cache DIR")
        }
    }
}

/// Directory of the cache in which this user cannot create files: another user may have created it.
fn unwritable(cache: &Path) -> Option<(PathBuf, io::Error)> {
    let entries = cache.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let below = entries.filter(|path| path.is_dir());
    let mut all = std::iter::once(cache.to_owned()).chain(below);
    all.find_map(|path| Some((path.clone(), check_writable(&path.join("new")).err()?)))
}

fn look_at_packages() -> Check {
    let missing: Vec<&str> =
        ["apt-get", "apt-cache", "dpkg-deb"].into_iter().filter(|tool| !can_start(tool)).collect();
    match missing.as_slice() {
        [] if !knows_kernels() => optional(
            "packages",
            false,
            "apt has no package linux-image-cloud-amd64: debian: kernels cannot be fetched".into(),
            "sudo apt-get update",
        ),
        [] => optional("packages", true, "apt knows debian: kernels".into(), ""),
        tools => optional(
            "packages",
            false,
            format!("{} not found: debian: kernels cannot be fetched", tools.join(", ")),
            "name kernels by their files",
        ),
    }
}

fn knows_kernels() -> bool {
    succeeds(Command::new("apt-cache").args(["show", "linux-image-cloud-amd64"]))
}

fn can_start(tool: &str) -> bool {
    succeeds(Command::new(tool).arg("--version"))
}

fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn look_at_machine(jobs: usize) -> Check {
    let (pages, size) = (rustix::param::page_size(), rustix::system::sysinfo());
    let memory_mib = size.totalram.saturating_mul(u64::from(size.mem_unit)) >> 20;
    let vms = counted(jobs, "VM");
    let found = format!("{vms} at a time, {memory_mib} MiB of memory, pages of {pages} bytes");
    if memory_mib < 512 * jobs as u64 {
        return bad("machine", found, "use a smaller --jobs (512 MiB for each VM)");
    }
    good("machine", found)
}

/// Kernel that the user names, or the newest one in the cache; nothing is downloaded.
fn kernel_to_try(path: Option<&Path>, session: &Session<'_>) -> Result<Option<Kernel>, Error> {
    let Some(path) = path else {
        let at_hand = kernel::at_hand(&session.cache);
        return Ok(at_hand.filter(|kernel| session.holds(&kernel.image).unwrap_or(false)));
    };
    // An absolute path cannot be mistaken for the name of a package.
    let path = std::path::absolute(path)?.display().to_string();
    session.obtain(&Subject::new(&path, "")).map(Some)
}

fn look_at_settings() -> Check {
    let dir = state_dir();
    match look_at_journal(&dir) {
        Ok(Look::Nothing) => good("settings", "no setting of this machine is left changed".into()),
        Ok(Look::InUse) => {
            good("settings", "a running ktax changes them, and will restore them".into())
        }
        Ok(Look::Left) => {
            let found = format!("left changed by a killed ktax; the journal is in {dir:?}");
            // sudo drops environment variables by default.
            let fix = match std::env::var_os("KTAX_STATE") {
                None => "sudo ktax doctor --restore",
                Some(_) => "sudo --preserve-env=KTAX_STATE ktax doctor --restore",
            };
            bad("settings", found, fix)
        }
        Err(error) => bad(
            "settings",
            error.to_string(),
            "set KTAX_STATE to a directory that only you can write",
        ),
    }
}

/// Restores the settings that a killed ktax left changed.
pub fn restore() -> Result<Replayed, Error> {
    Ok(replay(&state_dir())?)
}

/// Script that fetches QEMU with the distribution's own tools; `make newer-qemu` runs it too.
const SCRIPT: &str = include_str!("../../scripts/qemu-backports.sh");

const NEXT: &str = "look whether this distribution has backports with QEMU 10, or use Debian 13";

/// Unpacks the QEMU of the distribution's backports into a new directory.
pub fn newer_qemu(dir: &Path) -> Result<Qemu, Error> {
    let dir = std::path::absolute(dir).context("cannot find the current directory", "go to one")?;
    let program = dir.join("qemu-system-x86_64");
    if !program.is_file() {
        check_empty(&dir)?;
        unpack_qemu(&dir).inspect_err(|_| drop(fs::remove_dir_all(&dir)))?;
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
        false => {
            let dir = shell_path(dir);
            let message = format!("--newer-qemu {dir} has other files, or is one");
            Err(Error::user(message).next("name a new directory"))
        }
    }
}

fn unpack_qemu(dir: &Path) -> Result<(), Error> {
    let mut script = Command::new("sh");
    script.arg("-c").arg(SCRIPT).arg("qemu-backports").arg(dir).stdin(Stdio::null());
    let ran = script.output().context("cannot start sh", "install it")?;
    let last = ran.stderr.trim_ascii_end().rsplit(|byte| *byte == b'\n').next();
    let last = escape_bytes(last.unwrap_or_default());
    let result = if ran.status.success() { Ok(()) } else { Err(io::Error::other(last)) };
    result.context("cannot unpack a newer QEMU", NEXT)
}
