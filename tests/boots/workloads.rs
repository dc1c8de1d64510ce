//! Rows of a directory of the user's: what `docs/workloads.md` shows, word for word.

use std::fs;
use std::path::Path;

use ktax::model::Comparison;

use crate::common::{KERNEL, QUICK_BOOT, Ran, SLOWER, ktax, printed, quick, row, run, scratch};

/// The blocks of the page in this language.
fn blocks(language: &str) -> Vec<String> {
    let page = fs::read_to_string("docs/workloads.md").unwrap();
    let fence = format!("```{language}\n");
    let after = page.split(fence.as_str()).skip(1);
    after.map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

/// The files of the page.
fn write_rows(dir: &Path) {
    let rows = dir.join("rows");
    fs::create_dir(&rows).unwrap();
    let toml = blocks("toml");
    fs::write(rows.join("eventfd-write.toml"), &toml[0]).unwrap();
    fs::write(rows.join("sort-words.toml"), &toml[1]).unwrap();
    fs::write(rows.join("eventfd-write.c"), &blocks("c")[0]).unwrap();
}

fn compare(dir: &Path, more: &[&str]) -> Ran {
    let slower = quick(SLOWER);
    let subject = ["compare", "--kernel", KERNEL, "--base-boot-line", &slower];
    let options = ["--change-boot-line", QUICK_BOOT, "--json", "--workloads", "rows", "-l", "1"];
    run(ktax().current_dir(dir).args(subject).args(options).args(more))
}

fn comparison(ran: &Ran) -> Comparison {
    assert!(!ran.stdout.is_empty(), "{}", ran.stderr);
    printed::comparison(&ran.stdout)
}

#[test]
fn the_rows_of_a_directory_are_listed_and_checked_without_a_boot() {
    let dir = scratch();
    let dir = dir.path();
    write_rows(dir);
    let listed = run(ktax().current_dir(dir).args(["workloads", "--workloads", "rows"]));
    assert!(listed.stdout.contains("eventfd-write") && !listed.stdout.contains("getppid"));
    let show = ["workloads", "show", "--workloads", "rows", "eventfd-write"];
    let shown = run(ktax().current_dir(dir).args(show));
    assert!(shown.stdout.contains("writes = ops"), "{}{}", shown.stdout, shown.stderr);
    let toml = dir.join("rows/eventfd-write.toml");
    let text = fs::read_to_string(&toml).unwrap();
    for (from, to) in [
        ("\"eventfd-write\"", "\"getppid\""),
        ("ops = 20000", "ops = -1"),
        ("program = \"eventfd-write\"", "program = \"eventfd-wirte\""),
    ] {
        fs::write(&toml, text.replacen(from, to, 1)).unwrap();
        run(ktax().current_dir(dir).args(["workloads", "--workloads", "rows"])).exits(2);
    }
}

#[test]
fn the_rows_of_the_page_are_counted() {
    let dir = scratch();
    let dir = dir.path();
    write_rows(dir);
    let ran = compare(dir, &["-w", "@mine", "-w", "getppid", "--out", "out"]);
    let first = comparison(&ran);
    let names: Vec<&str> = first.rows.iter().map(|row| row.row.as_str()).collect();
    assert_eq!(names, ["sort-words", "eventfd-write", "getppid"]);
    let percent = row(&first, "eventfd-write").effects()[0].percent.unwrap();
    assert!(percent < -10.0, "{percent} %");
    assert!(first.rows.iter().all(|row| row.failures.is_empty()));
    // ktax keeps the compiled program: the directory may change meanwhile.
    fs::write(
        dir.join("rows/eventfd-write.c"),
        "#error changed\nWORKLOAD(\"eventfd-write\", run);\n",
    )
    .unwrap();
    let resumed = run(ktax().current_dir(dir).args(["run", "out", "--json"]));
    assert_eq!(comparison(&resumed), first);
    let refused = compare(dir, &["-w", "@mine", "--out", "again"]);
    assert_eq!(refused.status, 2);
    refused.says("eventfd-write.c:1:");
}

#[test]
fn unknown_rows_are_refused_before_a_boot() {
    let dir = scratch();
    let dir = dir.path();
    write_rows(dir);
    let file = dir.join("rows/eventfd-write.toml");
    let good = fs::read_to_string(&file).unwrap();
    for (from, to, reason) in [
        ("name = \"eventfd-write\"", "name = \"../../x\"", "a-z, 0-9"),
        ("name = \"eventfd-write\"", "name = \"getppid\"", "defined twice"),
        ("program = \"eventfd-write\"", "", "needs a program"),
        ("program =", "programs =", "unknown field"),
        ("writes = \"ops\"", "writes = \"oops\"", "oops"),
    ] {
        fs::write(&file, good.replacen(from, to, 1)).unwrap();
        let ran = compare(dir, &["-w", "@mine", "--out", "out"]);
        assert_eq!(ran.status, 2, "{to}: {}", ran.stderr);
        assert!(ran.stderr.contains(reason), "{to}: {}", ran.stderr);
        assert!(!dir.join("out").exists());
    }
    fs::remove_dir_all(dir.join("rows")).unwrap();
    let ran = compare(dir, &["-w", "@mine", "--out", "out"]);
    assert_eq!(ran.status, 2);
    ran.says("give a directory");
}
