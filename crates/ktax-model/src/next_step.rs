//! What to do about a Failure.

use std::borrow::Cow;

use super::failure::{Failure, longer};
use super::space::FREE_DISK_GIB;

impl Failure {
    /// What to do next.
    pub fn next_step(&self) -> Cow<'static, str> {
        let fixed = match self {
            Failure::RealTime { limit_s } | Failure::CpuTime { limit_s } => {
                return format!("{}; {WATCH_IT}", more_time(*limit_s)).into();
            }
            Failure::CountedTime { limit_s, .. } => match self.longer_limit_s() {
                Some(_) => return more_time(*limit_s).into(),
                None => WHO_WAITS,
            },
            Failure::Panic { .. } => {
                "read serial.log or runs/ROW.serial.log in the boot's directory"
            }
            Failure::VirtualTime { .. } => {
                "let a program wait less; for all else, read serial.log or runs/ROW.serial.log in \
                 the boot's directory, or run its argv by hand to watch it"
            }
            Failure::Silent { .. } => {
                "read serial.log or runs/ROW.serial.log in the boot's directory, and check that \
                 the kernel has initramfs support (CONFIG_BLK_DEV_INITRD) and runs x86-64 ELF \
                 binaries"
            }
            Failure::Mute { .. } => {
                "check that it is a kernel for x86-64 with enough memory; with `earlyprintk=ttyS0 \
                 ignore_loglevel` on its boot line serial.log may show where it stops"
            }
            Failure::Garbled { .. } => "read runs/ROW.wire.log in the boot's directory",
            Failure::Flood { .. } => "remove the workload, or make its program print less",
            Failure::Refused { message } => of_refusal(message),
            Failure::Program { message } => of_program(message),
            Failure::WrongWork { .. } => "compare the work signatures in comparison.json",
            Failure::WrongKernel { .. } => "plan again, because the kernel file has changed",
            Failure::NoQemu { .. } => "run `ktax doctor`",
            Failure::QemuDied { .. } => {
                "run argv of the boot's directory by hand; `ktax doctor` checks QEMU"
            }
            Failure::QemuLost { .. } => {
                "find out what ended it (`dmesg` names what the kernel killed for memory; --jobs 1 \
                 runs one VM at a time), then resume the run"
            }
            Failure::NotBooted { .. } => {
                "follow the next step of the boot that failed, then resume the run"
            }
            Failure::Host { .. } => {
                return format!(
                    "free {FREE_DISK_GIB} GiB of disk space or fix the permissions, then resume \
                     the run"
                )
                .into();
            }
            Failure::Prefix { .. } => {
                "install the program that the prefix names, and check that `PREFIX true` works; \
                 then resume the run"
            }
            Failure::Setting { .. } => "then resume the run",
            Failure::NotRepeated => DOES_NOT_REPEAT,
            Failure::Profile { .. } => "run `ktax doctor`, and report this with the run directory",
        };
        fixed.into()
    }

    /// The same of one row of a timed Boot, of a guest or of this machine: no more is kept of it
    /// than the end of a guest's console.
    pub fn next_step_of_times(&self, is_guest: bool) -> Cow<'static, str> {
        use Failure::{Garbled, Panic, QemuDied, QemuLost, RealTime, Silent, WrongWork};
        match self {
            Panic { .. } | RealTime { .. } | Silent { .. } | QemuDied { .. } | QemuLost { .. }
                if is_guest =>
            {
                "read the guest's console in pairs/*.serial.log (no file if it was empty)".into()
            }
            RealTime { .. } | Silent { .. } | Garbled { .. } | WrongWork { .. } => {
                "try the row alone with `ktax workloads run`".into()
            }
            other => other.next_step(),
        }
    }

    /// The same of a row of `ktax workloads run`, which keeps no files.
    pub fn next_step_natively(&self) -> Cow<'static, str> {
        use Failure::{Flood, Garbled, Host, RealTime, Refused, Silent, WrongWork};
        let fixed = match self {
            RealTime { .. } => "use a longer --time-limit, or parameters that make less work (-p)",
            Silent { .. } | Garbled { .. } | Flood { .. } | WrongWork { .. } => {
                "run the row again; if it fails again, report it with this message"
            }
            Refused { .. } => "enable what the message names, or use other parameters (-p)",
            Host { .. } => {
                return format!(
                    "free {FREE_DISK_GIB} GiB of disk space or fix the permissions, then run the \
                     row again"
                )
                .into();
            }
            other => return other.next_step(),
        };
        fixed.into()
    }
}

fn more_time(limit_s: u64) -> String {
    format!("resume the run with more time, --time-limit {}", longer(limit_s))
}

const WATCH_IT: &str = "if it hangs, run argv of the boot's directory by hand to watch it";

const WHO_WAITS: &str = "read runs/ROW.serial.log in the boot's directory: a kernel with \
                         CONFIG_PROVE_LOCKING says there which locks its tasks hold";

const DOES_NOT_REPEAT: &str = "resume the run; if it fails again, this QEMU does not repeat with \
                               several CPUs: name another one with --qemu, such as 10.0, and plan \
                               again";

/// What helps a workload that said this, or before which the guest said it.
fn of_refusal(message: &str) -> &'static str {
    if message.contains("failed the set-up") {
        "correct the commands of --setup (`setup`), which run before all rows"
    } else {
        "enable what the message names, or remove the workload"
    }
}

/// What helps a program that said this, or of which the guest said it.
fn of_program(message: &str) -> &'static str {
    let begins = |with: &str| message.starts_with(with);
    if begins("its exit status is") {
        "correct the command, give --status N, or name what it needs with --file; runs/*.stdout \
         and runs/*.stderr of that boot have what it printed"
    } else if begins("it printed more than") {
        "let it print less, or print to a file of its own"
    } else if begins("it executed `") {
        "let it execute `begin` once and then `end` once, or neither; if it does, leave out \
         --warm-up, whose runs execute them, too"
    } else if begins("it printed too large a number") || begins("it printed no whole number") {
        "name a number below 2^59 that has nothing but digits"
    } else if begins("it printed no number") {
        "write with --number or --ops-from what it prints before the number, or an expression with \
         the number as a group, such as 'done (\\d+)'; runs/*.stdout and runs/*.stderr of that \
         boot have what it printed"
    } else if begins("its preparation failed") {
        "correct the commands of --prepare"
    } else {
        "correct the command, or name what it needs with --file"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuPlace, Doing};

    #[test]
    fn where_all_wait_more_time_is_no_help() {
        let at = |cpu, doing, function: &str| CpuPlace { cpu, doing, function: function.into() };
        let mut cpus = vec![
            at(0, Doing::Wait, "native_queued_spin_lock_slowpath"),
            at(1, Doing::Wait, "csd_lock_wait"),
            at(2, Doing::Idle, "native_safe_halt"),
        ];
        let late = Failure::CountedTime { limit_s: 180, cpus: cpus.clone() };
        assert_eq!(
            late.to_string(),
            "no result within 180 s of counted time; its CPUs wait for each other: CPU 0 in \
             native_queued_spin_lock_slowpath, CPU 1 in csd_lock_wait, CPU 2 is idle"
        );
        assert!(late.next_step().contains("CONFIG_PROVE_LOCKING"), "{}", late.next_step());
        assert!(!late.is_of_the_host() && late.longer_limit_s().is_none());
        cpus[1] = at(1, Doing::Work, "[user]");
        let late = Failure::CountedTime { limit_s: 8, cpus };
        assert_eq!(
            late.to_string(),
            "no result within 8 s of counted time: CPU 0 waits in \
             native_queued_spin_lock_slowpath, CPU 1 executes [user], CPU 2 is idle"
        );
        assert!(late.next_step().ends_with("--time-limit 40"), "{}", late.next_step());
        assert!(late.is_of_the_host());
    }

    #[test]
    fn a_limit_that_was_reached_is_longer_the_next_time() {
        let reached = Failure::CpuTime { limit_s: 8 };
        assert!(reached.next_step().contains("--time-limit 40;"));
        assert_eq!(reached.mute().longer_limit_s(), Some(40));
        assert_eq!(Failure::VirtualTime { limit_s: 8 }.longer_limit_s(), None);
    }
}
