//! Reports of the calibration of a machine, and of the validation of estimates against measured
//! times.

use crate::number::{measured, percent, percent_range};
use crate::view::{Columns, Fields, Legend, Records, Report, Section, Table, View};
use crate::words;
use ktax_host::text::{counted, shell_word};
use ktax_model::{
    CYCLES, CalibrationFit, CalibrationRow, CalibrationTable, Costly, LowHigh, SavedResult, Share,
    ValidatedRow, Validation,
};

impl Report for CalibrationTable {
    fn view(&self) -> View {
        let calibration = &self.calibration;
        let mut sections = vec![Section::Sentences(missing_sentences(self)), costly_section(self)];
        if let Some(fit) = &calibration.fit {
            sections.push(constants_section(&self.machine, fit));
            sections.push(worst_rows(self));
        }
        let is_virtual = if calibration.is_virtual { " · a virtual machine" } else { "" };
        let microcode = match calibration.microcode.as_str() {
            "" => String::new(),
            microcode => format!(" · microcode {microcode}"),
        };
        let ghz = measured(calibration.cycles_per_ns);
        let machine = shell_word(&self.machine);
        View {
            title: format!("Costs of instructions on {}", calibration.cpu),
            headline: headline(self),
            how: format!(
                "{}{microcode}{is_virtual} · TSC {ghz} GHz · model {}",
                calibration.cpu, self.model
            ),
            sections,
            legend: Legend::new([format!(
                "To estimate times on this machine, run ktax compare --model {machine}, or ktax \
                 report --model {machine} for a result that you have."
            )]),
            ..View::default()
        }
    }

    fn records(&self) -> Records {
        let costly = costly_costs(self).map(|(name, cost)| ("costly", name, cost, None));
        let fit = self.calibration.fit.as_ref();
        let fitted = fit.into_iter().flat_map(fitted_costs);
        let fitted = fitted.map(|(name, cost)| ("fitted", name, cost, None));
        let rows = self.rows.iter().filter(|_| fit.is_some()).map(|row| {
            ("row", row.row.as_str(), row.predicted.unwrap_or_default(), Some(row.cycles))
        });
        let lines: Vec<_> = costly.chain(fitted).chain(rows).collect();
        let mut fields = Fields::new(&lines);
        fields.add("machine", |_| &self.machine);
        fields.add("kind", |(kind, ..)| kind);
        fields.add("of", |(_, name, ..)| name);
        fields.add("unit", |_| CYCLES);
        fields.add("low", |(.., [low, _], _)| low);
        fields.add("high", |(.., [_, high], _)| high);
        fields.add("measured", |(.., measured)| measured);
        fields.records()
    }

    fn result(&self) -> SavedResult {
        SavedResult::Calibration(Box::new(self.clone()))
    }
}

fn headline(table: &CalibrationTable) -> String {
    let operations = counted(table.calibration.operations.len(), "costly instruction");
    let fitted = match &table.calibration.fit {
        None => "no rows were fitted".to_owned(),
        Some(CalibrationFit { rows, error: [low, high], .. }) => format!(
            "{} fitted; for 9 of 10 rows, measured / predicted is between {low:.2} and {high:.2}",
            counted(*rows, "row")
        ),
    };
    format!("{}: {operations} timed, {fitted}", table.machine)
}

fn missing_sentences(table: &CalibrationTable) -> Vec<String> {
    let names: Vec<&str> = table.not_measured.iter().map(|kind| kind.name()).collect();
    let kinds = (!names.is_empty()).then(|| format!("Not timed here: {}.", names.join(", ")));
    let missing = table.missing.iter().map(|what| format!("Missing: {what}."));
    missing.chain(kinds).collect()
}

fn costly_section(table: &CalibrationTable) -> Section {
    let title =
        format!("Cost of one instruction, in {CYCLES} ({}; 90 % of values):", table.machine);
    costs_table(title, "costly instruction", costly_costs(table))
}

type Cost = (&'static str, LowHigh);

fn costly_costs(table: &CalibrationTable) -> impl Iterator<Item = Cost> {
    let calibration = &table.calibration;
    let costly = calibration.operations.iter().map(|(kind, cost)| (kind.name(), *cost));
    let rep = calibration.rep_iteration.map(|cost| ("rep-iteration", cost));
    let iterations =
        calibration.iterations.iter().map(|(kind, cost)| (iteration_name(*kind), *cost));
    costly.chain(rep).chain(iterations)
}

fn fitted_costs(fit: &CalibrationFit) -> impl Iterator<Item = Cost> {
    fit.cycles.keys().map(|thing| (thing.name(), fit.cost(*thing)))
}

/// Names one iteration of a string instruction. The kind's own name stands for the start of such an
/// instruction.
fn iteration_name(kind: Costly) -> &'static str {
    match kind {
        Costly::RepStosb => "rep-stosb-iteration",
        Costly::RepStos => "rep-stos-iteration",
        Costly::RepMovsb => "rep-movsb-iteration",
        _ => "rep-movs-iteration",
    }
}

fn constants_section(machine: &str, fit: &CalibrationFit) -> Section {
    let (rows, groups) = (counted(fit.rows, "row"), counted(fit.groups, "program"));
    let title = format!("Fitted costs, in {CYCLES} ({machine}; fitted to {rows} of {groups}):");
    costs_table(title, "fitted", fitted_costs(fit))
}

fn costs_table(title: String, name_head: &str, costs: impl Iterator<Item = Cost>) -> Section {
    let costs: Vec<Cost> = costs.collect();
    let mut columns = Columns::new(&costs);
    columns.name(name_head, |(name, _)| name);
    columns.number("low", |(_, [low, _])| measured(low));
    columns.number("high", |(_, [_, high])| measured(high));
    columns.table().with_title(title)
}

/// Maximum number of rows in the table of the worst predictions.
const MAX_WORST_ROWS: usize = 10;

/// Table of the rows whose prediction differs most from the measurement.
fn worst_rows(table: &CalibrationTable) -> Section {
    let error = |row: &&CalibrationRow| {
        row.predicted.map_or(0.0, |[low, high]| (row.cycles / (low * high).sqrt()).ln().abs())
    };
    let mut worst: Vec<&CalibrationRow> = table.rows.iter().collect();
    worst.sort_by(|one, other| error(other).total_cmp(&error(one)));
    worst.truncate(MAX_WORST_ROWS);
    let predicted = |row: &CalibrationRow| row.predicted.unwrap_or_default();
    let mut columns = Columns::new(&worst);
    columns.row("row", |row| &row.row);
    columns.number("measured", |row| measured(row.cycles));
    columns.number("low", |row| measured(predicted(row)[0]));
    columns.number("high", |row| measured(predicted(row)[1]));
    columns.table().with_title(format!(
        "Cost of one operation, in {CYCLES} ({}; low and high are predicted from the other \
         programs; the {} worst predictions):",
        table.machine,
        worst.len()
    ))
}

fn validation_headline(validation: &Validation) -> String {
    if validation.unfit.is_some() {
        return "no row has a verdict, because of these times".to_owned();
    }
    let share = |Share { part, total }: Share| format!("{part} of {total}");
    let signs = match validation.signs.total {
        0 => "no row changed by 5 % or more".to_owned(),
        _ => format!(
            "the sign is right in {} rows that changed by 5 % or more",
            share(validation.signs)
        ),
    };
    let correlation = validation.rank_correlation;
    let correlation = correlation
        .map_or(String::new(), |correlation| format!(", rank correlation {correlation:.2}"));
    format!(
        "{} rows lie in the estimated interval, {signs}{correlation}, median error {} %",
        share(validation.covered),
        percent(Some(validation.median_error_percent)).trim_start_matches('+')
    )
}

fn validation_table(rows: &[ValidatedRow]) -> Table {
    let rows: Vec<&ValidatedRow> = rows.iter().collect();
    let mut columns = Columns::new(&rows);
    columns.row("row", |row| &row.row);
    let range = |[low, high]: LowHigh| percent_range(Some(low), Some(high));
    columns.number("estimated %", |row| range(row.predicted_percent));
    columns.number("measured %", |row| percent(Some(row.measured_percent)));
    columns.number("interval %", |row| match row.measured_interval {
        [Some(from), Some(to)] => range([from, to]),
        _ => "unknown".to_owned(),
    });
    columns.words("", |row| if row.is_covered { "" } else { "outside" });
    columns.table()
}

fn validation_legend() -> Legend {
    Legend::default().with_terms([
        ("estimated %", "delta in percent of base, from counts and the machine's file"),
        ("measured %", "delta in percent of base, from the ratios of timed pairs"),
        ("interval %", "confidence interval of measured %"),
    ])
}

impl Report for Validation {
    fn view(&self) -> View {
        let Validation { machine, cpu, timed_cpu, .. } = self;
        let mut sentences = Vec::new();
        if cpu != timed_cpu {
            sentences.push(format!(
                "The times were measured on another CPU ({timed_cpu}) than the estimates are for \
                 ({cpu})."
            ));
        }
        for difference in &self.differences {
            sentences.push(format!("The two results differ: {difference}."));
        }
        for row in self.rows.iter().filter(|row| !row.uncosted_metrics.is_empty()) {
            let without = words::deltas(&row.uncosted_metrics);
            sentences.push(format!(
                "The estimate of {} leaves out {without}, because {machine} has no cost for it.",
                row.row
            ));
        }
        if !self.left_out.is_empty() {
            let left_out = self.left_out.join(", ");
            sentences.push(format!("Rows without an estimate or a time: {left_out}."));
        }
        View {
            title: format!("Estimated and measured: {}", self.title),
            headline: validation_headline(self),
            how: format!("estimated for {cpu} ({machine}) · timed on {timed_cpu}"),
            sections: vec![
                Section::sentences(self.unfit.clone()),
                Section::table(validation_table(&self.rows)),
                Section::Sentences(sentences),
            ],
            legend: validation_legend(),
            ..View::default()
        }
    }

    fn records(&self) -> Records {
        let rows: Vec<&ValidatedRow> = self.rows.iter().collect();
        let mut fields = Fields::new(&rows);
        fields.add("machine", |_| &self.machine);
        fields.add("row", |row| &row.row);
        fields.add("predicted_low_percent", |row| row.predicted_percent[0]);
        fields.add("predicted_high_percent", |row| row.predicted_percent[1]);
        fields.add("measured_percent", |row| row.measured_percent);
        fields.add("measured_low_percent", |row| row.measured_interval[0]);
        fields.add("measured_high_percent", |row| row.measured_interval[1]);
        fields.add("covered", |row| if row.is_covered { "yes" } else { "no" });
        fields.records()
    }

    fn result(&self) -> SavedResult {
        SavedResult::Validation(Box::new(self.clone()))
    }
}
