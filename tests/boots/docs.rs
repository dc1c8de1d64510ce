//! The documents show what their commands print.
//!
//! The words behind the fence of a block say what a test does with it:
//!
//! | Block | Meaning |
//! |---|---|
//! | `console` | run again by `make test`; the output is the same to the byte |
//! | `console long` | the same, by `make test-long` |
//! | `console here` | measures this machine or this build: only the command line is checked |
//! | `console answer` | a row of the answer below an experiment; `tests/fast/docs.rs` writes it |
//! | `toml FILE` | the file is there when the commands of the page run |
//! | `sh` | only the command lines are checked |
//!
//! `BLESS=1 cargo test --test boots docs::` writes the output below each command that it runs.

mod shell;

use crate::common::page::{Block, Kind, Page, pages};
use crate::common::{Need, require, scratch};
use shell::Shell;

#[test]
fn what_the_documents_show_is_what_their_commands_print() {
    check(Kind::Again);
}

#[test]
#[ignore = "boots many guests: make test-long"]
fn what_takes_long_to_show_is_what_its_command_prints() {
    check(Kind::Long);
}

/// Measures this machine, so that nothing but BLESS=1 asks for it.
#[test]
#[ignore = "writes what this machine measures: BLESS=1 cargo test --test boots here -- --ignored"]
fn what_is_measured_here_is_written_anew() {
    assert!(std::env::var_os("BLESS").is_some(), "only with BLESS=1");
    check(Kind::Here);
}

/// Runs the blocks of a kind on every page, and compares or writes what they print.
fn check(kind: Kind) {
    let mut wrong = Vec::new();
    // Pages share rows, and a row of the store comes out the same, to the byte.
    let store = scratch();
    for mut page in pages() {
        if !page.blocks().iter().any(|block| block.kind == kind) {
            continue;
        }
        let shell = Shell::new();
        let shell = match page.blocks().iter().flat_map(Block::commands).any(looks_into_a_run) {
            true => shell,
            false => shell.with_store(store.path()),
        };
        for block in page.blocks().iter().filter(|block| block.kind == Kind::File) {
            shell.write(&block.argument, &block.text);
        }
        for block in page.blocks().into_iter().filter(|block| block.kind == kind) {
            wrong.extend(judge(&mut page, &block, &shell));
        }
        if std::env::var_os("BLESS").is_some() {
            page.write();
        }
    }
    assert!(wrong.is_empty(), "type make bless\n{}", wrong.join("\n"));
}

/// Whether a command shows files that only a boot leaves.
fn looks_into_a_run(command: String) -> bool {
    ["ls ", "find ", "cat "].iter().any(|word| command.starts_with(word))
}

/// Runs one block; what is wrong with it, if anything.
fn judge(page: &mut Page, block: &Block, shell: &Shell) -> Option<String> {
    let now = shell.run(&block.commands());
    if std::env::var_os("BLESS").is_some() {
        page.replace(block, &now);
    } else if subjects(&block.text) != subjects(&now) {
        let (then, now) = (subjects(&block.text), subjects(&now));
        let why = format!("{} is of {then:?}, here {now:?}", page.name());
        require(Need::Versions, false, why);
    } else if block.text != now {
        return Some(format!("{}:\n{}\nnow:\n{now}", page.name(), block.text));
    }
    None
}

/// The lines that say what was compared on what; other kernels and QEMUs give other numbers.
fn subjects(output: &str) -> Vec<&str> {
    let named =
        |line: &&str| ["base  ", "change  ", "exact ·"].iter().any(|at| line.starts_with(at));
    output.lines().filter(named).collect()
}
