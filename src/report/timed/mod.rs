//! Reports of timed pairs.

mod text;

use super::{Format, ReportError, csv, json, number};
use crate::model::{
    Crossing, Facts, Ratio, Side, Sides, TimedComparison, TimedPlan, TimedRow, TimedSubject,
    Warning, fact,
};
use crate::text::{code, csv_cell, markdown};

/// Above a table: `\n` where there is room for it.
const HEADER: [&str; 7] =
    ["workload", "base\nns", "change\nns", "ratio, 95 %", "pairs", "would\nsee %", "verdict"];

/// The report, ending in a newline; of a published shape there is none.
pub fn timed(comparison: &TimedComparison, format: &Format) -> Result<String, ReportError> {
    match format {
        Format::Json => json(comparison),
        Format::Csv => csv::text(&table(comparison)),
        Format::Markdown => Ok(in_markdown(comparison)),
        Format::Text(options) | Format::Shape(_, options) => Ok(text::render(comparison, *options)),
    }
}

/// One row's cells below [`HEADER`].
fn cells(row: &TimedRow) -> [String; 7] {
    let ns = |side: Side| row.ns.get(side).map(number::measured).unwrap_or_default();
    [
        row.row.clone(),
        ns(Side::Base),
        ns(Side::Change),
        row.ratio.map(ratio).unwrap_or_default(),
        row.pairs.to_string(),
        row.would_see_percent.map(number::limit).unwrap_or_default(),
        row.verdict.text().to_owned(),
    ]
}

/// `1.028 (1.024…1.032)`
fn ratio(ratio: Ratio) -> String {
    let high = ratio.high.map_or("∞".to_owned(), |high| format!("{high:.3}"));
    format!("{:.3} ({:.3}…{high})", ratio.estimate, ratio.low)
}

/// What makes a Side what it is.
fn subject(subject: &TimedSubject) -> String {
    if subject.bare_metal {
        return "bare metal".to_owned();
    }
    let mut words: Vec<String> = subject.kernel.iter().cloned().collect();
    words.extend((!subject.boot_line.is_empty()).then(|| subject.boot_line.clone()));
    words.extend(subject.sysctl.iter().map(|(name, value)| format!("{name}={value}")));
    words.extend(subject.thp.iter().map(|thp| format!("thp={thp}")));
    words.extend(subject.governor.iter().map(|governor| format!("governor={governor}")));
    if !subject.prefix.is_empty() {
        let prefix = shlex::try_join(subject.prefix.iter().map(String::as_str));
        words.push(format!("prefix={}", prefix.unwrap_or_else(|_| subject.prefix.join(" "))));
    }
    if words.is_empty() { "as it is".to_owned() } else { words.join(" ") }
}

/// The kernel that answered.
fn kernel(comparison: &TimedComparison, side: Side) -> String {
    comparison.facts.get(side).get(fact::KERNEL).cloned().unwrap_or_default()
}

/// The machine, of guests the one they run on: what is the same on both Sides and changes times.
fn machine(comparison: &TimedComparison) -> String {
    let Sides { base, change } = &comparison.facts;
    let said = |facts: &Facts, name: &str| {
        facts.get(&fact::of_machine(name)).or_else(|| facts.get(name)).cloned()
    };
    let named =
        [fact::CPU, fact::GOVERNOR, fact::THP, fact::CLOCK].into_iter().filter_map(|name| {
            let value = said(base, name).filter(|it| said(change, name).as_ref() == Some(it))?;
            Some(if name == fact::CPU { value } else { format!("{name} {value}") })
        });
    named.map(|fact| format!(" · {fact}")).collect()
}

/// `1 pair`, `2 pairs`
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// How it was measured.
fn how(comparison: &TimedComparison) -> String {
    let TimedPlan { engine, seed, .. } = &comparison.plan;
    let loops = counted(comparison.plan.loops as usize, "loop");
    let (pairs, controls) = (comparison.pairs, comparison.controls);
    if comparison.plan.is_in_blocks() {
        return format!(
            "{} · blocks, each a boot of this machine: {}, {controls} of base and base · {loops} \
             in each process{}",
            engine.name(),
            counted(pairs, "pair"),
            machine(comparison)
        );
    }
    format!(
        "{} · {} and {} of fresh boots, which first by lot (seed {seed}) · {loops} in each{}",
        engine.name(),
        counted(pairs, "pair"),
        counted(controls, "A/A pair"),
        machine(comparison)
    )
}

/// Rows that need a sentence: why they have no verdict, what failed, how the work differed.
fn remarks(comparison: &TimedComparison) -> Vec<String> {
    let mut remarks = Vec::new();
    remarks.extend(comparison.unfit.clone());
    if comparison.plan.is_in_blocks() {
        remarks.push(
            "Blocks cost certainty: whatever changed between two boots looks like the change, and \
             more processes in a boot do not help. A verdict takes ten pairs of neighbours and \
             eight of base and base, 36 boots in the order that `ktax run` draws."
                .to_owned(),
        );
    }
    for row in &comparison.rows {
        let is_of_row = row.why != comparison.unfit;
        if let Some(why) = row.why.as_ref().filter(|_| is_of_row) {
            remarks.push(format!("{}: {}: {why}", row.row, row.verdict.text()));
        }
        remarks.extend(row.failures.iter().map(|failed| {
            let (side, failure) = (failed.side.name(), &failed.failure);
            let next = failure.next_step_of_times(comparison.plan.is_guest(failed.side));
            let boots = counted(failed.boots, "boot");
            format!("{}: {boots} of the {side} failed: {failure}; {next}", row.row)
        }));
    }
    remarks
}

/// Where curves cross.
fn crossings(comparison: &TimedComparison) -> Vec<String> {
    let sentence = |crossing: &Crossing| {
        let Crossing { family, parameter, between: (from, to), at, ratios, certain } = crossing;
        let certain = if *certain { "" } else { ", within what chance does" };
        format!(
            "{family}: the curves cross between {parameter}={from}, {}, and {to}, {}, at about {}\
             {certain}",
            ratio(ratios.0),
            ratio(ratios.1),
            number::measured(*at),
        )
    };
    comparison.crossings.iter().map(sentence).collect()
}

/// What guests keep of bare metal's speed, in percent of it: the inverse of the ratio.
fn of_bare_metal(comparison: &TimedComparison) -> Vec<String> {
    if !comparison.plan.subjects.base.bare_metal {
        return Vec::new();
    }
    let sentence = |row: &TimedRow| {
        let Ratio { estimate, low, high } = row.ratio?;
        let [most, least] = [low, high.unwrap_or(f64::INFINITY)].map(|ratio| 100.0 / ratio);
        let (name, percent) = (&row.row, 100.0 / estimate);
        Some(format!("{name}: {percent:.1} % of bare metal ({least:.1}…{most:.1})"))
    };
    comparison.rows.iter().filter(|row| row.verdict.is_answer()).filter_map(sentence).collect()
}

/// What the A/A pairs said.
fn controls(comparison: &TimedComparison) -> String {
    let one = |row: &TimedRow| Some(format!("{} {}", row.row, ratio(row.control?.ratio)));
    let all: Vec<String> = comparison.rows.iter().filter_map(one).collect();
    match all.is_empty() {
        true => String::new(),
        false => format!("A/A, base against base, 99 %: {}", all.join(", ")),
    }
}

/// Where the variance of the base's times is.
fn variance(comparison: &TimedComparison) -> String {
    let share = |row: &TimedRow| Some(format!("{} {:.0} %", row.row, row.between_boots_percent?));
    let all: Vec<String> = comparison.rows.iter().filter_map(share).collect();
    match all.is_empty() {
        true => String::new(),
        false => format!(
            "Variance between boots, the rest being between the loops of one: {}. Near 0 more \
             loops help as much as more pairs do.",
            all.join(", ")
        ),
    }
}

/// What the columns are.
fn legend(comparison: &TimedComparison) -> String {
    let threshold = comparison.plan.threshold_percent;
    let family = |headline| comparison.rows.iter().filter(|row| row.headline == headline).count();
    let secondary = match family(false) {
        0 => String::new(),
        rows => format!("; {rows} secondary, by Benjamini and Hochberg"),
    };
    format!(
        "ns: median over the boots, each the median of its loops, per operation. ratio: change \
         over base by Hodges and Lehmann, with its signed-rank interval. would see: the smallest \
         change that nine of ten such runs would have found. A verdict takes {threshold} % and, \
         over {} by Holm, 5 %{secondary}.",
        counted(family(true), "headline row")
    )
}

fn in_markdown(comparison: &TimedComparison) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let plan = &comparison.plan;
    let mut out =
        format!("### {}\n\n| side | kernel | what it is |\n|---|---|---|\n", markdown(&plan.title));
    for side in Side::BOTH {
        let kernel = code(&kernel(comparison, side));
        out += &line(&[side.name().to_owned(), kernel, code(&subject(plan.subjects.get(side)))]);
    }
    out += &format!("\n{}\n\n", markdown(&how(comparison)));
    out += &line(&HEADER.map(|name| name.replace('\n', " ")));
    out += "|---|--:|--:|--:|--:|--:|---|\n";
    for row in &comparison.rows {
        let mut cells = cells(row).map(|cell| markdown(&cell));
        cells[0] = code(&row.row);
        out += &line(&cells);
    }
    let warning = |warning: &Warning| format!("{}; {}", warning.fact, warning.next_step);
    let mut items = remarks(comparison);
    items.extend(of_bare_metal(comparison));
    items.extend(crossings(comparison));
    items.push(controls(comparison));
    items.push(variance(comparison));
    items.extend(comparison.warnings.iter().map(warning));
    items.retain(|item| !item.is_empty());
    for item in items {
        out += &format!("\n- {}", markdown(&item));
    }
    out + &format!("\n\n{}\n", markdown(&legend(comparison)))
}

/// Unrounded, one line for each row.
fn table(comparison: &TimedComparison) -> Vec<Vec<String>> {
    let columns = [
        "workload",
        "operation",
        "headline",
        "verdict",
        "base_ns",
        "change_ns",
        "ratio",
        "ratio_low",
        "ratio_high",
        "pairs",
        "family",
        "p_adjusted",
        "would_see_percent",
        "controls",
        "why",
    ];
    let mut lines = vec![columns.map(str::to_owned).to_vec()];
    for row in &comparison.rows {
        let number = |value: Option<f64>| value.map(|it| it.to_string()).unwrap_or_default();
        let ratio = |part: fn(Ratio) -> Option<f64>| number(row.ratio.and_then(part));
        lines.push(vec![
            csv_cell(&row.row),
            csv_cell(&row.operation),
            row.headline.to_string(),
            row.verdict.text().to_owned(),
            number(row.ns.base),
            number(row.ns.change),
            ratio(|it| Some(it.estimate)),
            ratio(|it| Some(it.low)),
            ratio(|it| it.high),
            row.pairs.to_string(),
            row.family.to_string(),
            row.p_adjusted.to_string(),
            number(row.would_see_percent),
            row.control.map_or(0, |control| control.pairs).to_string(),
            csv_cell(row.why.as_deref().unwrap_or_default()),
        ]);
    }
    lines
}
