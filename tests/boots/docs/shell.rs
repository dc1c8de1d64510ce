//! Runs the commands of a page, one after the other, in a directory that looks like the repository.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::common::page::root;
use crate::common::{cache, ktax, run, scratch};

/// What a shell prints behind the output of a command.
const MARK: char = '\u{1}';

pub struct Shell {
    dir: TempDir,
    /// Where rows are kept that other pages show too; empty: nowhere.
    store: PathBuf,
}

impl Shell {
    pub fn new() -> Shell {
        let dir = scratch();
        for name in ["experiments", "ledgers", "kernels", "tests", "README.md"] {
            symlink(root().join(name), dir.path().join(name)).unwrap();
        }
        // What `ktax doctor --newer-qemu qemu-10` would unpack.
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
