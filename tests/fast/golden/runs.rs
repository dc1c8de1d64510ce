//! Results of run directories, in every format.

use std::path::Path;

use ktax::analyse::counts;
use ktax::flow::{self, Options};
use ktax::model::{
    Boot, Comparison, CountsPlan, Failure, METRICS, Outcome, Run, Sample, Side, Verdict,
};
use ktax::report::{FORMATS, Format};
use ktax::rundir::{AnyRunDir, RunDir};

use super::cases;

#[test]
fn verdicts_follow_from_the_runs() {
    let verdicts = |comparison: &Comparison| -> Vec<Verdict> {
        comparison.rows.iter().map(|row| row.verdict).collect()
    };
    use Verdict::{DifferentWork, Failed, Faster, NoDetectedChange, Slower, TooFewBoots};
    let verdicts_of_cases: Vec<_> = cases::all().iter().map(|(_, c)| verdicts(c)).collect();
    assert_eq!(verdicts_of_cases[0], [NoDetectedChange, Slower, Slower, NoDetectedChange, Faster]);
    assert_eq!(verdicts_of_cases[1], [NoDetectedChange, Failed, DifferentWork, Failed, Failed]);
    assert_eq!(verdicts_of_cases[2], [NoDetectedChange, TooFewBoots]);
    assert_eq!(verdicts_of_cases[4], [Slower, Faster, NoDetectedChange]);
}

#[test]
fn few_rep_iterations_next_to_much_work_are_no_change() {
    let verdict = |made| cases::made("REP", 5, &[made]).rows[0].verdict;
    assert_eq!(verdict(cases::FEW_REP), Verdict::NoDetectedChange);
    assert_eq!(verdict(cases::MANY_REP), Verdict::Slower);
}

#[test]
fn functions_add_up_to_the_delta() {
    let comparison = &cases::all()[0].1;
    let changed: Vec<_> =
        comparison.rows.iter().filter(|row| !row.effects()[0].functions.is_empty()).collect();
    assert_eq!(changed.len(), 3);
    for row in changed {
        let effect = &row.effects()[0];
        assert_eq!(effect.metric, METRICS[0].name);
        let sum: i128 = row.effects()[0]
            .functions
            .iter()
            .map(|f| i128::from(f.instructions.change) - i128::from(f.instructions.base))
            .sum();
        let sample = |side| i128::from(effect.samples.get(side)[effect.layout]);
        assert_eq!(sum, sample(Side::Change) - sample(Side::Base), "{}", row.row);
        assert_eq!(sum as f64, effect.delta * row.ops as f64, "{}", row.row);
        // copy_page_range.isra.0 of the base and copy_page_range of the change are one.
        assert!(row.effects()[0].functions.iter().all(|f| !f.function.contains(".isra")));
    }
}

/// A directory with one row, five Layouts, and everything measured.
fn small(root: &Path) -> RunDir<CountsPlan> {
    let measure: cases::Measure = |_, _| Ok((vec![("process", "f", 10, 0)], [].into()));
    cases::run_dir(root, "small", 5, &[("row", "one call", measure)])
}

#[test]
fn an_unfinished_directory_names_the_next_step() {
    let root = tempfile::tempdir().unwrap();
    let dir = small(root.path());
    let step = dir.plan().method.steps[4].clone();
    std::fs::remove_file(dir.boot_dir(&step).join("runs/row.json")).unwrap();
    let next = format!("resume with `ktax run {}`", root.path().display());
    let error = counts(&dir).unwrap_err();
    assert!(error.message().contains("in boot 004-base"), "{error}");
    assert!(error.to_string().ends_with(&next), "{error}");
    std::fs::remove_file(dir.boot_dir(&step).join("boot.json")).unwrap();
    let error = counts(&dir).unwrap_err();
    assert!(error.message().starts_with("1 of 10 boots are not made yet"), "{error}");
    assert!(error.to_string().ends_with(&next), "{error}");
}

#[test]
fn a_failed_boot_fails_its_rows_without_their_runs() {
    let root = tempfile::tempdir().unwrap();
    let dir = small(root.path());
    let step = dir.plan().method.steps[1].clone();
    std::fs::remove_file(dir.boot_dir(&step).join("runs/row.json")).unwrap();
    let failure = Failure::RealTime { limit_s: 60 };
    let failed = Some(failure.clone());
    let boot = Boot { failure: failed, ..Boot::default() };
    dir.write_boot(&step, &boot).unwrap();
    let row = &counts(&dir).unwrap().rows[0];
    assert_eq!(row.verdict, Verdict::Failed);
    assert!(row.effects().is_empty());
    assert_eq!((row.failures[0].boot.as_str(), &row.failures[0].failure), ("001-change", &failure));
}

#[test]
fn samples_that_do_not_fit_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let dir = small(root.path());
    let step = dir.plan().method.steps[1].clone();
    let Some(Run { outcome: Outcome::Measured(sample), .. }) =
        dir.run::<Sample>(&step, "row").unwrap()
    else {
        panic!("it was measured");
    };
    // Another number of operations: a failed row.
    let mut wrong = sample.clone();
    wrong.ops += 1;
    let run = Run { row: "row".into(), outcome: Outcome::Measured(wrong) };
    dir.write_run(&step, &run, None).unwrap();
    assert_eq!(counts(&dir).unwrap().rows[0].verdict, Verdict::Failed);
    // Profiles of other counts than the Samples, in the change under every Layout: an error.
    for step in dir.plan().method.steps.iter().filter(|step| step.side == Side::Change) {
        let run = Run { row: "row".into(), outcome: Outcome::Measured(sample.clone()) };
        let profile = cases::profile_text("row", &[("process", "f", 11, 0)]);
        dir.write_run(step, &run, Some(&profile)).unwrap();
    }
    assert_eq!(counts(&dir).unwrap().rows[0].verdict, Verdict::NoDetectedChange);
    for step in dir.plan().method.steps.iter().filter(|step| step.side == Side::Change) {
        let mut more = sample.clone();
        more.counts
            .values_mut()
            .for_each(|counts| counts[ktax::model::Basic::Instructions] += 5000);
        more.total += 5000 * more.counts.len() as u64;
        let run = Run { row: "row".into(), outcome: Outcome::Measured(more) };
        dir.write_run(step, &run, None).unwrap();
    }
    assert!(counts(&dir).unwrap_err().message().contains("but the sample has"));
}

#[test]
fn reports_are_removed_when_a_run_resumes() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("run");
    let made = small(&root);
    let opened = AnyRunDir::open(&root).unwrap();
    let comparison = flow::analyse(&opened, Options::default()).unwrap();
    let files: Vec<(&str, Format)> =
        FORMATS.iter().filter_map(|format| Some((format.file?, *format))).collect();
    let printed = FORMATS.len() - files.len();
    assert_eq!(printed, 2, "JSON is the comparison itself, and a mail is printed when it is sent");
    for (file, format) in &files {
        let written = std::fs::read_to_string(root.join(file)).unwrap();
        assert_eq!(written, super::show(&comparison, *format));
    }
    let analysed = || {
        let names = root.read_dir().unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.into_string().unwrap());
        names.filter(|name| name.starts_with("report") || name.starts_with("comparison")).count()
    };
    assert_eq!(analysed(), files.len() + 1);
    made.remove_comparison().unwrap();
    assert_eq!(analysed(), 0);
}
