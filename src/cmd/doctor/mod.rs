mod cpus;
mod finding;
mod kvm;
mod settings;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use finding::{Check, bad, good};

use super::exit::Exit;
use super::host::{HostArgs, cancel};
use super::output::write_stdout;
use super::progress::{Terminal, spinner};
use crate::engine::exact::Exact;
use crate::engine::qemu::Qemu;
use crate::engine::{Cancel, payload};
use crate::flow::Error;
use crate::kernel::{self, Kernel};
use crate::model::{Failure, Subject};
use crate::report;

/// Check what this machine can and cannot do, and print how to fix it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_STATUS)]
pub struct Args {
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// Restore the settings of this machine that a killed ktax left changed; check nothing
    #[arg(long)]
    restore: bool,
    /// Boot this bzImage to test KVM [default: the newest kernel in the cache]
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    #[command(flatten)]
    host: HostArgs,
}

const EXIT_STATUS: &str = "\
Exit status:
  0  no check is BAD             69 at least one check is BAD
  1  ktax or its host failed     130 stopped by Ctrl-C
  2  usage error, or --restore while another ktax changes settings";

pub fn run(args: &Args) -> Result<Exit, Error> {
    if args.restore {
        return settings::restore(args.json);
    }
    let cancel = cancel()?;
    let cache = args.host.cache()?;
    let kernel = kernel_to_try(args, &cache)?;
    let qemu = Qemu::find(args.host.qemu.as_deref());
    let mut findings = vec![match &qemu {
        Ok(qemu) => good("QEMU", format!("{} at {}", qemu.version, qemu.program.display())),
        Err(error) => bad(
            "QEMU",
            error.to_string(),
            "sudo apt-get install qemu-system-x86, or name another QEMU with --qemu PROGRAM",
        ),
    }];
    findings.push(look_at_cache(&cache));
    if let Ok(qemu) = &qemu {
        findings.push(look_at_engine(qemu.clone(), &cache, &args.host));
    }
    findings.extend([look_at_packages(), look_at_machine(&args.host), cpus::look()]);
    let bar = spinner();
    bar.set_message("trying KVM");
    let limits = args.host.limits().of_a_trial();
    let tried = kvm::look(qemu.ok(), &cache, kernel.as_ref(), &limits, &cancel);
    bar.finish_and_clear();
    let Some(tried) = tried else { return Ok(Exit::Cancelled) };
    findings.push(tried);
    findings.push(settings::look());
    let healthy = findings.iter().all(|finding| finding.ok);
    write_stdout(&match args.json {
        true => report::to_json(&findings)?,
        false => findings.iter().map(line).collect(),
    })?;
    Ok(if healthy { Exit::Ok } else { Exit::NotRun })
}

fn line(finding: &Check) -> String {
    let mark = if finding.ok { "ok  " } else { "BAD " };
    let mend = match finding.mend.as_str() {
        "" => String::new(),
        mend => format!("\n             fix: {mend}"),
    };
    format!("{mark} {:8} {}{mend}\n", finding.what, finding.found)
}

/// Starts QEMU with the plugin and without a machine: enough for it to refuse what it cannot do.
fn look_at_engine(qemu: Qemu, cache: &Path, host: &HostArgs) -> Check {
    let tried = Exact::new(qemu, cache, host.limits(), Cancel::default())
        .and_then(|engine| engine.try_plugin());
    match tried {
        Ok(()) => {
            good("plugin", format!("loads; guest program {}", &payload::guest_sha256()[..12]))
        }
        Err(failure) => bad("plugin", failure.to_string(), plugin_fix(&failure)),
    }
}

/// What a failure says to do next may be to type what the user has just typed.
fn plugin_fix(failure: &Failure) -> &'static str {
    match failure {
        Failure::Host { .. } => "name a directory that you can write with --cache DIR",
        Failure::RealTime { .. } => "end other programs, or use a longer --time-limit",
        _ => "name a QEMU 7.2 or later that is built with plugins, with --qemu PROGRAM",
    }
}

fn look_at_cache(cache: &Path) -> Check {
    let path = cache.display();
    let space = std::fs::create_dir_all(cache).and_then(|()| Ok(rustix::fs::statvfs(cache)?));
    match space {
        Ok(space) => {
            let free_mib = (space.f_bavail * space.f_frsize) >> 20;
            let found = format!("{path}, {free_mib} MiB free; a snapshot takes about 120 MiB");
            match free_mib {
                0..2048 => bad(
                    "cache",
                    found,
                    "free 2 GiB there, or name another directory with --cache DIR",
                ),
                _ => good("cache", found),
            }
        }
        Err(error) => {
            bad("cache", format!("{path}: {error}"), "name another directory with --cache DIR")
        }
    }
}

fn look_at_packages() -> Check {
    let missing: Vec<&str> =
        ["apt-get", "apt-cache", "dpkg-deb"].into_iter().filter(|tool| !starts(tool)).collect();
    match missing.as_slice() {
        [] if !knows_kernels() => Check {
            what: "packages",
            ok: true,
            found: "apt has no package linux-image-cloud-amd64: debian: kernels cannot be fetched"
                .into(),
            mend: "sudo apt-get update".into(),
        },
        [] => good("packages", "debian: kernels can be fetched".into()),
        tools => Check {
            what: "packages",
            ok: true,
            found: format!("{} not found: debian: kernels cannot be fetched", tools.join(", ")),
            mend: "name kernels by their files".into(),
        },
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

fn look_at_machine(host: &HostArgs) -> Check {
    let (pages, size) = (rustix::param::page_size(), rustix::system::sysinfo());
    let memory_mib = size.totalram.saturating_mul(u64::from(size.mem_unit)) >> 20;
    let jobs = host.jobs();
    let found = format!("{jobs} VMs at a time, {memory_mib} MiB of memory, pages of {pages} bytes");
    if memory_mib < 512 * jobs as u64 {
        return bad("machine", found, "use a smaller --jobs (512 MiB for each VM)");
    }
    good("machine", found)
}

/// The kernel that the user names, else what the cache has: nothing is downloaded for this.
fn kernel_to_try(args: &Args, cache: &Path) -> Result<Option<Kernel>, Error> {
    let Some(path) = &args.kernel else { return Ok(kernel::at_hand(cache)) };
    // A path that begins like the name of a package is one all the same.
    let path = std::path::absolute(path)?.display().to_string();
    let terminal = Terminal::new();
    args.host.session(&terminal)?.obtain(&Subject::of(&path, "")).map(Some)
}
