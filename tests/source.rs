//! Real kernels from the distribution's source: what a patch, a comment and an option cost. Each
//! build takes minutes, so that `make test-kernels` runs these and `make test` does not.

mod common;

use std::fs;
use std::path::Path;

use common::{ktax, row, run, scratch};
use ktax::model::{Comparison, Verdict};

const SOURCE: &str = "debian-src:6.12";
const ROWS: [&str; 3] = ["getppid", "stat", "fork-exit"];

fn compare(out: &Path, args: &[&str]) -> Comparison {
    let mut command = ktax();
    command.args(["compare", "--kernel", SOURCE, "--json", "--out"]).arg(out).args(args);
    let ran = run(command.args(ROWS.iter().flat_map(|row| ["-w", *row])));
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stderr))
}

/// A patch of kernel/sys.c that puts a line at the beginning of getppid.
fn patch(dir: &Path, line: &str) -> String {
    let path = dir.join("getppid.patch");
    let text = format!(
        "--- a/kernel/sys.c\n+++ b/kernel/sys.c\n@@ -984,5 +984,6 @@\n \
         SYSCALL_DEFINE0(getppid)\n {{\n \tint pid;\n+{line}\n \n \trcu_read_lock();\n"
    );
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn one_instruction_in_a_patch_is_found_in_its_function() {
    let dir = scratch();
    let patch = patch(dir.path(), "\tasm volatile(\"nop\");");
    let comparison = compare(&dir.path().join("out"), &["--patch", &patch]);
    let getppid = &row(&comparison, "getppid").effects[0];
    assert_eq!((getppid.delta, getppid.delta_range), (1.0, (1.0, 1.0)));
    assert_eq!(getppid.functions[0].function, "__do_sys_getppid");
    for name in &ROWS[1..] {
        assert_eq!(row(&comparison, name).verdict, Verdict::NoDetectedChange, "{name}");
    }
}

#[test]
fn a_comment_costs_nothing() {
    let dir = scratch();
    let patch = patch(dir.path(), "\t/* a comment */");
    let comparison = compare(&dir.path().join("out"), &["--patch", &patch]);
    for name in ROWS {
        let effect = &row(&comparison, name).effects[0];
        assert_eq!(effect.samples.base, effect.samples.change, "{name}");
    }
}

#[test]
fn an_option_that_kconfig_drops_is_an_error_that_says_what_it_needs() {
    let ran = run(ktax().args(["plan", "--kernel", SOURCE, "--config", "CONFIG_KVM_GUEST=y"]));
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("it depends on PARAVIRT, of which PARAVIRT"), "{}", ran.stderr);
}
