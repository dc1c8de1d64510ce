//! Facts of the machine that change times, and noise: what else runs during a measurement.
//!
//! All of it is read from the kernel's files in /proc and /sys, below a root that tests can plant.

mod facts;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use ktax_model::Noise;
use ktax_model::fact::QUIET_PERCENT;

pub use facts::{facts, facts_below};

/// Measures what else runs on the CPUs of a measurement while it runs.
#[derive(Debug)]
pub struct Watch {
    root: PathBuf,
    /// The watched CPUs; empty: all of them.
    cpus: Vec<u32>,
    started: Instant,
    before: Accounts,
}

impl Watch {
    /// Starts now, on the CPUs that a measurement may use: on a large machine one of them that is
    /// busy is nothing beside all the others. No CPUs are all of them.
    pub fn start_on(cpus: &[u32]) -> io::Result<Watch> {
        Watch::start_below(Path::new("/"), cpus)
    }

    /// Starts now, on the machine whose /proc and /sys are below `root`; no CPUs are all of them.
    pub fn start_below(root: &Path, cpus: &[u32]) -> io::Result<Watch> {
        let before = Accounts::read(root)?;
        Ok(Watch { root: root.to_owned(), cpus: cpus.to_vec(), started: Instant::now(), before })
    }

    /// The noise since the start. Own time is that of this process and of the children that it has
    /// waited for. The kernel counts in ticks of 10 ms, and most kernels sample, so less than a
    /// second says little. Own time on CPUs that are not watched is taken off too, and if a
    /// hypervisor steals time, the kernel may count time stolen from own tasks as theirs: either
    /// makes the time of others come out too small.
    pub fn end(self) -> io::Result<Noise> {
        let seconds = self.started.elapsed().as_secs_f64();
        let after = Accounts::read(&self.root)?;
        let (before, _) = self.before.stat.ticks_of(&self.cpus);
        let (now, cpus) = after.stat.ticks_of(&self.cpus);
        let ticks = now.since(before);
        let others =
            ticks.busy.saturating_sub(after.own_ticks.saturating_sub(self.before.own_ticks));
        Ok(Noise {
            seconds,
            cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
            steal_percent: percent(ticks.steal, ticks.total()),
            others_percent: percent(others, ticks.total()),
            throttled: after.throttled.saturating_sub(self.before.throttled),
        })
    }
}

#[derive(Debug)]
struct Accounts {
    stat: Stat,
    /// CPU time of this process and of the children that it has waited for, in ticks.
    own_ticks: u64,
    throttled: u64,
}

impl Accounts {
    fn read(root: &Path) -> io::Result<Accounts> {
        Ok(Accounts {
            stat: parsed(root, "proc/stat", Stat::parse)?,
            own_ticks: parsed(root, "proc/self/stat", own_ticks)?,
            throttled: throttled(root),
        })
    }
}

fn parsed<T>(root: &Path, path: &str, parse: fn(&str) -> Option<T>) -> io::Result<T> {
    let path = root.join(path);
    let failed = |reason: String| {
        io::Error::other(format!("{}: {reason}; mount /proc and try again", path.display()))
    };
    // The name of a process can have any bytes.
    let bytes = fs::read(&path).map_err(|error| failed(error.to_string()))?;
    parse(&String::from_utf8_lossy(&bytes)).ok_or_else(|| failed("is not as expected".into()))
}

/// Returns how often CPUs were throttled since they came online, because their core or their
/// package was too hot (Documentation/ABI/testing/sysfs-devices-system-cpu). Each CPU of a package
/// counts separately. 0 if the kernel does not report it.
fn throttled(root: &Path) -> u64 {
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
    /// The share of tasks, interrupts, and other guests of a hypervisor, in percent.
    pub busy_percent: f64,
}

/// Watches the CPUs for this long.
pub fn cpu_shares(period: Duration) -> io::Result<Vec<CpuShare>> {
    let read = || fs::read_to_string("/proc/stat");
    let before = read()?;
    std::thread::sleep(period);
    Ok(shares(&before, &read()?))
}

/// Returns the share of each CPU between two texts of /proc/stat. A CPU that was offline in one of
/// them is left out.
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
pub fn split_quiet(shares: &[CpuShare]) -> (Vec<u32>, Vec<CpuShare>) {
    let (quiet, mut busy): (Vec<CpuShare>, Vec<CpuShare>) =
        shares.iter().partition(|share| share.busy_percent < QUIET_PERCENT);
    busy.sort_by(|a, b| b.busy_percent.total_cmp(&a.busy_percent));
    (quiet.iter().map(|share| share.cpu).collect(), busy)
}

/// Formats a list for `taskset -c`: `0-3,6`. The CPUs must be sorted.
pub fn cpu_list(cpus: &[u32]) -> String {
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

    /// Returns the increase since `before`; 0 if a count decreased, as iowait's can.
    pub fn since(self, before: Ticks) -> Ticks {
        self.combine(before, u64::saturating_sub)
    }

    fn combine(self, other: Ticks, each: fn(u64, u64) -> u64) -> Ticks {
        Ticks {
            busy: each(self.busy, other.busy),
            idle: each(self.idle, other.idle),
            steal: each(self.steal, other.steal),
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

/// /proc/stat: all CPUs together, and each CPU that is online.
#[derive(Debug, Clone, Default, PartialEq)]
struct Stat {
    pub all: Ticks,
    pub cpus: BTreeMap<u32, Ticks>,
}

impl Stat {
    /// Parses /proc/stat. `None` if its first line is not that of all CPUs.
    pub fn parse(text: &str) -> Option<Stat> {
        let all = Ticks::parse(text.lines().next()?.strip_prefix("cpu ")?)?;
        let cpu = |line: &str| {
            let (number, fields) = line.strip_prefix("cpu")?.split_once(' ')?;
            Some((number.parse().ok()?, Ticks::parse(fields)?))
        };
        Some(Stat { all, cpus: text.lines().filter_map(cpu).collect() })
    }

    /// Returns the ticks of these CPUs together, and how many CPUs they are; of all CPUs if one is
    /// missing or none is named.
    pub fn ticks_of(&self, cpus: &[u32]) -> (Ticks, usize) {
        let named: Option<Vec<Ticks>> =
            cpus.iter().map(|cpu| self.cpus.get(cpu).copied()).collect();
        match named {
            Some(named) if !named.is_empty() => {
                let add = |sum: Ticks, cpu: &Ticks| sum.combine(*cpu, u64::saturating_add);
                (named.iter().fold(Ticks::default(), add), named.len())
            }
            _ => (self.all, self.cpus.len()),
        }
    }
}

/// Parses /proc/PID/stat: the CPU time in ticks of the process with all its threads, and of its
/// children that it has waited for: utime, stime, cutime, cstime of proc(5).
pub(super) fn own_ticks(text: &str) -> Option<u64> {
    // The second field is a name in parentheses. It can contain spaces and parentheses.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    // The times of children are signed in the format, but never negative.
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

    /// A machine with four CPUs, of which ktax used so much.
    fn plant(root: &Path, [user, idle, steal, own, waited]: [u64; 5], throttled: [u64; 2]) {
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
    fn own_time_is_no_noise_and_all_else_is() {
        let root = tempfile::tempdir().unwrap();
        plant(root.path(), [1000, 5000, 100, 10, 300], [3, 4]);
        let watch = Watch::start_below(root.path(), &[]).unwrap();
        // 400 ticks: 200 busy, of which 20 ktax's and 100 of children; 180 idle; 20 stolen.
        plant(root.path(), [1200, 5180, 120, 30, 400], [4, 6]);
        let noise = watch.end().unwrap();
        assert_eq!((noise.cpus, noise.throttled), (4, 3));
        assert_eq!((noise.others_percent, noise.steal_percent), (20.0, 5.0));
        assert!(noise.seconds >= 0.0);
    }

    #[test]
    fn what_goes_back_or_stands_still_is_nothing() {
        let root = tempfile::tempdir().unwrap();
        plant(root.path(), [1000, 5000, 100, 10, 300], [3, 4]);
        let watch = Watch::start_below(root.path(), &[]).unwrap();
        // Own time is counted finer than all time, and can be more than what was busy.
        plant(root.path(), [1004, 4990, 100, 20, 300], [3, 0]);
        let noise = watch.end().unwrap();
        let shares = (noise.others_percent, noise.steal_percent, noise.throttled);
        assert_eq!(shares, (0.0, 0.0, 0));
    }

    /// 64 CPUs, of which CPU 3 is busy with others' work half of the time and 63 do nothing.
    #[test]
    fn a_busy_cpu_is_noise_of_who_is_kept_on_it() {
        let root = tempfile::tempdir().unwrap();
        let plant = |busy: u64, idle: u64, own_ticks: u64| {
            plant(root.path(), [0, 0, 0, own_ticks, 0], [0, 0]);
            let mut stat = format!("cpu  {busy} 0 0 {} 0 0 0 0 0 0\n", 64 * (busy + idle) - busy);
            for cpu in 0..64 {
                let (busy, idle) = if cpu == 3 { (busy, idle) } else { (0, busy + idle) };
                stat += &format!("cpu{cpu} {busy} 0 0 {idle} 0 0 0 0 0 0\n");
            }
            fs::write(root.path().join("proc/stat"), stat).unwrap();
        };
        let noise = |cpus: &[u32]| {
            plant(0, 0, 0);
            let watch = Watch::start_below(root.path(), cpus).unwrap();
            plant(200, 0, 100);
            let noise = watch.end().unwrap();
            (noise.cpus, noise.others_percent)
        };
        assert_eq!(noise(&[3]), (1, 50.0));
        assert_eq!(noise(&[3, 9]), (2, 25.0));
        // A container may be shown other numbers than it is kept on.
        assert_eq!(noise(&[3, 99]).0, 64);
        assert_eq!(noise(&[]).0, 64);
        assert!(noise(&[]).1 < 1.0);
    }

    #[test]
    fn a_machine_that_says_nothing_is_not_taken_for_silent() {
        let root = tempfile::tempdir().unwrap();
        let error = Watch::start_below(root.path(), &[]).unwrap_err().to_string();
        assert!(error.ends_with("mount /proc and try again"), "{error}");
        plant(root.path(), [1, 2, 3, 4, 5], [0, 0]);
        let watch = Watch::start_below(root.path(), &[]).unwrap();
        fs::write(root.path().join("proc/stat"), "none\n").unwrap();
        assert!(watch.end().is_err());
    }

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
        let (quiet, busy) = split_quiet(&shares);
        assert_eq!((quiet, busy), (vec![1, 3], vec![shares[0]]));
    }

    #[test]
    fn exactly_at_the_limit_is_busy() {
        let share = |cpu, busy_percent| CpuShare { cpu, busy_percent };
        let (quiet, busy) = split_quiet(&[share(0, 10.0), share(1, 9.99), share(2, 80.0)]);
        assert_eq!((quiet, busy), (vec![1], vec![share(2, 80.0), share(0, 10.0)]));
    }

    #[test]
    fn a_list_is_as_taskset_takes_it() {
        assert_eq!(cpu_list(&[]), "");
        assert_eq!(cpu_list(&[1]), "1");
        assert_eq!(cpu_list(&[0, 1, 2, 3, 6, 8, 9]), "0-3,6,8-9");
        assert_eq!(cpu_list(&[u32::MAX]), u32::MAX.to_string());
    }

    proptest! {
        #[test]
        fn a_list_names_each_cpu_once(cpus in prop::collection::btree_set(0..200_u32, 0..100)) {
            let cpus: Vec<u32> = cpus.into_iter().collect();
            let text = cpu_list(&cpus);
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
    fn the_documents_machine_is_read() {
        let stat = Stat::parse(DOCUMENTED).unwrap();
        assert_eq!(stat.cpus.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3]);
        let busy = 237_902_850 + 368_826_709 + 106_375_398 + 14_507_935;
        let idle = 1_873_517_540 + 1_135_548;
        assert_eq!(stat.all, Ticks { busy, idle, steal: 0 });
        // As the document says, the first line is the sum of the others, here but for rounding.
        let sum: u64 = stat.cpus.values().map(|ticks| ticks.total()).sum();
        assert!(sum.abs_diff(stat.all.total()) < 10, "{sum} and {}", stat.all.total());
    }

    #[test]
    fn steal_is_the_eighth_and_guests_are_not_counted_twice() {
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
    fn own_time_is_that_of_threads_and_children() {
        // The fields of proc(5), with a name that looks like some of them.
        let text =
            "4242 (tmux: a) 0 (b)) S 1 4242 4242 0 -1 4194560 1 2 3 4 100 20 3000 400 20 0 1 0";
        assert_eq!(own_ticks(text), Some(3520));
        assert_eq!(own_ticks("1 (a) S 1 1 1 0 -1 0 1 2 3 4 100 20 3000"), None);
        assert_eq!(own_ticks("1 (a) S 1 1 1 0 -1 0 1 2 3 4 100 20 3000 -1 20"), None);
        assert_eq!(own_ticks(""), None);
    }

    #[test]
    fn nothing_of_nothing_is_nothing_and_all_is_all() {
        assert_eq!(percent(0, 0), 0.0);
        assert_eq!(percent(1, 8), 12.5);
        // A hundred times this, rounded, is more than a hundred times.
        let many = 6_338_784_093_682_857_471;
        assert_eq!(percent(many, many), 100.0);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in ".*", tail in "[ 0-9()a-z\n]*") {
            let _ = (Stat::parse(&text), Stat::parse(&format!("cpu {tail}")));
            let _ = (own_ticks(&text), own_ticks(&tail));
        }

        #[test]
        fn what_is_written_is_read(fields in any::<[u32; 10]>(), name in "[ -~]*") {
            let sum =
                |indices: &[usize]| indices.iter().map(|i| u64::from(fields[*i])).sum::<u64>();
            let line = fields.map(|field| field.to_string()).join(" ");
            let stat = Stat::parse(&format!("cpu  {line}\ncpu7 {line}\n")).unwrap();
            let idle = sum(&[3, 4]);
            let expected = Ticks { busy: sum(&[0, 1, 2, 5, 6]), idle, steal: sum(&[7]) };
            prop_assert_eq!(stat.all, expected);
            prop_assert_eq!(stat.cpus, BTreeMap::from([(7, expected)]));
            // Eleven fields, of which the last four are times.
            let own_line = format!("7 ({name}) R {line} {} 20 0", fields[..4].iter()
                .map(|field| field.to_string()).collect::<Vec<_>>().join(" "));
            prop_assert_eq!(own_ticks(&own_line), Some(sum(&[0, 1, 2, 3])));
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
