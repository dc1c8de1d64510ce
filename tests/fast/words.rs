//! Built-in texts of ktax: experiments, manual pages, and words that a shell completes.

use std::fs;

use clap::Command;
use ktax::cmd::{Exit, command_line};
use ktax::model::{SavedResult, read_results};

use crate::common::{ktax, run, scratch, scratch_path};

/// Each command that help lists, with those below it: the name of its page, and the command.
fn listed(command: &Command, name: &str) -> Vec<(String, Command)> {
    let below = command
        .get_subcommands()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help");
    let below =
        below.flat_map(|command| listed(command, &format!("{name}-{}", command.get_name())));
    [(name.to_owned(), command.clone())].into_iter().chain(below).collect()
}

#[test]
fn every_command_has_a_manual_page_with_all_that_help_says() {
    let (_dir, out) = scratch_path("man1");
    run(ktax().args(["man", "--out"]).arg(&out)).exits(0);
    let commands = listed(&command_line(), "ktax");
    assert!(commands.len() > 20, "{commands:?}");
    assert_eq!(fs::read_dir(&out).unwrap().count(), commands.len());
    for (name, command) in commands {
        let page = fs::read_to_string(out.join(format!("{name}.1"))).unwrap();
        let words: Vec<&str> = name.split('-').skip(1).collect();
        let alone = run(ktax().arg("man").args(words));
        assert_eq!(alone.stdout, page, "{name}: {}", alone.stderr);
        // roff escapes hyphens, and apostrophes at least.
        let page = page.replace('\\', "");
        let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
        for long in shown.filter_map(|argument| argument.get_long()) {
            assert!(page.contains(&format!("--{long}")), "{name}: {long}");
        }
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let last = after.lines().last().unwrap_or_default().trim().replace('\\', "");
        assert!(page.contains(last.split('\'').next().unwrap()), "{name}: {last}\n{page}");
        for hidden in ["kvm-host", "vmm", "stat-hold"] {
            assert!(!page.contains(hidden), "{name}: {hidden}");
        }
    }
    for hidden in ["vmm", "no-such"] {
        let ran = run(ktax().args(["man", hidden]));
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{}", ran.stderr);
    }
}

/// The lines of a section of a manual page, as they are shown.
fn section(page: &str, heading: &str) -> Vec<String> {
    let begin = format!(".SH \"{heading}\"\n.nf\n");
    let (_, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("no {heading}: {page}"));
    let text = rest.split("\n.fi\n").next().unwrap();
    let shown = |line: &str| line.replace("\\-", "-").replace("\\(aq", "'").replace("\\e", "\\");
    text.lines().map(shown).collect()
}

/// Help and pages have one source, and what it says can be typed and looked up.
#[test]
fn every_manual_page_has_examples_statuses_and_where_to_read_on() {
    let dir = scratch();
    run(ktax().args(["man", "--out"]).arg(dir.path())).exits(0);
    let commands = listed(&command_line(), "ktax");
    let statuses = [0, 1, 2, 3, 4, 69, 75, 130];
    assert_eq!(Exit::Cancelled as u8, statuses[7]);
    for (name, command) in &commands {
        let page = fs::read_to_string(dir.path().join(format!("{name}.1"))).unwrap();
        let help = command.get_after_help().unwrap().to_string();
        let examples = section(&page, "EXAMPLES");
        assert!(!examples.is_empty(), "{name}");
        for line in &examples {
            // Lines that end in a backslash are one line of a shell.
            assert!(help.contains(line.trim_end()), "{name}: {line}");
        }
        let joined = examples.join("\n").replace("\\\n", " ");
        for line in joined.lines().filter(|line| !line.contains("$(ktax")) {
            // xargs and the shell put something in the place of these.
            let line = line.replace("{}", "1").replace("$(uname -r)", "1");
            let Some(start) = line.find("ktax ") else { continue };
            let words = shlex::split(&line[start..]).unwrap_or_else(|| panic!("{name}: {line}"));
            let ends = ["--", "|", "||", "&&", ">", "#"];
            let arguments = words.into_iter().take_while(|word| !ends.contains(&word.as_str()));
            let parsed =
                command_line().try_get_matches_from(arguments.chain(["--help".to_owned()]));
            // Behind a command that is counted the option is the command's.
            let Err(error) = parsed else { continue };
            assert_eq!(error.kind(), clap::error::ErrorKind::DisplayHelp, "{name}: {line}");
        }
        let text = section(&page, "EXIT STATUS").join(" ");
        let numbers = text.split_whitespace().filter_map(|word| word.parse::<u8>().ok());
        let numbers: Vec<u8> = numbers.collect();
        assert!(numbers.contains(&0) && numbers.contains(&2), "{name}: {text}");
        assert!(numbers.iter().all(|number| statuses.contains(number)), "{name}: {text}");
        let see = section(&page, "SEE ALSO");
        let pages = see[0].split(", ").map(|page| page.strip_suffix("(1)").unwrap());
        for other in pages {
            assert!(
                commands.iter().any(|(command_name, _)| command_name == other),
                "{name}: {other}"
            );
        }
        let document = see[1].split(' ').next().unwrap();
        assert!(fs::exists(document).unwrap(), "{name}: {document}");
    }
}

/// The page for CI has the statuses of the help of `ktax compare`, in the same words.
#[test]
fn the_statuses_of_the_page_for_ci_are_those_of_help() {
    let page = fs::read_to_string("docs/ci.md").unwrap();
    let help = run(ktax().args(["compare", "--help"])).stdout;
    let (_, statuses) = help.split_once("Exit status:\n").unwrap();
    for line in statuses.lines().take_while(|line| line.starts_with(' ')) {
        let (status, meaning) = line.trim().split_once(' ').unwrap();
        let row = page.lines().find(|row| row.starts_with(&format!("| {status} |")));
        let row = row.unwrap_or_else(|| panic!("{status} is not in the page"));
        let words = meaning.trim().split([':', ';']).next().unwrap();
        assert!(row.contains(words), "{words}: {row}");
    }
}

/// A command's page does not list what has no effect on it.
#[test]
fn the_doctor_lists_no_option_of_the_store() {
    let help = run(ktax().args(["doctor", "--help"])).stdout;
    assert!(!help.contains("-store") && !help.contains("--store"), "{help}");
    assert!(help.contains("--time-limit") && help.contains("--qemu"), "{help}");
}

/// The pages of docs/ list the commands with --html that have it.
#[test]
fn the_list_of_commands_with_html_is_that_of_the_program() {
    let commands = listed(&command_line(), "ktax");
    let has_html = |command: &Command| {
        let mut arguments = command.get_arguments();
        arguments.any(|argument| argument.get_long() == Some("html"))
    };
    let having = commands.iter().filter(|(_, command)| has_html(command));
    let mut having: Vec<String> =
        having.map(|(name, _)| name.replacen("ktax-", "", 1).replace('-', " ")).collect();
    having.sort();
    for (page, begin) in [
        ("docs/page.md", "`--html FILE` works with every command that prints a result:"),
        ("docs/ci.md", "These commands have these formats:"),
    ] {
        let text = fs::read_to_string(page).unwrap().replace('\n', " ");
        let (_, list) = text.split_once(begin).unwrap_or_else(|| panic!("no list in {page}"));
        let list = list.split('.').next().unwrap();
        let mut named: Vec<String> =
            list.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        named.sort();
        assert_eq!(named, having, "{page}");
    }
}

#[test]
fn shells_complete_workloads_experiments_and_formats() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(ktax().args(["completions", shell])).stdout;
        for word in ["fork-pages", "@lmbench", "markdown"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let fish = run(ktax().args(["completions", "fish"])).stdout;
    let here = "complete -c ktax -n \"__fish_ktax_using_subcommand ";
    for (command, name) in [
        ("compare", "lsm-smp"),
        ("plan", "magic-page"),
        ("bisect; and __fish_seen_subcommand_from start", "spinlocks"),
        ("ledger", "hardening-boot"),
        ("experiments", "hardening-boot"),
    ] {
        let mut lines = fish.lines().filter_map(|line| line.strip_prefix(here));
        let begin = format!("{command}\" -a \"");
        let names = lines.find_map(|line| line.strip_prefix(&begin)).unwrap_or_default();
        assert!(names.split([' ', '"']).any(|word| word == name), "{command}: {names}");
    }
    let bash = run(ktax().args(["completions", "bash"])).stdout;
    assert!(bash.contains("lsm-smp") && bash.contains("hardening-boot"), "{bash}");
    let zsh = run(ktax().args(["completions", "zsh"])).stdout;
    let lists = zsh.lines().filter(|line| line.contains("lsm-smp") && !line.contains("_files"));
    let lists: Vec<&str> = lists.filter(|line| !line.contains("::name")).collect();
    assert!(lists.is_empty(), "files are experiments too: {lists:?}");
    // None of these lists is for help.
    assert!(!run(ktax().args(["compare", "--help"])).stdout.contains("lsm-smp"));
}

#[test]
fn an_experiment_that_is_built_in_runs_by_its_name_unless_a_file_has_it() {
    let dir = scratch();
    let list = run(ktax().arg("experiments")).stdout;
    for name in ["lsm ", "mitigations ", "hardening-boot "] {
        assert!(list.lines().any(|line| line.starts_with(name)), "{name}: {list}");
    }
    let text = run(ktax().args(["experiments", "lsm"])).stdout;
    assert_eq!(text, fs::read_to_string("experiments/lsm.toml").unwrap());
    let plan = || {
        let mut command = ktax();
        command.current_dir(dir.path()).args(["plan", "high-systime", "-w", "no-such"]);
        run(&mut command)
    };
    assert!(plan().stderr.contains("no-such"), "it is read: {}", plan().stderr);
    // A run directory often has the name of its experiment.
    fs::create_dir(dir.path().join("high-systime")).unwrap();
    assert!(plan().stderr.contains("no-such"), "{}", plan().stderr);
    fs::remove_dir(dir.path().join("high-systime")).unwrap();
    fs::write(dir.path().join("high-systime"), "mine").unwrap();
    assert!(plan().stderr.contains("high-systime is not an experiment file"), "{}", plan().stderr);
    for command in [&["compare", "lmsx"][..], &["ledger", "lmsx"], &["experiments", "lmsx"]] {
        run(ktax().current_dir(dir.path()).args(command)).exits(2).says("`ktax experiments` lists");
    }
}

#[test]
fn an_experiment_with_a_patch_of_ktax_finds_it_anywhere() {
    let (dir, tree) = scratch_path("tree");
    fs::create_dir(&tree).unwrap();
    for name in ["Kconfig", "Makefile"] {
        fs::write(tree.join(name), "# no kernel\n").unwrap();
    }
    let fails = |reason: &str| {
        let mut command = ktax();
        command.current_dir(dir.path()).args(["plan", "spinlocks", "--kernel", "src:tree"]);
        run(command.arg("--cache").arg(dir.path().join("cache"))).exits(2).says(reason);
    };
    let patch = "kernels/patches/x86-ticket-spinlocks.patch";
    // The file is read, and this is not the tree that it is for.
    fails(&format!("{patch} does not apply to src:"));
    fs::create_dir_all(dir.path().join("kernels/patches")).unwrap();
    fs::write(dir.path().join(patch), "mine").unwrap();
    fails(&format!("cannot use the patch {patch}: it contains no diff"));
}

#[test]
fn a_command_to_be_counted_needs_no_dashes() {
    for arguments in [&["sh", "-c", "exit 0"][..], &["--", "sh", "-c", "exit 0"]] {
        let ran = run(ktax().args(["stat", "-n", "2", "--json"]).args(arguments)).exits(0);
        let saved = read_results(&ran.stdout).unwrap().remove(0).result;
        let SavedResult::Stat(table) = saved else { panic!("{saved:?}") };
        assert_eq!(table.commands[0].words, ["sh", "-c", "exit 0"]);
    }
    run(ktax().args(["stat", "--no-such", "sh"])).exits(2).says("--no-such");
}

#[test]
fn several_workloads_run_in_one_command() {
    let names = ["getppid:ops=50", "@exit-timing", "stat:ops=50"];
    let twice = run(ktax().args(["workloads", "run"]).args(names).arg("hashes")).exits(2);
    twice.says("hashes:keys=10000 is named twice");
    let two = ["getppid:ops=50", "stat:ops=50"];
    let native = ["workloads", "run", "--samples", "2", "--json"];
    let ran = run(ktax().args(native).args(two)).exits(0);
    let results = read_results(&ran.stdout).unwrap();
    let names: Vec<&str> = results.iter().map(|saved| saved.name.as_str()).collect();
    assert_eq!(names, ["getppid", "stat"]);
    let csv = run(ktax().args(["workloads", "run", "--samples", "2", "-f", "csv"]).args(two));
    assert!(csv.stdout.starts_with("name,row,"), "{}", csv.stdout);
    assert_eq!(csv.stdout.lines().count(), 3, "one head: {}", csv.stdout);
}

/// Sentences that only the account of `ktax vmm raw` has.
#[test]
fn the_help_of_a_raw_guest_explains_its_account() {
    let help = run(ktax().args(["vmm", "raw", "--help"])).stdout;
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for sentence in ["KVM_EXIT_IO is one more than", "`turn_ns`, the median time from one return"] {
        assert!(words.contains(sentence), "{sentence}\n{help}");
    }
}
