//! Checks what ktax can do on this machine, and names fixes.

mod kvm;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

use rustix::process::{geteuid, getpid};
use serde::Serialize;

use super::Error;
use super::session::Session;
use crate::cache::{Budget, survey};
use crate::disk::check_writable;
use crate::engine::command::Counters;
use crate::engine::exact::Exact;
use crate::engine::host::{
    JournalReplay, JournalState, RunningKernel, journal_state, replay, restore_command, state_dir,
};
use crate::engine::kvm::allowed_cpus;
use crate::engine::limits::CPU_WATCH_TIME;
use crate::engine::noise::{self, CpuShare};
use crate::engine::qemu::Qemu;
use crate::engine::{Cancel, payload};
use crate::exits::live::Tracefs;
use crate::kernel::{self, Kernel};
use crate::model::{Blame, ErrorContext, FREE_DISK_GIB, Failure, StatCount, Subject};
use crate::text::{binary_size, counted, escape_bytes, shell_path};

/// Result of one check.
#[derive(Debug, Serialize)]
pub struct Check {
    /// Name of the check.
    pub what: &'static str,
    pub ok: bool,
    /// True if counting needs what is checked; false if only some commands do.
    pub needed: bool,
    /// Description for people.
    pub found: String,
    /// Command or advice that fixes a problem; empty if there is none.
    pub fix: String,
}

/// Description of what works; or description of a problem, and its fix.
type Finding = Result<String, (String, String)>;

fn problem(description: impl Into<String>, fix: impl Into<String>) -> Finding {
    Err((description.into(), fix.into()))
}

/// Splits a message that ends with its next step.
fn split_next_step(message: &str) -> (String, String) {
    let (found, fix) = message.split_once("; ").unwrap_or((message, ""));
    (found.to_owned(), fix.to_owned())
}

impl Check {
    fn new(what: &'static str, needed: bool, finding: Finding) -> Check {
        let ok = finding.is_ok();
        let (found, fix) = finding.map_or_else(|problem| problem, |found| (found, String::new()));
        Check { what, ok, needed, found, fix }
    }

    /// Returns true if the problem prevents counting.
    pub fn is_bad(&self) -> bool {
        self.needed && !self.ok
    }
}

/// Runs all checks. KVM is tried with `kernel`, or with the newest kernel in the cache. `None` if
/// the user stopped the checks.
pub fn run_checks(
    kernel: Option<&Path>,
    budget: Budget,
    session: &Session<'_>,
) -> Result<Option<Vec<Check>>, Error> {
    let kernel = kernel_to_try(kernel, session)?;
    let qemu = Qemu::find(session.qemu.as_deref());
    let version = match &qemu {
        Ok(qemu) => Ok(format!("{} at {}", qemu.version, qemu.program.display())),
        Err(error) => problem(
            error.to_string(),
            "sudo apt-get install qemu-system-x86, or name another QEMU with --qemu PROGRAM",
        ),
    };
    let mut checks =
        vec![("QEMU", true, version), ("cache", true, check_cache(&session.cache, budget))];
    if let Ok(qemu) = &qemu {
        checks.push(("plugin", true, check_plugin(qemu.clone(), session)));
        checks.push(("QEMU 8", false, check_kvm_statistics(qemu)));
        checks.push(("--cpus", false, check_several_cpus(qemu, || self_test(qemu, session))));
    }
    checks.push(("packages", false, check_packages()));
    checks.push(("network", false, check_network()));
    checks.push(("machine", true, check_machine(session.jobs)));
    checks.push(("CPUs", false, check_quiet_cpus()));
    session.observer.status("trying KVM");
    let limits = session.limits.clone().for_trial();
    let kvm = kvm::check_kvm(qemu.ok(), &session.cache, kernel.as_ref(), &limits, &session.cancel);
    session.observer.status("");
    let Some(kvm) = kvm else { return Ok(None) };
    checks.push(("KVM", false, kvm));
    checks.push(("tracefs", false, check_tracefs()));
    checks.push(("PMU", false, check_pmu()));
    checks.push((
        "root",
        false,
        check_root(geteuid().is_root(), RunningKernel::default().check_sysctls_writable()),
    ));
    checks.push(("settings", true, check_settings()));
    Ok(Some(
        checks
            .into_iter()
            .map(|(what, needed, finding)| Check::new(what, needed, finding))
            .collect(),
    ))
}

/// Kernel that the user names, else the newest one in the cache; nothing is downloaded.
fn kernel_to_try(path: Option<&Path>, session: &Session<'_>) -> Result<Option<Kernel>, Error> {
    let Some(path) = path else {
        let newest = kernel::newest_image(&session.cache);
        return Ok(newest.filter(|kernel| session.hold_image(&kernel.image).unwrap_or(false)));
    };
    // An absolute path cannot be mistaken for the name of a package.
    let path = std::path::absolute(path)?.display().to_string();
    session.obtain(&Subject::new(&path, "")).map(Some)
}

fn check_cache(cache: &Path, budget: Budget) -> Finding {
    let path = cache.display();
    let space = fs::create_dir_all(cache).and_then(|()| Ok(rustix::fs::statvfs(cache)?));
    let space = space
        .map_err(|e| (format!("{path}: {e}"), "name another directory with --cache DIR".into()))?;
    if let Some((directory, error)) = unwritable(cache) {
        let found = format!("cannot write into {}: {error}", directory.display());
        return problem(found, "name a directory that you can write with --cache DIR");
    }
    let free_mib = (space.f_bavail * space.f_frsize) >> 20;
    let used = binary_size(survey(cache).bytes());
    let limit = match budget {
        Budget::Unlimited => String::new(),
        Budget::Bytes(_) => format!(" of at most {budget}"),
    };
    let found =
        format!("{path}, {used}{limit}, {free_mib} MiB free; a snapshot takes about 120 MiB");
    if free_mib >> 10 >= FREE_DISK_GIB {
        return Ok(found);
    }
    problem(
        found,
        format!(
            "free {FREE_DISK_GIB} GiB there, such as with `ktax cache clean --all`, or name \
             another directory with --cache DIR"
        ),
    )
}

/// Directory of the cache in which this user cannot create files, and why. Another user may have
/// created it.
fn unwritable(cache: &Path) -> Option<(PathBuf, io::Error)> {
    let entries = cache.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let subdirectories = entries.filter(|path| path.is_dir());
    let mut directories = std::iter::once(cache.to_owned()).chain(subdirectories);
    directories.find_map(|path| Some((path.clone(), check_writable(&path.join("new")).err()?)))
}

/// Starts QEMU with the plugin and without a machine. QEMU refuses a plugin that it cannot load.
fn check_plugin(qemu: Qemu, session: &Session<'_>) -> Finding {
    let engine = Exact::new(qemu, &session.cache, session.limits.clone(), Cancel::default());
    match engine.and_then(|engine| engine.try_plugin()) {
        Ok(()) => Ok(format!("loads; guest program {}", &payload::guest_sha256()[..12])),
        Err(failure) => problem(failure.to_string(), plugin_fix(&failure)),
    }
}

/// Fix for a failure of the plugin. The failure's own next step may be to run `ktax doctor`.
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

/// Checks that this QEMU is new enough to record KVM's statistics.
fn check_kvm_statistics(qemu: &Qemu) -> Finding {
    let major = qemu.version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_some_and(|major| major >= FIRST_WITH_STATISTICS) {
        return Ok("its guests can be recorded with `ktax exits record --via stats`".into());
    }
    let version = qemu.version.split(' ').next().unwrap_or_default();
    problem(
        format!(
            "{version} is older, which is enough to count: only `ktax exits record --via stats` \
             needs 8"
        ),
        "install qemu-system-x86 from your distribution's backports",
    )
}

/// First major version of QEMU that keeps KVM's statistics open.
const FIRST_WITH_STATISTICS: u32 = 8;

/// Checks that guests with several CPUs can be counted. `test` runs if QEMU is new enough.
fn check_several_cpus(qemu: &Qemu, test: impl FnOnce() -> Result<(), Error>) -> Finding {
    if !qemu.supports_several_cpus() {
        return problem(
            "counting guests with several CPUs needs QEMU 10",
            "name QEMU of Debian 13 with --qemu, or unpack QEMU of Debian 12's backports with \
             `ktax doctor --newer-qemu DIR`",
        );
    }
    let passed = test().map(|()| "guests with several CPUs can be counted".to_owned());
    passed.map_err(|error| {
        let fix = Some(error.next_step()).filter(|_| error.blame == Blame::Guest);
        (error.message().to_owned(), fix.unwrap_or("try again").to_owned())
    })
}

/// Runs the self-test of several CPUs, unless this QEMU has already passed it.
fn self_test(qemu: &Qemu, session: &Session<'_>) -> Result<(), Error> {
    session.observer.status("testing QEMU with several CPUs");
    let (limits, cancel) = (session.limits.clone(), session.cancel.clone());
    Exact::new(qemu.clone(), &session.cache, limits, cancel)?.check_slices()
}

fn check_packages() -> Finding {
    let mut missing = ["apt-get", "apt-cache", "dpkg-deb"].to_vec();
    missing.retain(|tool| !succeeds(Command::new(tool).arg("--version")));
    if !missing.is_empty() {
        let found = format!("{} not found: debian: kernels cannot be fetched", missing.join(", "));
        return problem(found, "name kernels by their files");
    }
    match succeeds(Command::new("apt-cache").args(["show", "linux-image-cloud-amd64"])) {
        true => Ok("apt knows debian: kernels".into()),
        false => problem(
            "apt has no package linux-image-cloud-amd64: debian: kernels cannot be fetched",
            "sudo apt-get update",
        ),
    }
}

fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Checks whether packages and sources can be fetched, without sending anything.
fn check_network() -> Finding {
    let routes = fs::read_to_string("/proc/net/route").unwrap_or_default();
    let routes_6 = fs::read_to_string("/proc/net/ipv6_route").unwrap_or_default();
    let proxy = ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"];
    match default_route(&routes, &routes_6) {
        Some(device) => Ok(format!("a default route through {device}; nothing was sent")),
        None if proxy.iter().any(|name| env::var_os(name).is_some()) => {
            Ok("a proxy is set; nothing was sent".into())
        }
        None => problem(
            "no default route: debian: kernels must be in the cache",
            "connect this machine, or name kernels by their files",
        ),
    }
}

/// Device of the default route, from /proc/net/route and /proc/net/ipv6_route.
fn default_route(routes: &str, routes_6: &str) -> Option<String> {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let is_v4 = |line: &Vec<String>| line.get(1).is_some_and(|to| to == "00000000");
    let v4 = routes.lines().skip(1).map(words).find(is_v4).map(|line| line[0].clone());
    // The last column is the device. The kernel drops packets of default routes through `lo`.
    let is_v6 = |line: &Vec<String>| {
        let is_all = line.first().is_some_and(|to| to.bytes().all(|digit| digit == b'0'));
        is_all && line.get(1).is_some_and(|bits| bits == "00") && line.last().unwrap() != "lo"
    };
    v4.or_else(|| routes_6.lines().map(words).find(is_v6)?.pop())
}

fn check_machine(jobs: usize) -> Finding {
    let (pages, size) = (rustix::param::page_size(), rustix::system::sysinfo());
    let memory_mib = size.totalram.saturating_mul(u64::from(size.mem_unit)) >> 20;
    let vms = counted(jobs, "VM");
    let found = format!("{vms} at a time, {memory_mib} MiB of memory, pages of {pages} bytes");
    match memory_mib < 512 * jobs as u64 {
        true => problem(found, "use a smaller --jobs (512 MiB for each VM)"),
        false => Ok(found),
    }
}

/// Names the quiet CPUs, for timed runs. Counting does not need them.
fn check_quiet_cpus() -> Finding {
    let shares = match noise::cpu_shares(CPU_WATCH_TIME) {
        Ok(shares) => shares,
        Err(error) => return problem(format!("cannot read /proc/stat: {error}"), "mount /proc"),
    };
    let allowed = match allowed_cpus() {
        Ok(allowed) => allowed,
        Err(error) => {
            let found = format!("cannot tell which CPUs ktax may use: {error}");
            return problem(found, "allow the system call sched_getaffinity");
        }
    };
    match describe_cpus(&shares, &allowed) {
        (found, fix) if fix.is_empty() => Ok(found),
        busy => Err(busy),
    }
}

/// Describes the quiet and busy CPUs among `allowed`, and the fix before a timed run.
fn describe_cpus(shares: &[CpuShare], allowed: &[u32]) -> (String, String) {
    const MAX_SHOWN: usize = 8;
    let is_allowed = |share: &&CpuShare| allowed.contains(&share.cpu);
    let (shares, others): (Vec<CpuShare>, Vec<CpuShare>) = shares.iter().partition(is_allowed);
    let others: Vec<u32> = others.iter().map(|share| share.cpu).collect();
    let (quiet, busy) = noise::split_quiet(&shares);
    let mut parts = Vec::new();
    if !quiet.is_empty() {
        parts.push(format!("quiet: {}", noise::cpu_list(&quiet)));
    }
    if !busy.is_empty() {
        let load = |share: &CpuShare| format!("{} ({:.0} %)", share.cpu, share.busy_percent);
        let mut loads: Vec<String> = busy.iter().take(MAX_SHOWN).map(load).collect();
        let more = busy.len().saturating_sub(MAX_SHOWN);
        loads.extend((more > 0).then(|| format!("{more} more")));
        parts.push(format!("busy: {}", loads.join(", ")));
    }
    if !others.is_empty() {
        parts.push(format!("not in ktax's CPU affinity: {}", noise::cpu_list(&others)));
    }
    let fix = match (quiet.is_empty(), busy.is_empty()) {
        (_, true) => String::new(),
        (false, false) => {
            format!("to measure times: taskset -c {} COMMAND", noise::cpu_list(&quiet))
        }
        (true, false) => "to measure times: end other programs".into(),
    };
    (parts.join("; "), fix)
}

/// Checks that exits can be recorded by the kernel's tracepoints.
fn check_tracefs() -> Finding {
    match Tracefs::find() {
        Ok(tracefs) if tracefs.format("kvm/kvm_exit").is_some() => {
            Ok("`ktax exits record` finds KVM's tracepoints".into())
        }
        Ok(_) => problem(
            "this kernel has no tracepoint kvm/kvm_exit: `ktax exits record` needs it",
            "load KVM with `sudo modprobe kvm`",
        ),
        Err(error) => {
            let (found, fix) = split_next_step(&error.to_string());
            let fix = fix.strip_prefix("type: ").unwrap_or(&fix);
            problem(format!("{found}: `ktax exits record` needs it"), fix)
        }
    }
}

/// Checks that the processor's counters can be read. The exact engine needs none.
fn check_pmu() -> Finding {
    match Counters::open(getpid()).read().get("cycles") {
        Some(StatCount::Measured { .. }) => Ok("`ktax stat` counts cycles and instructions".into()),
        Some(StatCount::Missing(why)) => {
            let (found, fix) = split_next_step(why);
            problem(format!("{found}: `ktax stat` counts no cycles"), fix)
        }
        None => {
            problem("the kernel reports no cycles: `ktax stat` counts none", "use a newer kernel")
        }
    }
}

/// Checks that this user may change settings of the running kernel.
fn check_root(is_root: bool, may_change: io::Result<()>) -> Finding {
    match (is_root, may_change) {
        (true, Ok(())) => Ok("`--engine host` can change settings".into()),
        (true, Err(reason)) => problem(
            format!(
                "/proc/sys cannot be written ({reason}): `--engine host` can change no setting"
            ),
            "run ktax outside of the container",
        ),
        (false, _) => problem(
            "an ordinary user: `--engine host` can change no setting, `ktax exits record` sees no \
             tracepoint; counting needs no root",
            "use sudo for these two commands",
        ),
    }
}

/// Checks that no killed ktax has left settings changed.
fn check_settings() -> Finding {
    let dir = state_dir();
    match journal_state(&dir) {
        Ok(JournalState::Absent) => Ok("no setting of this machine is left changed".into()),
        Ok(JournalState::InUse) => Ok("a running ktax changes them, and will restore them".into()),
        Ok(JournalState::LeftOver) => problem(
            format!("left changed by a killed ktax; the journal is in {dir:?}"),
            restore_command(),
        ),
        Err(error) => {
            problem(error.to_string(), "set KTAX_STATE to a directory that only you can write")
        }
    }
}

/// Restores the settings that a killed ktax left changed.
pub fn restore() -> Result<JournalReplay, Error> {
    replay(&state_dir())
}

/// Script that fetches QEMU with the distribution's own tools; `make newer-qemu` runs it too.
const BACKPORTS_SCRIPT: &str = include_str!("../../scripts/qemu-backports.sh");

const NO_BACKPORTS_STEP: &str =
    "check whether this distribution has backports with QEMU 10, or use Debian 13";

/// Unpacks the QEMU of the distribution's backports into a new directory.
pub fn newer_qemu(dir: &Path) -> Result<Qemu, Error> {
    let dir = std::path::absolute(dir).or_host("cannot find the current directory", "go to one")?;
    let program = dir.join("qemu-system-x86_64");
    if !program.is_file() {
        check_empty(&dir)?;
        unpack_qemu(&dir).inspect_err(|_| drop(fs::remove_dir_all(&dir)))?;
    }
    Qemu::find(Some(&program))
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
            let message = format!("--newer-qemu {dir} is a file, or a directory that is not empty");
            Err(Error::user(message).next("name a new directory"))
        }
    }
}

fn unpack_qemu(dir: &Path) -> Result<(), Error> {
    let mut script = Command::new("sh");
    script.arg("-c").arg(BACKPORTS_SCRIPT).arg("qemu-backports").arg(dir).stdin(Stdio::null());
    let ran = script.output().or_host("cannot start sh", "install it")?;
    let last = ran.stderr.trim_ascii_end().rsplit(|byte| *byte == b'\n').next();
    let last = escape_bytes(last.unwrap_or_default());
    let result = if ran.status.success() { Ok(()) } else { Err(io::Error::other(last)) };
    result.or_host("cannot unpack a newer QEMU", NO_BACKPORTS_STEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_route_is_found_in_either_list() {
        let head = "Iface\tDestination\tGateway\n";
        let v4 = format!("{head}eth0\t0000A8C0\t0\neth1\t00000000\t0100A8C0\n");
        let zeros = "0".repeat(32);
        let route_of = |device: &str| {
            format!("{zeros} 00 {zeros} 00 fe80 00000400 00000001 00000000 00000003 {device}\n")
        };
        assert_eq!(default_route(&v4, "").as_deref(), Some("eth1"));
        assert_eq!(default_route(head, &route_of("wlan0")).as_deref(), Some("wlan0"));
        assert_eq!(default_route(head, &route_of("lo")), None);
        assert_eq!(default_route("", ""), None);
    }

    #[test]
    fn problems_have_a_fix() {
        let old = Qemu { program: "q".into(), version: "7.2.22 (Debian)".into() };
        let new = Qemu { version: "10.0.2".into(), ..old.clone() };
        let here =
            check_root(geteuid().is_root(), RunningKernel::default().check_sysctls_writable());
        for found in [
            check_kvm_statistics(&old),
            check_kvm_statistics(&new),
            check_tracefs(),
            check_pmu(),
            here,
            check_network(),
        ] {
            let check = Check::new("x", false, found);
            assert_eq!(check.ok, check.fix.is_empty(), "{check:?}");
            assert!(!check.is_bad() && !check.found.is_empty(), "{check:?}");
        }
        assert!(check_kvm_statistics(&old).is_err() && check_kvm_statistics(&new).is_ok());
        assert!(check_several_cpus(&old, || panic!("not tested")).is_err());
        assert!(check_several_cpus(&new, || Ok(())).is_ok());
        let failed =
            || Error::guest("QEMU fails the self-test: it is late").next("use another QEMU");
        let (found, fix) = check_several_cpus(&new, || Err(failed())).unwrap_err();
        assert!(found.ends_with("self-test: it is late"), "{found}");
        assert_eq!(fix, "use another QEMU");
        let refused = || Err(io::ErrorKind::ReadOnlyFilesystem.into());
        assert!(check_root(true, Ok(())).is_ok());
        assert!(check_root(true, refused()).is_err() && check_root(false, refused()).is_err());
    }

    fn shares(percents: &[f64]) -> Vec<CpuShare> {
        let share = |(cpu, percent): (u32, &f64)| CpuShare { cpu, busy_percent: *percent };
        (0..).zip(percents).map(share).collect()
    }

    #[test]
    fn quiet_cpus_and_loads_of_busy_cpus_are_shown() {
        let cpus: Vec<u32> = (0..9).collect();
        let described = |percents: &[f64]| describe_cpus(&shares(percents), &cpus);
        let pin = |list: &str| format!("to measure times: taskset -c {list} COMMAND");
        assert_eq!(described(&[34.0, 2.0]), ("quiet: 1; busy: 0 (34 %)".into(), pin("1")));
        assert_eq!(described(&[0.0, 2.0, 0.0]), ("quiet: 0-2".into(), String::new()));
        let end = "to measure times: end other programs".to_owned();
        assert_eq!(described(&[34.0, 99.6]), ("busy: 1 (100 %), 0 (34 %)".into(), end.clone()));
        let (found, fix) = described(&[50.0; 9]);
        assert!(found.ends_with("7 (50 %), 1 more"), "{found}");
        assert_eq!(fix, end);
        assert!(described(&[50.0; 8]).0.ends_with("7 (50 %)"));
    }

    #[test]
    fn cpus_that_ktax_may_not_use_are_listed_apart() {
        let (found, fix) = describe_cpus(&shares(&[0.0, 99.0, 0.0, 34.0]), &[2, 3]);
        assert_eq!(found, "quiet: 2; busy: 3 (34 %); not in ktax's CPU affinity: 0-1");
        assert_eq!(fix, "to measure times: taskset -c 2 COMMAND");
    }
}
