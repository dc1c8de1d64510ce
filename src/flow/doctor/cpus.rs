//! Which CPUs are quiet.

use super::finding::{Check, optional};
use crate::engine::kvm::allowed_cpus;
use crate::engine::limits::LOOK_AT_CPUS;
use crate::engine::noise::{self, CpuShare};

/// Who measures times wants to know where others are not; counting does not mind them.
pub(super) fn look() -> Check {
    let looked = noise::look(LOOK_AT_CPUS);
    let (found, fix) = match looked.and_then(|shares| Ok((shares, allowed_cpus()?))) {
        Ok((shares, allowed)) => cpus(&shares, &allowed),
        Err(error) => (format!("/proc/stat: {error}"), "mount /proc".into()),
    };
    optional("CPUs", fix.is_empty(), found, &fix)
}

/// Which are quiet and which are not, of those that ktax may use, and what to do before times are
/// measured.
fn cpus(shares: &[CpuShare], allowed: &[u32]) -> (String, String) {
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

    fn shares(percents: &[f64]) -> Vec<CpuShare> {
        let share = |(cpu, percent): (u32, &f64)| CpuShare { cpu, busy_percent: *percent };
        (0..).zip(percents).map(share).collect()
    }

    #[test]
    fn quiet_cpus_are_named_and_busy_ones_with_their_share() {
        let all: Vec<u32> = (0..9).collect();
        let said = |percents: &[f64]| cpus(&shares(percents), &all);
        let pin = |list: &str| format!("to measure times: taskset -c {list} COMMAND");
        assert_eq!(said(&[34.0, 2.0]), ("quiet: 1; busy: 0 (34 %)".into(), pin("1")));
        assert_eq!(said(&[0.0, 2.0, 0.0]), ("quiet: 0-2".into(), String::new()));
        let end = "to measure times: end other programs".to_owned();
        assert_eq!(said(&[34.0, 99.6]), ("busy: 1 (100 %), 0 (34 %)".into(), end.clone()));
        let (found, fix) = said(&[50.0; 9]);
        assert!(found.ends_with("7 (50 %), 1 more"), "{found}");
        assert_eq!(fix, end);
        assert!(said(&[50.0; 8]).0.ends_with("7 (50 %)"));
    }

    #[test]
    fn cpus_that_ktax_may_not_use_are_neither() {
        let (found, fix) = cpus(&shares(&[0.0, 99.0, 0.0, 34.0]), &[2, 3]);
        assert_eq!(found, "quiet: 2; busy: 3 (34 %); not in ktax's CPU affinity: 0-1");
        assert_eq!(fix, "to measure times: taskset -c 2 COMMAND");
    }
}
