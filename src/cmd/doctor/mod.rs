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
use crate::model::Subject;
use crate::report;

/// Say what this machine can and cannot do, and the command that mends it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// Put back the settings of this machine that a ktax which was killed has left changed
    #[arg(long)]
    restore: bool,
    /// Kernel that is tried under KVM, a bzImage [default: the newest that the cache holds]
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    #[command(flatten)]
    host: HostArgs,
}

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
        Err(error) => bad("QEMU", error.to_string(), "sudo apt-get install qemu-system-x86"),
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
        mend => format!("\n             mend it: {mend}"),
    };
    format!("{mark} {:8} {}{mend}\n", finding.what, finding.found)
}

/// Starts QEMU with the plugin and without a machine: enough for it to refuse what it cannot do.
fn look_at_engine(qemu: Qemu, cache: &Path, host: &HostArgs) -> Check {
    let tried = Exact::new(qemu, cache, host.limits(), Cancel::default())
        .and_then(|engine| engine.try_plugin());
    match tried {
        Ok(()) => good("plugin", format!("loads; guest {}", &payload::guest_sha256()[..12])),
        Err(failure) => bad("plugin", failure.to_string(), failure.next_step()),
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
                0..2048 => bad("cache", found, "free 2 GiB there, or give --cache DIR"),
                _ => good("cache", found),
            }
        }
        Err(error) => bad("cache", format!("{path}: {error}"), "give --cache DIR"),
    }
}

fn look_at_packages() -> Check {
    let missing: Vec<&str> =
        ["apt-get", "apt-cache", "dpkg-deb"].into_iter().filter(|tool| !starts(tool)).collect();
    match missing.as_slice() {
        [] if !knows_kernels() => Check {
            what: "packages",
            ok: true,
            found: "apt knows no linux-image-cloud-amd64: debian: kernels cannot be fetched".into(),
            mend: "sudo apt-get update".into(),
        },
        [] => good("packages", "debian: kernels can be fetched".into()),
        tools => Check {
            what: "packages",
            ok: true,
            found: format!("no {}: debian: kernels cannot be fetched", tools.join(", ")),
            mend: "give kernels as files".into(),
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
        return bad("machine", found, "give a smaller --jobs");
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
