//! `make answers` renews what it can, keeps what failed as it was, and names it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::common::{Ran, run, scratch};

const OLD: &str =
    "title = \"a question\"\n# What ktax said, written by `make answers`:\n#\n# old\n";

/// Answers as ktax does. What it is asked stands in the experiment's name: its exit status, and of
/// `report --columns` what the one of ktax was that failed.
const FAKE: &str = r#"#!/bin/sh
for last; do :; done
case "$*" in
--version) echo 'ktax 7.8.9' ;;
'report --versions '*) echo "guest  abc of $last" ;;
'report --columns '*) echo "a shape of $last"; exit "$(cat target/layout)" ;;
compare* | ledger*) echo "said of $2"; cat target/row; exit "$(cat target/status)" ;;
*) exit 99 ;;
esac
"#;

/// Runs the script over one file, with a ktax that prints `row` and ends with `status`, and with
/// `layout` where it prints a shape.
fn renew(file: &str, row: &str, status: i32, layout: i32) -> (Ran, String) {
    let dir = scratch();
    let path_of = |name: &str| dir.path().join(name);
    for folder in ["scripts", "experiments", "ledgers", "target/release"] {
        fs::create_dir_all(path_of(folder)).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/answers.sh");
    fs::copy(script, path_of("scripts/answers.sh")).unwrap();
    fs::write(path_of("target/release/ktax"), FAKE).unwrap();
    fs::set_permissions(path_of("target/release/ktax"), Permissions::from_mode(0o755)).unwrap();
    fs::write(path_of("target/status"), status.to_string()).unwrap();
    fs::write(path_of("target/row"), row).unwrap();
    fs::write(path_of("target/layout"), layout.to_string()).unwrap();
    fs::write(path_of(file), OLD).unwrap();
    let mut sh = Command::new("sh");
    let ran = run(sh.arg(path_of("scripts/answers.sh")).env_remove("CARGO_TARGET_DIR").arg(file));
    (ran, fs::read_to_string(path_of(file)).unwrap())
}

fn answer_of(file: &str, status: i32, lines: &[&str]) {
    let (ran, text) = renew(file, "", status, 3);
    assert_eq!(ran.status, 0, "{file} {status}: {}", ran.stderr);
    let begin = OLD.strip_suffix("# old\n").unwrap();
    let lines: String =
        lines.iter().map(|line| format!("# {line}").trim_end().to_owned() + "\n").collect();
    assert_eq!(text, format!("{begin}{lines}"));
}

#[test]
fn an_answer_has_its_versions_and_the_table_that_the_documents_promise() {
    let note = "said of experiments/x.toml";
    for verdict in [0, 3, 4] {
        let versions = ["ktax 7.8.9", "guest  abc of target/answers/x", "", note];
        answer_of("experiments/x.toml", verdict, &versions);
    }
    for name in ["paravirt", "mmap-stress", "fork-pages"] {
        let dir = format!("target/answers/{name}");
        let [guest, shape] = [format!("guest  abc of {dir}"), format!("a shape of {dir}")];
        let file = format!("experiments/{name}.toml");
        let note = format!("said of {file}");
        answer_of(&file, 3, &["ktax 7.8.9", &guest, "", &note, "", &shape]);
    }
    let shape = "a shape of target/answers/lsm";
    let guest = "guest  abc of target/answers/lsm";
    answer_of("experiments/lsm.toml", 0, &["ktax 7.8.9", guest, "", shape]);
    let guest = "guest  abc of target/answers/x/together";
    answer_of("ledgers/x.toml", 0, &["ktax 7.8.9", guest, "", "said of ledgers/x.toml"]);
}

#[test]
fn failed_runs_keep_their_answer_and_are_named() {
    for (file, row, status, layout) in [
        ("experiments/x.toml", "", 69, 0),
        ("experiments/x.toml", "", 1, 0),
        ("experiments/paravirt.toml", "", 0, 2),
        ("experiments/lsm.toml", "", 3, 1),
        ("ledgers/x.toml", "", 2, 0),
        // One row is slower, and that is the exit status.
        ("experiments/x.toml", "pipe  failed\n", 3, 0),
    ] {
        let (ran, text) = renew(file, row, status, layout);
        assert_eq!((ran.status, text.as_str()), (1, OLD), "{file} {row}{status} {layout}");
        assert!(ran.stderr.contains("failed") && ran.stderr.contains(file), "{}", ran.stderr);
    }
}
