use std::fs;
use std::io;
use std::time::Duration;

use super::ticks::{Stat, percent};
use ktax_model::fact::QUIET_PERCENT;

/// How busy a CPU was during a period.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuShare {
    pub cpu: u32,
    /// The share of tasks, interrupts, and other guests of a hypervisor, in percent.
    pub busy_percent: f64,
}

/// Watches the CPUs for this long.
pub fn look(period: Duration) -> io::Result<Vec<CpuShare>> {
    let read = || fs::read_to_string("/proc/stat");
    let before = read()?;
    std::thread::sleep(period);
    Ok(shares(&before, &read()?))
}

/// The share of each CPU between two texts of /proc/stat. A CPU that was offline in one of them is
/// left out.
pub fn shares(before: &str, after: &str) -> Vec<CpuShare> {
    let [before, after] = [before, after].map(|text| Stat::parse(text).unwrap_or_default().cpus);
    let both = after.iter().filter_map(|(cpu, after)| Some((cpu, after.since(*before.get(cpu)?))));
    both.map(|(cpu, ticks)| {
        let busy = ticks.total() - ticks.idle;
        CpuShare { cpu: *cpu, busy_percent: percent(busy, ticks.total()) }
    })
    .collect()
}

/// Splits the CPUs into quiet ones and busy ones, the busiest first.
pub fn sort(shares: &[CpuShare]) -> (Vec<u32>, Vec<CpuShare>) {
    let (quiet, mut busy): (Vec<CpuShare>, Vec<CpuShare>) =
        shares.iter().partition(|share| share.busy_percent < QUIET_PERCENT);
    busy.sort_by(|a, b| b.busy_percent.total_cmp(&a.busy_percent));
    (quiet.iter().map(|share| share.cpu).collect(), busy)
}

/// A list as of `taskset -c`: `0-3,6`. The CPUs must be sorted.
pub fn list(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*cpu) => *last = *cpu,
            _ => ranges.push((*cpu, *cpu)),
        }
    }
    let range = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BEFORE: &str = "cpu  600 0 0 2400 0 0 0 0\ncpu0 100 0 0 900 0 0 0 0\n\
                          cpu1 200 0 0 800 0 0 0 0\ncpu3 300 0 0 700 0 0 0 0\nintr 0\n";

    #[test]
    fn tasks_interrupts_and_steal_make_a_cpu_busy() {
        let after = "cpu  0 0 0 0 0 0 0 0\ncpu0 110 10 5 960 0 5 5 5\ncpu1 209 0 0 881 10 0 0 0\n\
                     cpu2 1 1 1 1 1 1 1 1\ncpu3 300 0 0 700 0 0 0 0\n";
        let shares = shares(BEFORE, after);
        assert_eq!(shares.iter().map(|share| share.cpu).collect::<Vec<_>>(), [0, 1, 3]);
        let percents: Vec<f64> = shares.iter().map(|share| share.busy_percent).collect();
        assert_eq!(percents, [40.0, 9.0, 0.0]);
        let (quiet, busy) = sort(&shares);
        assert_eq!((quiet, busy), (vec![1, 3], vec![shares[0]]));
    }

    #[test]
    fn exactly_at_the_limit_is_busy() {
        let share = |cpu, busy_percent| CpuShare { cpu, busy_percent };
        let (quiet, busy) = sort(&[share(0, 10.0), share(1, 9.99), share(2, 80.0)]);
        assert_eq!((quiet, busy), (vec![1], vec![share(2, 80.0), share(0, 10.0)]));
    }

    #[test]
    fn a_list_is_as_taskset_takes_it() {
        assert_eq!(list(&[]), "");
        assert_eq!(list(&[1]), "1");
        assert_eq!(list(&[0, 1, 2, 3, 6, 8, 9]), "0-3,6,8-9");
        assert_eq!(list(&[u32::MAX]), u32::MAX.to_string());
    }

    proptest! {
        #[test]
        fn a_list_names_each_cpu_once(cpus in prop::collection::btree_set(0..200_u32, 0..100)) {
            let cpus: Vec<u32> = cpus.into_iter().collect();
            let text = list(&cpus);
            let mut named = Vec::new();
            for range in text.split(',').filter(|range| !range.is_empty()) {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                named.extend(first.parse::<u32>().unwrap()..=last.parse().unwrap());
            }
            prop_assert_eq!(named, cpus);
        }

        #[test]
        fn a_share_is_a_share(
            before in ".*",
            cpus in prop::collection::vec(any::<[u64; 8]>(), 0..4),
        ) {
            let line = |cpu: String, ticks: &[u64; 8]| {
                format!("cpu{cpu} {}\n", ticks.map(|tick| tick.to_string()).join(" "))
            };
            let (mut zero, mut text) = (line(" ".into(), &[0; 8]), line(" ".into(), &[9; 8]));
            for (cpu, ticks) in cpus.iter().enumerate() {
                zero += &line(cpu.to_string(), &[0; 8]);
                text += &line(cpu.to_string(), ticks);
            }
            prop_assert_eq!(shares(&zero, &text).len(), cpus.len());
            for share in shares(&zero, &text).iter().chain(&shares(&before, &text)) {
                prop_assert!((0.0..=100.0).contains(&share.busy_percent));
            }
        }
    }
}
