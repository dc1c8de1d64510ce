//! `ktax workloads --touching`, and `-w @touching`: which rows execute what a patch changes.

use std::collections::BTreeSet;
use std::fs;

use ktax::flow::expand_touching;
use ktax::plan::{ExperimentFile, TouchedTable, definitions, select};

use crate::common::{Ran, ktax, run, scratch};

fn touching(named: &str, more: &[&str]) -> Ran {
    run(ktax().args(["workloads", "--touching", named]).args(more))
}

/// A patch of the handler of write faults.
const PATCH: &str = "From: a <a@example.org>\nSubject: [PATCH] mm: count\n\n---\n\
    --- a/mm/memory.c\n+++ b/mm/memory.c\n\
    @@ -4000,3 +4000,4 @@ static vm_fault_t handle_mm_fault(struct vm_fault *vmf)\n \
    \tint a;\n+\tint b;\n \n \tint c;\n";

#[test]
fn the_shipped_table_is_of_the_rows_that_ktax_has() {
    let (table, definitions) = (TouchedTable::shipped(), definitions().unwrap());
    let known: Vec<String> = table.rows.keys().cloned().collect();
    select(&definitions, Some(&known)).unwrap();
    let usual = select(&definitions, None).unwrap().into_iter().map(|row| row.row);
    let missing: Vec<String> = usual.filter(|row| !table.rows.contains_key(row)).collect();
    // It executes nothing of the kernel.
    assert_eq!(missing, ["bcopy-libc"], "run `make functions`");
}

#[test]
fn rows_are_listed_by_function_patch_and_file() {
    let dir = scratch();
    let (patch, file) = (dir.path().join("mm.patch"), dir.path().join("pipe.c"));
    fs::write(&patch, PATCH).unwrap();
    fs::write(&file, "static int pipe_write(int a)\n{\n}\nint unheard_of(void)\n{\n}\n").unwrap();
    let rows = |named: &str| -> BTreeSet<String> {
        let ran = touching(named, &["--json"]);
        let all: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        let rows = all["rows"].as_array().unwrap();
        rows.iter().map(|row| row["row"].as_str().unwrap().to_owned()).collect()
    };
    let by_patch = rows(patch.to_str().unwrap());
    assert!(by_patch.contains("page-fault") && by_patch == rows("handle_mm_fault"));
    assert!(!by_patch.contains("getppid") && rows("getppid").contains("getppid"));
    assert_eq!(rows(file.to_str().unwrap()), rows("pipe_write"));
    let printed = touching(file.to_str().unwrap(), &[]).stdout;
    assert!(printed.contains("1 function, or the compiler inlines them: unheard_of"), "{printed}");
    assert!(printed.contains("bw-pipe") && printed.contains("6.1.0-56-cloud-amd64"), "{printed}");
    for (named, about) in [
        ("pipe_wriet", "no row executes a function \"pipe_wriet\" (did you mean pipe_write?)"),
        ("no-such.patch", "cannot read no-such.patch: No such file"),
        ("Makefile.am/x", "cannot read Makefile.am/x"),
        ("CHANGELOG.md", "cannot use the patch CHANGELOG.md: it contains no diff"),
    ] {
        let refused = touching(named, &[]);
        assert_eq!(refused.status, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains(about), "{}", refused.stderr);
    }
}

#[test]
fn the_rows_of_a_patch_take_the_place_of_their_selector() {
    let dir = scratch();
    let patch = dir.path().join("mm.patch");
    fs::write(&patch, PATCH).unwrap();
    let expanded = |patches: &[String]| {
        let mut file = ExperimentFile {
            workloads: Some(vec!["getppid".into(), "@touching".into(), "page-fault".into()]),
            ..ExperimentFile::default()
        };
        file.change_mut().patches = patches.to_vec();
        expand_touching(&mut file).map(|()| file.workloads.unwrap())
    };
    let rows = expanded(&[patch.display().to_string()]).unwrap();
    assert_eq!(rows[0], "getppid");
    assert_eq!(rows.iter().filter(|row| *row == "page-fault").count(), 1);
    assert!(rows.len() > 10, "{rows:?}");
    let none = expanded(&[]).unwrap_err().to_string();
    assert!(none.contains("has no patch; give it with --patch"), "{none}");
    let other = expanded(&["tests/data/patches/plain.diff".to_owned()]).unwrap_err().to_string();
    assert!(other.contains("no row executes what") && other.contains("(answer, other)"), "{other}");
}
