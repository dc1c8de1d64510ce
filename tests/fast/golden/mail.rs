//! What is pasted into a patch's mail, and one row with everything that is known of it.

use std::fs;
use std::process::Command;

use ktax::report::{JSON, MAIL, Report};

use super::{cases, every, searches, show};
use crate::common::{ktax, run, scratch};

#[test]
fn a_mail_is_ascii_in_lines_that_no_mailer_breaks() {
    for (name, result) in every() {
        let mail = show(&result, MAIL);
        assert!(mail.is_ascii(), "{name}: {mail}");
        assert!(mail.contains(concat!("ktax ", env!("CARGO_PKG_VERSION"))), "{name}: {mail}");
        for line in mail.lines() {
            let text = line.trim_end_matches(" \\");
            let is_word = ["    '", "    $'"].iter().any(|quote| text.starts_with(quote));
            let is_one_word = text.split_whitespace().count() == 1 || is_word;
            let is_name = line.starts_with("EXTERNAL_INTERRUPT") || line.contains("--base git:");
            assert!(line.len() <= 72 || is_one_word || is_name, "{name}: {line}");
        }
    }
}

/// The words of the last paragraph, as a shell takes them.
fn command(mail: &str) -> Vec<String> {
    let (_, command) =
        mail.split_once("To measure it again:\n").unwrap_or_else(|| panic!("{mail}"));
    let ran = run(Command::new("bash").args(["-c", &format!("printf '%s\\0' {command}")]));
    assert_eq!(ran.status, 0, "{command}: {}", ran.stderr);
    ran.stdout.split_terminator('\0').map(str::to_owned).collect()
}

#[test]
fn the_command_of_a_mail_is_one_and_names_what_was_compared() {
    let words = command(&show(&cases::changes(), MAIL));
    let package = "debian:linux-image-6.1.0-56-cloud-amd64=6.1.187-1";
    assert_eq!(words[..4], ["ktax", "compare", "--kernel", package]);
    let value = |name: &str| &words[words.iter().position(|word| word == name).unwrap() + 1];
    assert_eq!(value("--base-boot-line"), "lsm=capability");
    assert!(words.windows(2).any(|two| two == ["-w", "fork-pages:pages=16"]), "{words:?}");
    assert!(!words.iter().any(|word| word == "--layouts"), "what is usual is not said: {words:?}");
    // Only an experiment file can ask for guests; what has no base is typed again as it was.
    let without =
        ["guests", "guests-alone", "native-one", "native-many", "exits", "exits-two", "exits-diff"];
    let without = [&without[..], &["stat-two", "stat-pairs", "history-one", "history-many"]];
    let estimated = ["calibration", "calibration-alone", "validation", "validation-unfit"];
    let without = [&without.concat()[..], &estimated].concat();
    for (name, result) in every() {
        let mail = show(&result, MAIL);
        let has_command = mail.contains("To measure it again:");
        assert_eq!(has_command, !without.contains(&name), "{name}: {mail}");
        if has_command {
            let ran = run(ktax().args(&command(&mail)[1..]).arg("--help"));
            assert_eq!(ran.status, 0, "{name}: {mail}\n{}", ran.stderr);
        }
    }
}

/// Of what other words ask for than `ktax compare`.
#[test]
fn the_mail_of_a_ledger_and_of_a_search_has_a_command() {
    let of_ledger = command(&show(&searches::ledger(), MAIL));
    assert_eq!(of_ledger, ["ktax", "ledger", "hardening", "-w", "@lmbench", "--layouts", "5"]);
    let of_search = command(&show(&searches::bisection(), MAIL));
    assert_eq!(of_search[..3], ["ktax", "bisect", "start"]);
    // A search compares its ends first, with these options.
    let ends = command(&show(&cases::changes(), MAIL));
    let again = ktax::plan::search_again(&cases::changes());
    assert_eq!((&again[..3], &again[3..]), (&of_search[..3], &ends[2..]));
}

#[test]
fn a_row_is_explained_with_all_its_functions_and_a_mistyped_one_is_guessed() {
    let dir = scratch();
    let path = dir.path().join("changes.json");
    fs::write(&path, super::show(&cases::changes(), ktax::report::JSON)).unwrap();
    let explain = |row: &str| run(ktax().arg("report").arg(&path).args(["--explain", row]));
    let all = explain("fork-pages:pages=16");
    assert_eq!(all.status, 0, "{}", all.stderr);
    let functions = cases::changes().rows[2].deciding().unwrap().functions.clone();
    assert!(functions.len() > 5, "{functions:?}");
    for function in functions {
        assert!(all.stdout.contains(&function.function), "{}", all.stdout);
    }
    assert!(!all.stdout.contains("more functions") && !all.stdout.contains("getppid"));
    assert!(all.stdout.contains("fork-pages:pages=16: slower (+1.22 %)"), "{}", all.stdout);
    assert_eq!(explain("getppid").status, 0);
    for (case, line) in [
        ("costly", "cr3-write  entry_SYSCALL_64 0 → 1.00, syscall_return_via_sysret 0 → 1.00"),
        ("machine", "model-branch-misses  entry_SYSCALL_64 0 → 2.00"),
    ] {
        let (_, comparison) = cases::all().iter().find(|(name, _)| *name == case).unwrap();
        fs::write(&path, super::show(comparison, ktax::report::JSON)).unwrap();
        let explained = explain("stat").stdout;
        assert!(explained.contains(line), "{explained}");
    }
    fs::write(&path, super::show(&cases::changes(), ktax::report::JSON)).unwrap();
    let wrong = explain("fork-page");
    assert_eq!(wrong.status, 2);
    let said = "ktax: there is no row \"fork-page\" (did you mean \"fork-pages:pages=16\"?)";
    assert!(wrong.stderr.starts_with(said), "{}", wrong.stderr);
    // What has no rows says so alike.
    let saved = serde_json::to_string(&super::stat::two().saved()).unwrap();
    fs::write(&path, saved).unwrap();
    assert_eq!(explain("pipe").status, 2);
    let ledger = dir.path().join("ledger.json");
    fs::write(&ledger, show(&searches::ledger(), JSON)).unwrap();
    let ran = run(ktax().arg("report").arg(&ledger).args(["--explain", "getppid"]));
    assert!(ran.status == 2 && ran.stderr.contains("as DIR/NAME"), "{}", ran.stderr);
}
