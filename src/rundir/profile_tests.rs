use super::*;

/// Two CPUs: one executes 70 and waits 20, the other executes 60 and is idle for 30.
const SEVERAL: &str = "ktax-profile\t1\napi\t4\nregion\t1\ntotal\t130\n\
    fn\tprocess\t100\t10\tf\nfn\tkthread\t20\t0\tg\n\
    wait\tprocess\t15\tf\nwait\tinterrupt\t5\tg\nidle\t30\tg\n\
    cpu\t0\t70\t20\t0\ncpu\t1\t60\t0\t30\nmakespan\t90\t3\t4\ntrace\t56f4e621a1079e22\nend\n";

#[test]
fn the_times_of_several_cpus_are_read() {
    let parsed = parse(SEVERAL).unwrap();
    let parallel = parsed.parallel.clone().unwrap();
    assert_eq!((parallel.makespan, parallel.rounds, parallel.kicks), (90, 3, 4));
    assert_eq!(parallel.cpus[1], CpuTime { work: 60, wait: 0, idle: 30 });
    assert_eq!(parallel.trace, "56f4e621a1079e22");
    let counts = parsed.counts();
    let of = |context| counts.get(&context).copied().unwrap_or_default();
    assert_eq!((of(Context::Process).instructions, of(Context::Process).wait), (100, 15));
    assert_eq!((of(Context::Interrupt).instructions, of(Context::Interrupt).wait), (0, 5));
    assert_eq!((of(Context::Kthread).instructions, of(Context::Kthread).idle), (20, 30));
    let line = of_function("wait\tprocess\t15\tf").unwrap();
    assert_eq!((line.function.as_str(), line.counts.wait), ("f", 15));
}

#[test]
fn one_cpu_has_no_such_times() {
    let text = "ktax-profile\t1\napi\t1\nregion\t1\ntotal\t7\nfn\tprocess\t7\t0\tf\nend\n";
    assert_eq!(parse(text).unwrap().parallel, None);
    let waits = text.replace("end", "wait\tprocess\t1\tf\nend");
    assert_eq!(parse(&waits), Err(ProfileError::Time));
}

#[test]
fn times_that_do_not_add_up_are_refused() {
    for (is, becomes) in [
        ("cpu\t0\t70\t20\t0", "cpu\t0\t71\t19\t0"), // work: total is less
        ("wait\tprocess\t15", "wait\tprocess\t14"),
        ("idle\t30", "idle\t31"),
        ("makespan\t90", "makespan\t91"),
        ("cpu\t1\t60\t0\t30\n", ""),
        ("cpu\t1\t60\t0\t30", "cpu\t1\t60\t0\t18446744073709551615"),
    ] {
        let broken = SEVERAL.replace(is, becomes);
        assert_ne!(broken, SEVERAL);
        assert_eq!(parse(&broken), Err(ProfileError::Time), "{becomes}");
    }
    for (is, becomes) in [
        ("cpu\t1", "cpu\t2"),
        ("trace\t56f4e621a1079e22", "trace\tg6f4e621a1079e22"),
        ("idle\t30", "idle\t-1"),
        ("makespan\t90\t3\t4", "makespan\t90\t3"),
        ("wait\tprocess", "wait\tnobody"),
    ] {
        let broken = SEVERAL.replace(is, becomes);
        assert!(matches!(parse(&broken), Err(ProfileError::Line { .. })), "{becomes}");
    }
}
