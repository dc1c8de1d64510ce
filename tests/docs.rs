//! The commands in the documents, run again: a figure in a document is what its command prints.
//! `BLESS=1 cargo test --test docs` writes the output below each command.

mod common;

use std::fs;
use std::path::Path;

use common::{ktax, run, scratch};

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
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, command, output, after) = block(&text);
    let dir = scratch();
    let mut ktax = ktax();
    ktax.args(command.split_whitespace()).arg("--out").arg(dir.path().join("out"));
    let ran = run(&mut ktax);
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, format!("{before}{command}\n{}{after}", ran.stdout)).unwrap();
    } else if subjects(output) == subjects(&ran.stdout) {
        assert!(output == ran.stdout, "README.md:\n{output}\nnow:\n{}", ran.stdout);
    } else {
        let (then, now) = (subjects(output), subjects(&ran.stdout));
        println!("skipped: README.md is of other subjects: {then:?}, here {now:?}");
    }
    assert!(ran.stdout.contains("no detected change"));
}
