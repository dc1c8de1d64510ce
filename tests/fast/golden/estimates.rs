//! Estimates of counts, a calibration, and a validation.

use std::collections::BTreeMap;

use ktax::analyse::{estimate, fit};
use ktax::model::{
    Calibration, CalibrationFit, CalibrationRow, CalibrationTable, Comparison, Costly, Fitted,
    SavedResult, Share, ValidatedRow, Validation,
};
use ktax::report::FORMATS;

use super::{cases, every, shown_wide};
use crate::common::printed::lone_cycles;

const MACHINE: &str = "here.toml";

fn calibration(fit: Option<CalibrationFit>) -> Calibration {
    Calibration {
        cpu: "AMD EPYC 7763\u{202e}".to_owned(),
        microcode: "0xa0011d5".to_owned(),
        cycles_per_ns: 2.445,
        operations: [(Costly::Cr3Write, [182.0, 231.5]), (Costly::Locked, [17.9, 20.25])].into(),
        rep_iteration: Some([0.0625, 0.75]),
        fit,
        ..Calibration::default()
    }
}

fn fitted() -> CalibrationFit {
    let cycles = [0.31, 8.5, 21.0, 0.0, 31.0, 14.5];
    let bounds = cycles.map(|cycles| [cycles * 0.9, cycles * 1.2 + 0.1]);
    let bounds = Fitted::ALL.into_iter().zip(bounds).collect();
    let cycles = Fitted::ALL.into_iter().zip(cycles).collect();
    CalibrationFit { rows: 41, groups: 7, error: [0.71, 1.38], cycles, bounds }
}

/// Estimates of a comparison with a model, or with costly instructions alone.
pub fn estimated(mut counted: Comparison, has_fit: bool) -> Comparison {
    estimate(&mut counted.rows, MACHINE, &calibration(has_fit.then(fitted)));
    counted
}

/// Turns counts into those that rank a ledger: counted without a model.
pub fn ranking(counted: &mut Comparison) {
    let (cycles, bounds) = ([0.8], [[0.75, 0.9]]);
    let cycles = [Fitted::Instruction].into_iter().zip(cycles).collect();
    let bounds = [Fitted::Instruction].into_iter().zip(bounds).collect();
    let fit = CalibrationFit { rows: 41, groups: 7, error: [0.71, 1.38], cycles, bounds };
    let iterations = [(Costly::RepStosb, [0.02, 0.08])].into();
    let calibration = Calibration { rep_iteration: None, iterations, ..calibration(Some(fit)) };
    estimate(&mut counted.rows, MACHINE, &calibration);
}

/// Rows of a machine that is as its constants say, but for one row.
fn rows() -> Vec<CalibrationRow> {
    let row = |index: usize| {
        let size = |thing: usize| {
            let drawn = (index + 1) * (thing + 3) * (index + 2 * thing + 5);
            (1 + drawn % 31) as f64 * [1000.0, 90.0, 20.0, 3.0, 8.0, 25.0][thing]
        };
        let counts = Fitted::ALL.into_iter().enumerate().map(|(index, thing)| (thing, size(index)));
        let cycles = fitted().cycles;
        let counts: BTreeMap<_, _> = counts.collect();
        let cost: f64 = counts.iter().map(|(thing, count)| count * (cycles[thing] + 1.0)).sum();
        CalibrationRow {
            row: format!("row:size={index}"),
            group: format!("group-{}", index % 5),
            cycles: if index == 7 { cost * 3.0 } else { cost * (1.0 + (index % 3) as f64 / 20.0) },
            counts,
            costly: [(Costly::Locked, 2.0)].into(),
            rep_iterations: 0.0,
            predicted: None,
        }
    };
    (0..40).map(row).collect()
}

/// Calibration, with rows or without.
pub fn calibrated(has_rows: bool) -> SavedResult {
    let mut calibration = calibration(None);
    let mut rows = if has_rows { rows() } else { Vec::new() };
    let mut missing = Vec::new();
    if has_rows {
        calibration.fit = Some(fit(&mut rows, &calibration).unwrap());
    } else {
        missing.push("no rows were given; give \u{1b}[2J some".to_owned());
    }
    SavedResult::Calibration(Box::new(CalibrationTable {
        machine: MACHINE.to_owned(),
        model: "zen3".to_owned(),
        calibration,
        not_measured: vec![Costly::Port, Costly::Hlt],
        missing,
        rows,
    }))
}

/// One row of three outside; or times by which no row can be judged, and why.
pub fn validated(unfit: Option<&str>) -> SavedResult {
    let row = |row: &str, predicted: [f64; 2], measured: f64, high: Option<f64>| ValidatedRow {
        row: row.to_owned(),
        predicted_percent: predicted,
        measured_percent: measured,
        measured_interval: [Some(measured - 1.25), high],
        is_covered: (predicted[0]..=predicted[1]).contains(&measured),
        uncosted_metrics: if row == "stat" {
            [("verw".to_owned(), 1.0)].into()
        } else {
            BTreeMap::new()
        },
    };
    SavedResult::Validation(Box::new(Validation {
        title: "What does page-table isolation cost?".to_owned(),
        machine: MACHINE.to_owned(),
        cpu: "AMD EPYC".to_owned(),
        timed_cpu: "AMD Ryzen\u{7}".to_owned(),
        rows: vec![
            row("getppid", [12.0, 31.5], 44.25, Some(45.5)),
            row("stat", [4.0, 9.75], 7.5, Some(8.5)),
            row("fork-exit", [-0.5, 1.25], 0.25, None),
        ],
        unfit: unfit.map(str::to_owned),
        left_out: vec!["boot".to_owned()],
        differences: vec!["the change's boot line: \"a\" was counted, \"b\" was timed".to_owned()],
        covered: Share { part: 2, total: 3 },
        signs: Share { part: 2, total: 2 },
        rank_correlation: Some(0.5),
        median_error_percent: 3.125,
    }))
}

/// No number of cycles stands without its interval and the machine that it is of. The counters that
/// are not there have no number.
#[test]
fn estimates_have_an_interval_and_a_machine() {
    let mut estimated = 0;
    let counted = cases::all().iter().map(|(name, _)| *name);
    let about: Vec<&str> = counted
        .chain(["calibration", "calibration-alone", "validation", "validation-unfit"])
        .collect();
    for (name, result) in every().filter(|(name, _)| about.contains(name)) {
        for format in FORMATS.iter().filter(|format| format.name != "json") {
            let shown = shown_wide(&result, *format);
            assert_eq!(lone_cycles(&shown), None, "{name}");
            let is_of_cycles = |text: &&str| text.contains("cycles");
            for text in shown.split("\n\n").filter(is_of_cycles) {
                let is_without = text.contains("not cycles") || text.contains("CPU cycles");
                assert!(text.contains(MACHINE) || is_without, "{name}: {text}");
                estimated += u32::from(text.contains("between +"));
            }
        }
        let json = serde_json::to_value(&result).unwrap();
        estimated += objects(&json, &mut |object| {
            let is_estimate = object.contains_key("cpu") && object.contains_key("delta");
            if is_estimate {
                assert_eq!(object["machine"], MACHINE);
                assert_eq!(object["delta"].as_array().map(Vec::len), Some(2));
                assert!(object.get("base").is_none_or(|base| base.is_array()));
            }
            is_estimate
        });
    }
    assert!(estimated > 6, "{estimated}");
}

#[test]
fn lone_numbers_of_cycles_are_detected_and_intervals_are_not() {
    for lone in ["one takes 1486 cycles", "(12 TSC cycles)", "+3.5 cycles each"] {
        assert!(lone_cycles(lone).is_some(), "{lone}");
    }
    for other in ["in TSC cycles: between +380 and +420", "CPU cycles", "2…12 cycles", "3 rows"] {
        assert_eq!(lone_cycles(other), None);
    }
}

/// How many objects are such.
fn objects(
    json: &serde_json::Value,
    is_such: &mut dyn FnMut(&serde_json::Map<String, serde_json::Value>) -> bool,
) -> u32 {
    match json {
        serde_json::Value::Object(object) => {
            u32::from(is_such(object))
                + object.values().map(|value| objects(value, is_such)).sum::<u32>()
        }
        serde_json::Value::Array(values) => {
            values.iter().map(|value| objects(value, is_such)).sum()
        }
        _ => 0,
    }
}
