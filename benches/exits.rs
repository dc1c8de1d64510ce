//! What recording costs a guest: nothing, ktax, and `perf record` of the same two events, in turns.
//! The guest's own clock is the measure; the medians' ratio is what counts.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const KTAX: &str = env!("CARGO_BIN_EXE_ktax");
const EXITS: u32 = 20_000;
const ROUNDS: usize = 12;

fn main() {
    let has_kvm = fs::File::options().read(true).write(true).open("/dev/kvm").is_ok();
    let has_perf = Command::new("perf").arg("--version").output().is_ok();
    if !has_kvm || !rustix::process::geteuid().is_root() {
        println!("skipped: no /dev/kvm, or not root");
        return;
    }
    let dir = tempfile::Builder::new()
        .prefix("ktax-bench-")
        .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
        .expect("a temporary directory");
    let data = dir.path().join("perf.data").display().to_string();
    let record = ["exits", "record", "--level", "run", "--via", "bpf", "--"];
    let ktax: Vec<&str> = [KTAX].into_iter().chain(record).collect();
    let events = "kvm:kvm_userspace_exit,syscalls:sys_enter_ioctl";
    let perf = ["perf", "record", "-q", "-a", "-o", &data, "-e", events, "--"];
    let ways: [(&str, &[&str]); 3] =
        [("nothing", &[]), ("ktax exits record", &ktax), ("perf record", &perf)];
    let ways = &ways[..if has_perf { 3 } else { 2 }];
    let mut times = vec![Vec::new(); ways.len()];
    for _ in 0..ROUNDS {
        for ((_, way), times) in ways.iter().zip(&mut times) {
            times.push(guest(dir.path(), way));
        }
    }
    let medians: Vec<f64> = times.iter_mut().map(|times| median(times)).collect();
    println!("ns for each exit, median of {ROUNDS} rounds of {EXITS}");
    for ((name, _), median) in ways.iter().zip(&medians) {
        println!("{name:<20} {median:>8.0}   added {:>6.0}", median - medians[0]);
    }
    if let [nothing, ktax, perf] = medians[..] {
        let bytes = fs::metadata(&data).map_or(0, |file| file.len()) as f64 / f64::from(EXITS);
        let ratio = (ktax - nothing) / (perf - nothing);
        println!("ktax adds {ratio:.2} of what perf adds   wanted: 0.33");
        println!("bytes stored for each exit: 0, and perf's {bytes:.0}");
    }
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
    let account: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let wall_ns = account["vcpus"][0]["wall_ns"].as_f64().expect("a time");
    wall_ns / f64::from(EXITS)
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
