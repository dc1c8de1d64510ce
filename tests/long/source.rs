//! Builds kernels from the distribution's source, and measures what a patch, a comment and an
//! option cost. Each build takes minutes, so `make test-kernels` runs these tests and `make test`
//! does not.

mod bisect;
mod file_system;
mod history;
mod lock;
mod reached;

use std::fs;
use std::path::Path;

use crate::common::{ktax, printed, row, run, scratch};
use ktax::model::{Comparison, Verdict};

const SOURCE: &str = "debian-src:6.12";

/// One task switch of this kernel takes the process 1 045 instructions; in one of 60 000 calls:
const SWITCH: f64 = 1_050.0 / 60_000.0;

fn compare(out: &Path, args: &[&str]) -> Comparison {
    let mut command = ktax();
    command.args(["compare", "--kernel", SOURCE, "--json", "--out"]).arg(out).args(args);
    let ran = run(&mut command);
    assert!(!ran.stdout.is_empty(), "{}", ran.stderr);
    printed::comparison(&ran.stdout)
}

/// A hunk for kernel/sys.c that adds these lines at the beginning of getppid.
fn hunk_of_getppid(lines: &str) -> String {
    let added: String = lines.lines().map(|line| format!("+{line}\n")).collect();
    let count = 5 + lines.lines().count();
    format!(
        "--- a/kernel/sys.c\n+++ b/kernel/sys.c\n@@ -984,5 +984,{count} @@\n \
         SYSCALL_DEFINE0(getppid)\n {{\n \tint pid;\n{added} \n \trcu_read_lock();\n"
    )
}

fn patch(dir: &Path, line: &str) -> String {
    let path = dir.join("getppid.patch");
    fs::write(&path, hunk_of_getppid(line)).unwrap();
    path.display().to_string()
}

#[test]
fn one_instruction_in_a_patch_is_found_in_its_function() {
    let dir = scratch();
    let patch = patch(dir.path(), "\tasm volatile(\"nop\");");
    let rows = ["-w", "getppid", "-w", "stat", "-w", "fork-exit"];
    let args = [&["--patch", &patch][..], &rows].concat();
    let comparison = compare(&dir.path().join("out"), &args);
    let getppid = &row(&comparison, "getppid").effects()[0];
    assert_eq!(getppid.delta, 1.0);
    let carried: Vec<(&str, f64)> =
        getppid.functions.iter().map(|one| (one.function.as_str(), one.delta)).collect();
    assert_eq!(carried, [("__do_sys_getppid", 1.0)]);
    // A grace period of RCU ends while the calls run. Its thread is switched to once, from the
    // process or from an interrupt: that depends on the instruction at which the timer fires.
    let (least, most) = getppid.delta_range;
    assert!((1.0 - SWITCH..=1.0).contains(&least), "{least}");
    assert!((1.0..=1.0 + SWITCH).contains(&most), "{most}");
    for name in ["stat", "fork-exit"] {
        assert_eq!(row(&comparison, name).verdict, Verdict::NoDetectedChange, "{name}");
    }
}

#[test]
fn a_comment_costs_nothing_in_every_row() {
    let dir = scratch();
    let patch = patch(dir.path(), "\t/* a comment */");
    let args = ["--patch", &patch, "--layouts", "1"];
    let comparison = compare(&dir.path().join("out"), &args);
    assert!(comparison.rows.len() > 20, "{}", comparison.rows.len());
    for row in &comparison.rows {
        for effect in row.effects() {
            assert_eq!(effect.samples.base, effect.samples.change, "{}", row.row);
        }
    }
}

#[test]
fn an_option_that_kconfig_drops_is_an_error_with_its_dependency() {
    let ran = run(ktax().args(["plan", "--kernel", SOURCE, "--config", "CONFIG_KVM_GUEST=y"]));
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("but PARAVIRT is not set; set PARAVIRT"), "{}", ran.stderr);
}
