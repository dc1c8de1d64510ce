//! Guests on this machine's KVM, and who records them.

use std::fs;
use std::process::{Child, Command, Stdio};

use ktax::model::ExitTable;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::kvm::exits;
use crate::common::{Ran, printed, run, scratch, until};

pub const KTAX: &str = env!("CARGO_BIN_EXE_ktax");
pub const BTF: &str = "/sys/kernel/btf";
pub const ENDLESS: [&str; 5] = [KTAX, "vmm", "raw", "--out", "4000000000"];

pub fn tables(ran: &Ran) -> Vec<ExitTable> {
    assert!(!ran.stdout.is_empty(), "{}", ran.stderr);
    printed::exits(&ran.stdout)
}

/// Records a raw guest from its first exit to its last; the table, and the VMM's own account.
pub fn record(options: &[&str], guest: &[&str]) -> (ExitTable, Value) {
    let dir = scratch();
    let account = dir.path().join("account.json").display().to_string();
    let vmm = [&["--", KTAX, "vmm", "raw", "--account", &account], guest].concat();
    let ran = run(exits(&["record", "--json"]).args(options).args(vmm));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let account = serde_json::from_str(&fs::read_to_string(account).unwrap()).unwrap();
    (tables(&ran).remove(0), account)
}

pub const GUEST: [&str; 8] = ["--out", "200", "--mmio", "300", "--cpuid", "400", "--hlt", "100"];

/// A guest that never ends by itself; it goes with the test.
pub struct Endless(Child);

impl Endless {
    pub fn start() -> Endless {
        Endless::with(&[])
    }

    /// One whose VMM writes its account to a file in the end.
    pub fn writing_to(account: &str) -> Endless {
        Endless::with(&["--account", account])
    }

    fn with(options: &[&str]) -> Endless {
        let mut command = Command::new(KTAX);
        command.args(&ENDLESS[1..]).args(options).stderr(Stdio::null());
        let guest = Endless(command.spawn().unwrap());
        let links = format!("/proc/{}/fd", guest.0.id());
        until("it has a VM", || {
            let entries = fs::read_dir(&links).into_iter().flatten().flatten();
            let mut links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
            links.any(|link| link.to_string_lossy().contains("kvm-vcpu-stats"))
        });
        guest
    }

    pub fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// The state of the process and the numbers behind it in /proc/PID/stat.
    fn stat(&self) -> Vec<String> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        let behind_name = stat.rsplit_once(") ").unwrap().1;
        behind_name.split(' ').map(str::to_owned).collect()
    }

    /// `T` if it is stopped.
    pub fn state(&self) -> String {
        self.stat().remove(0)
    }

    /// How long its threads have run, in the guest too, in hundredths of a second.
    pub fn cpu_ticks(&self) -> u64 {
        let times = &self.stat()[11..13];
        times.iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum()
    }

    /// SIGTERM ends the guest, after which its VMM writes its account.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Whether a recorder, which takes the place of what was started, has all its programs at work:
/// only then does it wait for the VM to end.
pub fn records(recorder: &Child) -> bool {
    let call = fs::read_to_string(format!("/proc/{}/syscall", recorder.id())).unwrap_or_default();
    let number = call.split(' ').next().and_then(|number| number.parse().ok());
    number == Some(libc::SYS_poll) || number == Some(libc::SYS_ppoll)
}
