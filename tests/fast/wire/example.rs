//! Adding a workload touches two files: an example of one is built into the guest and run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ktax::plan::Definition;
use ktax::wire::{Answer, arguments, parse_answer};

use crate::common::scratch;

const PROGRAM: &str = r#"/* SPDX-License-Identifier: MIT */
/* Ask for the process's own number. */
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"

static int op(void)
{
	return syscall(SYS_getpid) <= 0;
}

static void example_run(const struct order *o)
{
	measure(o, 10, op, "calls");
}

WORKLOAD("example", example_run);
"#;

const DEFINITION: &str = r#"
name = "example"
group = "examples"
title = "getpid"
why = "To see that two files are all."
program = "example"
operation = "one getpid call"
ops = 100
signature = { calls = "ops", failed = 0 }
"#;

/// Every C file of the guest but the two that are programs by themselves.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let found = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    // Not of the one program: others for themselves, and those of other machines.
    let is_else = |path: &PathBuf| {
        let others = ["guest/vm", "guest/hosts", "guest/mark", "guest/self-test"];
        path.ends_with("hello.c") || others.iter().any(|of| path.starts_with(of))
    };
    found.filter(|path| path.extension().is_some_and(|is| is == "c") && !is_else(path)).collect()
}

#[test]
fn a_workload_is_one_program_and_one_definition() {
    let dir = scratch();
    let (program, guest) = (dir.path().join("example.c"), dir.path().join("guest"));
    fs::write(&program, PROGRAM).unwrap();
    let status = Command::new("cc")
        .args(["-std=gnu11", "-Iguest", "-static", "-O1", "-o"])
        .arg(&guest)
        .args(sources(Path::new("guest")))
        .arg(&program)
        .status();
    assert!(status.unwrap().success());
    let definition: Definition = toml::from_str(DEFINITION).unwrap();
    let workload = definition.rows().unwrap().remove(0);
    let output = Command::new(&guest).args(arguments(&workload)).output().unwrap();
    match parse_answer(&output.stdout, &workload.program) {
        Ok(Answer::Done(done)) => assert_eq!(workload.deviations(&done.signature), [""; 0]),
        other => panic!("{other:?}"),
    }
}
