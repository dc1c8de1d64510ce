use super::rows::{has_own_ops, rows, with_ops};
use super::*;
use crate::error::PlanError;
use crate::experiment::{Experiment, ExperimentMethod};
use crate::workloads::{definitions, select};
use ktax_model::{RunsOn, Workload};

const FILE: &str = r#"
title = "Group scheduling"
engine = "host"
workloads = ["pipe", "fork-pages:pages=16"]
secondary = ["getppid"]
[base]
sysctl = { "kernel.sched_autogroup_enabled" = "0" }
[change]
sysctl = { "kernel.sched_autogroup_enabled" = "1" }
prefix = ["taskset", "-c", "0"]
"#;

fn read(text: &str) -> Result<Experiment<TimesExperiment>, PlanError> {
    let experiment = Experiment::parse(text, "x.toml")?;
    match &experiment.method {
        ExperimentMethod::Times(times) => Ok(experiment.with(times.clone())),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_becomes_a_plan() {
    let plan = read(FILE).unwrap().plan().unwrap();
    assert_eq!((plan.seed, plan.threshold_percent, plan.method.most_pairs), (1, 1.0, 200));
    let rows: Vec<&str> = plan.method.workloads().map(|workload| workload.row.as_str()).collect();
    assert_eq!(rows, ["pipe", "fork-pages:pages=16", "getppid"]);
    assert_eq!(plan.method.subjects.change.prefix, ["taskset", "-c", "0"]);
    // Operations are those of a native run: the exact engine's would be over too soon.
    let exact = select(&definitions().unwrap(), Some(&["getppid".to_owned()])).unwrap();
    assert!(plan.method.secondary[0].ops > exact[0].ops);
}

#[test]
fn operations_change_and_nothing_else() {
    let plan = read(FILE).unwrap().plan().unwrap();
    for row in plan.method.workloads() {
        let other = with_ops(row, 321).unwrap();
        assert_eq!(other.ops, 321);
        let same = Workload { ops: row.ops, signature: row.signature.clone(), ..other };
        assert_eq!(same, *row);
        assert!(!has_own_ops(row));
    }
    // What follows from the operations does, too.
    assert_eq!(with_ops(&plan.method.secondary[0], 321).unwrap().signature["calls"], 321);
    let named = rows(RunsOn::RunningKernel, &["getppid:ops=7".to_owned()]).unwrap();
    assert!(has_own_ops(&named[0]));
}

#[test]
fn a_sweep_makes_rows_of_parameters_and_runs_of_settings() {
    let sweep = "[sweep]\npages = [16, 32]\nthp = [\"always\", \"never\"]\n";
    let text = FILE.replace("\"pipe\", \"fork-pages:pages=16\"", "\"fork-pages\"") + sweep;
    let experiment = read(&text).unwrap();
    let runs = experiment.of_settings().unwrap();
    let named: Vec<&str> = runs.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(named, ["thp=always", "thp=never"]);
    let plan = runs[1].1.plan().unwrap();
    let rows: Vec<&str> = plan.method.headline.iter().map(|row| row.row.as_str()).collect();
    assert_eq!(rows, ["fork-pages:pages=16", "fork-pages:pages=32"]);
    assert_eq!(
        (plan.method.swept, plan.method.subjects.base.thp.as_deref()),
        (vec!["pages".into()], Some("never"))
    );
}

#[test]
fn a_sysctl_is_swept_in_either_spelling() {
    for name in ["vm.swappiness", "vm/swappiness"] {
        let text = format!("{FILE}[sweep]\n\"{name}\" = [10, 60]\n");
        let runs = read(&text).unwrap().of_settings().unwrap();
        let set = runs
            .iter()
            .map(|(_, run)| [&run.method.base.sysctl[name], &run.method.change.sysctl[name]]);
        assert_eq!(set.collect::<Vec<_>>(), [["10", "10"], ["60", "60"]]);
        assert!(runs.iter().all(|(_, run)| run.plan().unwrap().method.swept.is_empty()));
    }
}

#[test]
fn what_cannot_be_swept_is_refused_before_anything_runs() {
    let kvm = FILE
        .replace("engine = \"host\"", "engine = \"kvm\"")
        .replace("sysctl = { \"kernel.sched_autogroup_enabled\" = \"0\" }", "kernel = \"x\"")
        .replace("sysctl = { \"kernel.sched_autogroup_enabled\" = \"1\" }", "kernel = \"y\"")
        .replace("prefix = [\"taskset\", \"-c\", \"0\"]", "");
    for (file, sweep, said) in [
        (FILE, "\"kernel.sched_autogroup_enabled\" = [0, 1]", "a side sets it too"),
        (FILE, "thp = []", "a value is missing"),
        (FILE, "thp = [\"\"]", "a value is missing"),
        (FILE, "pages = []", "a value is missing"),
        (FILE, "thp = [\"never\", \"never\"]", "given twice"),
        (FILE, "cpus = [1, 2]", "host engine"),
        (FILE, "cores = [1, 2]", "host engine"),
        (&kvm, "thp = [\"never\"]", "kvm engine"),
        (&kvm, "governor = [\"powersave\"]", "kvm engine"),
        (&kvm, "\"vm.swappiness\" = [1, 2]", "kvm engine"),
        (&kvm, "cores = [\"one\"]", "is not a number of CPUs"),
        (&kvm, "cpus = [1, 4294967296]", "is not a number of CPUs"),
        (&kvm, "cpus = [1, 300]", "(machine.cpus) must be 1 to 255, not 300"),
    ] {
        let text = format!("{file}[sweep]\n{sweep}\n");
        let error = read(&text).and_then(|it| it.of_settings()).unwrap_err().to_string();
        assert!(error.contains(said), "{sweep}: {error}");
        assert!(error.contains("; "), "no next step: {error}");
    }
    let text = format!("{kvm}[sweep]\ncpus = [1, 2]\ncores = [1]\n");
    let runs = read(&text).unwrap().of_settings().unwrap();
    let shapes = runs.iter().map(|(_, run)| (run.method.machine.cpus, run.method.machine.cores));
    assert_eq!(shapes.collect::<Vec<_>>(), [(1, Some(1)), (2, Some(1))]);
}

#[test]
fn mistakes_are_named() {
    for (from, to, said) in [
        ("prefix", "perfix", "unknown field `perfix`"),
        (
            "title = \"Group",
            "loops = 0\ntitle = \"Group",
            "--loops (loops) must be 1 to 1000, not 0",
        ),
        (
            "title = \"Group",
            "pairs = 9\ntitle = \"Group",
            "--pairs (pairs) must be 10 to 10000, not 9",
        ),
        ("title = \"Group", "threshold_percent = 0\ntitle = \"G", "threshold"),
        ("[\"getppid\"]", "[\"pipe\"]", "pipe is named twice"),
        ("\"getppid\"", "\"getpid\"", "did you mean \"getppid\""),
        ("engine = \"host\"", "engine = \"kvm\"", "kvm"),
        ("[change]\n", "[change]\nboot_line = \"quiet\"\n", "boot_line"),
        ("[\"pipe\", \"fork-pages:pages=16\"]", "[]", "name rows with -w"),
        ("workloads = [\"pipe\", \"fork-pages:pages=16\"]\n", "", "name rows with -w"),
        (
            "[base]",
            "[machine]\ncpus = 2\n[base]",
            "(machine.cpus) only applies to the exact engine and the kvm engine",
        ),
        ("taskset", "task\\u001bset", "printable"),
    ] {
        let planned = read(&FILE.replace(from, to));
        let error = planned.and_then(|experiment| experiment.plan()).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
    let misspelt = FILE.replace("engine = \"host\"", "engine = \"hots\"");
    let error = Experiment::parse(&misspelt, "x.toml").unwrap_err().to_string();
    assert!(error.contains("expected one of `exact`, `host`, `kvm`"), "{error}");
}
