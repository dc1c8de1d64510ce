//! How long the questions about source take, in a cache that begins empty: the first comparison,
//! the everyday one (a patch of one file), an option, and everything once more. Seconds of this
//! machine; each line also says its share of the first.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const SOURCE: &str = "debian-src:6.12";

const PATCH: &str = "--- a/kernel/sys.c\n+++ b/kernel/sys.c\n@@ -995,3 +995,4 @@\n \
                     SYSCALL_DEFINE0(getuid)\n {\n+\tasm volatile(\"nop\");\n \
                     \t/* Only we change this so SMP safe */\n";

fn main() {
    let dir = common::directory();
    let path = |name: &str| dir.path().join(name).display().to_string();
    fs::write(dir.path().join("nop.patch"), PATCH).expect("a writable directory");
    let paravirt = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("experiments/paravirt.toml")
        .display()
        .to_string();
    let patch = path("nop.patch");
    let everyday = ["--kernel", SOURCE, "--patch", &patch, "-w", "getuid"];
    let steps: [(&str, &[&str], f64); 5] = [
        (
            "the source fetched, a kernel built, a row",
            &["--same", "--kernel", SOURCE, "-w", "getuid"],
            360.0,
        ),
        ("a patch of one file, from command to verdict", &everyday, 30.0),
        ("the same again", &everyday, 10.0),
        ("paravirt.toml, its base built before", &[&paravirt], 180.0),
        ("the same again, both kernels built", &[&paravirt], 180.0),
    ];
    let mut first = None;
    for (number, (what, args, wanted_s)) in steps.into_iter().enumerate() {
        let (seconds, printed) = compare(dir.path(), number, args);
        let share = seconds / *first.get_or_insert(seconds) * 100.0;
        println!("{what}   {seconds:.1} s ({share:.0} % of the first)   wanted: {wanted_s} s");
        if number == 1 {
            assert!(printed.contains("+1.00"), "{printed}");
        }
    }
    boots(dir.path());
}

/// Seconds, and what was printed.
fn compare(dir: &Path, number: usize, args: &[&str]) -> (f64, String) {
    let started = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_ktax"))
        .arg("compare")
        .args(args)
        .arg("--out")
        .arg(dir.join(format!("out-{number}")))
        .env("KTAX_CACHE", dir.join("cache"))
        .output()
        .expect("ktax starts");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 3 | 4)), "{complaint}");
    (started.elapsed().as_secs_f64(), printed + &complaint)
}

/// One at a time, to the snapshot.
fn boots(dir: &Path) {
    let args = [
        "--same",
        "--kernel",
        SOURCE,
        "-w",
        "getuid",
        "--seed",
        "2",
        "--layouts",
        "5",
        "--jobs",
        "1",
    ];
    let (_, printed) = compare(dir, 9, &args);
    let boots = printed.split(" boots ").nth(1).and_then(|rest| rest.split(' ').next());
    let seconds: f64 = boots.and_then(|text| text.parse().ok()).expect("ktax says how long");
    // Both sides have one kernel: five boots, and five looks into the cache.
    println!(
        "boot of the small configuration to the snapshot   {:.1} s   wanted: 2 s",
        seconds / 5.0
    );
}
