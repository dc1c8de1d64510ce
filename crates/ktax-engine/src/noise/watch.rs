use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::ticks::{Stat, own, percent};
use ktax_model::Noise;

/// Measures what else runs on the CPUs of a measurement while it runs.
#[derive(Debug)]
pub struct Watch {
    root: PathBuf,
    /// Empty: all of them.
    cpus: Vec<u32>,
    started: Instant,
    before: Accounts,
}

impl Watch {
    /// Starts now, on the CPUs that a measurement may use: on a large machine one of them that is
    /// busy is nothing beside all the others. No CPUs are all of them.
    ///
    /// # Errors
    /// /proc cannot be read. Without it nothing is known, and that is not the same as no noise.
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
        let (was, _) = self.before.stat.of(&self.cpus);
        let (is, cpus) = after.stat.of(&self.cpus);
        let ticks = is.since(was);
        let others = ticks.busy.saturating_sub(after.own.saturating_sub(self.before.own));
        Ok(Noise {
            seconds,
            cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
            steal_percent: percent(ticks.steal, ticks.total()),
            others_percent: percent(others, ticks.total()),
            throttled: after.throttled.saturating_sub(self.before.throttled),
        })
    }
}

/// Counts that only grow.
#[derive(Debug)]
struct Accounts {
    stat: Stat,
    /// In ticks.
    own: u64,
    throttled: u64,
}

impl Accounts {
    fn read(root: &Path) -> io::Result<Accounts> {
        Ok(Accounts {
            stat: parsed(root, "proc/stat", Stat::parse)?,
            own: parsed(root, "proc/self/stat", own)?,
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

/// How often CPUs were throttled since they came online, because their core or their package was
/// too hot (Documentation/ABI/testing/sysfs-devices-system-cpu). Each CPU of a package counts
/// separately. 0 if the kernel does not report it.
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

#[cfg(test)]
mod tests {
    use super::*;

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
        let plant = |busy: u64, idle: u64, own: u64| {
            plant(root.path(), [0, 0, 0, own, 0], [0, 0]);
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
}
