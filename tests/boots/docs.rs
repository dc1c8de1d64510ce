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

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::common::page::{Block, Kind, Page, pages, root};
use crate::common::{Need, cache, ktax, require, run, scratch};

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
        |line: &&str| ["base  ", "change  ", "exact ·"].iter().any(|begin| line.starts_with(begin));
    output.lines().filter(named).collect()
}

// Runs the commands of a page, one after the other, in a directory that looks like the repository.

/// Mark that the shell prints after the output of a command.
const MARK: char = '\u{1}';

pub struct Shell {
    dir: TempDir,
    /// Store of rows that several pages show; empty for none.
    store: PathBuf,
}

impl Shell {
    pub fn new() -> Shell {
        let dir = scratch();
        for name in ["experiments", "ledgers", "kernels", "tests", "README.md"] {
            symlink(root().join(name), dir.path().join(name)).unwrap();
        }
        // Directory that `ktax doctor --newer-qemu qemu-10` would unpack.
        let newer = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../qemu-backports");
        if newer.is_dir() {
            symlink(newer, dir.path().join("qemu-10")).unwrap();
        }
        Shell { dir, store: PathBuf::new() }
    }

    pub fn with_store(self, store: &Path) -> Shell {
        Shell { store: store.to_owned(), ..self }
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.dir.path().join(name), text).unwrap();
    }

    /// The commands with what they print, as a block of a page shows them. All are one shell, so
    /// that a command can print the exit status of the one before it.
    pub fn run(&self, commands: &[String]) -> String {
        let script: String = commands
            .iter()
            .map(|command| {
                format!("{command}\nktax_status=$?; printf '\\001'; (exit $ktax_status)\n")
            })
            .collect();
        let ran = run(self.command().arg("-c").arg(script).current_dir(self.dir.path()));
        // A page shows what a user sees, and no path of the machine that printed it.
        let printed = ran.stdout.replace(&cache().display().to_string(), "~/.cache/ktax");
        let outputs: Vec<&str> = printed.split(MARK).collect();
        assert_eq!(outputs.len(), commands.len() + 1, "{}", ran.stderr);
        let shown = commands.iter().zip(outputs);
        shown.map(|(command, output)| format!("$ {command}\n{output}")).collect()
    }

    /// A shell that finds the ktax that was built, and has its environment.
    fn command(&self) -> Command {
        let ktax = ktax();
        let directory = Path::new(ktax.get_program()).parent().unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        shell.env("PATH", format!("{}:{path}", directory.display()));
        for (name, value) in ktax.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        shell.env("KTAX_STORE", &self.store);
        shell
    }
}
