//! A command that a message tells to type does what the message says, wherever the directory is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::CommandFactory;
use ktax::cmd::Cli;
use ktax::rundir::AnyRunDir;

use crate::common::{Ran, isolate, ktax, run, scratch};
use crate::rundirs::plans;

/// Names that a shell would read as something else.
const HARD: [&str; 4] = ["my dir", "it's", "two\nlines", "-x"];

/// The last command between backticks.
#[track_caller]
fn command_in(text: &str) -> &str {
    let mut parts = text.rsplit('`');
    parts.next();
    parts.next().unwrap_or_else(|| panic!("no command in {text:?}"))
}

/// Types a command of ktax's into a shell, in a directory.
fn type_in(dir: &Path, command: &str) -> Ran {
    assert!(command.starts_with("ktax "), "{command}");
    let mut shell = Command::new("bash");
    let path = Path::new(env!("CARGO_BIN_EXE_ktax")).parent().unwrap();
    let path = format!("{}:{}", path.display(), std::env::var("PATH").unwrap());
    run(isolate(&mut shell).current_dir(dir).env("PATH", path).args(["-c", command]))
}

#[test]
fn a_directory_that_is_no_run_has_a_next_step_that_works() {
    let dir = scratch();
    for name in HARD {
        let below = PathBuf::from(".").join(name);
        let absent = run(ktax().current_dir(dir.path()).arg("run").arg(&below)).exits(2);
        absent.says("does not exist");
        // Without a QEMU nothing is fetched: what was typed was read, and a run is what it needs.
        let typed = command_in(&absent.stderr);
        type_in(dir.path(), &format!("{typed} --qemu /nonexistent/qemu")).exits(69);
        assert!(typed.starts_with("ktax plan lsm --out "), "{typed}");
    }
    fs::write(dir.path().join("notes"), "mine").unwrap();
    let other = run(ktax().arg("run").arg(dir.path()));
    other.says("no plan.json; give the directory of a run");
    assert_eq!(command_in(&other.stderr), "ktax compare lsm");
    let [(_, plan), ..] = plans();
    AnyRunDir::create(&dir.path().join("a b"), plan).unwrap();
    let other = run(ktax().arg("run").arg(dir.path()));
    let below = format!("give one of them, such as {}\n", dir.path().join("a b").display());
    assert!(other.stderr.ends_with(&below), "{}", other.stderr);
}

#[test]
fn a_command_to_type_is_quoted_for_the_shell() {
    let dir = scratch();
    // Times would be measured, which nothing is missing for.
    let plans = plans().into_iter().filter(|(name, _)| *name != "times").collect::<Vec<_>>();
    for ((name, plan), hard) in plans.into_iter().cycle().zip(HARD) {
        let root = dir.path().join(hard);
        AnyRunDir::create(&root, plan).unwrap();
        let relative = PathBuf::from(".").join(hard);
        let reported = run(ktax().current_dir(dir.path()).arg("report").arg(&relative));
        let typed = command_in(&reported.stderr);
        assert!(!typed.contains(char::is_control), "{typed:?}");
        // The library's plans are of kernels that are nowhere, and of a QEMU that is not here.
        let ran = type_in(dir.path(), typed);
        let read = !ran.stderr.contains("does not exist") && !ran.stderr.contains("unexpected");
        assert!(read && !ran.stderr.contains("usage"), "{name} {typed}: {}", ran.stderr);
        let args = ["compare", "--same", "--kernel", "k", "-w", "getppid"];
        let out = format!("--out={hard}");
        let refused = run(ktax().current_dir(dir.path()).args(args).arg(out));
        let typed = command_in(&refused.stderr);
        assert!(typed.starts_with("ktax run "), "{}", refused.stderr);
        let ran = type_in(dir.path(), typed);
        let read = !ran.stderr.contains("does not exist") && !ran.stderr.contains("unexpected");
        assert!(read && !ran.stderr.contains("Usage"), "{name} {typed}: {}", ran.stderr);
    }
}

/// The commands between backticks that begin with `ktax`, of a source file: what is printed, and
/// what help is made of.
fn tips(text: &str) -> Vec<String> {
    // Strings are broken at any blank.
    let joined: Vec<&str> = text
        .lines()
        .map(|line| line.trim_start().trim_start_matches("///").trim_end_matches('\\'))
        .filter(|line| !line.starts_with("//"))
        .collect();
    let joined = joined.join(" ");
    let words = joined.split_whitespace().collect::<Vec<_>>().join(" ");
    let begun = words.split("`ktax ").skip(1);
    begun.map(|rest| rest.split('`').next().unwrap_or_default().to_owned()).collect()
}

/// The first words of a command that name no command which help lists; `None` if all do.
fn unknown_in(tip: &str) -> Option<String> {
    let mut command = Cli::command();
    for word in tip.split(' ') {
        // clap adds `help` to every command.
        if word == "help" {
            return None;
        }
        let is_name = word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        let has_more = command.get_subcommands().any(|command| !command.is_hide_set());
        if !has_more || !is_name || word.starts_with('-') {
            return None;
        }
        let found = command.get_subcommands().find(|command| command.get_name() == word);
        match found.filter(|command| !command.is_hide_set()) {
            Some(found) => command = found.clone(),
            None => return Some(word.to_owned()),
        }
    }
    None
}

#[test]
fn no_tip_and_no_page_names_a_command_that_help_does_not_list() {
    assert_eq!(unknown_in("vmm raw --out 3").as_deref(), Some("vmm"));
    assert_eq!(unknown_in("store prune --dry-run"), None);
    assert_eq!(unknown_in("store tidy").as_deref(), Some("tidy"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut seen, mut wrong) = (0, Vec::new());
    for folder in ["src", "crates", "docs"] {
        for (name, text) in crate::common::files::files_below(&root.join(folder)) {
            // Messages of hidden commands.
            let is_hidden =
                ["cmd/vmm.rs", "cmd/kvm_host.rs", "ktax-exits/src/vmm", "ktax-exits/src/kvmhost"];
            let is_text =
                name.extension().is_some_and(|extension| extension == "rs" || extension == "md");
            if !is_text || is_hidden.iter().any(|hidden| name.to_string_lossy().starts_with(hidden))
            {
                continue;
            }
            for tip in tips(&String::from_utf8_lossy(&text)) {
                seen += 1;
                if let Some(word) = unknown_in(&tip) {
                    wrong.push(format!("{folder}/{}: `ktax {tip}`: {word}", name.display()));
                }
            }
        }
    }
    assert!(seen > 350, "{seen}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
