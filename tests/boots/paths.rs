//! Call paths: from where functions were called, and how often.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::common::require::newer_qemu;
use crate::common::{compare, compare_lines, ktax, measurements, run, scratch, with_status};
use ktax::model::{Basic, Context, Profile};
use ktax::rundir::profile;

/// A call without a switch, switches between two tasks, new tasks and page faults.
const ROWS: [&str; 3] = ["getppid:ops=500", "pipe:ops=200", "fork-exit:ops=100"];

fn profile_of(out: &Path, side: &str, name: &str) -> Profile {
    let end = format!("{side}/runs/{name}.profile.tsv");
    let of_row = |path: &Path| path.to_string_lossy().ends_with(&end);
    let (_, text) = measurements(out).into_iter().find(|(path, _)| of_row(path)).unwrap();
    profile::parse(&String::from_utf8(text).unwrap()).unwrap().profile
}

/// The functions above each path, and itself: `do_syscall_64;x64_sys_call`.
fn stacks(profile: &Profile) -> Vec<(Context, String, u64)> {
    let mut callers: Vec<&str> = Vec::new();
    let mut stacks = Vec::new();
    for path in &profile.paths {
        callers.truncate(path.depth as usize);
        callers.push(&path.function);
        stacks.push((path.context, callers.join(";"), path.calls));
    }
    stacks
}

/// Instructions and REP iterations of a Context's kernel functions: of all paths, of all lines.
fn by_function(profile: &Profile, context: Context) -> BTreeMap<String, [u64; 2]> {
    let mut sums: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for path in profile.paths.iter().filter(|path| path.context == context) {
        sums.entry(path.function.clone()).or_default()[0] += path.counts.executed();
    }
    for line in profile.lines.iter().filter(|line| line.context == context) {
        let counts = line.counts;
        sums.entry(line.function.clone()).or_default()[1] += counts.executed();
    }
    sums
}

/// At most so many instructions in a thousand are below another function, in process context and in
/// interrupts.
fn check(out: &Path, most_per_mille: [u64; 2]) {
    let getppid = profile_of(out, "base", ROWS[0]);
    let calls: Vec<(Context, String, u64)> = stacks(&getppid);
    let called = |end: &str| -> u64 {
        let matching = calls
            .iter()
            .filter(|(context, stack, _)| *context == Context::Process && stack.ends_with(end));
        matching.map(|(_, _, calls)| calls).sum()
    };
    assert_eq!(called(";do_syscall_64;x64_sys_call;__do_sys_getppid"), 500, "{calls:?}");
    assert_eq!(called(";__do_sys_getppid"), 500);
    let fork = profile_of(out, "base", ROWS[2]);
    check_entries(&fork, most_per_mille[0]);
    let forks: u64 = fork
        .paths
        .iter()
        .filter(|path| path.function == "copy_process")
        .map(|path| path.calls)
        .sum();
    assert_eq!(forks, 100);
    // Timer interrupts come after a return, too, and pop nothing of what they interrupt.
    let copies: Vec<_> = (fork.paths.iter().zip(stacks(&fork)))
        .filter(|(path, _)| path.function == "copy_page_range")
        .map(|(path, (_, stack, _))| {
            (path.counts[Basic::Instructions], stack.contains(";copy_process;dup_mm"))
        })
        .collect();
    let sum = |is_in_fork: bool| -> u64 {
        copies.iter().filter(|(_, place)| *place == is_in_fork).map(|(count, _)| count).sum()
    };
    // Where no instruction may be astray, no call is, not even of none.
    assert!(most_per_mille[0] > 0 || copies.iter().all(|(_, place)| *place), "{copies:?}");
    let of_process = fork.lines.iter().filter(|line| line.context == Context::Process);
    let total: u64 = of_process.map(|line| line.counts[Basic::Instructions]).sum();
    assert!(sum(true) > 0 && sum(false) * 1000 <= most_per_mille[0] * total, "{copies:?}");
    for name in ROWS {
        let profile = profile_of(out, "base", name);
        let deepest = profile.paths.iter().map(|path| path.depth).max().unwrap();
        assert!(deepest < 64, "{name}: {deepest}");
        // Code that slept before the region returns to functions that were not seen.
        for (context, most) in
            [Context::Process, Context::Interrupt].into_iter().zip(most_per_mille)
        {
            let sums = by_function(&profile, context);
            let total: u64 = sums.values().map(|[_, lines]| lines).sum();
            let apart: u64 = sums.values().map(|[paths, lines]| lines.abs_diff(*paths)).sum();
            assert!(apart * 1000 <= most * total, "{name}, {context:?}: {apart} of {total}");
        }
    }
}

#[test]
fn each_function_has_what_was_counted_for_it_and_its_calls() {
    let dir = scratch();
    let rows = ROWS.iter().flat_map(|row| ["-w", *row]);
    let args: Vec<&str> = rows.chain(["--layouts", "1"]).collect();
    with_status(0, compare_lines(&dir.path().join("one"), ["", ""], &args));
    check(&dir.path().join("one"), [0, 0]);
    // The retpolines for this CPU jump to a return thunk.
    let out = dir.path().join("skylake");
    with_status(
        0,
        compare_lines(&out, ["", ""], &[&args[..], &["--cpu", "Skylake-Client"]].concat()),
    );
    check(&out, [0, 0]);
    let Some(qemu) = newer_qemu() else { return };
    let newer = ["--qemu", &qemu.display().to_string()].map(str::to_owned);
    for (name, more, most) in [("newer", &[][..], [0, 0]), ("four", &["--cpus", "4"], [4, 6])] {
        let newer = newer.iter().map(String::as_str);
        let args: Vec<&str> =
            args.iter().copied().chain(newer).chain(more.iter().copied()).collect();
        let out = dir.path().join(name);
        with_status(0, compare_lines(&out, ["", ""], &args));
        check(&out, most);
    }
}

/// Page faults are below where they enter the kernel, and an interrupt calls at most so many of a
/// thousand instructions of a process: of several vCPUs one is now and then taken for another.
fn check_entries(profile: &Profile, most_per_mille: u64) {
    let all_stacks = stacks(profile);
    let of_process = all_stacks.iter().filter(|(context, _, _)| *context == Context::Process);
    let of_process: Vec<&str> = of_process.map(|(_, stack, _)| stack.as_str()).collect();
    let faults: Vec<&&str> =
        of_process.iter().filter(|stack| stack.ends_with(";exc_page_fault")).collect();
    let is_below_entry = |stack: &&&str| stack.ends_with("asm_exc_page_fault;exc_page_fault");
    assert!(!faults.is_empty() && faults.iter().all(is_below_entry), "{faults:?}");
    let is_below_interrupt =
        |stack: &&&str| stack.starts_with("asm_sysvec_") && stack.contains(';');
    let below: Vec<_> = of_process.iter().filter(is_below_interrupt).collect();
    let executed = |is_counted: &dyn Fn(&str) -> bool| -> u64 {
        let paths = profile.paths.iter().zip(&all_stacks);
        let counted = paths
            .filter(|(path, (_, stack, _))| path.context == Context::Process && is_counted(stack));
        counted.map(|(path, _)| path.counts.executed()).sum()
    };
    let astray = executed(&|stack| is_below_interrupt(&&stack));
    assert!(astray * 1000 <= most_per_mille * executed(&|_| true), "{below:?}");
    assert!(most_per_mille > 0 || below.is_empty(), "{below:?}");
}

/// There error_entry jumps to sync_regs instead of calling it.
#[test]
fn a_newer_kernel_enters_by_other_code() {
    let dir = scratch();
    let out = dir.path().join("out");
    let kernel = ["--kernel", "debian:6.12-cloud-amd64", "--same", "--layouts", "1"];
    run(ktax().arg("compare").args(kernel).args(["-w", ROWS[2], "--out"]).arg(&out)).exits(0);
    check_entries(&profile_of(&out, "base", ROWS[2]), 0);
}

#[test]
fn retpolines_are_in_no_path() {
    let dir = scratch();
    let out = dir.path().join("out");
    let args = ["-w", ROWS[1], "--layouts", "1"];
    let (ran, _) = compare(&out, ["spectre_v2=off", "spectre_v2=retpoline"], &args);
    assert_eq!(ran.status, 4, "one layout is too few for a verdict: {}", ran.stderr);
    let names = |side: &str| -> BTreeSet<String> {
        let profile = profile_of(&out, side, ROWS[1]);
        let of_process = |(context, _, calls): &(Context, String, u64)| {
            *context == Context::Process && *calls >= 100
        };
        stacks(&profile).into_iter().filter(of_process).map(|(_, stack, _)| stack).collect()
    };
    let thunks = |side: &str| -> u64 {
        let functions = by_function(&profile_of(&out, side, ROWS[1]), Context::Process);
        let thunks = functions.iter().filter(|(name, _)| name.starts_with("__x86_indirect_thunk"));
        thunks.map(|(_, [_, executed])| executed).sum()
    };
    let [off, on] = [thunks("base"), thunks("change")];
    assert!(off == 0 && on > 1000, "thunks executed {off} and {on}");
    let (base, change) = (names("base"), names("change"));
    assert!(base.len() > 50 && base == change, "{:?}", base.symmetric_difference(&change));
}

#[test]
#[ignore = "five layouts of a side: make test-long"]
fn a_row_that_changed_says_from_where_its_functions_are_called() {
    let dir = scratch();
    let out = dir.path().join("out");
    with_status(3, compare(&out, ["lsm=capability", ""], &["-w", "open-close"]));
    let page = run(ktax().arg("report").arg(&out).args(["--explain", "open-close"])).stdout;
    let is_in_tree = |line: &str| line.contains(['├', '│', '└']);
    let is_of = |line: &str, name: &str| line.ends_with(&format!(" {name}")) && is_in_tree(line);
    let line = |name: &str| page.lines().position(|line| is_of(line, name)).unwrap();
    // The hook is called where the file is opened, and not before.
    let lines = ["security_file_open", "apparmor_file_open"].map(line);
    assert!(lines[0] < lines[1], "{page}");
    let hook: Vec<&str> = page.lines().nth(lines[1]).unwrap().split_whitespace().collect();
    assert_eq!(hook[1..3], ["0", "1.00"], "{page}");
}
