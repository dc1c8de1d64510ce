//! CPUs of this machine to which the vCPUs of a run are pinned.

use std::time::Duration;

use crate::engine::kvm::allowed_cpus;
use crate::engine::limits::CPU_WATCH_TIME;
use crate::engine::noise::{self, CpuShare};
use crate::flow::{Error, ErrorContext};
use crate::model::{TimedMachine, TimesPlan};
use crate::rundir::RunDir;

/// CPUs of a run. They are chosen when the run begins: the CPUs that other processes use least.
pub(super) fn choose_for_run(dir: &RunDir<TimesPlan>) -> Result<Vec<usize>, Error> {
    let chosen_before = dir.cpus()?;
    let machine_cpus = MachineCpus::read(CPU_WATCH_TIME)?;
    let chosen = choose(chosen_before.clone(), &machine_cpus, &dir.plan().method.asked.machine)?;
    if chosen_before.is_none() && !chosen.is_empty() {
        dir.write_cpus(&chosen)?;
    }
    Ok(chosen.into_iter().map(|cpu| cpu as usize).collect())
}

/// CPUs that a run uses: those that its vCPUs are pinned to, else all that ktax may use.
pub(super) fn used_by_run(dir: &RunDir<TimesPlan>) -> Result<Vec<u32>, Error> {
    match dir.cpus()? {
        Some(chosen_before) => Ok(chosen_before),
        None => allowed(),
    }
}

/// CPUs that ktax may use.
fn allowed() -> Result<Vec<u32>, Error> {
    let next = "check that the system call sched_getaffinity is allowed here";
    allowed_cpus().or_host("cannot tell which CPUs ktax may use", next)
}

/// Refuses more CPUs than ktax may use, before anything is measured.
pub(super) fn check(machine: &TimedMachine) -> Result<(), Error> {
    if machine.cores.is_some() {
        choose(None, &MachineCpus::read(Duration::ZERO)?, machine)?;
    }
    Ok(())
}

/// CPUs of this machine.
struct MachineCpus {
    /// Load of the CPUs that are online and visible to this process.
    shares: Vec<CpuShare>,
    /// CPUs that ktax and its children may use. `taskset` and containers may exclude CPUs.
    allowed: Vec<u32>,
}

impl MachineCpus {
    /// Reads the CPUs, with their load during this period.
    fn read(period: Duration) -> Result<MachineCpus, Error> {
        let shares = noise::cpu_shares(period)
            .or_host("cannot read how busy the CPUs are", "mount /proc")?;
        Ok(MachineCpus { shares, allowed: allowed()? })
    }

    /// Load of a CPU in percent; an invisible CPU counts as busy.
    fn busy_percent(&self, cpu: u32) -> f64 {
        let share = self.shares.iter().find(|share| share.cpu == cpu);
        share.map_or(100.0, |share| share.busy_percent)
    }
}

/// CPUs for a run: the earlier choice, else the least busy ones.
fn choose(
    chosen_before: Option<Vec<u32>>,
    machine_cpus: &MachineCpus,
    machine: &TimedMachine,
) -> Result<Vec<u32>, Error> {
    let (online, allowed) = (machine_cpus.shares.len(), machine_cpus.allowed.len());
    let cores = machine.cores.unwrap_or(machine.cpus) as usize;
    if machine.cores.is_some() && cores > allowed {
        let beginning = format!("--cores (machine.cores) is {cores}, but");
        return Err(match allowed < online {
            false => Error::user(format!("{beginning} this machine has {allowed} CPUs"))
                .next(format!("use at most {allowed}")),
            true => Error::user(format!(
                "{beginning} ktax may use only {allowed} of this machine's {online} CPUs"
            ))
            .next(format!("use at most {allowed}, or allow ktax more CPUs (taskset, cpusets)")),
        });
    }
    if let Some(chosen_before) = chosen_before {
        return match chosen_before.iter().find(|cpu| !machine_cpus.allowed.contains(cpu)) {
            None => Ok(chosen_before),
            Some(lost) => Err(lost_cpu(*lost, machine_cpus)),
        };
    }
    let mut cpus = machine_cpus.allowed.clone();
    cpus.sort_by(|left, right| {
        machine_cpus.busy_percent(*left).total_cmp(&machine_cpus.busy_percent(*right))
    });
    cpus.truncate(cores);
    Ok(cpus)
}

/// Error for a CPU of the run that ktax can no longer use.
fn lost_cpu(cpu: u32, machine_cpus: &MachineCpus) -> Error {
    let lost = |state: &str, fix: &str| {
        Error::user(format!("CPU {cpu}, on which this run began, is {state}"))
            .next(format!("{fix}, or measure again into a new directory"))
    };
    match machine_cpus.shares.iter().any(|share| share.cpu == cpu) {
        true => {
            let allowed = noise::cpu_list(&machine_cpus.allowed);
            lost(&format!("not among those that ktax may use ({allowed})"), "let ktax use it")
        }
        false => lost("offline", "bring it online"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPUs with these loads, of which ktax may use `allowed`.
    fn machine_cpus(busy: &[(u32, f64)], allowed: &[u32]) -> MachineCpus {
        let share = |&(cpu, busy_percent): &(u32, f64)| CpuShare { cpu, busy_percent };
        MachineCpus { shares: busy.iter().map(share).collect(), allowed: allowed.to_vec() }
    }

    fn machine(cpus: u32, cores: Option<u32>) -> TimedMachine {
        TimedMachine { cpus, cores, ..TimedMachine::default() }
    }

    #[test]
    fn quiet_cpus_are_chosen_once_and_kept() {
        let then = machine_cpus(&[(0, 9.0), (1, 0.0), (4, 5.0)], &[0, 1, 4]);
        let now = machine_cpus(&[(0, 0.0), (1, 90.0), (4, 80.0)], &[0, 1, 4]);
        let two = machine(2, None);
        assert_eq!(choose(None, &then, &two).unwrap(), [1, 4]);
        assert_eq!(choose(None, &now, &two).unwrap(), [0, 4]);
        assert_eq!(choose(Some(vec![1, 4]), &now, &two).unwrap(), [1, 4]);
        assert_eq!(
            choose(Some(vec![1, 5]), &now, &two).unwrap_err().to_string(),
            "CPU 5, on which this run began, is offline; bring it online, or measure again into a \
             new directory"
        );
    }

    #[test]
    fn more_cores_than_cpus_are_refused_and_more_vcpus_are_not() {
        let two = machine_cpus(&[(0, 0.0), (1, 1.0)], &[0, 1]);
        assert_eq!(choose(None, &two, &machine(8, None)).unwrap(), [0, 1]);
        assert_eq!(choose(None, &two, &machine(8, Some(2))).unwrap(), [0, 1]);
        for chosen_before in [None, Some(vec![0])] {
            let error = choose(chosen_before, &two, &machine(1, Some(3))).unwrap_err();
            let few = "--cores (machine.cores) is 3, but this machine has 2 CPUs; use at most 2";
            assert_eq!(error.to_string(), few);
        }
    }

    #[test]
    fn cpus_that_ktax_may_not_use_are_not_chosen() {
        let half = machine_cpus(&[(0, 0.0), (1, 0.0), (2, 40.0), (3, 20.0)], &[2, 3]);
        assert_eq!(choose(None, &half, &machine(1, None)).unwrap(), [3]);
        assert_eq!(choose(None, &half, &machine(4, None)).unwrap(), [3, 2]);
        assert_eq!(
            choose(None, &half, &machine(4, Some(3))).unwrap_err().to_string(),
            "--cores (machine.cores) is 3, but ktax may use only 2 of this machine's 4 CPUs; use \
             at most 2, or allow ktax more CPUs (taskset, cpusets)"
        );
        assert_eq!(
            choose(Some(vec![3, 0]), &half, &machine(2, None)).unwrap_err().to_string(),
            "CPU 0, on which this run began, is not among those that ktax may use (2-3); let ktax \
             use it, or measure again into a new directory"
        );
        // In a container /proc/stat may show other CPU numbers than the kernel's.
        let renumbered = machine_cpus(&[(0, 0.0), (1, 9.0)], &[1, 6]);
        assert_eq!(choose(None, &renumbered, &machine(2, None)).unwrap(), [1, 6]);
        assert_eq!(choose(Some(vec![6]), &renumbered, &machine(1, None)).unwrap(), [6]);
    }
}
