//! What was typed wrong is what the message is about.

use std::fs;

use crate::common::{ktax, run, scratch};

/// The one line that ktax prints about these arguments.
#[track_caller]
fn said(args: &[&str]) -> String {
    let ran = run(ktax().args(args));
    assert_eq!(ran.status, 2, "{args:?}: {}", ran.stderr);
    ran.stderr
}

#[test]
fn a_negative_number_is_the_value_of_its_option() {
    for option in ["--layouts", "--seed", "--memory", "--jobs", "--time-limit", "--pairs"] {
        let said = said(&["compare", "--kernel", "k", option, "-1"]);
        let about = format!("invalid value '-1' for '{option}");
        assert!(said.contains(&about) && !said.contains("EXPERIMENT"), "{said}");
    }
}

#[test]
fn a_boot_line_of_two_lines_is_at_fault_and_not_the_title() {
    for option in ["--base-boot-line", "--change-boot-line"] {
        let said = said(&["plan", "--kernel", "k", "-w", "getppid", option, "quiet\npti=on"]);
        assert!(said.contains(option) && !said.contains("title"), "{said}");
    }
}

#[test]
fn a_directory_without_a_plan_cannot_be_resumed() {
    let dir = scratch();
    fs::write(dir.path().join("notes"), "mine").unwrap();
    let out = dir.path().to_str().unwrap();
    let args = ["compare", "--same", "--kernel", "k", "-w", "getppid", "--out", out];
    let text = said(&args);
    assert!(text.contains("is not a run directory; give --out a new name"), "{text}");
    fs::write(dir.path().join("plan.json"), "{}").unwrap();
    let text = said(&args);
    assert!(text.contains("resume with `ktax run"), "{text}");
}

#[test]
fn a_feature_of_kvm_has_its_nearest_name() {
    let (dir, kernel) = (scratch(), "kernel = \"debian:cloud-amd64\"");
    let file = dir.path().join("clock.toml").display().to_string();
    let (guest, hidden) = ("host = \"kvm\"\nworkloads = [\"boot\"]", "without = [\"kvmclok\"]");
    let text = format!("title = \"Clock\"\n{guest}\n[base]\n{kernel}\n{hidden}\n");
    fs::write(&file, text).unwrap();
    let text = said(&["plan", &file]);
    assert!(text.contains("no feature \"kvmclok\" (did you mean \"kvmclock\"?)"), "{text}");
}
