//! Texts that several reports share: the machine, the verdict of a row, the headline of a
//! comparison, terms of legends.

use std::collections::BTreeMap;

use crate::view::Cell;
use crate::{effect, number};
use ktax_host::text::counted;
use ktax_model::{
    AWAITED, CONTENDED_QUANTUM, CountsComparison, Disk, Growth, GrowthPower, Key, MAKESPAN,
    METRICS, QUANTUM, Row, SPIN_WAIT, TRANSFERS, UserProgram, Verdict, metric,
    module_and_parameters,
};
use ktax_stats::exact::MIN_LAYOUTS;

/// Describes the machine of counts: `exact · QEMU 7.2.22 · pc-q35-7.2 · max · 512 MiB · 5 layouts`.
pub fn machine(key: &Key, layouts: usize) -> String {
    let machine = &key.machine;
    let mut words = vec![
        key.engine.clone(),
        format!("QEMU {}", key.qemu),
        key.machine_type.clone(),
        machine.cpu.clone(),
        format!("{} MiB", number::whole(machine.memory_mib.into())),
    ];
    if machine.cpus > 1 {
        words.push(format!("{} CPUs", machine.cpus));
        words.push(quantum(machine.quantum));
    }
    words.extend(machine.model.as_ref().map(|model| format!("model {}", model.name())));
    if !key.modules.is_empty() {
        let names = key.modules.iter().map(|module| module_and_parameters(module).0);
        let names: Vec<&str> = names.collect();
        words.push(format!("modules {}", names.join(", ")));
    }
    words.push(counted(layouts, "layout"));
    words.join(" · ")
}

/// Lists the deltas of Metrics: `+2.00 cr3-write, +1.00 verw`.
pub fn deltas(deltas: &BTreeMap<String, f64>) -> String {
    let delta_text = |(name, delta): (&String, &f64)| format!("{} {name}", number::delta(*delta));
    deltas.iter().map(delta_text).collect::<Vec<_>>().join(", ")
}

/// Names the requested quantum, `quantum 500`, or the two defaults.
fn quantum(requested: Option<u32>) -> String {
    let shown = |quantum: u32| number::whole(quantum.into());
    match requested {
        Some(quantum) => format!("quantum {}", shown(quantum)),
        None => format!("quantum {}, contended {}", shown(QUANTUM), shown(CONTENDED_QUANTUM)),
    }
}

/// Describes the machine of counts, its disk, and the crc32c implementation of the filesystem.
pub fn counts_header(counts: &CountsComparison) -> String {
    let disk = counts.asked.guest.disk.as_ref().map(|disk| {
        let Disk { fs, mib, device, .. } = disk;
        match fs == Disk::OVERLAY {
            true => " · disk overlay on tmpfs".to_owned(),
            false => {
                format!(" · disk {fs}, {} MiB on {}", number::whole((*mib).into()), device.name())
            }
        }
    });
    let crc32c = match counts.crc32c.is_empty() {
        true => String::new(),
        false => format!(" · crc32c by {}", counts.crc32c.join(", ")),
    };
    machine(&counts.key, counts.layouts) + &disk.unwrap_or_default() + &crc32c
}

/// Returns the unit of a Metric for the head of a column: `insn`; empty for an unknown Metric.
pub fn unit(name: &str) -> &'static str {
    match metric(name).map_or("", |metric| metric.unit) {
        "instructions" => "insn",
        other => other,
    }
}

/// Returns a sentence for each row of the user's programs: which command it runs.
pub fn programs(rows: &[Row]) -> impl Iterator<Item = String> + '_ {
    let programs = rows.iter().filter(|row| UserProgram::is_program_row(&row.row));
    programs.filter_map(|row| match row.computed_from() {
        None => Some(format!("{} runs {}.", row.row, row.title)),
        Some(_) if row.row.ends_with(UserProgram::START) => None,
        Some([small, large]) => Some(format!(
            "{0} is the cost of one more operation, from {small} and {large}; {0}{1} is the cost \
             of starting the program.",
            row.row,
            UserProgram::START
        )),
    })
}

/// Terms of the columns of a comparison over layouts.
pub fn over_layouts(threshold_percent: f64, layouts: usize) -> Vec<(&'static str, String)> {
    let mut terms = vec![
        ("delta %", "delta in percent of base".to_owned()),
        ("range %", "the smallest and the largest delta over all layouts".to_owned()),
    ];
    terms.extend(detectable(layouts));
    terms.extend(verdicts(threshold_percent));
    terms
}

/// Term that explains the verdicts `slower` and `faster` over layouts; `None` without a threshold.
pub fn verdicts(threshold_percent: f64) -> Option<(&'static str, String)> {
    let meaning = format!(
        "slower or faster: by at least {threshold_percent} %, and the gap between the sides \
         exceeds each side's range over layouts"
    );
    (threshold_percent > 0.0).then_some(("verdict", meaning))
}

/// Term for a verdict that REP iterations decide.
pub const BY_REP: (&str, &str) = (
    "(REP)",
    "the repeats of string instructions decide; the instructions are neither slower nor faster",
);

/// Term for a verdict that kernel threads decide.
pub const BY_AWAITED: (&str, &str) = (
    "(kernel threads)",
    "the kernel threads that the row waits for decide; the instructions of the process are neither \
     slower nor faster",
);

/// Terms of the MDE column of a comparison over this number of layouts.
pub fn detectable(layouts: usize) -> Vec<(&'static str, String)> {
    let meaning = format!("{MDE}: the smallest change that would have been slower or faster");
    let none_term = (layouts < MIN_LAYOUTS).then(|| {
        format!("a verdict needs {MIN_LAYOUTS} layouts: with fewer, no change of any size gets one")
    });
    [("MDE %", meaning)].into_iter().chain(none_term.map(|why| ("none", why))).collect()
}

/// Long form of the abbreviation MDE.
pub const MDE: &str = "minimum detectable effect";

/// Describes how a cost grows with a parameter: `fork-pages, base: O(pages). …`.
pub fn growth(growth: &Growth) -> String {
    let Growth { family, parameter, order, from, points, because, .. } = growth;
    let side = growth.side.map_or(String::new(), |side| format!(", {}", side.name()));
    let under = match growth.layouts {
        0 => String::new(),
        layouts => format!(" under {}", counted(layouts, "layout")),
    };
    let rows = format!("the {points} rows from {from} on{under}");
    let how = match growth.power {
        Some(GrowthPower { exponent, interval: (low, high) }) => {
            let [exponent, low, high] = [exponent, low, high].map(number::power);
            format!(
                "The cost above the cost at {parameter}=0 grows with {parameter}^{exponent} \
                 ({low}…{high}), fitted to {rows}."
            )
        }
        None => {
            let (least, most) = growth.beyond_percent;
            format!(
                "In {rows} the cost is {least:+.2} to {most:+.2} % above the cost at \
                 {parameter}=0."
            )
        }
    };
    format!("{family}{side}: {order}. {how} {because}")
}

/// Metric of REP iterations in process context.
pub const REP: &str = "rep-iterations";

/// Returns the cell with a row's Verdict: `slower (REP)` if REP iterations decided, `faster, REP
/// slower` if instructions decided and REP iterations changed in the other direction.
pub fn verdict_cell(row: &Row) -> Cell {
    let rep = row.effect(REP);
    let decided_by = row.counts().map_or("", |counts| &counts.decided_by);
    let headline = row.effects().first().map_or("", |effect| &effect.metric);
    if headline == MAKESPAN && decided_by == METRICS[0].name && row.verdict.is_change() {
        return Cell::verdict(row.verdict, " (instructions)");
    }
    decided_cell(row.verdict, decided_by, rep.map(|rep| rep.verdict))
}

pub fn decided_cell(verdict: Verdict, decided_by: &str, rep: Option<Verdict>) -> Cell {
    match rep {
        _ if decided_by == REP => Cell::verdict(verdict, " (REP)"),
        _ if decided_by == SPIN_WAIT && verdict.is_change() => {
            Cell::verdict(verdict, " (spin-wait)")
        }
        _ if decided_by == AWAITED && verdict.is_change() => {
            Cell::verdict(verdict, " (kernel threads)")
        }
        _ if decided_by == TRANSFERS && verdict.is_change() => {
            Cell::verdict(verdict, " (transfers)")
        }
        Some(rep) if rep.is_change() && verdict.is_change() && rep != verdict => {
            Cell::verdict(verdict, &format!(", REP {}", rep.text()))
        }
        _ => Cell::verdict(verdict, ""),
    }
}

pub fn is_by_rep(row: &Row) -> bool {
    is_by(row, REP)
}

pub fn is_by(row: &Row, metric: &str) -> bool {
    row.counts().is_some_and(|counts| counts.decided_by == metric)
}

/// Verdicts, in the order in which a headline lists them.
const VERDICTS: [Verdict; 8] = [
    Verdict::Slower,
    Verdict::Faster,
    Verdict::Failed,
    Verdict::DifferentWork,
    Verdict::TooFewBoots,
    Verdict::Inconclusive,
    Verdict::BelowThreshold,
    Verdict::NoDetectedChange,
];

/// Headline of a comparison: `14 of 42 rows slower (worst write-1 +24.00 %), 1 faster, 27 unchanged
/// (would have seen 0.10 to 3.50 %)`, or the name and the answer of a single row. Secondary rows
/// have a count of their own. Rows that only one side has are not counted.
pub fn headline(rows: &[Row]) -> String {
    let compared = rows.iter().filter(|row| row.verdict != Verdict::OneSide);
    let (deciding, secondary): (Vec<&Row>, Vec<&Row>) = compared.partition(|row| row.headline);
    match (tally(&deciding, "row"), tally(&secondary, "secondary row")) {
        (rows, secondary) if secondary.is_empty() => rows,
        (rows, secondary) if rows.is_empty() => secondary,
        (rows, secondary) => format!("{rows}; {secondary}"),
    }
}

fn tally(rows: &[&Row], what: &str) -> String {
    if let [row] = rows {
        return format!("{}: {}", row.row, verdict_words(row.verdict, rows, true));
    }
    let with_verdict = |verdict| -> Vec<&Row> {
        rows.iter().copied().filter(|row| row.verdict == verdict).collect()
    };
    let by_verdict = VERDICTS.map(|verdict| (verdict, with_verdict(verdict))).into_iter();
    let by_verdict = by_verdict.filter(|(_, rows)| !rows.is_empty());
    let all = counted(rows.len(), what);
    let parts = by_verdict.enumerate().map(|(index, (verdict, rows))| {
        let total = if index == 0 { format!(" of {all}") } else { String::new() };
        format!("{}{total} {}", rows.len(), verdict_words(verdict, &rows, false))
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// Returns the verdict of these rows and its details. `is_named` is true if the sentence has the
/// row's name already.
fn verdict_words(verdict: Verdict, rows: &[&Row], is_named: bool) -> String {
    let (word, detail) = match verdict {
        Verdict::Slower => ("slower", extremes("worst ", rows, 1.0, is_named)),
        Verdict::Faster => {
            ("faster", join_details(extremes("best ", rows, -1.0, is_named), rep_slower(rows)))
        }
        Verdict::NoDetectedChange => ("unchanged", detectable_range(rows)),
        other => (other.text(), None),
    };
    match detail {
        Some(detail) => format!("{word} ({detail})"),
        None => word.to_owned(),
    }
}

/// Names the rows that changed most in the direction of `sign`: one by instructions and one by REP
/// iterations, because the two units are not comparable.
fn extremes(which: &str, rows: &[&Row], sign: f64, is_named: bool) -> Option<String> {
    let (rep, instructions): (Vec<&Row>, Vec<&Row>) =
        rows.iter().copied().partition(|row| is_by_rep(row));
    // Rows that a model decided are named only if no counts decided a row.
    let is_modelled =
        |row: &&Row| row.deciding_effect().is_some_and(|effect| effect.metric == TRANSFERS);
    let (modelled, counted): (Vec<&Row>, Vec<&Row>) =
        instructions.into_iter().partition(is_modelled);
    let instructions = if counted.is_empty() { modelled } else { counted };
    let which = if rows.len() == 1 { "" } else { which };
    let by_instructions = extreme(which, &instructions, sign, is_named);
    let which = if by_instructions.is_some() { "" } else { which };
    join_details(by_instructions, extreme(which, &rep, sign, is_named))
}

/// Names the row that changed most in the direction of `sign`; `None` without rows.
fn extreme(which: &str, rows: &[&Row], sign: f64, is_named: bool) -> Option<String> {
    // A new cost has no percentage; it counts as larger than any percentage.
    let size = |row: &Row| row_percent(row).map_or(f64::INFINITY, |percent| sign * percent);
    let row = rows.iter().copied().max_by(|one, other| size(one).total_cmp(&size(other)))?;
    let unit = match row.deciding_effect().map_or("", |effect| &effect.metric) {
        REP => " REP iterations",
        MAKESPAN => " makespan",
        SPIN_WAIT => " spin-wait",
        TRANSFERS => " model transfers",
        _ => "",
    };
    let changed = match row_percent(row) {
        None => format!("new{unit}"),
        percent => format!("{} %{unit}", number::percent(percent)),
    };
    Some(if is_named { changed } else { format!("{which}{} {changed}", row.row) })
}

/// Counts the faster rows that have more REP iterations, because the exit status counts these as
/// slower.
fn rep_slower(rows: &[&Row]) -> Option<String> {
    let is_rep_slower = |row: &&&Row| {
        let rep = row.effect(REP);
        rep.is_some_and(|rep| rep.verdict == Verdict::Slower)
    };
    match rows.iter().filter(is_rep_slower).count() {
        0 => None,
        _ if rows.len() == 1 => Some("REP slower".to_owned()),
        count => Some(format!("{count} with REP slower")),
    }
}

fn join_details(first: Option<String>, second: Option<String>) -> Option<String> {
    let details: Vec<String> = first.into_iter().chain(second).collect();
    (!details.is_empty()).then(|| details.join(", "))
}

/// Formats the range of the MDE over these rows; `None` if no row has an MDE.
fn detectable_range(rows: &[&Row]) -> Option<String> {
    let percents: Vec<f64> = rows.iter().filter_map(|row| row_detectable_percent(row)).collect();
    let min = percents.iter().copied().reduce(f64::min)?;
    let max = percents.iter().copied().reduce(f64::max)?;
    let shown = |percent: f64| match percent {
        0.0 => "0".to_owned(),
        percent => number::limit(percent),
    };
    Some(match (shown(min), shown(max)) {
        (_, max) if max == "0" => "would have seen any change".to_owned(),
        (min, max) if min == max => format!("would have seen {max} %"),
        (min, max) => format!("would have seen {min} to {max} %"),
    })
}

/// Returns the change of a row by the deciding Metric, in percent.
fn row_percent(row: &Row) -> Option<f64> {
    match row.times() {
        Some(times) => times.ratio.map(|ratio| (ratio.estimate - 1.0) * 100.0),
        None => row.deciding_effect()?.percent,
    }
}

fn row_detectable_percent(row: &Row) -> Option<f64> {
    match row.times() {
        Some(times) => times.detectable_percent,
        None => row.effects().first().and_then(effect::detectable_percent),
    }
}
