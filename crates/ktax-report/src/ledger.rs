//! Report of a ledger: several additions to one base, ranked by their costs.

mod tables;

use std::collections::BTreeSet;

use crate::ledger::tables::is_change;
use crate::view::{Fields, Legend, Records, Report, Section, SideLine, Value, View};
use crate::{guests, number, words};
use ktax_host::text::counted;
use ktax_model::{
    CYCLES, Estimate, LedgerCost, LedgerCosts, LedgerEntry, LedgerMethod, LedgerRow, LedgerTable,
    LowHigh, METRICS, OpenEnd, SavedResult, Verdict, Warning,
};
use ktax_stats::exact::MIN_LAYOUTS;

impl Report for LedgerTable {
    fn view(&self) -> View {
        let section = match &self.method {
            LedgerMethod::Counts { .. } => tables::counts_section,
            LedgerMethod::Guests(_) => tables::guests_section,
        };
        let already_on = self
            .already_on
            .iter()
            .map(|addition| format!("{}: {}", addition.addition, addition.text()));
        let not_built = self.not_built.iter().map(|(row, why)| format!("{row}: {why}"));
        let matrix = Some(tables::matrix(self)).filter(|matrix| !matrix.is_empty());
        let mut sections: Vec<Section> = matrix.into_iter().collect();
        sections.extend(self.rows.iter().map(section));
        sections.push(Section::Items {
            title: "Additions that this kernel has already:".to_owned(),
            items: already_on.collect(),
        });
        sections.push(Section::Items {
            title: "Additions that could not be built:".to_owned(),
            items: not_built.collect(),
        });
        sections.push(Section::Sentences(next_step(self).into_iter().collect()));
        View {
            title: self.title.clone(),
            headline: headline(self).join(" "),
            sides: sides(&self.method),
            side_heads: match &self.method {
                LedgerMethod::Counts { .. } => ["kernel", "boot line"],
                LedgerMethod::Guests(_) => guests::HEADS,
            },
            how: match &self.method {
                LedgerMethod::Counts { key, .. } => words::machine(key, self.layouts),
                LedgerMethod::Guests(plan) => guests::how(plan),
            },
            again: self.again.clone(),
            legend: legend(self, &sections),
            sections,
            warnings: warnings(&self.warnings),
            ..View::default()
        }
    }

    fn records(&self) -> Records {
        let lines: Vec<RecordLine<'_>> = self.rows.iter().flat_map(record_lines).collect();
        let mut records = match &self.method {
            LedgerMethod::Counts { .. } => counts_records(&lines),
            LedgerMethod::Guests(_) => tables::guests_records(&lines),
        };
        let last = records.header.len() - 1;
        for (name, why) in &self.not_built {
            let mut line = vec![Value::Empty; last + 1];
            (line[1], line[last]) = (name.into(), format!("not built: {why}").into());
            records.lines.push(line);
        }
        records
    }

    fn result(&self) -> SavedResult {
        SavedResult::Ledger(Box::new(self.clone()))
    }
}

fn next_step(ledger: &LedgerTable) -> Option<String> {
    let mut entries = ledger.rows.iter().flat_map(|row| row.entries.iter().chain(&row.combination));
    entries
        .any(|entry| entry.verdict == Verdict::Failed)
        .then(|| "To see why a row failed, run `ktax report DIR/ADDED`.".to_owned())
}

fn sides(method: &LedgerMethod) -> Vec<SideLine> {
    match method {
        LedgerMethod::Counts { base: (name, settings), .. } => {
            vec![SideLine { side: "base", name: name.clone(), settings: settings.clone() }]
        }
        LedgerMethod::Guests(plan) => guests::sides(plan),
    }
}

/// Merges equal warnings. The fact begins with the names of the additions that have the warning.
fn warnings(all: &[(String, Warning)]) -> Vec<Warning> {
    let mut grouped: Vec<(Vec<&str>, &Warning)> = Vec::new();
    for (name, warning) in all {
        match grouped.iter_mut().find(|(_, known)| *known == warning) {
            Some((names, _)) => names.push(name),
            None => grouped.push((vec![name], warning)),
        }
    }
    let merged = |(names, warning): (Vec<&str>, &Warning)| Warning {
        fact: format!("{}: {}", names.join(", "), warning.fact),
        next_step: warning.next_step.clone(),
    };
    grouped.into_iter().map(merged).collect()
}

const ONE_BY_ONE: &str = "Each addition is added to the base without the others.";

/// Legend of the terms that occur in these sections.
fn legend(ledger: &LedgerTable, sections: &[Section]) -> Legend {
    let method_legend = match &ledger.method {
        LedgerMethod::Counts { .. } => counts_legend(tables::estimated_machine(ledger), sections),
        LedgerMethod::Guests(_) => guests_legend(sections),
    };
    let verdicts = ledger.threshold_percent.and_then(words::verdicts);
    let mut legend = method_legend
        .with_terms(words::detectable(ledger.layouts))
        .with_terms(verdicts)
        .with_terms([words::BY_REP]);
    legend.terms.retain(|(term, _)| sections.iter().any(|section| section_has(section, term)));
    legend
}

/// Tells whether a term is the title of a table, the head of a column, or in a cell.
fn section_has(section: &Section, term: &str) -> bool {
    let Section::Table { title, table, .. } = section else { return false };
    let mut cells = table.lines.iter().flat_map(|line| &line.cells);
    title == term
        || table.columns.iter().any(|column| column.head == term)
        || cells.any(|cell| cell.text == term || cell.text.ends_with(&format!(" {term}")))
}

fn has_cell(section: &Section, is_wanted: fn(&str) -> bool) -> bool {
    let Section::Table { table, .. } = section else { return false };
    table.lines.iter().flat_map(|line| &line.cells).any(|cell| is_wanted(&cell.text))
}

fn counts_legend(machine: Option<&Estimate>, sections: &[Section]) -> Legend {
    let cycles = machine.map(|estimate| cycles_meaning(estimate, sections)).unwrap_or_default();
    let has_matrix = sections.iter().any(|section| section_has(section, tables::CYCLES_TITLE));
    let in_row = match has_matrix {
        true => "the estimated cycles % of this row, even if no count changed".to_owned(),
        false => cycles.clone(),
    };
    Legend::new([
        "delta: instructions per operation in process context, minus the base's, counted exactly; \
         they are not time.",
        ONE_BY_ONE,
    ])
    .with_terms([
        (tables::CYCLES_TITLE, format!("{cycles}; -: no count changed")),
        ("cycles %", in_row),
        (
            tables::INSTRUCTIONS_TITLE,
            "delta of the instructions in percent of the base, without the cost of REP iterations \
             and costly instructions; -: no count changed"
                .to_owned(),
        ),
        ("delta %", "delta in percent of the base's instructions".to_owned()),
        (
            "REP",
            "iterations of string instructions per operation, minus the base's; an iteration is \
             not an instruction"
                .to_owned(),
        ),
    ])
}

/// Meaning of the column of cycles, with the machine and the marks that occur in its cells.
fn cycles_meaning(estimate: &Estimate, sections: &[Section]) -> String {
    let Estimate { cpu, machine, .. } = estimate;
    let mut text = format!(
        "delta of {CYCLES} in percent of the base: estimated for {cpu} (machine {machine}), not \
         measured; no verdict rests on it"
    );
    let has_mark =
        |is_marked: fn(&str) -> bool| sections.iter().any(|section| has_cell(section, is_marked));
    if has_mark(|text| text.starts_with(tables::AT_LEAST)) {
        text += "; ≥: plus costly instructions that were not timed on that machine";
    }
    if has_mark(|text| text.starts_with(tables::AT_MOST)) {
        text += "; ≤: minus costly instructions that were not timed on that machine";
    }
    if has_mark(|text| text.ends_with(tables::LEFT_OUT)) {
        text += "; *: plus and minus such instructions";
    }
    text
}

fn guests_legend(sections: &[Section]) -> Legend {
    const TIME: &str = "delta of the time in percent of the base";
    let delta = match sections.iter().any(|section| section_has(section, tables::TIME_TITLE)) {
        true => "delta of the time in percent of the base, for any verdict",
        false => TIME,
    };
    Legend::new([
        "The time is of all vCPUs, in the guest and out of it. 1 µs is 1 000 instructions of \
         the host's one CPU: the host counts instructions, not time.",
        ONE_BY_ONE,
    ])
    .with_terms([
        (tables::TIME_TITLE, format!("{TIME}; -: neither slower nor faster")),
        ("delta %", delta.to_owned()),
        (
            "exits",
            "count of exits minus the base's, in the layout with the median delta; then by reason"
                .to_owned(),
        ),
    ])
}

/// Line of the records: costs of an addition in a row, or of all additions together.
#[derive(Clone, Copy)]
pub struct RecordLine<'a> {
    pub row: &'a LedgerRow,
    pub entry: &'a LedgerEntry,
    pub costs: Option<&'a LedgerCosts>,
    is_together: bool,
}

fn record_lines(row: &LedgerRow) -> impl Iterator<Item = RecordLine<'_>> {
    let line = move |entry, is_together| RecordLine {
        row,
        entry,
        costs: tables::measured_costs(entry),
        is_together,
    };
    let one_by_one = row.entries.iter().map(move |entry| line(entry, false));
    one_by_one.chain(row.combination.iter().map(move |entry| line(entry, true)))
}

impl<'a> RecordLine<'a> {
    pub fn cost(&self, metric: &str) -> Option<&'a LedgerCost> {
        self.costs?.metric(metric)
    }

    /// Returns by how much the cost of all additions together differs from the sum of their costs;
    /// `None` if the difference is not above the noise.
    pub fn interaction(&self, metric: &str) -> Option<f64> {
        let mut interactions = self.row.interactions.iter().filter(|_| self.is_together);
        let interaction = interactions.find(|interaction| {
            interaction.metric == metric && interaction.excess.verdict.is_change()
        });
        interaction.map(|interaction| interaction.excess.delta)
    }
}

fn counts_records(lines: &[RecordLine<'_>]) -> Records {
    fn estimate<'a>(line: RecordLine<'a>) -> Option<&'a Estimate> {
        line.costs?.estimate.as_ref()
    }
    let insn = |line: RecordLine<'_>| line.cost(METRICS[0].name).cloned();
    let rep = |line: RecordLine<'_>| line.cost(words::REP).cloned();
    let mut fields = Fields::new(lines);
    fields.add("workload", |line| &line.row.row);
    fields.add("added", |line| &line.entry.name);
    fields.add("base", |line| insn(line).map(|cost| cost.base));
    fields.add("delta", |line| insn(line).map(|cost| cost.delta));
    fields.add("percent", |line| insn(line).and_then(|cost| cost.percent));
    fields.add("detectable", |line| insn(line).and_then(|cost| cost.detectable));
    fields.add("verdict", |line| line.entry.verdict.text());
    fields.add("decided_by", |line| &line.entry.decided_by);
    fields.add("rep_base", |line| rep(line).map(|cost| cost.base));
    fields.add("rep_delta", |line| rep(line).map(|cost| cost.delta));
    fields.add("rep_percent", |line| rep(line).and_then(|cost| cost.percent));
    fields.add("rep_verdict", |line| rep(line).map(|cost| cost.verdict.text()));
    fields.add("costly", |line| {
        line.costs.map(|costs| deltas_text(costs.costly.iter().map(|(kind, by)| (kind.name(), by))))
    });
    fields.add("machine", |line| estimate(line).map(|estimate| estimate.machine.as_str()));
    fields.add("cycles_min", |line| estimate(line).map(|estimate| estimate.delta[0]));
    fields.add("cycles_max", |line| estimate(line).map(|estimate| estimate.delta[1]));
    fields.add("cycles_percent_min", |line| {
        estimate(line).and_then(|estimate| Some(estimate.percent?[0]))
    });
    fields.add("cycles_percent_max", |line| {
        estimate(line).and_then(|estimate| Some(estimate.percent?[1]))
    });
    fields.add("not_timed", |line| {
        estimate(line)
            .map(|estimate| deltas_text(estimate.left_out.iter().map(|(kind, by)| (&**kind, by))))
    });
    fields.add("interaction", |line| line.interaction(METRICS[0].name));
    fields.add("rep_interaction", |line| line.interaction(words::REP));
    fields.add("why", |_| Value::Empty);
    fields.records()
}

/// Lists deltas: `cr3-write:+2 verw:+1`.
fn deltas_text<'a>(deltas: impl Iterator<Item = (&'a str, &'a f64)>) -> String {
    deltas.map(|(kind, delta)| format!("{kind}:{delta:+}")).collect::<Vec<_>>().join(" ")
}

/// Headline: the addition that costs most and in which row, additions without a detected change,
/// the cost of all additions together, and whether it is the sum of their costs.
pub fn headline(ledger: &LedgerTable) -> Vec<String> {
    let names = tables::additions(ledger);
    let any = |name: &str, is_wanted: fn(&LedgerCosts) -> bool| {
        entries(ledger, name).any(|(_, entry)| entry.costs.as_ref().is_some_and(is_wanted))
    };
    let slower: Vec<&str> = names.iter().copied().filter(|name| any(name, is_slower)).collect();
    let mut sentences = slower_sentence(ledger, slower.len(), names.len());
    // With too few layouts for verdicts, the additions are still ranked.
    let most_expensive = match ledger.layouts < MIN_LAYOUTS {
        true => names.first(),
        false => slower.first(),
    };
    let unit = RankUnit::new(ledger);
    if let Some((name, (row, costs))) =
        most_expensive.and_then(|name| Some((name, largest_cost(entries(ledger, name))?)))
    {
        if costs.rank() > Some(0.0) {
            sentences += &format!(" {name} costs most: {}.", unit.cost(costs, row, true));
        }
    }
    sentences.extend(largest_saving_sentence(ledger, &names, &unit));
    sentences.extend(left_out_sentences(ledger, &names));
    let is_free = |name: &&str| {
        !any(name, is_change) && entries(ledger, name).all(|(_, entry)| is_judged(entry))
    };
    let free: Vec<&str> = names.iter().copied().filter(is_free).collect();
    if !free.is_empty() {
        sentences += &format!(" No change was detected with {}.", free.join(", "));
    }
    let has_failed_row = |name: &&str| {
        let has_failed =
            |entry: &LedgerEntry| matches!(entry.verdict, Verdict::Failed | Verdict::DifferentWork);
        entries(ledger, name).any(|(_, entry)| has_failed(entry))
    };
    let incomplete: Vec<&str> = names.iter().copied().filter(has_failed_row).collect();
    if !incomplete.is_empty() {
        sentences += &format!(" Not measured in every row: {}.", incomplete.join(", "));
    }
    [sentences].into_iter().chain(together_sentence(ledger)).collect()
}

/// Sentence about the addition with the largest saving in one row; `None` if no addition saves.
fn largest_saving_sentence(
    ledger: &LedgerTable,
    names: &[&str],
    unit: &RankUnit,
) -> Option<String> {
    let largest_saving = |name: &&str| {
        let is_faster = |(_, entry): &(&str, &LedgerEntry)| {
            let is_faster =
                |costs: &LedgerCosts| costs.has_verdict(|verdict| verdict == Verdict::Faster);
            entry.costs.as_ref().is_some_and(|costs| is_faster(costs) && costs.rank() < Some(0.0))
        };
        let (row, costs) = smallest_cost(entries(ledger, name).filter(is_faster))?;
        Some((name.to_string(), row, costs))
    };
    let savings = names.iter().filter_map(largest_saving);
    let (name, row, costs) = savings.min_by(|one, other| by_rank(one.2, other.2))?;
    Some(format!(" {name} saves most: {}.", unit.saving(costs, row)))
}

/// Sentences about the additions whose estimates leave out instructions, because their rank may be
/// wrong.
fn left_out_sentences(ledger: &LedgerTable, names: &[&str]) -> Option<String> {
    let machine = tables::estimated_machine(ledger)?;
    let sentence = |is_wanted: fn(f64) -> bool, more_or_less: &str| {
        let name_and_kinds = |name: &&str| {
            let costs = entries(ledger, name).filter_map(|(_, entry)| entry.costs.as_ref());
            let deltas = costs.filter_map(|costs| costs.estimate.as_ref());
            let deltas = deltas.flat_map(|estimate| &estimate.left_out);
            let kinds: BTreeSet<&str> =
                deltas.filter(|(_, delta)| is_wanted(**delta)).map(|(kind, _)| &**kind).collect();
            let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
            (!kinds.is_empty()).then(|| format!("{name} ({kinds})"))
        };
        let additions: Vec<String> = names.iter().filter_map(name_and_kinds).collect();
        let additions = additions.join(", ");
        let cpu = &machine.cpu;
        (!additions.is_empty()).then(|| {
            format!(" {additions} may cost {more_or_less}: the instruction was not timed on {cpu}.")
        })
    };
    let sentences = [sentence(|delta| delta > 0.0, "more"), sentence(|delta| delta < 0.0, "less")];
    let sentences: String = sentences.into_iter().flatten().collect();
    (!sentences.is_empty()).then_some(sentences)
}

/// Unit in which additions are ranked.
enum RankUnit {
    /// Estimated cycles of this CPU.
    Cycles(String),
    /// Counts or times, by their name in a sentence.
    Measured(&'static str),
}

impl RankUnit {
    fn new(ledger: &LedgerTable) -> RankUnit {
        match (tables::estimated_machine(ledger), &ledger.method) {
            (Some(estimate), _) => RankUnit::Cycles(estimate.cpu.clone()),
            (None, LedgerMethod::Counts { .. }) => RankUnit::Measured("instructions"),
            (None, LedgerMethod::Guests(_)) => RankUnit::Measured("time"),
        }
    }

    /// Describes a cost: `an estimated 3.1 to 5.2 % of stat's cycles on AMD EPYC`.
    fn cost(&self, costs: &LedgerCosts, row: &str, names_machine: bool) -> String {
        match (self, costs.estimated_percent()) {
            (RankUnit::Cycles(cpu), Some(ends)) => {
                let cpu = if names_machine { format!(" on {cpu}") } else { String::new() };
                let (bound, ends) = bounded(ends, costs.open_end());
                format!("{bound}an estimated {} % of {row}'s cycles{cpu}", between(ends))
            }
            (RankUnit::Cycles(_), None) => {
                let percent = number::percent(costs.first_metric.percent);
                format!("{percent} % of {row}'s instructions (cycles are not known)")
            }
            (RankUnit::Measured(unit), _) => {
                format!("{} % of {row}'s {unit}", number::percent(costs.first_metric.percent))
            }
        }
    }

    /// Describes a saving, which is a negative cost.
    fn saving(&self, costs: &LedgerCosts, row: &str) -> String {
        match costs.estimated_percent() {
            Some([low, high]) if high < 0.0 => {
                let open = match costs.open_end() {
                    OpenEnd::Upper => OpenEnd::Lower,
                    OpenEnd::Lower => OpenEnd::Upper,
                    other => other,
                };
                let (bound, ends) = bounded([-high, -low], open);
                format!("{bound}an estimated {} % of {row}'s cycles", between(ends))
            }
            _ => self.cost(costs, row, false),
        }
    }
}

/// Returns the ends of an interval. If one end is not known, returns `at least ` or `at most ` and
/// the known end twice.
fn bounded([low, high]: LowHigh, open: OpenEnd) -> (&'static str, LowHigh) {
    match open {
        OpenEnd::Upper => ("at least ", [low; 2]),
        OpenEnd::Lower => ("at most ", [high; 2]),
        OpenEnd::Neither | OpenEnd::Both => ("", [low, high]),
    }
}

/// Formats an interval: `3.1 to 5.2`; with signs if the lower end is negative.
fn between([low, high]: LowHigh) -> String {
    let digits = if low.abs().max(high.abs()) < 10.0 { 1 } else { 0 };
    if low < 0.0 {
        return format!("{low:+.digits$} to {high:+.digits$}");
    }
    let [low, high] = [low, high].map(|end| format!("{end:.digits$}"));
    if low == high { low } else { format!("{low} to {high}") }
}

fn by_rank(one: &LedgerCosts, other: &LedgerCosts) -> std::cmp::Ordering {
    let rank = |costs: &LedgerCosts| costs.rank().unwrap_or(f64::NEG_INFINITY);
    rank(one).total_cmp(&rank(other))
}

fn slower_sentence(ledger: &LedgerTable, slower: usize, all: usize) -> String {
    let layouts = ledger.layouts;
    match slower {
        _ if layouts < MIN_LAYOUTS => {
            format!("A verdict needs {MIN_LAYOUTS} layouts; this ledger has {layouts}.")
        }
        0 => "No addition is slower.".to_owned(),
        _ => {
            let are = if slower == 1 { "is" } else { "are" };
            let rows = if ledger.rows.len() == 1 { "the row" } else { "at least one row" };
            format!("{slower} of {} {are} slower in {rows}.", counted(all, "addition"))
        }
    }
}

/// Tells whether an addition has an answer in a row, and the answer an MDE.
fn is_judged(entry: &LedgerEntry) -> bool {
    let has_limit = |costs: &LedgerCosts| costs.first_metric.detectable.is_some();
    entry.verdict.is_answer() && entry.costs.as_ref().is_some_and(has_limit)
}

/// Sentences about all additions together; `None` if they were not measured together.
fn together_sentence(ledger: &LedgerTable) -> Option<String> {
    let rows = || ledger.rows.iter().filter_map(|row| Some((&*row.row, row.combination.as_ref()?)));
    let has_changed =
        |(_, entry): &(&str, &LedgerEntry)| entry.costs.as_ref().is_some_and(is_change);
    let has_verdicts = ledger.layouts >= MIN_LAYOUTS;
    let changed: Vec<_> = rows().filter(|row| !has_verdicts || has_changed(row)).collect();
    rows().next()?;
    let unit = RankUnit::new(ledger);
    let sentence =
        match (largest_cost(changed.iter().copied()), smallest_cost(changed.iter().copied())) {
            (Some((row, largest)), _) if largest.rank() > Some(0.0) => {
                let bound = if largest.open_end() == OpenEnd::Neither { "at most " } else { "" };
                format!("All together cost {bound}{}.", unit.cost(largest, row, false))
            }
            (_, Some((row, smallest))) => {
                let bound = if smallest.open_end() == OpenEnd::Neither { "at most " } else { "" };
                format!("All together save {bound}{}.", unit.saving(smallest, row))
            }
            _ if !rows().any(|(_, entry)| is_judged(entry)) => {
                "All together were not measured.".to_owned()
            }
            _ => "No change was detected with all together.".to_owned(),
        };
    let has_sum = |row: &&LedgerRow| {
        row.interactions.iter().any(|interaction| interaction.excess.detectable.is_some())
    };
    let has_interaction = |row: &&LedgerRow| {
        row.interactions.iter().any(|interaction| interaction.excess.verdict.is_change())
    };
    let judged = ledger.rows.iter().filter(has_sum).count();
    let adds_up = match (ledger.rows.iter().filter(has_interaction).count(), judged) {
        (_, 0) => String::new(),
        (0, _) => " No interaction was detected.".to_owned(),
        (count, judged) => {
            format!(" Their costs do not add up in {count} of {}.", counted(judged, "row"))
        }
    };
    Some(sentence + &adds_up)
}

fn is_slower(costs: &LedgerCosts) -> bool {
    costs.has_verdict(|verdict| verdict == Verdict::Slower)
}

fn entries<'a>(
    ledger: &'a LedgerTable,
    name: &str,
) -> impl Iterator<Item = (&'a str, &'a LedgerEntry)> {
    let owned_name = name.to_owned();
    ledger.rows.iter().filter_map(move |row| {
        Some((&*row.row, row.entries.iter().find(|entry| entry.name == owned_name)?))
    })
}

/// Returns the largest cost, and the row that has it.
fn largest_cost<'a>(
    entries: impl Iterator<Item = (&'a str, &'a LedgerEntry)>,
) -> Option<(&'a str, &'a LedgerCosts)> {
    entries.filter_map(ranked_costs).max_by(|one, other| by_rank(one.1, other.1))
}

/// Returns the smallest cost, and the row that has it.
fn smallest_cost<'a>(
    entries: impl Iterator<Item = (&'a str, &'a LedgerEntry)>,
) -> Option<(&'a str, &'a LedgerCosts)> {
    entries.filter_map(ranked_costs).min_by(|one, other| by_rank(one.1, other.1))
}

fn ranked_costs<'a>(
    (row, entry): (&'a str, &'a LedgerEntry),
) -> Option<(&'a str, &'a LedgerCosts)> {
    let costs = entry.costs.as_ref()?;
    costs.rank().map(|_| (row, costs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_below_ten_have_one_decimal() {
        for (ends, text) in [
            ([3.12, 5.21], "3.1 to 5.2"),
            ([3.12, 12.4], "3 to 12"),
            ([-1.0, 2.5], "-1.0 to +2.5"),
            ([0.0, 0.44], "0.0 to 0.4"),
            ([2.0, 2.01], "2.0"),
        ] {
            assert_eq!(between(ends), text);
        }
    }
}
