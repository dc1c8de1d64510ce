use super::steps::{CostStep, largest, largest_detectable, series, short, steps};
use crate::number::{limit, percent};
use ktax_host::text::{counted, counted_as};
use ktax_model::{History, HistoryLine, HistoryPoint};
use ktax_stats::tables::change_percent;

/// How much more the last point costs than another, in percent.
fn percent_over(line: &HistoryLine, from: &HistoryPoint) -> Option<f64> {
    change_percent(from.cost(line.ops), line.points.last()?.cost(line.ops))
}

/// Where rows step, and which steps most: first within a series of kernels, then between series.
pub fn headline(history: &History) -> String {
    let long: Vec<&HistoryLine> =
        history.lines.iter().filter(|line| line.points.len() > 1).collect();
    let whose = history.function.as_ref().map_or(String::new(), |name| format!("{name} in "));
    match (history.lines.as_slice(), long.as_slice()) {
        ([], _) => String::new(),
        (lines, []) => format!(
            "{}: there is nothing to compare yet; --along names subjects to compare.",
            match lines {
                [one] => format!("{whose}{}: one kernel", one.row),
                several => format!("{}, each of one kernel", counted(several.len(), "line")),
            }
        ),
        (_, [line]) => format!("{whose}{} over {}", line.row, answer(line)),
        (lines, _) => {
            let all = counted_as(lines.len(), "row", "rows");
            let within = most(lines, false);
            let between = most(lines, true);
            match between {
                None => format!("{whose}{}", rows_that_step(&all, within)),
                Some(_) => format!(
                    "Within a series of kernels, {}. {}, {}.",
                    rows_that_step(&all, within),
                    pairs_of_series(history),
                    rows_that_step(&all, between)
                ),
            }
        }
    }
}

/// How many lines step, and the largest step of all.
fn most(lines: &[HistoryLine], is_between_series: bool) -> Option<(usize, CostStep<'_>)> {
    let steps = lines.iter().filter_map(|line| largest(line, is_between_series));
    let steps: Vec<CostStep<'_>> = steps.collect();
    let count = steps.len();
    let largest = steps.into_iter().max_by(|one, other| one.size().total_cmp(&other.size()));
    largest.map(|step| (count, step))
}

/// `12 of 62 rows step, most of all fstat: +1.22 % at 6.1.0-50 (do_statx +8.00)`.
fn rows_that_step(all: &str, found: Option<(usize, CostStep<'_>)>) -> String {
    match found {
        None => format!("0 of {all} step"),
        Some((count, step)) => {
            let verb = if count == 1 { "steps" } else { "step" };
            format!("{count} of {all} {verb}, most of all {}: {}", step.line.row, step.answer())
        }
    }
}

/// `From 6.1 to 6.12`, `Between series` where there are several such pairs.
fn pairs_of_series(history: &History) -> String {
    let mut pairs: Vec<[(u32, u32); 2]> = history
        .lines
        .iter()
        .flat_map(steps)
        .filter_map(|step| Some([series(&step.base.kernel)?, series(&step.point.kernel)?]))
        .filter(|[from, to]| from != to)
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    match pairs.as_slice() {
        [[from, to]] => format!("From {}.{} to {}.{}", from.0, from.1, to.0, to.1),
        _ => "Between series".to_owned(),
    }
}

/// `12 kernels: 3 steps, the largest +8.10 % at 6.1.0-50 (do_statx +8.00); +8.10 % from 6.1.0 to
/// 6.12.5`.
pub fn answer(line: &HistoryLine) -> String {
    let kernels = counted(line.points.len(), "kernel");
    let found: Vec<CostStep<'_>> = steps(line).collect();
    let largest = found.iter().max_by(|one, other| one.size().total_cmp(&other.size()));
    let steps = match (found.len(), largest) {
        (1, Some(step)) => format!("1 step, {}", step.answer()),
        (count, Some(step)) => format!("{count} steps, the largest {}", step.answer()),
        (_, None) => match largest_detectable(line) {
            None => "no step".to_owned(),
            Some(least) => format!("no step (would have seen {} %)", limit(least)),
        },
    };
    let (first, last) = (line.points.first(), line.points.last());
    let change = first.zip(last).map(|(first, last)| {
        let change = match percent_over(line, first) {
            None => "new".to_owned(),
            change => format!("{} %", percent(change)),
        };
        let [first, last] = [first, last].map(|point| short(line, &point.kernel));
        format!("; {change} from {first} to {last}")
    });
    format!("{kernels}: {steps}{}", change.unwrap_or_default())
}
