//! Overhead of recording for each exit: without a recorder, with ktax, and with perf. Measured in a
//! KVM host within QEMU that counts instructions, and in time on this machine's KVM.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

const KTAX: &str = env!("CARGO_BIN_EXE_ktax");
/// In the host, so many that perf writes to its file while they come; on this machine, of one
/// round.
const EXACT_EXITS: u32 = 200_000;
const EXITS: u32 = 4000;
const ROUNDS: usize = 40;

fn main() {
    let Ok(perf) = perf() else {
        println!("skipped: perf is missing; on Debian 12 type: apt-get install linux-perf");
        return;
    };
    exact(&perf);
    let has_kvm = fs::File::options().read(true).write(true).open("/dev/kvm").is_ok();
    if has_kvm && rustix::process::geteuid().is_root() {
        timed();
    } else {
        println!("on this machine: skipped, no /dev/kvm or not root");
    }
}

/// perf and all that it is linked with, by their names in the host.
fn perf() -> std::io::Result<Vec<String>> {
    let stdout = |program: &str, argument: &str| -> std::io::Result<String> {
        let output = Command::new(program).arg(argument).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    stdout("perf", "--version")?;
    let path = stdout("which", "perf")?.trim().to_owned();
    let libraries = stdout("ldd", &path)?;
    let paths = libraries.split_whitespace().filter(|word| word.starts_with('/'));
    let named = |path: &str| format!("{}={path}", path.rsplit('/').next().unwrap_or(path));
    Ok([format!("perf={path}")].into_iter().chain(paths.map(named)).collect())
}

/// Instructions, to the last one.
fn exact(perf: &[String]) {
    let loader = ["/files/ld-linux-x86-64.so.2", "--library-path", "/files", "/files/perf"];
    let data = ["-a", "-o", "/tmp/perf.data", "--"];
    let record = ["record", "-q", "-e", "kvm:kvm_entry,kvm:kvm_exit"];
    let (record, stat) = (
        [&loader[..], &record, &data].concat(),
        [&loader[..], &["kvm", "--host", "stat", "record"], &data].concat(),
    );
    let ktax = ["/ktax", "exits", "record", "--level", "exits", "--via", "bpf", "--"];
    let guest = |recorder: &[&str]| {
        let mut command = Command::new(KTAX);
        command.args(["kvm-host", "--exact", "--time-limit", "600"]);
        for file in perf {
            command.args(["--file", file]);
        }
        // ktax keeps a guest's standard output apart from its own, perf kvm its standard error.
        let account =
            if recorder.contains(&"/ktax") { "/proc/self/fd/2" } else { "/proc/self/fd/1" };
        let count = EXACT_EXITS.to_string();
        command.arg("--").args(recorder).args(["/ktax", "vmm", "raw", "--cpuid", &count]);
        let output = command.args(["--account", account]).output().expect("ktax starts");
        let bytes = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&bytes);
        let line = printed
            .lines()
            .find(|line| line.starts_with("{\"vcpus\""))
            .unwrap_or_else(|| panic!("{printed}"));
        let account: Value = serde_json::from_str(line).expect("JSON");
        account["vcpus"][0]["wall_ns"].as_f64().expect("a time") / f64::from(EXACT_EXITS)
    };
    println!("in a KVM host within QEMU: instructions for each of {EXACT_EXITS} exits (CPUID)");
    let nothing = guest(&[]);
    println!("{:<24} {nothing:>8.0}", "nothing");
    let ktax = row("ktax exits record", guest(&ktax), nothing);
    let record = row("perf record", guest(&record), nothing);
    let stat = row("perf kvm stat record", guest(&stat), nothing);
    println!(
        "ktax adds {:.3} of what perf record adds, {:.3} of perf kvm stat record   wanted: 0.333",
        ktax / record,
        ktax / stat
    );
    assert!(ktax * 3.0 <= stat, "recording costs more than a third of perf kvm stat record");
}

fn row(name: &str, cost: f64, nothing: f64) -> f64 {
    let added = cost - nothing;
    println!("{name:<24} {cost:>8.0}   added {added:>6.0}");
    added
}

/// Time, in turns; each guest says the median of its exits, and the least of those counts: what
/// else runs on the machine only adds.
fn timed() {
    let dir = common::directory();
    let data = dir.path().join("perf.data").display().to_string();
    let record = ["exits", "record", "--level", "run", "--via", "bpf", "--"];
    let ktax: Vec<&str> = [KTAX].into_iter().chain(record).collect();
    let events = "kvm:kvm_userspace_exit,syscalls:sys_enter_ioctl";
    let perf = ["perf", "record", "-q", "-a", "-o", &data, "-e", events, "--"];
    let ways: [(&str, &[&str]); 3] =
        [("nothing", &[]), ("ktax exits record", &ktax), ("perf record", &perf)];
    let mut times = vec![Vec::new(); ways.len()];
    for _ in 0..ROUNDS {
        for ((_, way), times) in ways.iter().zip(&mut times) {
            times.push(guest(dir.path(), way));
        }
    }
    println!(
        "on this machine: ns for each return of KVM_RUN, the least of {ROUNDS} medians of {EXITS}"
    );
    let least = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
    let nothing = least(&times[0]);
    println!("{:<24} {nothing:>8.0}", "nothing");
    let ktax = row("ktax exits record", least(&times[1]), nothing);
    let perf = row("perf record", least(&times[2]), nothing);
    println!("ktax adds {:.2} of what perf record adds", ktax / perf);
    let bytes = fs::metadata(&data).map_or(0, |file| file.len()) as f64 / f64::from(EXITS);
    println!("bytes stored for each exit: 0, and perf's {bytes:.0}");
}

/// ns for each exit of a guest under a recorder.
fn guest(dir: &Path, recorder: &[&str]) -> f64 {
    let account = dir.join("account.json");
    let mut command = Command::new("unshare");
    let mount = "mount -t tracefs nodev /sys/kernel/tracing && exec \"$@\"";
    command.args(["--mount", "sh", "-c", mount, "sh"]).args(recorder);
    command.args([KTAX, "vmm", "raw", "--out", &EXITS.to_string(), "--account"]).arg(&account);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(status.expect("unshare starts").success());
    let text = fs::read_to_string(&account).expect("an account");
    let account: Value = serde_json::from_str(&text).expect("JSON");
    account["vcpus"][0]["turn_ns"].as_f64().expect("a time")
}
