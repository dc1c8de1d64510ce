//! Checks for single commands: recording exits, counting natively, changing settings, fetching, and
//! measuring times.

use std::{fs, io};

use rustix::process::{geteuid, getpid};

use super::{Check, optional};
use crate::engine::command::Counters;
use crate::engine::host::Running;
use crate::engine::kvm::allowed_cpus;
use crate::engine::limits::LOOK_AT_CPUS;
use crate::engine::noise::{self, CpuShare};
use crate::engine::qemu::Qemu;
use crate::exits::live::Tracefs;
use crate::model::{Blame, Count, Error};

/// First version of QEMU that keeps KVM's statistics open.
const WITH_STATISTICS: u32 = 8;

/// Whether exits can be recorded by the kernel's tracepoints.
pub(super) fn tracefs() -> Check {
    match Tracefs::find() {
        Ok(tracefs) if tracefs.format("kvm/kvm_exit").is_some() => {
            optional("tracefs", true, "`ktax exits record` finds KVM's tracepoints".into(), "")
        }
        Ok(_) => optional(
            "tracefs",
            false,
            "this kernel has no tracepoint kvm/kvm_exit: `ktax exits record` needs it".into(),
            "load KVM with `sudo modprobe kvm`",
        ),
        Err(error) => {
            let text = error.to_string();
            let (found, fix) = text.split_once("; ").unwrap_or((&text, ""));
            let fix = fix.strip_prefix("type: ").unwrap_or(fix);
            optional("tracefs", false, format!("{found}: `ktax exits record` needs it"), fix)
        }
    }
}

/// Whether the processor's counters can be read; the exact engine needs none.
pub(super) fn pmu() -> Check {
    let counted = Counters::open(getpid()).read();
    match counted.get("cycles") {
        Some(Count::Seen { .. }) => {
            optional("PMU", true, "`ktax stat` counts cycles and instructions".into(), "")
        }
        Some(Count::Not(why)) => {
            let (found, fix) = why.split_once("; ").unwrap_or((why, ""));
            optional("PMU", false, format!("{found}: `ktax stat` counts no cycles"), fix)
        }
        None => optional("PMU", false, "the kernel does not say".into(), "use a newer kernel"),
    }
}

/// Whether this user may change settings of the running kernel.
pub(super) fn root() -> Check {
    root_of(geteuid().is_root(), Running::default().may_change())
}

fn root_of(is_root: bool, may_change: io::Result<()>) -> Check {
    match (is_root, may_change) {
        (true, Ok(())) => optional("root", true, "`--engine host` can change settings".into(), ""),
        (true, Err(reason)) => optional(
            "root",
            false,
            format!(
                "/proc/sys cannot be written ({reason}): `--engine host` can change no setting"
            ),
            "run ktax outside of the container",
        ),
        (false, _) => optional(
            "root",
            false,
            "an ordinary user: `--engine host` can change no setting, `ktax exits record` sees no \
             tracepoint; counting needs no root"
                .into(),
            "type `sudo ktax …` for these two",
        ),
    }
}

/// Whether packages and sources can be fetched, judged without sending anything.
pub(super) fn network() -> Check {
    let routes = fs::read_to_string("/proc/net/route").unwrap_or_default();
    let routes_6 = fs::read_to_string("/proc/net/ipv6_route").unwrap_or_default();
    let proxy = ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"];
    let has_proxy = proxy.iter().any(|name| std::env::var_os(name).is_some());
    match default_route(&routes, &routes_6) {
        Some(device) => optional(
            "network",
            true,
            format!("a default route through {device}; nothing was sent"),
            "",
        ),
        None if has_proxy => {
            optional("network", true, "a proxy is set; nothing was sent".into(), "")
        }
        None => optional(
            "network",
            false,
            "no default route: debian: kernels must be in the cache".into(),
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

/// Whether guests with several CPUs can be counted. `test` runs if QEMU is new enough.
pub(super) fn several_cpus(qemu: &Qemu, test: impl FnOnce() -> Result<(), Error>) -> Check {
    if !qemu.has_several_cpus() {
        return optional(
            "--cpus",
            false,
            "counting guests with several CPUs needs QEMU 10".into(),
            "name that of Debian 13 with --qemu, or unpack that of Debian 12's backports with \
             `ktax doctor --newer-qemu DIR`",
        );
    }
    match test() {
        Ok(()) => optional("--cpus", true, "guests with several CPUs can be counted".into(), ""),
        Err(error) => {
            let text = error.to_string();
            let fix = match error.blame {
                Blame::Guest => {
                    text.strip_prefix(error.message()).and_then(|next| next.strip_prefix("; "))
                }
                _ => None,
            };
            optional("--cpus", false, error.message().to_owned(), fix.unwrap_or("try again"))
        }
    }
}

/// Whether this QEMU is new enough to record KVM's statistics.
pub(super) fn newer_qemu(qemu: &Qemu) -> Check {
    let major = qemu.version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    match major.is_some_and(|major| major >= WITH_STATISTICS) {
        true => optional(
            "QEMU 8",
            true,
            "its guests can be recorded with `ktax exits record --via stats`".into(),
            "",
        ),
        false => optional(
            "QEMU 8",
            false,
            format!(
                "{} is older, which is enough to count: only `ktax exits record --via stats` \
                 needs 8",
                qemu.version.split(' ').next().unwrap_or_default()
            ),
            "install qemu-system-x86 from your distribution's backports",
        ),
    }
}

/// Names the quiet CPUs, for timed runs. Counting does not need them.
pub(super) fn quiet_cpus() -> Check {
    let looked = noise::look(LOOK_AT_CPUS);
    let (found, fix) = match looked.and_then(|shares| Ok((shares, allowed_cpus()?))) {
        Ok((shares, allowed)) => describe_cpus(&shares, &allowed),
        Err(error) => (format!("/proc/stat: {error}"), "mount /proc".into()),
    };
    optional("CPUs", fix.is_empty(), found, &fix)
}

/// Describes the quiet and busy CPUs among `allowed`, and what to do before a timed run.
fn describe_cpus(shares: &[CpuShare], allowed: &[u32]) -> (String, String) {
    const SHOWN: usize = 8;
    let is_allowed = |share: &&CpuShare| allowed.contains(&share.cpu);
    let (shares, kept): (Vec<CpuShare>, Vec<CpuShare>) = shares.iter().partition(is_allowed);
    let kept: Vec<u32> = kept.iter().map(|share| share.cpu).collect();
    let (quiet, busy) = noise::sort(&shares);
    let mut parts = Vec::new();
    if !quiet.is_empty() {
        parts.push(format!("quiet: {}", noise::list(&quiet)));
    }
    if !busy.is_empty() {
        let each = |share: &CpuShare| format!("{} ({:.0} %)", share.cpu, share.busy_percent);
        let mut each: Vec<String> = busy.iter().take(SHOWN).map(each).collect();
        each.extend(busy.len().checked_sub(SHOWN + 1).map(|more| format!("{} more", more + 1)));
        parts.push(format!("busy: {}", each.join(", ")));
    }
    if !kept.is_empty() {
        parts.push(format!("not in ktax's CPU affinity: {}", noise::list(&kept)));
    }
    let fix = match (quiet.is_empty(), busy.is_empty()) {
        (_, true) => String::new(),
        (false, false) => format!("to measure times: taskset -c {} COMMAND", noise::list(&quiet)),
        (true, false) => "to measure times: end other programs".into(),
    };
    (parts.join("; "), fix)
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
        for check in [newer_qemu(&old), newer_qemu(&new), tracefs(), pmu(), root(), network()] {
            assert_eq!(check.ok, check.fix.is_empty(), "{check:?}");
            assert!(!check.is_bad() && !check.found.is_empty(), "{check:?}");
        }
        assert!(!newer_qemu(&old).ok && newer_qemu(&new).ok);
        assert!(!several_cpus(&old, || panic!("not tested")).ok);
        assert!(several_cpus(&new, || Ok(())).ok);
        let failed =
            || Error::guest("QEMU fails the self-test: it is late").next("use another QEMU");
        let check = several_cpus(&new, || Err(failed()));
        assert!(!check.ok && check.found.ends_with("self-test: it is late"), "{check:?}");
        assert_eq!(check.fix, "use another QEMU", "{check:?}");
        let refused = || Err(io::ErrorKind::ReadOnlyFilesystem.into());
        assert!(root_of(true, Ok(())).ok);
        assert!(!root_of(true, refused()).ok && !root_of(false, refused()).ok);
        assert_eq!(root().ok, geteuid().is_root() && Running::default().may_change().is_ok());
    }

    fn shares(percents: &[f64]) -> Vec<CpuShare> {
        let share = |(cpu, percent): (u32, &f64)| CpuShare { cpu, busy_percent: *percent };
        (0..).zip(percents).map(share).collect()
    }

    #[test]
    fn quiet_cpus_are_named_and_busy_ones_with_their_share() {
        let all: Vec<u32> = (0..9).collect();
        let described = |percents: &[f64]| describe_cpus(&shares(percents), &all);
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
