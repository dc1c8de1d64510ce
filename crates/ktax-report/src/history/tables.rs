//! Tables of a history: the overview, the kernels, the points of a line, folded details.

use crate::history::answer;
use crate::history::steps::{
    CostStep, by_size, largest, largest_detectable, levels_picture, short, sparkline, steps,
};
use crate::view::{Cell, Kind, Line, RowDetail, Section, Table};
use crate::{number, words};
use ktax_host::text::shell_line;
use ktax_model::{History, HistoryLine, HistoryPoint, Verdict};

/// Table of where each line steps most, by how much and in which functions; the largest step first.
pub fn overview(history: &History) -> Table {
    let has_series = history.lines.iter().any(|line| largest(line, true).is_some());
    let from_to_head = format!("first → last\n{}", words::unit(&history.metric));
    let between_head = "between\nseries %";
    let columns = [
        ("workload", Kind::Row),
        ("of", Kind::Words),
        (if has_series { "largest step\nin a series" } else { "largest step\nat" }, Kind::Name),
        ("step\n%", Kind::Number),
        ("MDE\n%", Kind::Number),
        ("carried most by", Kind::Name),
        (between_head, Kind::Number),
        ("steps", Kind::Number),
        ("cost over kernels", Kind::Name),
        (&*from_to_head, Kind::Number),
        ("verdict", Kind::Verdict),
    ];
    let groups = by_size(history);
    let lines = groups.iter().enumerate().flat_map(|(group, lines)| {
        lines.iter().map(move |line| Line { leads_to: Some(group), ..overview_line(line) })
    });
    let gives_way = [9, 8, 7, 10, 5].map(|column| vec![column]).to_vec();
    let table = Table { gives_way, extra: vec![7, 8, 9], ..Table::new(columns) }.with(lines);
    let mut left_out = Vec::new();
    left_out.extend(common_lineage(history).map(|_| 1));
    let has_functions =
        |line: &HistoryLine| steps(line).any(|step| !step.point.functions.is_empty());
    left_out.extend((!history.lines.iter().any(has_functions)).then_some(5));
    left_out.extend((!has_series).then_some(6));
    table.without(&left_out)
}

fn overview_line(line: &HistoryLine) -> Line {
    let within = largest(line, false);
    let between = largest(line, true);
    let has_several = line.points.len() > 1;
    let percent = |step: Option<CostStep<'_>>| step.map(|step| number::percent(step.percent));
    let detectable = match within {
        Some(step) => step.detectable_percent,
        None => largest_detectable(line),
    };
    let place = |step: CostStep<'_>| short(line, &step.point.kernel).to_owned();
    let none = || if has_several { "none".to_owned() } else { String::new() };
    let shown = within.or(between);
    Line::new([
        line.row.clone(),
        line.lineage.clone(),
        within.map_or_else(none, place),
        percent(within).unwrap_or_default(),
        detectable.map(number::limit).unwrap_or_default(),
        shown.map(|step| step.carried_by(1)).unwrap_or_default(),
        percent(between).unwrap_or_default(),
        steps(line).count().to_string(),
        sparkline(line),
        from_to(line),
    ])
    .and(match (shown, has_several) {
        (Some(step), _) => Cell::verdict(step.verdict, ""),
        (None, true) => Cell::verdict(Verdict::NoDetectedChange, ""),
        (None, false) => Cell::default(),
    })
}

/// Table of how many rows step at each kernel, and which steps most.
pub fn kernels_table(history: &History) -> Table {
    let columns = [
        ("kernel", Kind::Name),
        ("rows\nslower", Kind::Number),
        ("rows\nfaster", Kind::Number),
        ("largest step", Kind::Row),
        ("step\n%", Kind::Number),
        ("carried most by", Kind::Name),
    ];
    let mut all: Vec<CostStep<'_>> = history.lines.iter().flat_map(steps).collect();
    let has_functions = all.iter().any(|step| !step.point.functions.is_empty());
    let key = |step: &CostStep<'_>| (step.line.lineage.clone(), step.point.place);
    all.sort_by_key(key);
    let lines = all.chunk_by(|one, other| key(one) == key(other)).map(|steps| {
        let count = |verdict| steps.iter().filter(|step| step.verdict == verdict).count();
        let most = steps.iter().max_by(|one, other| one.size().total_cmp(&other.size()));
        let most = most.unwrap_or(&steps[0]);
        Line::new([
            most.point.kernel.clone(),
            count(Verdict::Slower).to_string(),
            count(Verdict::Faster).to_string(),
            most.line.row.clone(),
            number::percent(most.percent),
            most.carried_by(1),
        ])
    });
    let gives_way = vec![vec![5], vec![1, 2]];
    let table = Table { gives_way, wraps: 3, ..Table::new(columns) }.with(lines);
    if has_functions { table } else { table.without(&[5]) }
}

/// Returns the lineage of all lines, if it is one.
pub fn common_lineage(history: &History) -> Option<&str> {
    let first = history.lines.first()?.lineage.as_str();
    history.lines.iter().all(|line| line.lineage == first).then_some(first)
}

fn from_to(line: &HistoryLine) -> String {
    let cost = |point: &HistoryPoint| number::count(point.cost(line.ops));
    match line.points.as_slice() {
        [] => String::new(),
        [one] => cost(one),
        [first, .., last] => format!("{} → {}", cost(first), cost(last)),
    }
}

/// Table of the points of a line: cost, distance from the kernel before and from the anchor.
fn points_table(history: &History, line: &HistoryLine) -> Table {
    let unit = words::unit(&history.metric);
    let cost = format!("cost\n{unit}");
    let columns = [
        ("kernel", Kind::Name),
        ("tags", Kind::Words),
        (cost.trim_end(), Kind::Number),
        ("delta %", Kind::Number),
        ("MDE\n%", Kind::Number),
        ("to the\nanchor %", Kind::Number),
        ("anchor", Kind::Name),
        ("carried most by", Kind::Name),
        ("verdict", Kind::Verdict),
    ];
    let lines = line.points.iter().map(|point| {
        let (against, before) = (point.against.as_ref(), point.before.as_ref());
        let anchor = against.and_then(|against| line.points.get(against.anchor));
        let step = steps(line).find(|step| step.point.place == point.place);
        Line::new([
            point.kernel.clone(),
            point.tags.join(", "),
            number::count(point.cost(line.ops)),
            before.map_or(String::new(), |before| number::percent(before.percent)),
            before
                .and_then(|before| before.detectable_percent)
                .map(number::limit)
                .unwrap_or_default(),
            against.map_or(String::new(), |against| number::percent(against.percent)),
            anchor.map_or("", |anchor| short(line, &anchor.kernel)).to_owned(),
            step.map(|step| step.carried_by(1)).unwrap_or_default(),
        ])
        .and(against.map_or_else(Cell::default, |against| Cell::verdict(against.verdict, "")))
    });
    let gives_way = [6, 5, 7, 1, 4].map(|column| vec![column]).to_vec();
    let table = Table { gives_way, extra: vec![5, 6, 7], ..Table::new(columns) }.with(lines);
    let has_tags = line.points.iter().any(|point: &HistoryPoint| !point.tags.is_empty());
    let has_functions = line.points.iter().any(|point| !point.functions.is_empty());
    let mut left_out = Vec::new();
    left_out.extend((!has_tags).then_some(1));
    left_out.extend((!has_functions).then_some(7));
    table.without(&left_out)
}

/// Details for each row and lineage, in the order of the overview; of few lines the points stand on
/// the page already.
pub fn details(history: &History, has_points: bool) -> Section {
    let detail = |lines: &[HistoryLine]| {
        let mut sections = Vec::new();
        if has_points {
            sections.push(levels_picture(history, lines));
            sections.extend(lines.iter().map(|line| line_points(history, line)));
        }
        sections.extend(lines.iter().flat_map(|line| step_commands(history, line)));
        sections.extend(lines.iter().map(|line| kernel_commands(history, line)));
        sections.retain(|section| !section.is_empty());
        let longest = lines.iter().max_by_key(|line| line.points.len());
        RowDetail {
            row: line_name(&lines[0]),
            answer: longest.map(answer).unwrap_or_default(),
            verdict: longest.map(line_verdict).unwrap_or_default(),
            sections,
            again: Vec::new(),
        }
    };
    let rows = by_size(history).into_iter().map(detail).collect();
    Section::Rows { rows, how: String::new() }
}

/// Verdict of the largest step; `no detected change` without a step, and empty of one kernel.
fn line_verdict(line: &HistoryLine) -> Cell {
    match largest(line, false).or_else(|| largest(line, true)) {
        Some(step) => Cell::verdict(step.verdict, ""),
        None if line.points.len() > 1 => Cell::verdict(Verdict::NoDetectedChange, ""),
        None => Cell::default(),
    }
}

/// Section of the points of a line, below its name.
pub fn line_points(history: &History, line: &HistoryLine) -> Section {
    Section::Table {
        title: format!("{}:", line_name(line)),
        table: points_table(history, line),
        notes: vec![format!("Measured with {}.", line.measured)],
    }
}

fn line_name(line: &HistoryLine) -> String {
    let lineage = if line.lineage.is_empty() { "" } else { " · " };
    format!("{}{lineage}{}", line.row, line.lineage)
}

/// Section with the command that shows all functions of a step: whoever has the kernels' packages
/// measures again, else it asks the store.
pub fn step_command(history: &History, step: &CostStep<'_>) -> Section {
    let words =
        ktax_plan::history_step_again(step.line, step.base, step.point, history.threshold_percent);
    let words = match words.is_empty() {
        false => words,
        true => {
            let words = ["ktax", "diff", &step.base.name, &step.point.name, "-w", &step.line.row];
            words.map(str::to_owned).to_vec()
        }
    };
    let [from, to] = [step.base, step.point].map(|point| short(step.line, &point.kernel));
    let functions = match step.carried_by(5) {
        functions if functions.is_empty() => functions,
        functions => format!(", carried most by {functions}"),
    };
    Section::Again {
        sentence: format!(
            "{} → {}: {}{functions}. To see all functions of this step:",
            from,
            to,
            step.shown_percent()
        ),
        words,
    }
}

fn step_commands<'a>(
    history: &'a History,
    line: &'a HistoryLine,
) -> impl Iterator<Item = Section> + 'a {
    steps(line).map(|step| step_command(history, &step))
}

/// Folded commands, one for each kernel but the first: it counts that kernel and the one before it.
fn kernel_commands(history: &History, line: &HistoryLine) -> Section {
    let command = |pair: &[ktax_model::HistoryPoint]| {
        let words =
            ktax_plan::history_step_again(line, &pair[0], &pair[1], history.threshold_percent);
        let shown = |words: Vec<String>| Line::new([pair[1].kernel.clone(), shell_line(words)]);
        (!words.is_empty()).then(|| shown(words))
    };
    let columns = [("kernel", Kind::Name), ("command", Kind::Name)];
    let table = Table::new(columns).with(line.points.windows(2).filter_map(command));
    if table.lines.is_empty() {
        return Section::Sentences(Vec::new());
    }
    let shown = shell_line(ktax_plan::history_again(history, line));
    Section::Folded {
        summary: "Commands that count each kernel again".to_owned(),
        sections: vec![Section::Table {
            title: String::new(),
            table,
            notes: vec![format!(
                "Each command compares a kernel with the one before it, from packages of Debian. \
                 After all of them, `{shown}` prints these numbers from the store."
            )],
        }],
    }
}
