//! Everything that ktax needs of a machine, one look at each.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::finding::{Check, bad, good, optional};
use super::{cpus, kvm, others, settings};
use crate::cache::{Budget, survey};
use crate::disk::check_writable;
use crate::engine::exact::Exact;
use crate::engine::qemu::{Qemu, QemuError};
use crate::engine::{Cancel, payload};
use crate::flow::error::Error;
use crate::flow::session::Session;
use crate::kernel::{self, Kernel};
use crate::model::{FREE_DISK_GIB, Failure, Subject};
use crate::text::{binary_size, counted};

/// Looks at this machine. KVM is tried with a kernel, with the newest one of the cache if none is
/// named; `None` where the user stopped it.
///
/// # Errors
/// The named kernel cannot be used.
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
        findings.extend([others::newer_qemu(qemu), look_at_several_cpus(qemu, session)]);
    }
    findings.extend([look_at_packages(), others::network(), look_at_machine(session.jobs)]);
    findings.push(cpus::look());
    session.observer.status("trying KVM");
    let limits = session.limits.clone().for_trial();
    let tried = kvm::look(qemu.ok(), &session.cache, kernel.as_ref(), &limits, &session.cancel);
    session.observer.status("");
    let Some(tried) = tried else { return Ok(None) };
    findings.push(tried);
    findings.extend([others::tracefs(), others::pmu(), others::root(), settings::look()]);
    Ok(Some(findings))
}

fn look_at_qemu(qemu: &Result<Qemu, QemuError>) -> Check {
    match qemu {
        Ok(qemu) => good("QEMU", format!("{} at {}", qemu.version, qemu.program.display())),
        Err(error) => bad(
            "QEMU",
            error.to_string(),
            "sudo apt-get install qemu-system-x86, or name another QEMU with --qemu PROGRAM",
        ),
    }
}

/// Starts QEMU with the plugin and without a machine: enough for it to refuse what it cannot do.
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

/// Runs the self-test if this QEMU has not passed it yet: a second.
fn look_at_several_cpus(qemu: &Qemu, session: &Session<'_>) -> Check {
    others::several_cpus(qemu, || {
        session.observer.status("testing QEMU with several CPUs");
        let (limits, cancel) = (session.limits.clone(), session.cancel.clone());
        Exact::new(qemu.clone(), &session.cache, limits, cancel)?.check_slices()
    })
}

/// What a failure says to do next may be to type what the user has just typed.
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

/// A directory of the cache in which this user can make no file: another user may have made it.
fn unwritable(cache: &Path) -> Option<(PathBuf, io::Error)> {
    let entries = cache.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let below = entries.filter(|path| path.is_dir());
    let mut all = std::iter::once(cache.to_owned()).chain(below);
    all.find_map(|path| Some((path.clone(), check_writable(&path.join("new")).err()?)))
}

fn look_at_packages() -> Check {
    let missing: Vec<&str> =
        ["apt-get", "apt-cache", "dpkg-deb"].into_iter().filter(|tool| !starts(tool)).collect();
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

fn starts(tool: &str) -> bool {
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

/// The kernel that the user names, else what the cache has: nothing is downloaded for this.
fn kernel_to_try(path: Option<&Path>, session: &Session<'_>) -> Result<Option<Kernel>, Error> {
    let Some(path) = path else {
        let at_hand = kernel::at_hand(&session.cache);
        return Ok(at_hand.filter(|kernel| session.holds(&kernel.image).unwrap_or(false)));
    };
    // A path that begins like the name of a package is one all the same.
    let path = std::path::absolute(path)?.display().to_string();
    session.obtain(&Subject::of(&path, "")).map(Some)
}
