//! The CPUs of this machine on which the vCPUs of a run are kept.

use std::time::Duration;

use crate::engine::kvm::allowed_cpus;
use crate::engine::limits::LOOK_AT_CPUS;
use crate::engine::noise::{self, CpuShare};
use crate::flow::context::OrHost;
use crate::flow::error::Error;
use crate::model::{TimedMachine, TimesPlan};
use crate::rundir::RunDir;

/// Those on which the run began; at its beginning those that others use least.
pub(super) fn of_run(dir: &RunDir<TimesPlan>) -> Result<Vec<usize>, Error> {
    let kept = dir.cpus()?;
    let here = Here::look(LOOK_AT_CPUS)?;
    let chosen = chosen(kept.clone(), &here, &dir.plan().method.machine)?;
    if kept.is_none() && !chosen.is_empty() {
        dir.write_cpus(&chosen)?;
    }
    Ok(chosen.into_iter().map(|cpu| cpu as usize).collect())
}

/// Refuses more CPUs than ktax may use before anything is made or measured.
pub(super) fn check(machine: &TimedMachine) -> Result<(), Error> {
    if machine.cores.is_some() {
        chosen(None, &Here::look(Duration::ZERO)?, machine)?;
    }
    Ok(())
}

/// The CPUs of this machine.
struct Here {
    /// Those that are online, as far as this process is shown them.
    shares: Vec<CpuShare>,
    /// Those that ktax may use, and so what it starts: `taskset` and containers leave it fewer.
    allowed: Vec<u32>,
}

impl Here {
    fn look(period: Duration) -> Result<Here, Error> {
        let shares =
            noise::look(period).context("cannot read how busy the CPUs are", "mount /proc")?;
        let next = "check that the system call sched_getaffinity is allowed here";
        let allowed = allowed_cpus().context("cannot tell which CPUs ktax may use", next)?;
        Ok(Here { shares, allowed })
    }

    /// One that this process is not shown is taken last.
    fn busy_percent(&self, cpu: u32) -> f64 {
        let share = self.shares.iter().find(|share| share.cpu == cpu);
        share.map_or(100.0, |share| share.busy_percent)
    }
}

fn chosen(kept: Option<Vec<u32>>, here: &Here, machine: &TimedMachine) -> Result<Vec<u32>, Error> {
    let (there, may_use) = (here.shares.len(), here.allowed.len());
    let count = machine.cores.unwrap_or(machine.vcpus) as usize;
    if machine.cores.is_some() && count > may_use {
        return Err(Error::usage(match may_use < there {
            false => {
                format!(
                    "--cores (machine.cores) is {count}, but this machine has {may_use} CPUs; use \
                     at most {may_use}"
                )
            }
            true => format!(
                "--cores (machine.cores) is {count}, but ktax may use only {may_use} of this \
                 machine's {there} CPUs; use at most {may_use}, or allow ktax more CPUs (taskset, \
                 cpusets)"
            ),
        }));
    }
    if let Some(kept) = kept {
        return match kept.iter().find(|cpu| !here.allowed.contains(cpu)) {
            None => Ok(kept),
            Some(gone) => Err(Error::usage(lost(*gone, here))),
        };
    }
    let mut cpus = here.allowed.clone();
    cpus.sort_by(|left, right| here.busy_percent(*left).total_cmp(&here.busy_percent(*right)));
    cpus.truncate(count);
    Ok(cpus)
}

/// Why a run cannot go on where it began.
fn lost(cpu: u32, here: &Here) -> String {
    let (is, mend) = match here.shares.iter().any(|share| share.cpu == cpu) {
        true => {
            let allowed = noise::list(&here.allowed);
            (format!("is not among those that ktax may use ({allowed})"), "let ktax use it")
        }
        false => ("is offline".into(), "bring it online"),
    };
    format!(
        "CPU {cpu}, on which this run began, {is}; {mend}, or measure again into a new directory"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPUs with how busy they are, of which ktax may use these.
    fn here(busy: &[(u32, f64)], allowed: &[u32]) -> Here {
        let share = |&(cpu, busy_percent): &(u32, f64)| CpuShare { cpu, busy_percent };
        Here { shares: busy.iter().map(share).collect(), allowed: allowed.to_vec() }
    }

    fn machine(vcpus: u32, cores: Option<u32>) -> TimedMachine {
        TimedMachine { vcpus, cores, ..TimedMachine::default() }
    }

    #[test]
    fn the_quiet_ones_are_chosen_once_and_kept() {
        let then = here(&[(0, 9.0), (1, 0.0), (4, 5.0)], &[0, 1, 4]);
        let now = here(&[(0, 0.0), (1, 90.0), (4, 80.0)], &[0, 1, 4]);
        let two = machine(2, None);
        assert_eq!(chosen(None, &then, &two).unwrap(), [1, 4]);
        assert_eq!(chosen(None, &now, &two).unwrap(), [0, 4]);
        assert_eq!(chosen(Some(vec![1, 4]), &now, &two).unwrap(), [1, 4]);
        let gone = chosen(Some(vec![1, 5]), &now, &two).unwrap_err().to_string();
        assert!(gone.contains("CPU 5") && gone.contains("is offline; bring it online"), "{gone}");
    }

    #[test]
    fn more_cores_than_there_are_is_a_mistake_and_more_vcpus_is_not() {
        let two = here(&[(0, 0.0), (1, 1.0)], &[0, 1]);
        assert_eq!(chosen(None, &two, &machine(8, None)).unwrap(), [0, 1]);
        assert_eq!(chosen(None, &two, &machine(8, Some(2))).unwrap(), [0, 1]);
        let error = chosen(None, &two, &machine(1, Some(3))).unwrap_err().to_string();
        assert!(error.contains("(machine.cores) is 3, but this machine has 2 CPUs;"), "{error}");
        chosen(Some(vec![0]), &two, &machine(1, Some(3))).unwrap_err();
    }

    #[test]
    fn what_ktax_may_not_use_is_not_chosen_and_not_gone_on_with() {
        let half = here(&[(0, 0.0), (1, 0.0), (2, 40.0), (3, 20.0)], &[2, 3]);
        assert_eq!(chosen(None, &half, &machine(1, None)).unwrap(), [3]);
        assert_eq!(chosen(None, &half, &machine(4, None)).unwrap(), [3, 2]);
        let error = chosen(None, &half, &machine(4, Some(3))).unwrap_err().to_string();
        assert!(error.contains("is 3, but ktax may use only 2 of this machine's 4"), "{error}");
        let error = chosen(Some(vec![3, 0]), &half, &machine(2, None)).unwrap_err().to_string();
        assert!(
            error.contains("CPU 0") && error.contains("may use (2-3); let ktax use it"),
            "{error}"
        );
        // A container may be shown other numbers than the kernel has.
        let renumbered = here(&[(0, 0.0), (1, 9.0)], &[1, 6]);
        assert_eq!(chosen(None, &renumbered, &machine(2, None)).unwrap(), [1, 6]);
        assert_eq!(chosen(Some(vec![6]), &renumbered, &machine(1, None)).unwrap(), [6]);
    }
}
