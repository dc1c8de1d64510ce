//! The binary as a user meets it: help, errors, exit codes, one file anywhere.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{
    self, KERNEL, QUICK_BOOT, SLOWER, compare, compare_lines, ktax, quick, run, scratch,
};

#[test]
fn help_names_every_command_and_fits_a_terminal() {
    let ran = run(ktax().arg("--help"));
    assert_eq!(ran.status, 0);
    for command in
        ["compare", "plan", "run", "analyse", "report", "ledger", "workloads", "stat", "doctor"]
    {
        assert!(ran.stdout.contains(&format!("\n  {command} ")), "{command}");
        let ran = run(ktax().args([command, "--help"]));
        assert_eq!(ran.status, 0);
        for line in ran.stdout.lines() {
            assert!(line.chars().count() <= 100, "{command}: {line}");
        }
    }
    for word in ["Exit status:", "KTAX_CACHE", "KTAX_STATE", "KTAX_QEMU"] {
        assert!(ran.stdout.contains(word), "{word}: {}", ran.stdout);
    }
}

/// Each command with the doc comment of its arguments: `Args` in the file of a command,
/// `RecordArgs` in that of `exits`, or `PlanArgs` in that of a group of commands.
fn described(dir: &Path) -> Vec<(Vec<String>, String)> {
    let commands = ktax::cmd::command_line();
    let mut helps = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        // A folder has no command of its own.
        let Ok(source) = fs::read_to_string(&path) else { continue };
        let file = path.file_stem().unwrap().to_str().unwrap().replace('_', "-");
        let lines: Vec<&str> = source.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let head = line.trim_start_matches("pub ").strip_prefix("struct ");
            let Some(name) = head.and_then(|rest| rest.strip_suffix("Args {")) else { continue };
            let name = name.to_lowercase();
            let has_own_file = file != name && dir.join(format!("{name}.rs")).exists();
            let candidates = match (name.is_empty(), has_own_file) {
                (true, _) => vec![vec![file.clone()]],
                (false, true) => vec![vec![file.clone(), name.clone()]],
                (false, false) => vec![vec![file.clone(), name.clone()], vec![name.clone()]],
            };
            let is_command = |words: &Vec<String>| {
                words
                    .iter()
                    .try_fold(&commands, |above, word| above.find_subcommand(word))
                    .is_some()
            };
            let Some(words) = candidates.into_iter().find(is_command) else { continue };
            let above = lines[..number].iter().rev().skip_while(|line| line.starts_with("#["));
            let mut text: Vec<&str> = above.map_while(|line| line.strip_prefix("///")).collect();
            text.reverse();
            // Without a comment a command below another one has that of its variant.
            if name.is_empty() || !text.is_empty() {
                helps.push((words, text.join("\n")));
            }
        }
    }
    helps
}

#[test]
fn every_commands_help_says_all_that_is_written_of_it() {
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let helps = described(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cmd"));
    assert!(helps.len() > 35, "{helps:?}");
    let long = helps.iter().filter(|(_, text)| text.contains("\n\n")).count();
    assert!(long >= 8, "{helps:?}");
    for (words, text) in helps {
        let ran = run(ktax().args(&words).arg("--help"));
        assert_eq!(ran.status, 0, "{words:?}: {}", ran.stderr);
        // The last dot of one sentence alone is left out.
        let text = one_line(&text);
        assert!(!text.is_empty(), "{words:?}");
        assert!(one_line(&ran.stdout).starts_with(text.trim_end_matches('.')), "{words:?}: {text}");
    }
}

#[test]
fn errors_are_escaped_for_a_terminal() {
    let ran = run(ktax().args(["report", "no-such\u{1b}]0;x\u{7}"]));
    assert!(ran.stderr.contains("no-such\\u{1b}]0;x\\u{7}"), "{}", ran.stderr.escape_debug());
    assert!(!ran.stderr.contains(['\u{1b}', '\u{7}']), "{}", ran.stderr.escape_debug());
    // A mistake in a file is shown where it is.
    let dir = scratch();
    let file = dir.path().join("x.toml");
    fs::write(&file, "title = \"x\"\nbase = {\n").unwrap();
    let ran = run(ktax().arg("plan").arg(&file));
    assert!(ran.stderr.trim_end().lines().count() > 1, "{}", ran.stderr);
}

#[test]
fn workloads_are_listed_and_hidden_ones_only_on_request() {
    let ran = run(ktax().arg("workloads"));
    assert!(ran.stdout.contains("fork-pages"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("control-"));
    assert!(run(ktax().args(["workloads", "--all"])).stdout.contains("control-loop"));
    let json: serde_json::Value =
        serde_json::from_str(&run(ktax().args(["workloads", "--json"])).stdout).unwrap();
    assert!(json.as_array().unwrap().len() >= 18);
}

#[test]
fn mistakes_in_an_experiment_are_refused_with_the_next_step() {
    let dir = scratch();
    let good = "title = \"t\"\n[base]\nkernel = \"debian:cloud-amd64\"\n\
        boot_line = \"lsm=capability\"\n[change]\nkernel = \"debian:cloud-amd64\"\n";
    for (name, text, word) in [
        ("key", good.replace("[base]", "[base]\nbootline = \"x\""), "bootline"),
        ("top", format!("laoyuts = 3\n{good}"), "laoyuts"),
        ("type", format!("layouts = \"three\"\n{good}"), "layouts"),
        ("many", format!("layouts = 100\n{good}"), "1 to 99"),
        ("engine", format!("engine = \"magic\"\n{good}"), "exact"),
        ("workload", format!("workloads = [\"getpid\"]\n{good}"), "getppid"),
        ("param", format!("workloads = [\"pipe:size=1\"]\n{good}"), "ops"),
        ("toml", "title = ".to_owned(), "ktax compare --help"),
        ("escape", good.replace("lsm=capability", "\\u001b[31m"), "ASCII"),
    ] {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        let ran = run(ktax().args(["plan"]).arg(&path));
        assert_eq!(ran.status, 2, "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains(word), "{name}: {}", ran.stderr);
        assert!(!ran.stderr.contains('\x1b'), "{name}");
    }
    let ran = run(ktax().args(["compare", "/nonexistent.toml"]));
    assert_eq!(ran.status, 2);
    let ran = run(ktax().args(["compare", "--kernel", "src:linux", "--tree", "linux"]));
    assert_eq!(ran.status, 2);
    ran.says("--tree only applies to kernels named git:REVISION");
    let ran = run(ktax().args(["compare", "--kernel", KERNEL, "--wrokload", "x"]));
    assert_eq!(ran.status, 2);
    ran.says("--workload");
}

#[test]
fn what_a_host_of_another_architecture_lacks_is_said_before_anything_is_made() {
    for (file, board, programs, packages) in [
        ("magic-page", "e500v2", "qemu-system-ppc, powerpc-linux-gnu-gcc", "qemu-system-ppc gcc-p"),
        (
            "exit-cost-arm64",
            "arm64",
            "qemu-system-aarch64, aarch64-linux-gnu-gcc",
            "qemu-system-arm gcc-aarch64-linux-gnu",
        ),
        (
            "exit-cost-riscv64",
            "riscv64",
            "qemu-system-riscv64, riscv64-linux-gnu-gcc",
            "qemu-system-misc gcc-riscv64-linux-gnu",
        ),
        (
            "exit-cost-power9",
            "POWER9",
            "qemu-system-ppc64, powerpc64le-linux-gnu-gcc",
            "qemu-system-ppc gcc-powerpc64le-linux-gnu",
        ),
    ] {
        let (dir, file) = (scratch(), format!("experiments/{file}.toml"));
        let (out, cache) = (dir.path().join("out"), dir.path().join("cache"));
        let mut ktax = ktax();
        ktax.env("PATH", dir.path()).env("KTAX_CACHE", &cache).env_remove("KTAX_QEMU");
        let ran = run(ktax.args(["compare", &file, "--out"]).arg(&out)).exits(69);
        // The C library is there or not.
        let missing = format!("ktax: a KVM host on {board} needs {programs}");
        assert!(ran.stderr.starts_with(&missing), "{}", ran.stderr);
        let install = format!("sudo apt-get install --no-install-recommends {packages}");
        ran.says(&install);
        assert!(!out.exists() && !cache.exists());
    }
}

#[test]
fn a_directory_that_is_not_empty_takes_no_plan() {
    let dir = scratch();
    fs::write(dir.path().join("plan.json"), "{\"format\": 99}").unwrap();
    let plan = ["plan", "--same", "-w", "pipe", "--kernel", KERNEL, "--out"];
    run(ktax().args(plan).arg(dir.path())).exits(2).says("not empty");
}

#[test]
fn the_phases_one_by_one_give_what_compare_gives() {
    let dir = scratch();
    let (joined, apart) = (dir.path().join("joined"), dir.path().join("apart"));
    let lines = ["", SLOWER].map(quick);
    let rows = ["-w", "getppid", "-w", "stat"];
    let (ran, _) = compare_lines(&joined, [&lines[0], &lines[1]], &rows);
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    let mut plan = ktax();
    plan.args(["plan", "--kernel", KERNEL, "--base-boot-line", &lines[0]]);
    plan.args(["--change-boot-line", &lines[1], "--out"]).arg(&apart);
    assert_eq!(run(plan.args(rows)).status, 0);
    let all_at_once = run(ktax().args(["run", "--json"]).arg(&apart));
    assert_eq!((&all_at_once.stdout, all_at_once.status), (&ran.stdout, 3));
    // A part of it, as after Ctrl-C.
    fs::remove_file(apart.join("comparison.json")).unwrap();
    fs::remove_file(apart.join("boots/000-base/runs/stat.json")).unwrap();
    let resumed = run(ktax().args(["run", "--json"]).arg(&apart));
    assert_eq!((&resumed.stdout, resumed.status), (&ran.stdout, 3));
    assert_eq!(run(ktax().arg("analyse").arg(&apart)).status, 3);
    assert!(common::files_below(&joined) == common::files_below(&apart));
    let reported = run(ktax().arg("report").arg(&apart));
    let text = reported.stdout;
    // The exit status of a printing command says nothing about the rows.
    assert_eq!(reported.status, 0, "{}", reported.stderr);
    assert_eq!(text, fs::read_to_string(apart.join("report.txt")).unwrap());
    assert!(text.contains("slower"), "{text}");
    let coloured = run(ktax().arg("report").arg(&apart).args(["--color", "always"])).stdout;
    assert!(coloured.contains("\x1b[31mslower\x1b[0m"), "{coloured}");
    let csv = run(ktax().arg("report").arg(&apart).args(["--format", "csv"])).stdout;
    let rows_of =
        |metric: &str| csv.lines().filter(|line| line.split(',').nth(4) == Some(metric)).count();
    for metric in ["instructions", "rep-iterations", "interrupt", "kthread", "syscall"] {
        assert_eq!(rows_of(metric), 2, "{csv}");
    }
}

#[test]
fn one_file_works_from_anywhere() {
    let dir = scratch();
    let copy = dir.path().join("elsewhere");
    fs::copy(env!("CARGO_BIN_EXE_ktax"), &copy).unwrap();
    let mut command = Command::new(&copy);
    common::isolate(command.current_dir(dir.path()));
    let rows = ["compare", "--same", "--kernel", KERNEL, "-w", "getppid", "--layouts", "1"];
    let ran = run(command.args(rows)).exits(0);
    assert!(dir.path().join("ktax-1/comparison.json").is_file(), "{}", ran.stderr);
    ran.says("everything is in ktax-1");
}

#[test]
fn doctor_says_what_is_there_and_what_mends_it() {
    let dir = scratch();
    // A cache without a kernel that it could try to boot.
    let ran = run(ktax().arg("doctor").arg("--cache").arg(dir.path())).exits(0);
    for what in ["QEMU", "cache", "plugin", "packages", "machine", "CPUs", "KVM"] {
        assert!(ran.stdout.contains(what), "{}", ran.stdout);
    }
    let ran = run(ktax().args(["doctor", "--json", "--qemu", "/nonexistent"]));
    assert_eq!(ran.status, 69);
    let findings: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(findings[0]["ok"], false);
    assert!(findings[0]["fix"].as_str().unwrap().contains("apt-get install"));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let script = "\"$0\" man | head -n 1 >/dev/null; \"$0\" workloads | true";
    let ran = run(Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_ktax")]));
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
}

#[test]
fn only_messages_go_to_stderr_without_a_terminal() {
    let dir = scratch();
    let (ran, _) = compare(&dir.path().join("out"), ["", ""], &["-w", "getppid", "--layouts", "1"]);
    assert!(ran.stderr.lines().all(|line| line.starts_with("ktax: ")), "{}", ran.stderr);
    assert!(!ran.stderr.contains('\x1b') && !ran.stderr.contains('\r'));
}

#[test]
fn bisect_is_told_good_skip_and_stop() {
    let dir = scratch();
    let status = |name: &str, args: &[&str]| {
        let mut command = ktax();
        command.args(["compare", "--bisect", "--kernel", KERNEL, "--layouts", "1", "--out"]);
        run(command.arg(dir.path().join(name)).args(args)).status
    };
    assert_eq!(status("good", &["--same", "-w", "getppid"]), 0);
    // One layout is no verdict: the commit cannot be judged.
    let differs = [
        "-w",
        "control-loop",
        "--base-boot-line",
        QUICK_BOOT,
        "--change-boot-line",
        &quick("ktax.extra=1"),
    ];
    assert_eq!(status("skip", &differs), 125);
    assert_eq!(status("failed", &["--same", "-w", "bad-work"]), 125);
    assert_eq!(status("stop", &["-w", "no-such-workload"]), 130);
}
