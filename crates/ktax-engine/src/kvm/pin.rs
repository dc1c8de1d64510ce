//! Pins vCPUs to CPUs of this machine.

use std::io;

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

use super::super::vm::Vm;
use ktax_model::Failure;

/// The CPUs that this thread may run on: the online ones that its cpuset and its affinity permit.
pub fn allowed() -> io::Result<Vec<u32>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu as u32).collect())
}

/// Pins each vCPU to one of the CPUs, in turn; without CPUs it does nothing.
pub fn vcpus(vm: &mut Vm, cpus: &[usize]) -> Result<(), Failure> {
    if cpus.is_empty() {
        return Ok(());
    }
    let threads = vm.monitor(|monitor| monitor.vcpu_threads())?;
    for (thread, cpu) in threads.into_iter().zip(cpus.iter().cycle()) {
        to_cpu(thread, *cpu).map_err(|error| Failure::Host {
            operation: format!("cannot keep a vCPU on CPU {cpu}"),
            reason: error.to_string(),
        })?;
    }
    Ok(())
}

/// Does work on these CPUs, and restores the affinity; without CPUs on any. Processes that the work
/// starts inherit the affinity.
pub fn while_on<T>(cpus: &[usize], work: impl FnOnce() -> T) -> Result<T, Failure> {
    if cpus.is_empty() {
        return Ok(work());
    }
    let failed = |error: io::Error| Failure::Host {
        operation: format!("cannot run on CPUs {cpus:?}"),
        reason: error.to_string(),
    };
    let before = sched_getaffinity(None).map_err(|error| failed(error.into()))?;
    let these = set(cpus).map_err(failed)?;
    sched_setaffinity(None, &these).map_err(|error| failed(error.into()))?;
    let done = work();
    sched_setaffinity(None, &before).map_err(|error| failed(error.into()))?;
    Ok(done)
}

fn to_cpu(thread: i32, cpu: usize) -> io::Result<()> {
    let thread = Pid::from_raw(thread).ok_or(io::ErrorKind::NotFound)?;
    Ok(sched_setaffinity(Some(thread), &set(&[cpu])?)?)
}

fn set(cpus: &[usize]) -> io::Result<CpuSet> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        if *cpu >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set.set(*cpu);
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_is_started_meanwhile_runs_there_and_nothing_afterwards() {
        let allowed = || {
            let output = Command::new("grep")
                .args(["Cpus_allowed_list", "/proc/self/status"])
                .output()
                .unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            text.split_whitespace().next_back().unwrap().to_owned()
        };
        let before = allowed();
        let last = *super::allowed().unwrap().last().unwrap();
        let there = || (allowed(), super::allowed().unwrap());
        assert_eq!(while_on(&[last as usize], there).unwrap(), (last.to_string(), vec![last]));
        assert_eq!(allowed(), before);
        assert_eq!(while_on(&[], allowed).unwrap(), before);
        assert!(matches!(while_on(&[CpuSet::MAX_CPU], allowed), Err(Failure::Host { .. })));
        assert_eq!(allowed(), before);
    }
}
