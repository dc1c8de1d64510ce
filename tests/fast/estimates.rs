//! `ktax calibrate` with rows, `report --machine` and `validate` on a machine that is made up: what
//! it takes is known, and what the commands say is compared with that. And machines and plans that
//! are none.

use std::fs;
use std::path::Path;

use ktax::model::{
    CalibrationTable, Comparison, Estimate, Fitted, NativeRow, NativeSample, NativeTable,
    PlanMethod, Row, Saved, SavedResult, Signature, Workload,
};
use ktax::plan::ModelKey;
use ktax::rundir::AnyRunDir;

use crate::common::{Ran, assert_has, ktax, made, run, scratch};
use crate::golden::every;
use crate::rundirs::plans;

/// Nanoseconds of what is fitted.
const NS: [f64; 6] = [0.16, 3.5, 11.0, 64.0, 14.0, 7.0];

fn counted() -> Comparison {
    let (_, saved) = every().find(|(name, _)| *name == "machine").unwrap();
    match saved.result {
        SavedResult::Comparison(comparison) => *comparison,
        other => panic!("{other:?}"),
    }
}

fn release() -> String {
    counted().counts().unwrap().kernels.base.release.clone().unwrap()
}

/// Number of each thing in a row.
fn counts(index: usize) -> [f64; 6] {
    let drawn = |thing: usize| (index + 1) * (thing + 3) * (index + 2 * thing + 5) % 31 + 1;
    std::array::from_fn(|thing| drawn(thing) as f64 * [1000.0, 90.0, 20.0, 3.0, 8.0, 25.0][thing])
}

fn counted_row(like: &Row, index: usize) -> Row {
    let mut row = Row { row: format!("made:size={index}"), ..like.clone() };
    let ktax::model::Evidence::Counts(evidence) = &mut row.evidence else { panic!("counts") };
    evidence.effects.retain(|effect| effect.metric != "rep-iterations");
    for (thing, count) in Fitted::ALL.into_iter().zip(counts(index)) {
        for (place, metric) in thing.metrics().iter().enumerate() {
            let effect =
                evidence.effects.iter_mut().find(|effect| effect.metric == *metric).unwrap();
            // Two metrics share this count; the first one gets all of it.
            effect.base = if place == 0 { count } else { 0.0 };
        }
    }
    row
}

fn timed_row(like: &Row, index: usize) -> NativeRow {
    let ns: f64 = counts(index).iter().zip(NS).map(|(count, ns)| count * ns).sum();
    let program = format!("program-{}", index % 5);
    let made = made::workload(&format!("made:size={index}"), 1000);
    let workload = Workload { title: String::new(), operation: String::new(), program, ..made };
    let values = [("nanoseconds".to_owned(), (ns * 1000.0) as u64)].into();
    let samples = vec![NativeSample { signature: Signature::new(), values }; 3];
    assert_eq!(like.row, "stat");
    NativeRow { workload, samples, failure: None, uncounted: Default::default(), cells: vec![] }
}

/// The files `counted.json` and `timed.json`, with so many rows.
fn write(dir: &Path, rows: usize, release: &str, cpu: &str) {
    let mut comparison = counted();
    let like = comparison.rows.iter().find(|row| row.row == "stat").unwrap().clone();
    comparison.rows = (0..rows).map(|index| counted_row(&like, index)).collect();
    let table = NativeTable {
        workload: "made".to_owned(),
        title: "t".to_owned(),
        operation: "o".to_owned(),
        original: None,
        release: release.to_owned(),
        cpu: cpu.to_owned(),
        cpus: 1,
        columns: Vec::new(),
        rows: (0..rows).map(|index| timed_row(&like, index)).collect(),
        growth: Vec::new(),
    };
    let results = [
        ("counted.json", SavedResult::Comparison(Box::new(comparison))),
        ("timed.json", SavedResult::Native(Box::new(table))),
    ];
    for (name, result) in results {
        fs::write(dir.join(name), serde_json::to_string(&Saved::from(result)).unwrap()).unwrap();
    }
}

fn in_dir(dir: &Path, words: &str) -> Ran {
    run(ktax().current_dir(dir).args(words.split(' ')))
}

const FIT: &str = "calibrate --counts counted.json --times timed.json --json --out here.toml";

/// CPU model of this machine.
fn cpu(dir: &Path) -> String {
    let ran = in_dir(dir, "calibrate --json --out alone.toml");
    table(&ran).calibration.cpu
}

fn table(ran: &Ran) -> CalibrationTable {
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    match serde_json::from_str::<Saved>(&ran.stdout).unwrap().result {
        SavedResult::Calibration(table) => *table,
        other => panic!("{other:?}"),
    }
}

fn estimates(ran: &Ran) -> Vec<Estimate> {
    match serde_json::from_str::<Saved>(&ran.stdout).unwrap().result {
        SavedResult::Comparison(comparison) => {
            comparison.rows.iter().filter_map(|row| row.counts()?.estimate.clone()).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_calibration_is_fitted_estimated_and_printed_again() {
    let dir = scratch();
    let dir = dir.path();
    write(dir, 40, &release(), &cpu(dir));
    let table = table(&in_dir(dir, FIT));
    let calibration = &table.calibration;
    let fit = calibration.fit.as_ref().unwrap();
    assert_eq!((fit.rows, fit.groups, table.rows.len()), (40, 5, 40));
    for (thing, ns) in Fitted::ALL.into_iter().zip(NS) {
        let found = fit.cycles[&thing] / calibration.cycles_per_ns;
        assert!((found / ns - 1.0).abs() < 0.01, "{thing:?}: {found} of {ns}");
    }
    let ran = in_dir(dir, "report --machine here.toml --json counted.json");
    let estimates = estimates(&ran);
    assert_eq!(estimates.len(), 40, "{}", ran.stderr);
    assert!(
        estimates.iter().all(|estimate| estimate.machine == "here.toml" && estimate.base.is_some())
    );
    // Estimates decide nothing.
    assert_eq!(ran.status, in_dir(dir, "report --json counted.json").status);
    // A file of times that is given twice adds no rows, and each result is printed again.
    let twice = FIT.replace("timed.json --json", "timed.json --times timed.json --json");
    let ran = in_dir(dir, &twice);
    fs::write(dir.join("again.json"), &ran.stdout).unwrap();
    assert_eq!(in_dir(dir, "report --json again.json").stdout, ran.stdout);
    let csv = in_dir(dir, "report --machine here.toml --format csv counted.json").stdout;
    assert_eq!(csv.matches(",estimate,TSC cycles on here.toml,").count(), 40, "{csv}");
    // In an experiment the machine is modelled, and its calibration is in the plan.
    let plan = "plan --kernel /nowhere --same --machine here.toml";
    assert!(in_dir(dir, plan).stderr.contains("/nowhere"));
}

#[test]
fn rows_of_another_machine_are_refused_without_output() {
    let dir = scratch();
    let dir = dir.path();
    let cpu = cpu(dir);
    let release = release();
    for (rows, release, cpu, why) in [
        (40, "9.9.9", cpu.as_str(), "and timed with 9.9.9; count the kernel"),
        (40, &release, "Another CPU", "were timed on \"Another CPU\" and this is"),
        (40, &release, "", "time them here, with this ktax"),
        (29, &release, cpu.as_str(), "29 rows were both counted and timed"),
        (35, &release, cpu.as_str(), "28 rows were both counted and timed, in all or without"),
    ] {
        write(dir, rows, release, cpu);
        in_dir(dir, FIT).exits(2).says(why);
        assert!(!dir.join("here.toml").exists());
    }
    // With the option the error includes the difference of the kernels, and names them.
    write(dir, 40, "9.9.9", &cpu);
    let other = table(&in_dir(dir, &FIT.replace("--json", "--other-kernel --json"))).calibration;
    assert_eq!((other.counted_kernel, other.timed_kernel), (release.clone(), "9.9.9".to_owned()));
    // The first file of times is of the counted kernel, and the second is not.
    fs::copy(dir.join("timed.json"), dir.join("other.json")).unwrap();
    write(dir, 40, &release, &cpu);
    let two = FIT.replace("--json", "--times other.json --other-kernel --json");
    let other = table(&in_dir(dir, &two)).calibration;
    assert_eq!((other.counted_kernel, other.timed_kernel), (release.clone(), "9.9.9".to_owned()));
    fs::remove_file(dir.join("here.toml")).unwrap();
    write(dir, 40, &release, &cpu);
    for (words, why) in [
        ("calibrate --out here", "a machine's file ends in .toml; write --out machine.toml"),
        ("calibrate --out 0123456789012345678901234567890.toml", "a name has 1 to 32 letters"),
        (
            "calibrate --counts timed.json --times timed.json",
            "timed.json has no result with counts",
        ),
        ("calibrate --counts counted.json --times counted.json", "has no result with times of"),
        ("calibrate --model coherence", "coherence models no machine; write --model"),
        ("validate counted.json counted.json --machine alone.toml", "in this order"),
        ("validate counted.json timed.json --machine alone.toml", "in this order"),
        ("validate lsm", "add --model FILE"),
        ("validate lsm --machine alone.toml", "has no fitted rows"),
        ("report --machine alone.toml timed.json", "--model only applies to comparisons"),
        ("compare lsm --machine alone.toml --model skylake", "cannot be used with"),
    ] {
        let ran = in_dir(dir, words).exits(2);
        assert_has(ran.stderr.split_whitespace().collect::<Vec<_>>().join(" "), why);
    }
}

#[test]
fn validation_joins_rows_and_names_differences() {
    let dir = scratch();
    let dir = dir.path();
    for name in ["estimated", "timed"] {
        let (_, saved) = every().find(|(known, _)| *known == name).unwrap();
        // A row that has an estimate gets the name of one that has times.
        let text = serde_json::to_string(&saved).unwrap();
        let text = match name {
            "estimated" => text.replace(r#""row":"stat""#, r#""row":"pipe""#),
            _ => text,
        };
        fs::write(dir.join(format!("{name}.json")), text).unwrap();
    }
    let ran = in_dir(dir, "validate estimated.json timed.json --json").exits(0);
    let saved: Saved = serde_json::from_str(&ran.stdout).unwrap();
    let SavedResult::Validation(found) = saved.result else { panic!("{}", ran.stdout) };
    let rows: Vec<&str> = found.rows.iter().map(|row| row.row.as_str()).collect();
    assert_eq!(rows, ["pipe"]);
    let row = &found.rows[0];
    let [low, high] = row.predicted_percent;
    assert!(0.0 < low && low < high && high < 3.0, "{row:?}");
    assert_eq!(row.is_covered, low <= row.measured_percent && row.measured_percent <= high);
    assert_eq!((found.covered.total, found.covered.part), (1, usize::from(row.is_covered)));
    assert!(found.left_out.contains(&"getppid".to_owned()), "{found:?}");
    assert!(!found.differences.is_empty(), "{found:?}");
    fs::write(dir.join("again.json"), &ran.stdout).unwrap();
    assert_eq!(in_dir(dir, "report --json again.json").stdout, ran.stdout);
    let text = in_dir(dir, "validate estimated.json timed.json").stdout;
    assert!(text.contains(" of 1 rows lie in the estimated interval"), "{text}");
    assert!(text.contains("The two results differ: "), "{text}");
}

#[test]
fn a_machine_without_a_calibration_or_with_another_model_estimates_nothing() {
    let dir = scratch();
    let dir = dir.path();
    write(dir, 40, &release(), &cpu(dir));
    assert_eq!(in_dir(dir, FIT).status, 0);
    let fitted = fs::read_to_string(dir.join("here.toml")).unwrap();
    let sizes = fitted.replace("kib = 32\n", "kib = 64\n");
    assert_ne!(sizes, fitted);
    fs::write(dir.join("other.toml"), sizes).unwrap();
    let plain = fitted.split("[calibration]").next().unwrap();
    let rest = fitted.split("[dtlb]").nth(1).unwrap();
    fs::write(dir.join("plain.toml"), format!("{plain}[dtlb]{rest}")).unwrap();
    fs::write(dir.join("hostile.toml"), fitted.replace("error = [", "error = [-")).unwrap();
    for (machine, why) in [
        ("plain.toml", "has no [calibration]; write one with `ktax calibrate`"),
        ("other.toml", "count again with --model other.toml"),
        ("hostile.toml", "calibration.fit is no cost; run `ktax calibrate` again"),
        ("none.toml", "cannot read none.toml"),
    ] {
        let ran = in_dir(dir, &format!("report --machine {machine} counted.json"));
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{machine}: {}", ran.stderr);
        ran.says(why);
    }
    in_dir(dir, "plan --kernel /nowhere --same --machine plain.toml").says("has no [calibration]");
}

/// A plan may come from anywhere, and what it says of a machine goes to the plugin.
#[test]
fn a_plan_with_an_invalid_machine_is_refused() {
    let dir = scratch();
    let (_, plan) = plans().into_iter().find(|(name, _)| *name == "counts").unwrap();
    let with = |change: &dyn Fn(&mut serde_json::Value)| {
        let root = tempfile::tempdir_in(dir.path()).unwrap().keep().join("run");
        let mut plan = plan.clone();
        let PlanMethod::Counts(counts) = &mut plan.method else { panic!("counts") };
        let model = ModelKey::Name("zen3".to_owned()).model().unwrap();
        counts.asked.machine.model = Some(model.clone());
        counts.key.machine.model = Some(model);
        AnyRunDir::create(&root, plan).unwrap();
        let path = root.join("plan.json");
        let text = fs::read_to_string(&path).unwrap();
        let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
        change(&mut json["method"]["counts"]);
        fs::write(&path, json.to_string()).unwrap();
        AnyRunDir::open(&root).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(with(&|_| {}), Ok(()));
    let ways = with(&|counts| {
        counts["asked"]["machine"]["model"]["machine"]["l2"]["ways"] = 7.into();
    });
    assert!(ways.unwrap_err().contains("the machine cannot be modelled"));
    let name = with(&|counts| counts["key"]["model"]["machine"]["name"] = "a\nb 1 1".into());
    assert!(name.unwrap_err().contains("the machine cannot be modelled"));
    let calibration =
        serde_json::json!({"cpu": "a", "cycles_per_ns": 2.0, "operations": {"locked": [2.0, 1.0]}});
    let costs = with(&|counts| counts["asked"]["calibration"] = calibration.clone());
    assert!(costs.unwrap_err().contains("the machine's calibration is not valid"));
}
