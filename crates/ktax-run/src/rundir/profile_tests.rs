use super::*;

const TIME: &str = "the times of its CPUs do not add up";
const PATHS: &str = "the counts of its call paths do not add up to those of its functions";
const TRANSFERS: &str =
    "the transfers of its functions or cache lines do not add up to their total";
const REGISTERS: &str = "a function accessed MSRs more often than it executed rdmsr or wrmsr";
const TRUNCATED: &str = "the file ends early";
const LINE: &str = "is not of the format";
const LINE_7: &str = "line 7 is not of the format";

#[track_caller]
fn assert_refused(text: &str, reason: &str) {
    let error = parse(text).unwrap_err().to_string();
    assert!(error.ends_with(reason), "{error}");
}

/// Two CPUs: one executes 70 and waits 20, the other executes 60, is idle for 25 and has slices
/// that are 5 shorter than those of the first.
const SEVERAL: &str = "ktax-profile\t1\napi\t4\nregion\t1\ntotal\t130\n\
    fn\tprocess\t100\t10\tf\nfn\tkthread\t20\t0\tg\n\
    wait\tprocess\t15\tf\nwait\tinterrupt\t5\tg\nidle\t25\tg\n\
    cpu\t0\t70\t20\t0\t0\ncpu\t1\t60\t0\t25\t5\nmakespan\t90\t3\t4\ntrace\t56f4e621a1079e22\nend\n";

#[test]
fn times_of_several_cpus_are_parsed() {
    let parsed = parse(SEVERAL).unwrap();
    let parallel = parsed.parallel.clone().unwrap();
    assert_eq!((parallel.makespan, parallel.rounds, parallel.kicks), (90, 3, 4));
    assert_eq!(parallel.cpus[1], CpuTime { work: 60, wait: 0, idle: 25, uneven: 5 });
    assert_eq!(parallel.trace, "56f4e621a1079e22");
    let counts = parsed.counts();
    let counts_in = |context| counts.get(&context).copied().unwrap_or_default();
    assert_eq!(
        (
            counts_in(Context::Process)[Basic::Instructions],
            counts_in(Context::Process)[Basic::Wait]
        ),
        (100, 15)
    );
    assert_eq!(
        (
            counts_in(Context::Interrupt)[Basic::Instructions],
            counts_in(Context::Interrupt)[Basic::Wait]
        ),
        (0, 5)
    );
    assert_eq!(
        (
            counts_in(Context::Kthread)[Basic::Instructions],
            counts_in(Context::Kthread)[Basic::Idle]
        ),
        (20, 25)
    );
    let line = parse_function_line("wait\tprocess\t15\tf").unwrap();
    assert_eq!((line.function.as_str(), line.counts[Basic::Wait]), ("f", 15));
}

#[test]
fn one_cpu_has_no_wait_or_idle_times() {
    let text = "ktax-profile\t1\napi\t1\nregion\t1\ntotal\t7\nfn\tprocess\t7\t0\tf\nend\n";
    assert_eq!(parse(text).unwrap().parallel, None);
    let waits = text.replace("end", "wait\tprocess\t1\tf\nend");
    assert_eq!(parse(&waits), Err(invalid(TIME)));
}

#[test]
fn times_that_do_not_add_up_are_refused() {
    for (text, replacement) in [
        ("cpu\t0\t70\t20\t0\t0", "cpu\t0\t71\t19\t0\t0"), // more work than the total
        ("wait\tprocess\t15", "wait\tprocess\t14"),
        ("idle\t25", "idle\t26"),
        ("makespan\t90", "makespan\t91"),
        ("cpu\t1\t60\t0\t25\t5\n", ""),
        ("cpu\t1\t60\t0\t25", "cpu\t1\t60\t0\t18446744073709551615"),
        // The idle time is counted again as uneven.
        ("\t25\t5\n", "\t25\t30\n"),
        // The idle time of the functions is more than that of the CPUs.
        ("\t25\t5\n", "\t25\t0\n"),
    ] {
        let broken = SEVERAL.replace(text, replacement);
        assert_ne!(broken, SEVERAL);
        assert_eq!(parse(&broken), Err(invalid(TIME)), "{replacement}");
    }
    for (text, replacement) in [
        ("cpu\t1", "cpu\t2"),
        ("trace\t56f4e621a1079e22", "trace\tg6f4e621a1079e22"),
        ("idle\t25", "idle\t-1"),
        ("\t25\t5\n", "\t25\t5\t0\n"),
        ("makespan\t90\t3\t4", "makespan\t90\t3"),
        ("wait\tprocess", "wait\tnobody"),
    ] {
        let broken = SEVERAL.replace(text, replacement);
        assert_refused(&broken, LINE);
    }
}

#[test]
fn older_profiles_count_uneven_time_as_idle() {
    let older = SEVERAL.replace("\t20\t0\t0\n", "\t20\t0\n");
    let older = older.replace("\t25\t5\n", "\t30\n").replace("idle\t25", "idle\t30");
    let parallel = parse(&older).unwrap().parallel.unwrap();
    assert_eq!(parallel.cpus[1], CpuTime { work: 60, wait: 0, idle: 30, uneven: 0 });
}

/// A profile with paths to the functions in which CPUs wait.
fn with_paths() -> String {
    let paths = "path\tprocess\t0\t0\t0\t2\tcaller\npath\tprocess\t1\t100\t10\t2\tf\n\
        path-wait\t15\npath-idle\t20\npath\tinterrupt\t0\t0\t0\t1\tg\npath-wait\t5\n\
        path\tkthread\t0\t20\t0\t1\tg\nend\n";
    SEVERAL.replace("end\n", paths)
}

#[test]
fn waits_and_idle_times_have_call_paths() {
    let parsed = parse(&with_paths()).unwrap();
    let times: Vec<(u64, u64)> = parsed
        .profile
        .paths
        .iter()
        .map(|path| (path.counts[Basic::Wait], path.counts[Basic::Idle]))
        .collect();
    assert_eq!(times, [(0, 0), (15, 20), (5, 0), (0, 0)]);
}

#[test]
fn waits_of_call_paths_that_do_not_add_up_are_refused() {
    for (text, replacement) in [
        ("path-wait\t15", "path-wait\t14"),
        ("path-wait\t5\n", ""),
        // More idle time than all CPUs have.
        ("path-idle\t20", "path-idle\t26"),
    ] {
        assert_eq!(parse(&with_paths().replace(text, replacement)), Err(invalid(PATHS)), "{text}");
    }
    let malformed = with_paths().replace("path-wait\t15", "path-wait\t-1");
    assert_refused(&malformed, LINE);
    // An older plugin does not write these lines.
    let older = with_paths().replace("path-wait\t15\npath-idle\t20\n", "");
    assert!(parse(&older.replace("path-wait\t5\n", "")).is_ok());
}

/// A profile with the model of coherence.
fn modelled() -> String {
    let lines = "transfer\tprocess\t7\tf\ntransfer\tkthread\t2\tg\n\
        line\tpercpu\t4\t2\t40\trunqueues\nline\tdata\t3\t1\t0\tone,other\n\
        line\tdirect\t2\t1\t0\tf\ntransfers\t9\nend\n";
    SEVERAL.replace("end\n", lines)
}

#[test]
fn cache_lines_are_parsed() {
    let parsed = parse(&modelled()).unwrap();
    assert_eq!(parsed.parallel.as_ref().unwrap().transfers, Some(9));
    let counts = parsed.counts();
    assert_eq!(
        (counts[&Context::Process][Basic::Transfers], counts[&Context::Kthread][Basic::Transfers]),
        (7, 2)
    );
    let lines = &parsed.profile.cache_lines;
    let runqueues = &lines[0];
    assert_eq!((runqueues.memory, runqueues.offset), (Memory::Percpu, 0x40));
    assert_eq!((runqueues.transfers, runqueues.lines), (4, 2));
    assert_eq!((lines[1].name.as_str(), lines[2].memory), ("one,other", Memory::Direct));
}

#[test]
fn transfers_that_do_not_add_up_are_refused() {
    for (text, replacement) in [
        ("transfers\t9\n", "transfers\t8\n"),
        ("transfers\t9\n", ""),
        ("transfer\tprocess\t7", "transfer\tprocess\t6"),
        ("line\tdata\t3", "line\tdata\t4"),
    ] {
        assert_eq!(
            parse(&modelled().replace(text, replacement)),
            Err(invalid(TRANSFERS)),
            "{text}"
        );
    }
    for (text, replacement) in [
        ("line\tpercpu", "line\tnowhere"),
        ("line\tpercpu\t4\t2", "line\tpercpu\t4\t5"), // more lines than transfers
        ("line\tpercpu\t4\t2\t40", "line\tpercpu\t4\t2\t4g"),
        ("direct\t2\t1\t0\tf", "direct\t2\t1\t0\tf,g"), // only variables may be two
        ("one,other", "one,"),
        ("one,other", "one,\u{1b}[31m"),
    ] {
        let text = modelled().replace(text, replacement);
        assert_refused(&text, LINE);
    }
}

/// Four CPUs at the limit: one waits, one works, one was not started, one is idle.
const LIMIT_REACHED: &str = "ktax-profile\t1\napi\t4\nlimit\t1600000000\n\
    at\t0\twait\tnative_queued_spin_lock_slowpath\nat\t1\twork\t[user]\n\
    at\t3\tidle\tnative_safe_halt\nend\n";

#[test]
fn places_of_cpus_at_the_limit_are_parsed() {
    let cpu_place = |cpu, activity, function: &str| CpuPosition {
        cpu,
        activity,
        function: function.to_owned(),
    };
    let cpus = vec![
        cpu_place(0, CpuActivity::Wait, "native_queued_spin_lock_slowpath"),
        cpu_place(1, CpuActivity::Work, "[user]"),
        cpu_place(3, CpuActivity::Idle, "native_safe_halt"),
    ];
    assert_eq!(
        parse(LIMIT_REACHED),
        Err(ProfileError::LimitReached { limit: 1_600_000_000, cpus })
    );
    // The limit is reported even if a region was counted before.
    let counted = LIMIT_REACHED.replace("end\n", "region\t1\ntotal\t9\nend\n");
    assert!(matches!(parse(&counted), Err(ProfileError::LimitReached { .. })));
    assert_eq!(parse(&LIMIT_REACHED.replace("end\n", "")), Err(invalid(TRUNCATED)));
}

#[test]
fn malformed_places_are_refused() {
    for (text, replacement) in [
        ("limit\t1600000000\n", ""),
        ("limit\t1600000000", "limit\t-1"),
        ("limit\t1600000000", "limit\t1\nlimit\t1"),
        ("at\t1", "at\t0"),
        ("at\t3", "at\t32"),
        ("at\t3", "at\t18446744073709551616"),
        ("work", "sleep"),
        ("native_safe_halt", "native\u{1b}halt"),
        ("[user]", ""),
    ] {
        let broken = LIMIT_REACHED.replace(text, replacement);
        assert_ne!(broken, LIMIT_REACHED);
        assert_refused(&broken, LINE);
    }
}

/// A system call that calls a function twice, and an interrupt.
const CALLED: &str = "ktax-profile\t1\napi\t1\nregion\t1\ntotal\t130\n\
    fn\tprocess\t60\t0\tentry\nfn\tprocess\t20\t30\tcopy\nfn\tinterrupt\t20\t0\ttick\n\
    path\tprocess\t0\t60\t0\t1\tentry\npath\tprocess\t1\t20\t30\t2\tcopy\n\
    path\tinterrupt\t0\t20\t0\t1\ttick\nend\n";

#[test]
fn paths_are_parsed() {
    let parsed = parse(CALLED).unwrap();
    let paths = &parsed.profile.paths;
    let columns = |path: &Path| {
        (path.depth, path.function.clone(), path.calls, path.counts[Basic::Instructions])
    };
    let expected = [(0, "entry", 1, 60), (1, "copy", 2, 20), (0, "tick", 1, 20)];
    let expected = expected
        .map(|(depth, name, calls, instructions)| (depth, name.to_owned(), calls, instructions));
    assert_eq!(paths.iter().map(columns).collect::<Vec<_>>(), expected);
    assert_eq!((paths[1].counts[Basic::RepIterations], paths[2].context), (30, Context::Interrupt));
    assert!(parsed.notes.is_empty());
}

/// A profile with one locked instruction in `entry` and three in `copy`.
fn with_costly() -> String {
    let first =
        "costly\tprocess\tlocked\t3\tcopy\ncostly\tprocess\tlocked\t1\tentry\npath\tprocess\t0";
    CALLED
        .replace("\tentry\npath", "\tentry\npath-costly\t1\tlocked\npath")
        .replace("\tcopy\npath\ti", "\tcopy\npath-costly\t3\tlocked\npath\ti")
        .replace("path\tprocess\t0", first)
}

#[test]
fn costly_instructions_of_functions_and_paths_are_parsed() {
    let parsed = parse(&with_costly()).unwrap();
    assert_eq!(parsed.counts()[&Context::Process][Costly::Locked], 4);
    let path_counts: Vec<u64> =
        parsed.profile.paths.iter().map(|path| path.counts[Costly::Locked]).collect();
    assert_eq!(path_counts, [1, 3, 0]);
    for (text, replacement) in [
        ("path-costly\t3", "path-costly\t2"),
        ("path-costly\t3\tlocked\n", ""),
        ("costly\tprocess\tlocked\t3", "costly\tinterrupt\tlocked\t3"),
    ] {
        assert_eq!(parse(&with_costly().replace(text, replacement)), Err(invalid(PATHS)), "{text}");
    }
    // The plugin's table of paths was full.
    let full = with_costly()
        .replace("path-costly\t3\tlocked\n", "")
        .replace("region\t1\n", "region\t1\nsplit\tpath\tmore than 1048575 paths\n");
    assert_eq!(parse(&full).unwrap().notes, ["path: more than 1048575 paths"]);
    for (text, replacement) in [
        ("costly\tprocess\tlocked", "costly\tprocess\tnone"),
        ("costly\tprocess\tlocked\t3", "costly\tprocess\tlocked\t-3"),
        ("path-costly\t1\tlocked", "path-costly\t1\tdear"),
        ("path\tprocess\t0\t60", "path-costly\t1\tlocked\npath\tprocess\t0\t60"),
    ] {
        let broken = with_costly().replacen(text, replacement, 1);
        assert_refused(&broken, LINE);
    }
}

#[test]
fn paths_that_do_not_add_up_are_refused_and_displaced_ones_are_noted() {
    for (text, replacement) in [
        ("path\tprocess\t1\t20\t30", "path\tprocess\t1\t20\t29"),
        ("path\tinterrupt\t0\t20\t0\t1\ttick\n", ""),
        ("path\tinterrupt", "path\tkthread"),
    ] {
        let broken = CALLED.replace(text, replacement);
        assert_ne!(broken, CALLED);
        assert_eq!(parse(&broken), Err(invalid(PATHS)), "{replacement}");
    }
    for (text, replacement) in [
        ("path\tprocess\t1", "path\tprocess\t2"),
        ("path\tinterrupt\t0", "path\tinterrupt\t1"),
        ("path\tprocess\t1\t20", "path\tprocess\t1\t-20"),
        ("path\tprocess\t1", "path\tnobody\t1"),
    ] {
        let broken = CALLED.replace(text, replacement);
        assert_refused(&broken, LINE);
    }
    let elsewhere = CALLED.replace("2\tcopy", "2\tother");
    let notes = parse(&elsewhere).unwrap().notes;
    assert_eq!(notes, ["path: functions are below others than those that called them"]);
}

/// A function that executes `wrmsr` three times.
const WRMSR: &str = "ktax-profile\t1\napi\t4\nregion\t1\ntotal\t9\nfn\tprocess\t9\t0\tf\n\
    msr\tprocess\twrmsr\tc0000102\t2\tf\nmsr\tprocess\twrmsr\t1b\t1\tf\n\
    costly\tprocess\twrmsr\t3\tf\nend\n";

#[test]
fn accessed_msrs_are_parsed() {
    let msrs = parse(WRMSR).unwrap().profile.msrs;
    let read: Vec<_> = msrs.iter().map(|msr| (msr.msr.to_string(), msr.count)).collect();
    assert_eq!(read, [("0xc0000102".to_owned(), 2), ("0x1b".to_owned(), 1)]);
    // Without access to registers there are instructions alone.
    let fewer = WRMSR.replace("msr\tprocess\twrmsr\t1b\t1\tf\n", "");
    assert_eq!(parse(&fewer).unwrap().profile.msrs.len(), 1);
    for (text, replacement, error) in [
        ("1b\t1", "1b\t2", REGISTERS),
        ("1b\t1\tf", "1b\t1\tg", REGISTERS),
        ("msr\tprocess", "msr\tkthread", REGISTERS),
        ("wrmsr\t1b", "rdmsr\t1b", REGISTERS),
        ("1b\t1", "1b\t18446744073709551615", REGISTERS),
        ("wrmsr\t1b", "locked\t1b", LINE_7),
        ("1b\t1", "100000001\t1", LINE_7),
        ("1b\t1", "+b\t1", LINE_7),
        ("1b\t1", "1b\t0", LINE_7),
    ] {
        assert_eq!(
            parse(&WRMSR.replace(text, replacement)),
            Err(invalid(error)),
            "{replacement:?}"
        );
    }
}
