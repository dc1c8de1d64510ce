//! Checks what this machine can do, and says what fixes the rest.

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
    JournalReplay, JournalState, RunningKernel, journal_state, replay, state_dir,
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
    /// True if counting needs it, and not only some commands.
    pub needed: bool,
    /// Description for people.
    pub found: String,
    /// Command or advice that fixes it; empty if it works.
    pub fix: String,
}

/// Description of what works; or of what does not, and the step that fixes it.
type Found = Result<String, (String, String)>;

fn wrong(found: impl Into<String>, fix: impl Into<String>) -> Found {
    Err((found.into(), fix.into()))
}

/// Splits a message that ends with its next step.
fn wrong_with_step(message: &str) -> (String, String) {
    let (found, fix) = message.split_once("; ").unwrap_or((message, ""));
    (found.to_owned(), fix.to_owned())
}

impl Check {
    fn new(what: &'static str, needed: bool, found: Found) -> Check {
        let ok = found.is_ok();
        let (found, fix) = found.map_or_else(|wrong| wrong, |found| (found, String::new()));
        Check { what, ok, needed, found, fix }
    }

    /// Returns true if it prevents counting.
    pub fn is_bad(&self) -> bool {
        self.needed && !self.ok
    }
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
    let version = match &qemu {
        Ok(qemu) => Ok(format!("{} at {}", qemu.version, qemu.program.display())),
        Err(error) => wrong(
            error.to_string(),
            "sudo apt-get install qemu-system-x86, or name another QEMU with --qemu PROGRAM",
        ),
    };
    let mut checks = vec![("QEMU", true, version), ("cache", true, cache(&session.cache, budget))];
    if let Ok(qemu) = &qemu {
        checks.push(("plugin", true, plugin(qemu.clone(), session)));
        checks.push(("QEMU 8", false, newer_than_7(qemu)));
        checks.push(("--cpus", false, several_cpus(qemu, || self_test(qemu, session))));
    }
    checks.push(("packages", false, packages()));
    checks.push(("network", false, network()));
    checks.push(("machine", true, machine(session.jobs)));
    checks.push(("CPUs", false, quiet_cpus()));
    session.observer.status("trying KVM");
    let limits = session.limits.clone().for_trial();
    let tried = kvm::look(qemu.ok(), &session.cache, kernel.as_ref(), &limits, &session.cancel);
    session.observer.status("");
    let Some(tried) = tried else { return Ok(None) };
    checks.push(("KVM", false, tried));
    checks.push(("tracefs", false, tracefs()));
    checks.push(("PMU", false, pmu()));
    checks.push((
        "root",
        false,
        root(geteuid().is_root(), RunningKernel::default().check_sysctls_writable()),
    ));
    checks.push(("settings", true, settings()));
    Ok(Some(
        checks.into_iter().map(|(what, needed, found)| Check::new(what, needed, found)).collect(),
    ))
}

/// Kernel that the user names, or the newest one in the cache; nothing is downloaded.
fn kernel_to_try(path: Option<&Path>, session: &Session<'_>) -> Result<Option<Kernel>, Error> {
    let Some(path) = path else {
        let at_hand = kernel::newest_image(&session.cache);
        return Ok(at_hand.filter(|kernel| session.holds(&kernel.image).unwrap_or(false)));
    };
    // An absolute path cannot be mistaken for the name of a package.
    let path = std::path::absolute(path)?.display().to_string();
    session.obtain(&Subject::new(&path, "")).map(Some)
}

fn cache(cache: &Path, budget: Budget) -> Found {
    let path = cache.display();
    let space = fs::create_dir_all(cache).and_then(|()| Ok(rustix::fs::statvfs(cache)?));
    let space = space
        .map_err(|e| (format!("{path}: {e}"), "name another directory with --cache DIR".into()))?;
    if let Some((directory, error)) = unwritable(cache) {
        let found = format!("cannot write into {}: {error}", directory.display());
        return wrong(found, "name a directory that you can write with --cache DIR");
    }
    let free_mib = (space.f_bavail * space.f_frsize) >> 20;
    let taken = binary_size(survey(cache).bytes());
    let most = match budget {
        Budget::Unlimited => String::new(),
        Budget::Bytes(_) => format!(" of at most {budget}"),
    };
    let found =
        format!("{path}, {taken}{most}, {free_mib} MiB free; a snapshot takes about 120 MiB");
    if free_mib >> 10 >= FREE_DISK_GIB {
        return Ok(found);
    }
    wrong(
        found,
        format!(
            "free {FREE_DISK_GIB} GiB there, such as with `ktax cache clean --all`, or name \
             another directory with --cache DIR"
        ),
    )
}

/// Directory of the cache in which this user cannot create files: another user may have created it.
fn unwritable(cache: &Path) -> Option<(PathBuf, io::Error)> {
    let entries = cache.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let below = entries.filter(|path| path.is_dir());
    let mut directories = std::iter::once(cache.to_owned()).chain(below);
    directories.find_map(|path| Some((path.clone(), check_writable(&path.join("new")).err()?)))
}

/// Starts QEMU with the plugin and without a machine, so that it can refuse what it does not
/// support.
fn plugin(qemu: Qemu, session: &Session<'_>) -> Found {
    let engine = Exact::new(qemu, &session.cache, session.limits.clone(), Cancel::default());
    match engine.and_then(|engine| engine.try_plugin()) {
        Ok(()) => Ok(format!("loads; guest program {}", &payload::guest_sha256()[..12])),
        Err(failure) => wrong(failure.to_string(), plugin_fix(&failure)),
    }
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

/// Returns true if this QEMU is new enough to record KVM's statistics.
fn newer_than_7(qemu: &Qemu) -> Found {
    let major = qemu.version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_some_and(|major| major >= WITH_STATISTICS) {
        return Ok("its guests can be recorded with `ktax exits record --via stats`".into());
    }
    let version = qemu.version.split(' ').next().unwrap_or_default();
    wrong(
        format!(
            "{version} is older, which is enough to count: only `ktax exits record --via stats` \
             needs 8"
        ),
        "install qemu-system-x86 from your distribution's backports",
    )
}

/// First version of QEMU that keeps KVM's statistics open.
const WITH_STATISTICS: u32 = 8;

/// Returns true if guests with several CPUs can be counted. `test` runs if QEMU is new enough.
fn several_cpus(qemu: &Qemu, test: impl FnOnce() -> Result<(), Error>) -> Found {
    if !qemu.has_several_cpus() {
        return wrong(
            "counting guests with several CPUs needs QEMU 10",
            "name that of Debian 13 with --qemu, or unpack that of Debian 12's backports with \
             `ktax doctor --newer-qemu DIR`",
        );
    }
    let passed = test().map(|()| "guests with several CPUs can be counted".to_owned());
    passed.map_err(|error| {
        let fix = Some(error.next_step()).filter(|_| error.blame == Blame::Guest);
        (error.message().to_owned(), fix.unwrap_or("try again").to_owned())
    })
}

/// Runs the self-test, which takes a second, if this QEMU has not passed it yet.
fn self_test(qemu: &Qemu, session: &Session<'_>) -> Result<(), Error> {
    session.observer.status("testing QEMU with several CPUs");
    let (limits, cancel) = (session.limits.clone(), session.cancel.clone());
    Exact::new(qemu.clone(), &session.cache, limits, cancel)?.check_slices()
}

fn packages() -> Found {
    let mut missing = ["apt-get", "apt-cache", "dpkg-deb"].to_vec();
    missing.retain(|tool| !succeeds(Command::new(tool).arg("--version")));
    if !missing.is_empty() {
        let found = format!("{} not found: debian: kernels cannot be fetched", missing.join(", "));
        return wrong(found, "name kernels by their files");
    }
    match succeeds(Command::new("apt-cache").args(["show", "linux-image-cloud-amd64"])) {
        true => Ok("apt knows debian: kernels".into()),
        false => wrong(
            "apt has no package linux-image-cloud-amd64: debian: kernels cannot be fetched",
            "sudo apt-get update",
        ),
    }
}

fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns true if packages and sources can be fetched, judged without sending anything.
fn network() -> Found {
    let routes = fs::read_to_string("/proc/net/route").unwrap_or_default();
    let routes_6 = fs::read_to_string("/proc/net/ipv6_route").unwrap_or_default();
    let proxy = ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"];
    match default_route(&routes, &routes_6) {
        Some(device) => Ok(format!("a default route through {device}; nothing was sent")),
        None if proxy.iter().any(|name| env::var_os(name).is_some()) => {
            Ok("a proxy is set; nothing was sent".into())
        }
        None => wrong(
            "no default route: debian: kernels must be in the cache",
            "connect this machine, or name kernels by their files",
        ),
    }
}

/// Device of the default route, from the kernel's lists for IPv4 and IPv6.
fn default_route(routes: &str, routes_6: &str) -> Option<String> {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let is_v4 = |line: &Vec<String>| line.get(1).is_some_and(|to| to == "00000000");
    let v4 = routes.lines().skip(1).map(words).find(is_v4).map(|line| line[0].clone());
    // The last column is the device; `lo` marks packets without a route.
    let is_v6 = |line: &Vec<String>| {
        let is_all = line.first().is_some_and(|to| to.bytes().all(|digit| digit == b'0'));
        is_all && line.get(1).is_some_and(|bits| bits == "00") && line.last().unwrap() != "lo"
    };
    v4.or_else(|| routes_6.lines().map(words).find(is_v6)?.pop())
}

fn machine(jobs: usize) -> Found {
    let (pages, size) = (rustix::param::page_size(), rustix::system::sysinfo());
    let memory_mib = size.totalram.saturating_mul(u64::from(size.mem_unit)) >> 20;
    let vms = counted(jobs, "VM");
    let found = format!("{vms} at a time, {memory_mib} MiB of memory, pages of {pages} bytes");
    match memory_mib < 512 * jobs as u64 {
        true => wrong(found, "use a smaller --jobs (512 MiB for each VM)"),
        false => Ok(found),
    }
}

/// Names the quiet CPUs, for timed runs. Counting does not need them.
fn quiet_cpus() -> Found {
    let looked = noise::cpu_shares(CPU_WATCH_TIME);
    match looked.and_then(|shares| Ok((shares, allowed_cpus()?))) {
        Ok((shares, allowed)) => match describe_cpus(&shares, &allowed) {
            (found, fix) if fix.is_empty() => Ok(found),
            busy => Err(busy),
        },
        Err(error) => {
            wrong(format!("cannot measure how busy the CPUs are: {error}"), "mount /proc")
        }
    }
}

/// Describes the quiet and busy CPUs among `allowed`, and what to do before a timed run.
fn describe_cpus(shares: &[CpuShare], allowed: &[u32]) -> (String, String) {
    const SHOWN: usize = 8;
    let is_allowed = |share: &&CpuShare| allowed.contains(&share.cpu);
    let (shares, others): (Vec<CpuShare>, Vec<CpuShare>) = shares.iter().partition(is_allowed);
    let others: Vec<u32> = others.iter().map(|share| share.cpu).collect();
    let (quiet, busy) = noise::split_quiet(&shares);
    let mut parts = Vec::new();
    if !quiet.is_empty() {
        parts.push(format!("quiet: {}", noise::cpu_list(&quiet)));
    }
    if !busy.is_empty() {
        let each = |share: &CpuShare| format!("{} ({:.0} %)", share.cpu, share.busy_percent);
        let mut each: Vec<String> = busy.iter().take(SHOWN).map(each).collect();
        each.extend(busy.len().checked_sub(SHOWN + 1).map(|more| format!("{} more", more + 1)));
        parts.push(format!("busy: {}", each.join(", ")));
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

/// Returns true if exits can be recorded by the kernel's tracepoints.
fn tracefs() -> Found {
    match Tracefs::find() {
        Ok(tracefs) if tracefs.format("kvm/kvm_exit").is_some() => {
            Ok("`ktax exits record` finds KVM's tracepoints".into())
        }
        Ok(_) => wrong(
            "this kernel has no tracepoint kvm/kvm_exit: `ktax exits record` needs it",
            "load KVM with `sudo modprobe kvm`",
        ),
        Err(error) => {
            let (found, fix) = wrong_with_step(&error.to_string());
            let fix = fix.strip_prefix("type: ").unwrap_or(&fix);
            wrong(format!("{found}: `ktax exits record` needs it"), fix)
        }
    }
}

/// Returns true if the processor's counters can be read; the exact engine needs none.
fn pmu() -> Found {
    match Counters::open(getpid()).read().get("cycles") {
        Some(StatCount::Measured { .. }) => Ok("`ktax stat` counts cycles and instructions".into()),
        Some(StatCount::Missing(why)) => {
            let (found, fix) = wrong_with_step(why);
            wrong(format!("{found}: `ktax stat` counts no cycles"), fix)
        }
        None => wrong("the kernel does not say", "use a newer kernel"),
    }
}

/// Returns true if this user may change settings of the running kernel.
fn root(is_root: bool, may_change: io::Result<()>) -> Found {
    match (is_root, may_change) {
        (true, Ok(())) => Ok("`--engine host` can change settings".into()),
        (true, Err(reason)) => wrong(
            format!(
                "/proc/sys cannot be written ({reason}): `--engine host` can change no setting"
            ),
            "run ktax outside of the container",
        ),
        (false, _) => wrong(
            "an ordinary user: `--engine host` can change no setting, `ktax exits record` sees no \
             tracepoint; counting needs no root",
            "type `sudo ktax …` for these two",
        ),
    }
}

/// Returns true if a killed ktax has left settings changed.
fn settings() -> Found {
    let dir = state_dir();
    match journal_state(&dir) {
        Ok(JournalState::Absent) => Ok("no setting of this machine is left changed".into()),
        Ok(JournalState::InUse) => Ok("a running ktax changes them, and will restore them".into()),
        Ok(JournalState::LeftOver) => wrong(
            format!("left changed by a killed ktax; the journal is in {dir:?}"),
            // sudo drops environment variables by default.
            match env::var_os("KTAX_STATE") {
                None => "sudo ktax doctor --restore",
                Some(_) => "sudo --preserve-env=KTAX_STATE ktax doctor --restore",
            },
        ),
        Err(error) => {
            wrong(error.to_string(), "set KTAX_STATE to a directory that only you can write")
        }
    }
}

/// Restores the settings that a killed ktax left changed.
pub fn restore() -> Result<JournalReplay, Error> {
    replay(&state_dir())
}

/// Script that fetches QEMU with the distribution's own tools; `make newer-qemu` runs it too.
const SCRIPT: &str = include_str!("../../scripts/qemu-backports.sh");

const NEXT: &str = "look whether this distribution has backports with QEMU 10, or use Debian 13";

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
            let message = format!("--newer-qemu {dir} has other files, or is one");
            Err(Error::user(message).next("name a new directory"))
        }
    }
}

fn unpack_qemu(dir: &Path) -> Result<(), Error> {
    let mut script = Command::new("sh");
    script.arg("-c").arg(SCRIPT).arg("qemu-backports").arg(dir).stdin(Stdio::null());
    let ran = script.output().or_host("cannot start sh", "install it")?;
    let last = ran.stderr.trim_ascii_end().rsplit(|byte| *byte == b'\n').next();
    let last = escape_bytes(last.unwrap_or_default());
    let result = if ran.status.success() { Ok(()) } else { Err(io::Error::other(last)) };
    result.or_host("cannot unpack a newer QEMU", NEXT)
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
    fn what_does_not_work_is_not_ok_and_says_what_fixes_it() {
        let old = Qemu { program: "q".into(), version: "7.2.22 (Debian)".into() };
        let new = Qemu { version: "10.0.2".into(), ..old.clone() };
        let here = root(geteuid().is_root(), RunningKernel::default().check_sysctls_writable());
        for found in [newer_than_7(&old), newer_than_7(&new), tracefs(), pmu(), here, network()] {
            let check = Check::new("x", false, found);
            assert_eq!(check.ok, check.fix.is_empty(), "{check:?}");
            assert!(!check.is_bad() && !check.found.is_empty(), "{check:?}");
        }
        assert!(newer_than_7(&old).is_err() && newer_than_7(&new).is_ok());
        assert!(several_cpus(&old, || panic!("not tested")).is_err());
        assert!(several_cpus(&new, || Ok(())).is_ok());
        let failed =
            || Error::guest("QEMU fails the self-test: it is late").next("use another QEMU");
        let (found, fix) = several_cpus(&new, || Err(failed())).unwrap_err();
        assert!(found.ends_with("self-test: it is late"), "{found}");
        assert_eq!(fix, "use another QEMU");
        let refused = || Err(io::ErrorKind::ReadOnlyFilesystem.into());
        assert!(root(true, Ok(())).is_ok());
        assert!(root(true, refused()).is_err() && root(false, refused()).is_err());
    }

    fn shares(percents: &[f64]) -> Vec<CpuShare> {
        let share = |(cpu, percent): (u32, &f64)| CpuShare { cpu, busy_percent: *percent };
        (0..).zip(percents).map(share).collect()
    }

    #[test]
    fn quiet_cpus_are_named_and_busy_ones_with_their_share() {
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
    fn cpus_that_ktax_may_not_use_are_neither() {
        let (found, fix) = describe_cpus(&shares(&[0.0, 99.0, 0.0, 34.0]), &[2, 3]);
        assert_eq!(found, "quiet: 2; busy: 3 (34 %); not in ktax's CPU affinity: 0-1");
        assert_eq!(fix, "to measure times: taskset -c 2 COMMAND");
    }
}
