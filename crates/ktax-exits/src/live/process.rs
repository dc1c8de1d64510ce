//! Finds the process of a VM, and sees when it ends.

use std::fs;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::error;
use ktax_model::{Error, Result};

/// A process, held so that its number cannot become another's.
#[derive(Debug)]
pub struct Process {
    pub pid: u32,
    pub(super) handle: OwnedFd,
}

/// The initial PID namespace (PROC_PID_INIT_INO in include/linux/proc_ns.h).
const INITIAL_NAMESPACE: &str = "pid:[4026531836]";

impl Process {
    pub fn open(pid: u32) -> Result<Process> {
        let is_initial = fs::read_link("/proc/self/ns/pid")
            .is_ok_and(|namespace| namespace.as_os_str() == INITIAL_NAMESPACE);
        if !is_initial {
            let message = "ktax runs in a PID namespace of its own, where the kernel's thread IDs \
                           do not match";
            return Err(error(message, "run ktax on the host"));
        }
        let missing =
            error(format!("there is no process {pid}"), "list VMs with `ps -C qemu-system-x86_64`");
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let Some(number) = number else { return Err(missing) };
        let handle = pidfd_open(number, PidfdFlags::empty()).map_err(|_| missing)?;
        Ok(Process { pid, handle })
    }

    pub fn name(&self) -> String {
        comm(self.pid)
    }

    /// Fails if the process has no VM. A process that may not be looked into passes.
    pub fn require_vm(&self) -> Result<()> {
        if has_vm(self.pid) != Some(false) {
            return Ok(());
        }
        Err(error(
            format!("process {} ({}) runs no KVM guest", self.pid, self.name()),
            "give the PID of the VMM itself, such as qemu-system-x86_64",
        ))
    }

    /// Waits at most `time` for the end of the process; returns true if it has ended.
    pub fn ended_within(&self, time: Duration) -> Result<bool> {
        let tv_sec = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        let timeout = Timespec { tv_sec, tv_nsec: i64::from(time.subsec_nanos()) };
        let mut fds = [PollFd::new(&self.handle, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(reason) => {
                Err(error(format!("wait for the process: {reason}"), "try again, or report it"))
            }
        }
    }
}

/// Returns true if a thread lives; a zombie does not.
pub(super) fn lives(process: u32, tid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/task/{tid}/stat")).unwrap_or_default();
    // The state is behind the name, which may contain anything.
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

fn comm(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// Returns true if the process has a VM of KVM; `None` if ktax may not see that.
fn has_vm(pid: u32) -> Option<bool> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let mut links = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    Some(links.any(|link| link.as_os_str() == "anon_inode:kvm-vm"))
}

/// Finds the process whose VM has this name: `-name` of QEMU, `--id` of Firecracker, the process's
/// own.
pub fn by_name(name: &str) -> Result<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let vms: Vec<(u32, Vec<String>)> =
        pids.filter(|pid| has_vm(*pid) == Some(true)).map(|pid| (pid, names(pid))).collect();
    let called = |(_, names): &&(u32, Vec<String>)| names.iter().any(|there| there == name);
    let found: Vec<u32> = vms.iter().filter(called).map(|(pid, _)| *pid).collect();
    match found[..] {
        [pid] => Ok(pid),
        [] => Err(no_vm_named(name, vms)),
        _ => {
            let pids = found.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            Err(error(
                format!("several VMs are named {name}: processes {pids}"),
                "choose one with --pid",
            ))
        }
    }
}

fn no_vm_named(name: &str, vms: Vec<(u32, Vec<String>)>) -> Error {
    let there: Vec<String> =
        vms.into_iter().filter_map(|(_, names)| names.into_iter().next()).collect();
    let message = format!("no VM is named {name}");
    match there.is_empty() {
        true => error(message + ", and no VM is running", "start the VM first"),
        false => error(message, format!("name one of {}, or use --pid", there.join(", "))),
    }
}

fn names(pid: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<String> =
        line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into()).collect();
    let mut names = names_in(&words);
    names.push(comm(pid));
    names
}

/// Returns the names in a command line: `-name` of QEMU, `--id NAME`.
fn names_in(words: &[String]) -> Vec<String> {
    let values = words.windows(2).filter_map(|pair| match pair[0].as_str() {
        "-name" | "--name" => guest_in(&pair[1]),
        "--id" => Some(pair[1].clone()),
        _ => None,
    });
    values.collect()
}

/// Parses the guest of `NAME`, `NAME,process=…`, `debug-threads=on,guest=NAME`: as QEMU reads it,
/// in which only the first may lack its key, two commas are one, and the last of several stands.
fn guest_in(options: &str) -> Option<String> {
    // No argument has this in it.
    const COMMA: char = '\0';
    let options = options.replace(",,", "\0");
    let value = |(index, option): (usize, &str)| match option.split_once('=') {
        Some((key, _)) if index == 0 && key.contains(COMMA) => Some(option.to_owned()),
        Some((key, value)) => (key == "guest").then(|| value.to_owned()),
        None => (index == 0).then(|| option.to_owned()),
    };
    let last = options.split(',').enumerate().filter_map(value).last()?;
    (!last.is_empty()).then(|| last.replace(COMMA, ","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of(line: &str) -> Vec<String> {
        names_in(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_vm_is_called_as_its_user_called_it() {
        assert_eq!(names_of("qemu-system-x86_64 -name web -m 512"), ["web"]);
        for (options, name) in [
            ("db", "db"),
            ("guest=db", "db"),
            ("db,debug-threads=on", "db"),
            ("guest=db,debug-threads=on", "db"),
            ("debug-threads=on,guest=db", "db"),
            ("process=q,debug-threads=on,guest=db,process=r", "db"),
            ("guest=a,guest=db", "db"),
            ("a,,b", "a,b"),
            ("a,,b=c,process=q", "a,b=c"),
            ("process=guest=no,guest=a=b", "a=b"),
            ("process=q,,guest=no,guest=a,,,,b,,,debug-threads=on", "a,,b,"),
        ] {
            assert_eq!(names_of(&format!("qemu -name {options}")), [name], "{options}");
        }
        for nobody in ["debug-threads=on", "process=db", "debug-threads=on,db", "guest="] {
            assert!(names_of(&format!("qemu -name {nobody}")).is_empty(), "{nobody}");
        }
        assert_eq!(names_of("firecracker --id 7f --api-sock x"), ["7f"]);
        assert!(names_of("qemu -m 512 -name").is_empty());
    }

    #[test]
    fn what_is_no_vm_is_refused() {
        let this = Process::open(std::process::id()).unwrap();
        let message = |error: Error| error.message().to_owned();
        assert!(message(this.require_vm().unwrap_err()).ends_with(") runs no KVM guest"));
        assert!(!this.ended_within(Duration::ZERO).unwrap());
        assert_eq!(message(Process::open(0).unwrap_err()), "there is no process 0");
        let none = message(by_name("no such machine").unwrap_err());
        assert!(none.starts_with("no VM is named no such machine"), "{none}");
    }
}
