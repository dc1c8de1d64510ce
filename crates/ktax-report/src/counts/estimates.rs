//! What a machine would take for each row, by its Calibration.

use std::collections::BTreeMap;

use crate::view::{Note, Section};
use crate::{number, words};
use ktax_model::{CYCLES, Estimate, LowHigh, Row};

/// A line for each row whose estimate says anything; each machine has lines of its own.
pub fn estimates(rows: &[Row]) -> impl Iterator<Item = Section> {
    let mut machines: BTreeMap<String, Vec<Note>> = BTreeMap::new();
    for row in rows {
        let Some(estimate) = row.counts().and_then(|it| it.estimate.as_ref()) else { continue };
        let note = text(estimate).map(|text| Note { row: row.row.clone(), text });
        machines.entry(title(estimate)).or_default().extend(note);
    }
    machines.into_iter().map(|(title, notes)| Section::Notes { title, notes })
}

fn title(estimate: &Estimate) -> String {
    let Estimate { machine, cpu, base, .. } = estimate;
    let what = match base {
        Some(_) => "What the change adds to an operation",
        None => "What costly instructions and string iterations add to an operation",
    };
    format!(
        "{what}, in {CYCLES}: estimated for {cpu} ({machine}), not measured (no verdict rests on \
         it):"
    )
}

/// `between +380 and +420 (+2.1…2.4 %)`; nothing of a row without any difference. What is not in it
/// comes first: it may be the larger part.
fn text(estimate: &Estimate) -> Option<String> {
    let Estimate { base, delta, percent, left_out, .. } = estimate;
    if *delta == [0.0; 2] && left_out.is_empty() {
        return None;
    }
    let without = match left_out.is_empty() {
        true => String::new(),
        false => format!("without {}, not timed there: ", words::deltas(left_out)),
    };
    let percent = percent.map(|[low, high]| number::percent_range(Some(low), Some(high)));
    let percent = percent.map_or(String::new(), |percent| format!(" ({percent} %)"));
    let of_base = base.map(|[low, high]| {
        format!("; the base takes {}…{}", number::measured(low), number::measured(high))
    });
    let of_base = of_base.unwrap_or_default();
    Some(match delta {
        [0.0, 0.0] => format!("{without}nothing else"),
        _ => format!("{without}{}{percent}{of_base}", between(*delta)),
    })
}

fn between([low, high]: LowHigh) -> String {
    let signed = |value: f64| {
        let sign = if value > 0.0 { "+" } else { "" };
        format!("{sign}{}", number::measured(value))
    };
    format!("between {} and {}", signed(low), signed(high))
}
