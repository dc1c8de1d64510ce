//! Reports about what a machine takes for an operation: its calibration, and the validation of
//! estimates against measured times.

use crate::number::{measured, percent, percent_range};
use crate::view::{Kind, Legend, Line, Records, Report, Section, Table, Value, View};
use crate::words;
use ktax_host::text::{counted, shell_word};
use ktax_model::{
    CYCLES, CalibrationFit, CalibrationRow, CalibrationTable, Costly, LowHigh, SavedResult, Share,
    ValidatedRow, Validation,
};

const COLUMNS: [&str; 7] = ["machine", "kind", "of", "unit", "low", "high", "measured"];

impl Report for CalibrationTable {
    /// Shows what is missing, then costly instructions, the constants, and the rows that are
    /// predicted worst.
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
            title: format!("What {} takes", calibration.cpu),
            headline: headline(self),
            how: format!(
                "{}{microcode}{is_virtual} · TSC {ghz} GHz · model {}",
                calibration.cpu, self.model
            ),
            sections,
            legend: Legend::new([format!(
                "Use it: ktax compare --model {machine}, or ktax report --model {machine} for \
                 what was counted already."
            )]),
            ..View::default()
        }
    }

    /// Writes one line for each costly instruction, each constant and each row; the interval of a
    /// row is the prediction of a fit to the other groups.
    fn records(&self) -> Records {
        let mut records = Records::new(COLUMNS);
        let calibration = &self.calibration;
        let mut line = |kind: &'static str, name: &str, [low, high]: [f64; 2], measured: Value| {
            let machine = Value::from(&self.machine);
            let name = Value::from(&name.to_owned());
            records.push([
                machine,
                kind.into(),
                name,
                CYCLES.into(),
                low.into(),
                high.into(),
                measured,
            ]);
        };
        for (kind, interval) in &calibration.operations {
            line("costly", kind.name(), *interval, Value::Nothing);
        }
        if let Some(interval) = calibration.rep_iteration {
            line("costly", "rep-iteration", interval, Value::Nothing);
        }
        for (kind, interval) in &calibration.iterations {
            line("costly", iteration_name(*kind), *interval, Value::Nothing);
        }
        if let Some(fit) = &calibration.fit {
            for thing in fit.cycles.keys() {
                line("fitted", thing.name(), fit.cost(*thing), Value::Nothing);
            }
            for row in &self.rows {
                line("row", &row.row, row.predicted.unwrap_or_default(), row.cycles.into());
            }
        }
        records
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
            "{} fitted, 9 of 10 of them within {low:.2} to {high:.2} of what the others predict",
            counted(*rows, "row")
        ),
    };
    format!("{}: {operations} timed, {fitted}", table.machine)
}

fn missing_sentences(table: &CalibrationTable) -> Vec<String> {
    let names: Vec<&str> = table.not_measured.iter().map(|kind| kind.name()).collect();
    let kinds = (!names.is_empty()).then(|| format!("Not timed here: {}.", names.join(", ")));
    let others = table.missing.iter().map(|what| format!("Missing: {what}."));
    others.chain(kinds).collect()
}

fn costly_section(table: &CalibrationTable) -> Section {
    let calibration = &table.calibration;
    let costly = calibration.operations.iter().map(|(kind, cost)| (kind.name(), *cost));
    let rep = calibration.rep_iteration.map(|cost| ("rep-iteration", cost));
    let title = format!("One takes so many {CYCLES} ({}; 9 of 10 lie between):", table.machine);
    let each = calibration.iterations.iter().map(|(kind, cost)| (iteration_name(*kind), *cost));
    costs_table(title, "costly instruction", costly.chain(rep).chain(each))
}

/// Names an iteration of a string instruction; its start has the name of the kind itself.
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
    let title = format!("Each takes so many {CYCLES} ({machine}; fitted to {rows} of {groups}):");
    costs_table(title, "fitted", fit.cycles.keys().map(|thing| (thing.name(), fit.cost(*thing))))
}

fn costs_table(
    title: String,
    what: &str,
    costs: impl IntoIterator<Item = (&'static str, LowHigh)>,
) -> Section {
    let columns = [(what, Kind::Name), ("low", Kind::Number), ("high", Kind::Number)];
    let line = |(name, [low, high]): (&str, LowHigh)| {
        Line::new([name.to_owned(), measured(low), measured(high)])
    };
    let table = Table::new(columns).with(costs.into_iter().map(line));
    Section::Table { title, table, notes: Vec::new() }
}

/// Number of rows that are shown.
const SHOWN_ROWS: usize = 10;

fn worst_rows(table: &CalibrationTable) -> Section {
    let wrong = |row: &&CalibrationRow| {
        row.predicted.map_or(0.0, |[low, high]| (row.cycles / (low * high).sqrt()).ln().abs())
    };
    let mut worst: Vec<&CalibrationRow> = table.rows.iter().collect();
    worst.sort_by(|one, other| wrong(other).total_cmp(&wrong(one)));
    let columns = [
        ("row", Kind::Row),
        ("measured", Kind::Number),
        ("low", Kind::Number),
        ("high", Kind::Number),
    ];
    let lines = worst.into_iter().take(SHOWN_ROWS).map(|row| {
        let [low, high] = row.predicted.unwrap_or_default();
        Line::new([row.row.clone(), measured(row.cycles), measured(low), measured(high)])
    });
    let title = format!(
        "An operation takes so many {CYCLES} ({}; low and high as the other programs predict; the \
         {} that are predicted worst):",
        table.machine,
        SHOWN_ROWS.min(table.rows.len())
    );
    Section::Table { title, table: Table::new(columns).with(lines), notes: Vec::new() }
}

fn validation_headline(validation: &Validation) -> String {
    if validation.unfit.is_some() {
        return "no row can be judged by these times".to_owned();
    }
    let share = |Share { of_them, all }: Share| format!("{of_them} of {all}");
    let signs = match validation.signs.all {
        0 => "no row changed by 5 % or more".to_owned(),
        _ => format!("sign right in {} that changed by 5 % or more", share(validation.signs)),
    };
    let correlation = validation.rank_correlation;
    let correlation = correlation
        .map_or(String::new(), |correlation| format!(", rank correlation {correlation:.2}"));
    format!(
        "{} rows lie in what was estimated, {signs}{correlation}, median error {} %",
        share(validation.covered),
        percent(Some(validation.median_error_percent)).trim_start_matches('+')
    )
}

fn validation_table(rows: &[ValidatedRow]) -> Table {
    let columns = [
        ("row", Kind::Row),
        ("estimated %", Kind::Number),
        ("measured %", Kind::Number),
        ("interval %", Kind::Number),
        ("", Kind::Words),
    ];
    let line = |row: &ValidatedRow| {
        let [low, high] = row.predicted_percent;
        let interval = match row.measured_interval {
            [Some(from), Some(to)] => percent_range(Some(from), Some(to)),
            _ => "unknown".to_owned(),
        };
        Line::new([
            row.row.clone(),
            percent_range(Some(low), Some(high)),
            percent(Some(row.measured_percent)),
            interval,
            if row.is_covered { "" } else { "outside" }.to_owned(),
        ])
    };
    Table::new(columns).with(rows.iter().map(line))
}

fn validation_legend() -> Legend {
    Legend::default().with([
        ("estimated %", "what the change adds to the base, from counts and the machine's file"),
        ("measured %", "what it added, from the ratios of timed pairs"),
        ("interval %", "the confidence interval of that"),
    ])
}

const VALIDATION_COLUMNS: [&str; 8] = [
    "machine",
    "row",
    "predicted_low_percent",
    "predicted_high_percent",
    "measured_percent",
    "measured_low_percent",
    "measured_high_percent",
    "covered",
];

impl Report for Validation {
    /// Shows the sentences and the rows, of which those outside their interval come first.
    fn view(&self) -> View {
        let Validation { machine, cpu, timed_cpu, .. } = self;
        let mut sentences = Vec::new();
        if cpu != timed_cpu {
            sentences.push(format!(
                "The times are of another CPU ({timed_cpu}) than the estimates ({cpu})."
            ));
        }
        for difference in &self.differences {
            sentences.push(format!("Not the same subjects: {difference}."));
        }
        for row in self.rows.iter().filter(|row| !row.without.is_empty()) {
            let without = words::deltas(&row.without);
            sentences.push(format!(
                "{} is estimated without {without}, of which {machine} has no cost.",
                row.row
            ));
        }
        if !self.left_out.is_empty() {
            let left_out = self.left_out.join(", ");
            sentences.push(format!("Without an estimate or a time: {left_out}."));
        }
        View {
            title: format!("Estimated and measured: {}", self.title),
            headline: validation_headline(self),
            how: format!("estimated for {cpu} ({machine}) · timed on {timed_cpu}"),
            sections: vec![
                Section::Sentences(self.unfit.iter().cloned().collect()),
                Section::table(validation_table(&self.rows)),
                Section::Sentences(sentences),
            ],
            legend: validation_legend(),
            ..View::default()
        }
    }

    /// Writes one line for each row.
    fn records(&self) -> Records {
        let mut records = Records::new(VALIDATION_COLUMNS);
        for row in &self.rows {
            let ([low, high], [from, to]) = (row.predicted_percent, row.measured_interval);
            let machine = Value::from(&self.machine);
            let covered = if row.is_covered { "yes" } else { "no" };
            let measured = row.measured_percent.into();
            let cells = [low.into(), high.into(), measured, from.into(), to.into(), covered.into()];
            records.push([machine, (&row.row).into()].into_iter().chain(cells));
        }
        records
    }

    fn result(&self) -> SavedResult {
        SavedResult::Validation(Box::new(self.clone()))
    }
}
