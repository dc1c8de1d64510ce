//! The commands in the documents, run again: a figure in a document is what its command prints.
//! `BLESS=1 cargo test --test boots docs::` writes the output below each command.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{ktax, run, scratch};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap()
}

fn write(name: &str, text: &str) {
    fs::write(path(name), text).unwrap();
}

/// The block of README.md that begins with `$ ktax`: its command and its output.
fn block(text: &str) -> (&str, &str, &str, &str) {
    const OPEN: &str = "```console\n$ ktax ";
    let start = text.find(OPEN).expect("README.md has a console block") + OPEN.len();
    let end = start + text[start..].find("```").expect("the block ends");
    let (command, output) = text[start..end].split_once('\n').expect("the command has a line");
    (&text[..start], command, output, &text[end..])
}

/// The lines that say what was compared on what; other kernels and QEMUs give other numbers.
fn subjects(output: &str) -> Vec<&str> {
    let named =
        |line: &&str| ["base  ", "change  ", "exact ·"].iter().any(|at| line.starts_with(at));
    output.lines().filter(named).collect()
}

#[test]
fn the_table_of_the_readme_is_what_its_command_prints() {
    let (text, manual) = (read("README.md"), read("docs/report.md"));
    let (before, command, output, after) = block(&text);
    let dir = scratch();
    let mut ktax = ktax();
    ktax.args(command.split_whitespace()).arg("--out").arg(dir.path().join("out"));
    let ran = run(&mut ktax);
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    if std::env::var_os("BLESS").is_some() {
        write("README.md", &format!("{before}{command}\n{}{after}", ran.stdout));
        write("docs/report.md", &manual.replace(explained(&manual), explained(&ran.stdout)));
    } else if subjects(output) == subjects(&ran.stdout) {
        assert!(output == ran.stdout, "README.md:\n{output}\nnow:\n{}", ran.stdout);
    } else {
        let (then, now) = (subjects(output), subjects(&ran.stdout));
        println!("skipped: README.md is of other subjects: {then:?}, here {now:?}");
    }
    assert!(ran.stdout.contains("no detected change"));
}

/// The row that `docs/report.md` explains.
fn explained(text: &str) -> &str {
    text.lines().find(|line| line.starts_with("open-close ")).expect("it has the row")
}

#[test]
fn the_row_that_the_manual_explains_is_the_readmes() {
    let [manual, readme] = ["docs/report.md", "README.md"].map(read);
    assert_eq!(explained(&manual), explained(&readme), "type make bless");
}
