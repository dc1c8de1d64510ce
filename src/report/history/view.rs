use super::details::{details, of_line};
use super::headline::headline;
use super::levels::{lineages, picture};
use super::table::{common_lineage, overview};
use crate::model::{History, Verdict, metric};
use crate::report::view::{Legend, Section, SideLine, View};
use crate::text::shell_line;

/// Of more lines a page folds the points away, and a terminal shows them in the history of the row.
const LINES_WITH_POINTS: usize = 6;

/// The answer, a line for each row, then each point, then how to count them again.
pub fn view(history: &History) -> View {
    let mut sections = Vec::new();
    if history.lines.len() > 1 {
        sections.push(Section::table(overview(history)));
    }
    if history.lines.len() <= LINES_WITH_POINTS {
        for lines in lineages(&history.lines) {
            sections.push(picture(history, lines));
            sections.extend(lines.iter().map(|line| of_line(history, line)));
        }
    }
    sections.push(details(history, history.lines.len() > LINES_WITH_POINTS));
    sections.push(why(history));
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
    let of = common_lineage(history).filter(|of| !of.is_empty());
    let of = of.map_or(String::new(), |of| format!("{of} · "));
    let (metric, threshold) = (&history.metric, history.threshold_percent);
    format!("{of}{metric} ({unit} per operation) · threshold {threshold} %")
}

/// The command that says which functions carry the largest step.
fn why(history: &History) -> Section {
    let steps = history.lines.iter().flat_map(|line| {
        line.points.iter().filter_map(move |point| {
            let against = point.against.as_ref().filter(|it| it.verdict == Verdict::Slower)?;
            Some((line, line.points.get(against.anchor)?, point, against.percent.unwrap_or(0.0)))
        })
    });
    let largest = steps.max_by(|one, other| one.3.total_cmp(&other.3));
    let (sentence, command) = match largest {
        None => Default::default(),
        Some((line, anchor, point, _)) => (
            "To see which functions carry the largest step up:".to_owned(),
            shell_line(["ktax", "diff", &anchor.name, &point.name, "-w", &line.row]),
        ),
    };
    Section::Command { sentence, command }
}

fn legend(history: &History) -> Legend {
    let sentence = format!(
        "Each kernel is compared with the anchor, the last kernel at which the cost stepped, by \
         the rule of `ktax compare` with a threshold of {} %. So small changes that add up are a \
         step, too. The cost is the median over the layouts, and delta that of the layout with the \
         median difference: the two need not add up.",
        history.threshold_percent
    );
    match history.lines.len() {
        1 => Legend::of([sentence]),
        _ => Legend::of([sentence])
            .with([("over cheapest", "the last kernel against the one that costs least")]),
    }
}
