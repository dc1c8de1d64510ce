//! Facts of the machine that change times, and noise: the load of other work during a measurement.
//!
//! Both are read from the kernel's files in /proc and /sys. Tests put other files below a directory
//! that stands for the root.

mod facts;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use ktax_host::text::number_ranges;
use ktax_model::Noise;
use ktax_model::fact::QUIET_PERCENT;

pub use facts::{facts, facts_below};

/// Measures the load of other work on the CPUs of a measurement while the measurement runs.
#[derive(Debug)]
pub struct Watch {
    root: PathBuf,
    /// The watched CPUs; empty for all CPUs.
    cpus: Vec<u32>,
    started: Instant,
    before: Accounting,
}

impl Watch {
    /// Starts to watch the CPUs that a measurement may use; an empty list stands for all CPUs. A
    /// smaller list is better: among many CPUs, the load of a single one is a small share.
    pub fn start_on(cpus: &[u32]) -> io::Result<Watch> {
        Watch::start_below(Path::new("/"), cpus)
    }

    /// Starts as [`Watch::start_on`] does, on the machine whose /proc and /sys are below `root`.
    pub fn start_below(root: &Path, cpus: &[u32]) -> io::Result<Watch> {
        let before = Accounting::read(root)?;
        Ok(Watch { root: root.to_owned(), cpus: cpus.to_vec(), started: Instant::now(), before })
    }

    /// Returns the noise since the start.
    ///
    /// Own time is the CPU time of this process and of the children that it has waited for. The
    /// kernel counts in ticks of 10 ms, and most kernels sample, so a period below a second gives
    /// inexact shares. The time of others comes out too small in two cases: own time on CPUs that
    /// are not watched is subtracted too, and if a hypervisor steals time, the kernel may count
    /// time stolen from own tasks as their time.
    pub fn end(self) -> io::Result<Noise> {
        let seconds = self.started.elapsed().as_secs_f64();
        let after = Accounting::read(&self.root)?;
        let (ticks_before, _) = self.before.stat.sum_of_cpus(&self.cpus);
        let (ticks_after, cpus) = after.stat.sum_of_cpus(&self.cpus);
        let ticks = ticks_after.since(ticks_before);
        let own = after.own_ticks.saturating_sub(self.before.own_ticks);
        let others = ticks.busy.saturating_sub(own);
        Ok(Noise {
            seconds,
            cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
            steal_percent: percent(ticks.steal, ticks.total()),
            others_percent: percent(others, ticks.total()),
            throttled: after.throttle_count.saturating_sub(self.before.throttle_count),
        })
    }
}

/// The kernel's accounting of time and throttling at one moment.
#[derive(Debug)]
struct Accounting {
    stat: Stat,
    /// CPU time of this process and of the children that it has waited for, in ticks.
    own_ticks: u64,
    throttle_count: u64,
}

impl Accounting {
    fn read(root: &Path) -> io::Result<Accounting> {
        Ok(Accounting {
            stat: read_parsed(&root.join("proc/stat"), Stat::parse)?,
            own_ticks: read_parsed(&root.join("proc/self/stat"), parse_own_ticks)?,
            throttle_count: throttle_count(root),
        })
    }
}

/// Reads a file of /proc and parses it. The error names the file.
fn read_parsed<T>(path: &Path, parse: fn(&str) -> Option<T>) -> io::Result<T> {
    let failed = |kind: io::ErrorKind, reason: &str| {
        io::Error::new(kind, format!("{}: {reason}", path.display()))
    };
    // The name of a process can have any bytes.
    let bytes = fs::read(path).map_err(|error| failed(error.kind(), &error.to_string()))?;
    parse(&String::from_utf8_lossy(&bytes))
        .ok_or_else(|| failed(io::ErrorKind::InvalidData, "it does not have the format of proc(5)"))
}

/// Returns how often CPUs were throttled since they came online, because their core or their
/// package was too hot (Documentation/ABI/testing/sysfs-devices-system-cpu). Each CPU of a hot
/// package counts. 0 if the kernel does not report throttling.
fn throttle_count(root: &Path) -> u64 {
    let cpus = fs::read_dir(root.join("sys/devices/system/cpu")).into_iter().flatten().flatten();
    let count = |cpu: &Path, name: &str| {
        let text = fs::read_to_string(cpu.join("thermal_throttle").join(name)).ok()?;
        text.trim().parse::<u64>().ok()
    };
    cpus.flat_map(|cpu| {
        ["core_throttle_count", "package_throttle_count"].map(|name| count(&cpu.path(), name))
    })
    .flatten()
    .fold(0, u64::saturating_add)
}

/// The load of a CPU during a period.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuShare {
    pub cpu: u32,
    /// The share of time that tasks, interrupts and other guests of the hypervisor took, in
    /// percent.
    pub busy_percent: f64,
}

/// Watches the CPUs for a period, and returns the load of each.
pub fn cpu_shares(period: Duration) -> io::Result<Vec<CpuShare>> {
    let read = || read_parsed(Path::new("/proc/stat"), Stat::parse);
    let before = read()?;
    std::thread::sleep(period);
    Ok(shares_between(&before, &read()?))
}

/// Returns the load of each CPU between two readings. A CPU that one of them does not have was
/// offline, and is left out.
fn shares_between(before: &Stat, after: &Stat) -> Vec<CpuShare> {
    let period_ticks = |cpu, after: &Ticks| Some((cpu, after.since(*before.cpus.get(cpu)?)));
    let online = after.cpus.iter().filter_map(|(cpu, after)| period_ticks(cpu, after));
    online
        .map(|(cpu, ticks)| {
            let busy = ticks.total() - ticks.idle;
            CpuShare { cpu: *cpu, busy_percent: percent(busy, ticks.total()) }
        })
        .collect()
}

/// Splits the CPUs into quiet CPUs and busy CPUs, of which the busiest is the first.
pub fn split_quiet(shares: &[CpuShare]) -> (Vec<u32>, Vec<CpuShare>) {
    let (quiet, mut busy): (Vec<CpuShare>, Vec<CpuShare>) =
        shares.iter().partition(|share| share.busy_percent < QUIET_PERCENT);
    busy.sort_by(|a, b| b.busy_percent.total_cmp(&a.busy_percent));
    (quiet.iter().map(|share| share.cpu).collect(), busy)
}

/// Formats sorted CPUs as a list for `taskset -c`, such as `0-3,6`.
pub fn cpu_list(cpus: &[u32]) -> String {
    number_ranges(cpus.iter().map(|cpu| u64::from(*cpu)))
}

/// The time of a CPU by what it was spent on, from /proc/stat (Documentation/filesystems/proc.rst,
/// 1.7). Guest time is part of user time, so it is not read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Ticks {
    /// Tasks and interrupts: user, nice, system, irq, softirq.
    pub busy: u64,
    /// Idle time: idle, iowait.
    pub idle: u64,
    /// Stolen time: a hypervisor ran something else.
    pub steal: u64,
}

impl Ticks {
    fn parse(fields: &str) -> Option<Ticks> {
        let fields: Option<Vec<u64>> =
            fields.split_whitespace().map(|field| field.parse().ok()).collect();
        // Kernels before 2.6.11 have no steal time.
        let [user, nice, system, idle, iowait, irq, softirq, rest @ ..] = &fields?[..] else {
            return None;
        };
        let sum = |parts: &[&u64]| parts.iter().fold(0_u64, |sum, part| sum.saturating_add(**part));
        Some(Ticks {
            busy: sum(&[user, nice, system, irq, softirq]),
            idle: sum(&[idle, iowait]),
            steal: rest.first().copied().unwrap_or(0),
        })
    }

    /// Returns the increase since `before`. A count that decreased, as iowait can, has increased by
    /// 0.
    pub fn since(self, before: Ticks) -> Ticks {
        self.combine(before, u64::saturating_sub)
    }

    fn combine(self, other: Ticks, operation: fn(u64, u64) -> u64) -> Ticks {
        Ticks {
            busy: operation(self.busy, other.busy),
            idle: operation(self.idle, other.idle),
            steal: operation(self.steal, other.steal),
        }
    }

    pub fn total(self) -> u64 {
        self.busy.saturating_add(self.idle).saturating_add(self.steal)
    }
}

/// Returns `part` in percent of `total`; 0 if `total` is 0.
pub(super) fn percent(part: u64, total: u64) -> f64 {
    if total == 0 { 0.0 } else { 100.0 * (part as f64 / total as f64) }
}

/// Content of /proc/stat: the ticks of all CPUs together, and of each online CPU.
#[derive(Debug, Clone, PartialEq)]
struct Stat {
    pub all: Ticks,
    pub cpus: BTreeMap<u32, Ticks>,
}

impl Stat {
    /// Parses /proc/stat. `None` if the first line is not that of all CPUs.
    pub fn parse(text: &str) -> Option<Stat> {
        let all = Ticks::parse(text.lines().next()?.strip_prefix("cpu ")?)?;
        let cpu = |line: &str| {
            let (number, fields) = line.strip_prefix("cpu")?.split_once(' ')?;
            Some((number.parse().ok()?, Ticks::parse(fields)?))
        };
        Some(Stat { all, cpus: text.lines().filter_map(cpu).collect() })
    }

    /// Returns the ticks of these CPUs together, and the number of CPUs. If the list is empty or
    /// has a CPU that /proc/stat does not have, returns those of all CPUs.
    pub fn sum_of_cpus(&self, cpus: &[u32]) -> (Ticks, usize) {
        let listed: Option<Vec<Ticks>> =
            cpus.iter().map(|cpu| self.cpus.get(cpu).copied()).collect();
        match listed {
            Some(listed) if !listed.is_empty() => {
                let add = |sum: Ticks, cpu: &Ticks| sum.combine(*cpu, u64::saturating_add);
                (listed.iter().fold(Ticks::default(), add), listed.len())
            }
            _ => (self.all, self.cpus.len()),
        }
    }
}

/// Parses /proc/PID/stat, and returns the CPU time in ticks of the process with all its threads and
/// with the children that it has waited for: utime, stime, cutime and cstime of proc(5).
pub(super) fn parse_own_ticks(text: &str) -> Option<u64> {
    // The second field is a name in parentheses. It can contain spaces and parentheses.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    // proc(5) gives the times of children as signed, but they are never negative.
    let mut sum = 0_u64;
    for _ in 0..4 {
        sum = sum.saturating_add(fields.next()?.parse().ok()?);
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Writes the files of a machine with four CPUs.
    fn write_machine(root: &Path, [user, idle, steal, own, waited]: [u64; 5], throttled: [u64; 2]) {
        let mut stat = format!("cpu  {user} 0 0 {idle} 0 0 0 {steal} 0 0\n");
        for cpu in 0..4 {
            stat += &format!("cpu{cpu} {} 0 0 {} 0 0 0 {} 0 0\n", user / 4, idle / 4, steal / 4);
        }
        fs::create_dir_all(root.join("proc/self")).unwrap();
        fs::write(root.join("proc/stat"), stat + "ctxt 1\n").unwrap();
        let line = format!("7 (a) b c) R 1 7 7 0 -1 4194304 93 0 0 0 {own} 0 {waited} 0 20 0 1 0");
        fs::write(root.join("proc/self/stat"), line).unwrap();
        let cpu = root.join("sys/devices/system/cpu/cpu1/thermal_throttle");
        fs::create_dir_all(&cpu).unwrap();
        fs::write(cpu.join("core_throttle_count"), format!("{}\n", throttled[0])).unwrap();
        fs::write(cpu.join("package_throttle_count"), format!("{}\n", throttled[1])).unwrap();
    }

    #[test]
    fn own_time_is_not_noise() {
        let root = tempfile::tempdir().unwrap();
        write_machine(root.path(), [1000, 5000, 100, 10, 300], [3, 4]);
        let watch = Watch::start_below(root.path(), &[]).unwrap();
        // 400 ticks: 200 busy, of which 20 ktax's and 100 of children; 180 idle; 20 stolen.
        write_machine(root.path(), [1200, 5180, 120, 30, 400], [4, 6]);
        let noise = watch.end().unwrap();
        assert_eq!((noise.cpus, noise.throttled), (4, 3));
        assert_eq!((noise.others_percent, noise.steal_percent), (20.0, 5.0));
        assert!(noise.seconds >= 0.0);
    }

    #[test]
    fn decreasing_counts_are_no_noise() {
        let root = tempfile::tempdir().unwrap();
        write_machine(root.path(), [1000, 5000, 100, 10, 300], [3, 4]);
        let watch = Watch::start_below(root.path(), &[]).unwrap();
        // Own time is counted finer than all time, and can be more than what was busy.
        write_machine(root.path(), [1004, 4990, 100, 20, 300], [3, 0]);
        let noise = watch.end().unwrap();
        let shares = (noise.others_percent, noise.steal_percent, noise.throttled);
        assert_eq!(shares, (0.0, 0.0, 0));
    }

    /// 64 CPUs, of which CPU 3 is busy, half of the time with other work, and 63 are idle.
    #[test]
    fn noise_is_that_of_the_watched_cpus() {
        let root = tempfile::tempdir().unwrap();
        let write_stat = |busy: u64, idle: u64, own_ticks: u64| {
            write_machine(root.path(), [0, 0, 0, own_ticks, 0], [0, 0]);
            let mut stat = format!("cpu  {busy} 0 0 {} 0 0 0 0 0 0\n", 64 * (busy + idle) - busy);
            for cpu in 0..64 {
                let (busy, idle) = if cpu == 3 { (busy, idle) } else { (0, busy + idle) };
                stat += &format!("cpu{cpu} {busy} 0 0 {idle} 0 0 0 0 0 0\n");
            }
            fs::write(root.path().join("proc/stat"), stat).unwrap();
        };
        let noise = |cpus: &[u32]| {
            write_stat(0, 0, 0);
            let watch = Watch::start_below(root.path(), cpus).unwrap();
            write_stat(200, 0, 100);
            let noise = watch.end().unwrap();
            (noise.cpus, noise.others_percent)
        };
        assert_eq!(noise(&[3]), (1, 50.0));
        assert_eq!(noise(&[3, 9]), (2, 25.0));
        // A container may see other CPU numbers in /proc/stat than in its affinity.
        assert_eq!(noise(&[3, 99]).0, 64);
        assert_eq!(noise(&[]).0, 64);
        assert!(noise(&[]).1 < 1.0);
    }

    #[test]
    fn missing_or_garbled_files_are_errors_with_their_path() {
        let root = tempfile::tempdir().unwrap();
        let error = Watch::start_below(root.path(), &[]).unwrap_err().to_string();
        assert!(error.ends_with("/proc/stat: No such file or directory (os error 2)"), "{error}");
        write_machine(root.path(), [1, 2, 3, 4, 5], [0, 0]);
        let watch = Watch::start_below(root.path(), &[]).unwrap();
        fs::write(root.path().join("proc/stat"), "none\n").unwrap();
        let error = watch.end().unwrap_err().to_string();
        assert!(error.ends_with("/proc/stat: it does not have the format of proc(5)"), "{error}");
    }

    fn shares_of_texts(before: &str, after: &str) -> Vec<CpuShare> {
        let [before, after] = [before, after].map(|text| Stat::parse(text).unwrap());
        shares_between(&before, &after)
    }

    const BEFORE: &str = "cpu  600 0 0 2400 0 0 0 0\ncpu0 100 0 0 900 0 0 0 0\n\
                          cpu1 200 0 0 800 0 0 0 0\ncpu3 300 0 0 700 0 0 0 0\nintr 0\n";

    #[test]
    fn tasks_interrupts_and_steal_make_a_cpu_busy() {
        let after = "cpu  0 0 0 0 0 0 0 0\ncpu0 110 10 5 960 0 5 5 5\ncpu1 209 0 0 881 10 0 0 0\n\
                     cpu2 1 1 1 1 1 1 1 1\ncpu3 300 0 0 700 0 0 0 0\n";
        let shares = shares_of_texts(BEFORE, after);
        assert_eq!(shares.iter().map(|share| share.cpu).collect::<Vec<_>>(), [0, 1, 3]);
        let percents: Vec<f64> = shares.iter().map(|share| share.busy_percent).collect();
        assert_eq!(percents, [40.0, 9.0, 0.0]);
        let (quiet, busy) = split_quiet(&shares);
        assert_eq!((quiet, busy), (vec![1, 3], vec![shares[0]]));
    }

    #[test]
    fn a_cpu_at_the_limit_is_busy() {
        let share = |cpu, busy_percent| CpuShare { cpu, busy_percent };
        let (quiet, busy) = split_quiet(&[share(0, 10.0), share(1, 9.99), share(2, 80.0)]);
        assert_eq!((quiet, busy), (vec![1], vec![share(2, 80.0), share(0, 10.0)]));
    }

    #[test]
    fn cpus_are_listed_for_taskset() {
        assert_eq!(cpu_list(&[]), "");
        assert_eq!(cpu_list(&[1]), "1");
        assert_eq!(cpu_list(&[0, 1, 2, 3, 6, 8, 9]), "0-3,6,8-9");
        assert_eq!(cpu_list(&[u32::MAX]), u32::MAX.to_string());
    }

    proptest! {
        #[test]
        fn a_cpu_list_has_each_cpu_once(cpus in prop::collection::btree_set(0..200_u32, 0..100)) {
            let cpus: Vec<u32> = cpus.into_iter().collect();
            let text = cpu_list(&cpus);
            let mut listed = Vec::new();
            for range in text.split(',').filter(|range| !range.is_empty()) {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                listed.extend(first.parse::<u32>().unwrap()..=last.parse().unwrap());
            }
            prop_assert_eq!(listed, cpus);
        }

        #[test]
        fn shares_are_between_0_and_100_percent(
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
            prop_assert_eq!(shares_of_texts(&zero, &text).len(), cpus.len());
            for share in shares_of_texts(&zero, &text) {
                prop_assert!((0.0..=100.0).contains(&share.busy_percent));
            }
        }
    }

    /// Documentation/filesystems/proc.rst, 1.7: a machine with four CPUs.
    const DOCUMENTED: &str = "\
cpu  237902850 368826709 106375398 1873517540 1135548 0 14507935 0 0 0
cpu0 60045249 91891769 26331539 468411416 495718 0 5739640 0 0 0
cpu1 59746288 91759249 26609887 468860630 312281 0 4384817 0 0 0
cpu2 59489247 92985423 26904446 467808813 171668 0 2268998 0 0 0
cpu3 58622065 92190267 26529524 468436680 155879 0 2114478 0 0 0
intr 8688370575 8 3373 0 0 0 0 0 0 1 40791 0 0 353317 0 0 0 0 224789828 0 0 0
ctxt 22848221062
btime 1605316999
processes 746787147
procs_running 2
procs_blocked 0
softirq 12121874454 100099120 3938138295 127375644 2795979 187870761 0 173808342 3072582055
";

    #[test]
    fn the_example_of_the_documentation_is_read() {
        let stat = Stat::parse(DOCUMENTED).unwrap();
        assert_eq!(stat.cpus.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3]);
        let busy = 237_902_850 + 368_826_709 + 106_375_398 + 14_507_935;
        let idle = 1_873_517_540 + 1_135_548;
        assert_eq!(stat.all, Ticks { busy, idle, steal: 0 });
        // The first line is the sum of the others, except for rounding.
        let sum: u64 = stat.cpus.values().map(|ticks| ticks.total()).sum();
        assert!(sum.abs_diff(stat.all.total()) < 10, "{sum} and {}", stat.all.total());
    }

    #[test]
    fn steal_is_the_eighth_field_and_guest_time_is_not_added() {
        let stat = Stat::parse("cpu  1 2 4 8 16 32 64 128 256 512\n").unwrap();
        assert_eq!(stat.all, Ticks { busy: 1 + 2 + 4 + 32 + 64, idle: 8 + 16, steal: 128 });
        assert_eq!(Stat::parse("cpu  1 2 4 8 16 32 64\n").unwrap().all.steal, 0);
        for text in
            ["", "cpu  1 2 4\n", "cpu  1 2 4 8 x 32 64\n", "intr 1\ncpu  1 2 4 8 16 32 64\n"]
        {
            assert_eq!(Stat::parse(text), None, "{text}");
        }
    }

    #[test]
    fn own_ticks_include_threads_and_children() {
        // The fields of proc(5), with a process name that looks like some of the fields.
        let text =
            "4242 (tmux: a) 0 (b)) S 1 4242 4242 0 -1 4194560 1 2 3 4 100 20 3000 400 20 0 1 0";
        assert_eq!(parse_own_ticks(text), Some(3520));
        assert_eq!(parse_own_ticks("1 (a) S 1 1 1 0 -1 0 1 2 3 4 100 20 3000"), None);
        assert_eq!(parse_own_ticks("1 (a) S 1 1 1 0 -1 0 1 2 3 4 100 20 3000 -1 20"), None);
        assert_eq!(parse_own_ticks(""), None);
    }

    #[test]
    fn a_percentage_of_zero_is_zero_and_the_whole_is_100() {
        assert_eq!(percent(0, 0), 0.0);
        assert_eq!(percent(1, 8), 12.5);
        // Rounding must not give more than 100.
        let many = 6_338_784_093_682_857_471;
        assert_eq!(percent(many, many), 100.0);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in ".*", tail in "[ 0-9()a-z\n]*") {
            let _ = (Stat::parse(&text), Stat::parse(&format!("cpu {tail}")));
            let _ = (parse_own_ticks(&text), parse_own_ticks(&tail));
        }

        #[test]
        fn formatted_fields_are_read(fields in any::<[u32; 10]>(), name in "[ -~]*") {
            let sum =
                |indices: &[usize]| indices.iter().map(|i| u64::from(fields[*i])).sum::<u64>();
            let line = fields.map(|field| field.to_string()).join(" ");
            let stat = Stat::parse(&format!("cpu  {line}\ncpu7 {line}\n")).unwrap();
            let idle = sum(&[3, 4]);
            let expected = Ticks { busy: sum(&[0, 1, 2, 5, 6]), idle, steal: sum(&[7]) };
            prop_assert_eq!(stat.all, expected);
            prop_assert_eq!(stat.cpus, BTreeMap::from([(7, expected)]));
            // The four times are the last fields of this line but two.
            let own_line = format!("7 ({name}) R {line} {} 20 0", fields[..4].iter()
                .map(|field| field.to_string()).collect::<Vec<_>>().join(" "));
            prop_assert_eq!(parse_own_ticks(&own_line), Some(sum(&[0, 1, 2, 3])));
        }

        #[test]
        fn differences_never_underflow(a in any::<[u64; 3]>(), b in any::<[u64; 3]>()) {
            let ticks = |[busy, idle, steal]: [u64; 3]| Ticks { busy, idle, steal };
            let since = ticks(a).since(ticks(b));
            prop_assert!(since.busy <= a[0] && since.idle <= a[1] && since.steal <= a[2]);
            prop_assert!((0.0..=100.0).contains(&percent(since.busy, since.total())));
        }
    }
}
