//! Whoever looks on hears all of it, and what a run took is known to the next one.

use std::fs;

use ktax::engine;
use ktax::flow;
use ktax::plan::{Experiment, ExperimentMethod, TimesExperiment};
use serde_json::Value;

use crate::common::recorder::{Heard, Recorder};
use crate::common::{is_alone, ktax, run, run_alone, scratch};

const ROW: &str = "control-planted:ops=50";

/// Ten pairs of loops that take no time.
fn quick() -> Experiment {
    let mut method = TimesExperiment::new(&engine::host::ENGINE);
    method.workloads = vec![ROW.to_owned()];
    (method.pairs, method.loops) = (Some(10), 2);
    let method = ExperimentMethod::Times(method);
    Experiment { title: "the same".to_owned(), seed: 1, threshold_percent: 1.0, method }
}

#[test]
fn a_clock_may_move_between_loops_and_every_pair_is_told() {
    if !is_alone() {
        // The state directory is the tests' own there.
        let own = ktax();
        let state = own.get_envs().find(|(name, _)| *name == "KTAX_STATE").unwrap().1.unwrap();
        let state = format!("KTAX_STATE={}", state.to_str().unwrap());
        let name = "timed::observed::a_clock_may_move_between_loops_and_every_pair_is_told";
        return run_alone(&["env", &state], name);
    }
    let (dir, recorder) = (scratch(), Recorder::new());
    let session = recorder.session();
    let plan = flow::plan(&quick(), &session).unwrap();
    flow::compare(&dir.path().join("run"), plan, &session).unwrap().unwrap();
    let heard = recorder.heard();
    let count = |what: fn(&Heard) -> bool| heard.iter().filter(|event| what(event)).count();
    // Of 18 pairs of two boots with two loops each.
    assert_eq!(count(|event| *event == Heard::Tick), 18 * 2 * 2, "{heard:?}");
    let pairs = heard.iter().filter_map(|event| match event {
        Heard::Pairs(pairs, controls) => Some(pairs + controls),
        _ => None,
    });
    assert_eq!(pairs.collect::<Vec<_>>(), (0..=18).collect::<Vec<_>>());
    let Some(Heard::Learned(rates)) = heard.last() else { panic!("{heard:?}") };
    assert!(rates.learned("timed-host", ROW).unwrap() > 0.0, "{rates:?}");
}

#[test]
fn what_a_run_took_is_what_a_plan_expects() {
    let (dir, state, other) = (scratch(), scratch(), scratch());
    let out = dir.path().join("run");
    let quick = ["--same", "--engine", "host", "--loops", "1", "--pairs", "10", "-w", ROW];
    let planned = || {
        let ran = run(ktax().arg("plan").args(quick).env("KTAX_STATE", state.path()));
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        ran.stderr
    };
    let said = planned();
    assert!(said.contains("ktax: a pair takes about 0.050 s, and at most 10 pairs"), "{said}");
    assert!(said.contains("(a guess, because nothing was measured"), "{said}");
    let mut compare = ktax();
    compare.arg("compare").args(quick).arg("--out").arg(&out);
    let ran = run(compare.env("KTAX_STATE", state.path()));
    assert!(matches!(ran.status, 0 | 3 | 4), "{}", ran.stderr);
    let rates = fs::read_to_string(state.path().join("rates.json")).unwrap();
    let rates: Value = serde_json::from_str(&rates).unwrap();
    assert!(rates["runs"][format!("timed-host/{ROW}")].as_f64().unwrap() > 0.0, "{rates}");
    let said = planned();
    assert!(said.contains("(as earlier runs on this machine took)"), "{said}");
    // Pairs that are there already may be of another machine, and teach nothing.
    let ran = run(ktax().arg("run").arg(&out).env("KTAX_STATE", other.path()));
    assert!(matches!(ran.status, 0 | 3 | 4), "{}", ran.stderr);
    assert!(!other.path().join("rates.json").exists());
    // It is this file that is used: a loop takes a quarter of a second there.
    let rates = format!(r#"{{"boots":{{"timed-host":0}},"runs":{{"timed-host/{ROW}":0.25}}}}"#);
    fs::write(state.path().join("rates.json"), rates).unwrap();
    let said = planned();
    assert!(said.contains("a pair takes about 0.50 s, and at most 10 pairs"), "{said}");
    assert!(said.contains(" about 9 s (as earlier"), "{said}");
}
