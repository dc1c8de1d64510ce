//! Comparisons as they are shown; `BLESS=1 cargo test --test fast golden::` rewrites what is
//! expected.

mod cases;
mod fixtures;
mod stat;
mod timed;

use std::path::Path;

use ktax::analyse::{AnalyseError, analyse, ledger};
use ktax::model::{Bisection, Boot, Carrier, Chain, Comparison, Element, FORMAT, Failure, METRICS};
use ktax::model::{Outcome, Point, Run, Side, Verdict};
use ktax::report::{self, Format, TextOptions, render};
use ktax::rundir::RunDir;

const EXPECTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/expected");

fn text(comparison: &Comparison, width: u16) -> String {
    show(comparison, Format::Text(TextOptions { width, colour: false }))
}

fn show(comparison: &Comparison, format: Format) -> String {
    render(comparison, &format).unwrap()
}

fn check(name: &str, shown: &str) {
    let path = Path::new(EXPECTED).join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(EXPECTED).unwrap();
        std::fs::write(&path, shown).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(expected == shown, "{name} differs; is now:\n{shown}\nBLESS=1 accepts it");
}

#[test]
fn every_format_looks_as_expected() {
    for (name, comparison) in cases::all() {
        check(&format!("{name}.100.txt"), &text(comparison, 100));
        check(&format!("{name}.80.txt"), &text(comparison, 80));
        for (format, extension) in
            [(Format::Markdown, "md"), (Format::Csv, "csv"), (Format::Json, "json")]
        {
            let shown = show(comparison, format);
            check(&format!("{name}.{extension}"), &shown);
        }
    }
}

#[test]
fn a_bisection_looks_as_expected() {
    let (base, change) = (206.0, 231.5);
    let element = |n: usize| Element {
        name: format!("{n:x}{}", "0".repeat(39)),
        title: format!(
            "sys: commit \u{1b}[1m{n} with a subject that is as long as some people's are"
        ),
        is_merge: n == 7,
    };
    let carrier = |after, at, delta: f64| Carrier {
        after,
        at,
        delta,
        share_percent: delta / (change - base) * 100.0,
    };
    let skipped = |why: &str| Point::Skipped(why.to_owned());
    let bisection = Bisection {
        format: FORMAT,
        title: "git:v1 against git:v2".into(),
        chain: Chain::Commits,
        elements: (1..=16).map(element).collect(),
        likely: vec![],
        row: "getppid".into(),
        metric: METRICS[0].name.into(),
        negligible: 0.255,
        points: [
            (0, Point::Cost(base)),
            (6, Point::Cost(base)),
            (7, Point::Cost(226.0)),
            (9, Point::Cost(226.0)),
            (10, skipped("it does not build: sys.c:3:1: error: \u{1b}[2J")),
            (11, Point::Cost(231.0)),
            (16, Point::Cost(change)),
        ]
        .into(),
        found: Some(vec![carrier(6, 7, 20.0), carrier(9, 11, 5.0)]),
    };
    for width in [80, 100] {
        let options = TextOptions { width, colour: false };
        check(&format!("bisection.{width}.txt"), &report::bisection(&bisection, options));
    }
}

#[test]
fn a_ledger_looks_as_expected() {
    let changes = cases::changes();
    let mut half = changes.clone();
    for effect in half.rows.iter_mut().flat_map(|row| &mut row.effects) {
        effect.delta /= 2.0;
    }
    let each = [("half".to_owned(), half), ("whole".to_owned(), changes.clone())];
    // All at once cost what the dearer one does, and not the sum.
    let not_built =
        vec![("third".to_owned(), "it does not build: a.c:1: error: \u{1b}[2J".to_owned())];
    let table = ledger("Two of a kind", &each, Some(&changes), not_built).unwrap();
    check("ledger.txt", &report::ledger(&table, TextOptions { width: 80, colour: false }));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for (name, comparison) in cases::all() {
        for width in [60, 72, 80, 100, 120, 200] {
            for line in text(comparison, width).lines() {
                assert!(line.chars().count() <= usize::from(width), "{name} at {width}: {line}");
                assert_eq!(line.trim_end(), line, "{name} at {width}: blanks at the end");
            }
        }
    }
}

#[test]
fn no_control_character_gets_through() {
    for (name, comparison) in cases::all() {
        let text = Format::Text(TextOptions::default());
        for format in [text, Format::Json, Format::Csv, Format::Markdown] {
            let shown = show(comparison, format);
            let bad =
                |c: char| c != '\n' && c.is_control() || ('\u{202a}'..='\u{2069}').contains(&c);
            assert!(!shown.contains(bad), "{name} as {format:?}");
        }
    }
}

#[test]
fn colour_adds_escapes_to_verdicts_and_nothing_else() {
    let comparison = &cases::all()[0].1;
    let coloured = show(comparison, Format::Text(TextOptions { width: 100, colour: true }));
    assert!(coloured.contains("  \x1b[31mslower\x1b[0m\n"));
    assert!(coloured.contains("  \x1b[32mfaster\x1b[0m\n"));
    let plain = |coloured: String| {
        ["31", "32", "33", "0"]
            .iter()
            .fold(coloured, |text, code| text.replace(&format!("\x1b[{code}m"), ""))
    };
    assert_eq!(plain(coloured), text(comparison, 100));
    // Of a verdict that says more, the first word.
    let comparison = &cases::all()[4].1;
    let coloured = show(comparison, Format::Text(TextOptions { width: 100, colour: true }));
    assert!(coloured.contains("  \x1b[31mslower\x1b[0m (REP)\n"));
    assert!(coloured.contains("  \x1b[32mfaster\x1b[0m, REP slower\n"));
    assert_eq!(plain(coloured), text(comparison, 100));
}

#[test]
fn json_reads_back_as_it_was() {
    for (name, comparison) in cases::all() {
        let json = show(comparison, Format::Json);
        let read: Comparison = serde_json::from_str(&json).unwrap();
        // By what is shown: serde_json without `float_roundtrip` may be off in the last digit.
        assert_eq!(text(&read, 100), text(comparison, 100), "{name}");
        assert_eq!(read.title, comparison.title);
    }
}

#[test]
fn verdicts_are_what_the_runs_say() {
    let verdicts = |comparison: &Comparison| -> Vec<Verdict> {
        comparison.rows.iter().map(|row| row.verdict).collect()
    };
    use Verdict::{DifferentWork, Failed, Faster, NoDetectedChange, Slower, TooFewBoots};
    let all: Vec<_> = cases::all().iter().map(|(_, c)| verdicts(c)).collect();
    assert_eq!(all[0], [NoDetectedChange, Slower, Slower, NoDetectedChange, Faster]);
    assert_eq!(all[1], [NoDetectedChange, Failed, DifferentWork, Failed, Failed]);
    assert_eq!(all[2], [NoDetectedChange, TooFewBoots]);
    assert_eq!(all[4], [Slower, Faster, NoDetectedChange]);
}

#[test]
fn a_few_rep_iterations_beside_much_work_are_no_change() {
    let verdict = |made| cases::made("REP", 5, &[made]).rows[0].verdict;
    assert_eq!(verdict(cases::FEW_REP), Verdict::NoDetectedChange);
    assert_eq!(verdict(cases::MANY_REP), Verdict::Slower);
}

#[test]
fn functions_add_up_to_the_delta() {
    let comparison = &cases::all()[0].1;
    let changed: Vec<_> =
        comparison.rows.iter().filter(|row| !row.effects[0].functions.is_empty()).collect();
    assert_eq!(changed.len(), 3);
    for row in changed {
        let effect = &row.effects[0];
        assert_eq!(effect.metric, METRICS[0].name);
        let sum: i128 = row.effects[0]
            .functions
            .iter()
            .map(|f| i128::from(f.instructions.change) - i128::from(f.instructions.base))
            .sum();
        let of = |side| i128::from(effect.samples.get(side)[effect.layout]);
        assert_eq!(sum, of(Side::Change) - of(Side::Base), "{}", row.row);
        assert_eq!(sum as f64, effect.delta * row.ops as f64, "{}", row.row);
        // copy_page_range.isra.0 of the base and copy_page_range of the change are one.
        assert!(row.effects[0].functions.iter().all(|f| !f.function.contains(".isra")));
    }
}

/// A directory with one row, five Layouts, and everything measured.
fn small(root: &Path) -> RunDir {
    let measure: fixtures::Measure = |_, _| Ok((vec![("process", "f", 10, 0)], [].into()));
    fixtures::run_dir(root, "small", 5, &[("row", "one call", measure)])
}

#[test]
fn an_unfinished_directory_says_how_to_go_on() {
    let root = tempfile::tempdir().unwrap();
    let dir = small(root.path());
    let step = dir.plan().steps[4].clone();
    std::fs::remove_file(dir.boot_dir(&step).join("runs/row.json")).unwrap();
    let next = format!("resume with `ktax run {}`", root.path().display());
    let error = analyse(&dir).unwrap_err();
    assert!(matches!(&error, AnalyseError::RunMissing { boot, .. } if boot == "004-base"));
    assert!(error.to_string().ends_with(&next), "{error}");
    std::fs::remove_file(dir.boot_dir(&step).join("boot.json")).unwrap();
    let error = analyse(&dir).unwrap_err();
    assert!(matches!(error, AnalyseError::BootsMissing { missing: 1, planned: 10, .. }));
    assert!(error.to_string().ends_with(&next), "{error}");
}

#[test]
fn a_failed_boot_fails_its_rows_without_their_runs() {
    let root = tempfile::tempdir().unwrap();
    let dir = small(root.path());
    let step = dir.plan().steps[1].clone();
    std::fs::remove_file(dir.boot_dir(&step).join("runs/row.json")).unwrap();
    let failure = Failure::RealTime { limit_s: 60 };
    let failed = Some(failure.clone());
    let boot = Boot { release: None, build_id: None, ignored: Vec::new(), failure: failed };
    dir.write_boot(&step, &boot).unwrap();
    let row = &analyse(&dir).unwrap().rows[0];
    assert_eq!(row.verdict, Verdict::Failed);
    assert!(row.effects.is_empty());
    assert_eq!((row.failures[0].boot.as_str(), &row.failures[0].failure), ("001-change", &failure));
}

#[test]
fn samples_that_do_not_fit_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let dir = small(root.path());
    let step = dir.plan().steps[1].clone();
    let Some(Run { outcome: Outcome::Measured(sample), .. }) = dir.run(&step, "row").unwrap()
    else {
        panic!("it was measured");
    };
    // Another number of operations: a failed row.
    let mut wrong = sample.clone();
    wrong.ops += 1;
    let run = Run { row: "row".into(), outcome: Outcome::Measured(wrong) };
    dir.write_run(&step, &run, None).unwrap();
    assert_eq!(analyse(&dir).unwrap().rows[0].verdict, Verdict::Failed);
    // Profiles of other counts than the Samples, in the change under every Layout: an error.
    for step in dir.plan().steps.iter().filter(|step| step.side == Side::Change) {
        let run = Run { row: "row".into(), outcome: Outcome::Measured(sample.clone()) };
        let profile = fixtures::profile_text("row", &[("process", "f", 11, 0)]);
        dir.write_run(step, &run, Some(&profile)).unwrap();
    }
    assert_eq!(analyse(&dir).unwrap().rows[0].verdict, Verdict::NoDetectedChange);
    for step in dir.plan().steps.iter().filter(|step| step.side == Side::Change) {
        let mut more = sample.clone();
        more.counts.values_mut().for_each(|counts| counts.instructions += 5000);
        let run = Run { row: "row".into(), outcome: Outcome::Measured(more) };
        dir.write_run(step, &run, None).unwrap();
    }
    assert!(matches!(analyse(&dir), Err(AnalyseError::Sum { .. })));
}
