use super::details::{details, line_points, step_command};
use super::headline::headline;
use super::levels::picture;
use super::steps::{CostStep, lineages, steps};
use super::table::{common_lineage, kernels, overview};
use crate::view::{Legend, Section, SideLine, View};
use ktax_model::{History, metric};

/// Of more lines a page folds the points away, and a terminal shows them in the history of the row.
const LINES_WITH_POINTS: usize = 6;

/// The answer, a line for each row, the kernels at which rows step, then each point.
pub fn view(history: &History) -> View {
    let is_long = history.lines.len() > LINES_WITH_POINTS;
    let mut sections = Vec::new();
    if history.lines.len() > 1 {
        sections.push(Section::table(overview(history)));
    }
    if is_long {
        sections.push(Section::Table {
            title: "Kernels at which rows step:".to_owned(),
            table: kernels(history),
            notes: Vec::new(),
        });
    } else {
        for lines in lineages(&history.lines) {
            sections.push(picture(history, lines));
            sections.extend(lines.iter().map(|line| line_points(history, line)));
        }
    }
    sections.extend(largest_step(history).map(|step| step_command(history, &step)));
    sections.push(details(history, is_long));
    View {
        title: title(history),
        headline: headline(history),
        sides: Vec::<SideLine>::new(),
        how: how(history),
        sections,
        legend: legend(history),
        ..View::default()
    }
}

fn title(history: &History) -> String {
    let rows: std::collections::BTreeSet<&str> =
        history.lines.iter().map(|line| line.row.as_str()).collect();
    let what = match rows.into_iter().collect::<Vec<_>>().as_slice() {
        [one] => (*one).to_owned(),
        several => format!("{} rows", several.len()),
    };
    match &history.function {
        Some(function) => format!("History of {function} in {what}"),
        None => format!("History of {what}"),
    }
}

fn how(history: &History) -> String {
    let unit = metric(&history.metric).map_or("", |metric| metric.unit);
    let lineage = common_lineage(history).filter(|lineage| !lineage.is_empty());
    let lineage = lineage.map_or(String::new(), |lineage| format!("{lineage} · "));
    let (metric, threshold) = (&history.metric, history.threshold_percent);
    format!("{lineage}{metric} ({unit} per operation) · threshold {threshold} %")
}

/// The largest step within a series, else the largest of all.
fn largest_step(history: &History) -> Option<CostStep<'_>> {
    let all = || history.lines.iter().flat_map(steps);
    let by_size = |one: &CostStep<'_>, other: &CostStep<'_>| one.size().total_cmp(&other.size());
    let within = all().filter(|step| !step.is_between_series()).max_by(by_size);
    within.or_else(|| all().max_by(by_size))
}

fn legend(history: &History) -> Legend {
    let sentence = format!(
        "A row steps where its cost changes by the rule of `ktax compare`, by at least {} %. Each \
         kernel is compared with the anchor, the last kernel at which the cost stepped, so that \
         small changes that add up are a step, too. The size of a step is that to the kernel \
         before it; of small changes that add up it is that to the anchor. Costs are medians over \
         the layouts.",
        history.threshold_percent
    );
    let legend = Legend::of([sentence]).with([
        ("delta %", "the change to the kernel before"),
        ("MDE %", "the smallest change to the kernel before that would have been found"),
    ]);
    match history.lines.len() {
        1 => legend,
        _ => legend.with([
            ("carried most by", "the function with the largest delta at this step"),
            (
                "cost over kernels",
                "a bar for each kernel; full height is the largest change of the row, and at \
                 least 2 %",
            ),
        ]),
    }
}
