use crate::number::measured;
use crate::view::{Kind, Legend, Line, Section, Table, View};
use ktax_host::text::{counted, shell_word};
use ktax_model::{CYCLES, CalibrationFit, CalibrationRow, CalibrationTable, Costly, LowHigh};

/// What is missing first, then costly instructions, the constants, and the rows that are predicted
/// worst.
pub fn view(table: &CalibrationTable) -> View {
    let calibration = &table.calibration;
    let mut sections = vec![Section::Sentences(missing(table)), operations(table)];
    if let Some(fit) = &calibration.fit {
        sections.push(constants(&table.machine, fit));
        sections.push(rows(table));
    }
    let is_virtual = if calibration.is_virtual { " · a virtual machine" } else { "" };
    let microcode = match calibration.microcode.as_str() {
        "" => String::new(),
        microcode => format!(" · microcode {microcode}"),
    };
    let ghz = measured(calibration.cycles_per_ns);
    let machine = shell_word(&table.machine);
    View {
        title: format!("What {} takes", calibration.cpu),
        headline: headline(table),
        how: format!(
            "{}{microcode}{is_virtual} · TSC {ghz} GHz · model {}",
            calibration.cpu, table.model
        ),
        sections,
        legend: Legend::of([format!(
            "Use it: ktax compare --machine {machine}, or ktax report --machine {machine} for what \
             was counted already."
        )]),
        ..View::default()
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

fn missing(table: &CalibrationTable) -> Vec<String> {
    let names: Vec<&str> = table.not_measured.iter().map(|kind| kind.name()).collect();
    let kinds = (!names.is_empty()).then(|| format!("Not timed here: {}.", names.join(", ")));
    let others = table.missing.iter().map(|what| format!("Missing: {what}."));
    others.chain(kinds).collect()
}

fn operations(table: &CalibrationTable) -> Section {
    let calibration = &table.calibration;
    let costly = calibration.operations.iter().map(|(kind, cost)| (kind.name(), *cost));
    let rep = calibration.rep_iteration.map(|cost| ("rep-iteration", cost));
    let title = format!("One takes so many {CYCLES} ({}; 9 of 10 lie between):", table.machine);
    let each = calibration.iterations.iter().map(|(kind, cost)| (iteration(*kind), *cost));
    costs(title, "costly instruction", costly.chain(rep).chain(each))
}

/// An iteration of a string instruction, whose start has the kind's own name.
pub(super) fn iteration(kind: Costly) -> &'static str {
    match kind {
        Costly::RepStosb => "rep-stosb-iteration",
        Costly::RepStos => "rep-stos-iteration",
        Costly::RepMovsb => "rep-movsb-iteration",
        _ => "rep-movs-iteration",
    }
}

fn constants(machine: &str, fit: &CalibrationFit) -> Section {
    let (rows, groups) = (counted(fit.rows, "row"), counted(fit.groups, "program"));
    let title = format!("Each takes so many {CYCLES} ({machine}; fitted to {rows} of {groups}):");
    costs(title, "fitted", fit.cycles.keys().map(|thing| (thing.name(), fit.cost(*thing))))
}

fn costs(
    title: String,
    what: &str,
    of: impl IntoIterator<Item = (&'static str, LowHigh)>,
) -> Section {
    let columns = [(what, Kind::Name), ("low", Kind::Number), ("high", Kind::Number)];
    let line = |(name, [low, high]): (&str, LowHigh)| {
        Line::of([name.to_owned(), measured(low), measured(high)])
    };
    let table = Table::of(columns).with(of.into_iter().map(line));
    Section::Table { title, table, notes: Vec::new() }
}

/// So many rows.
const SHOWN: usize = 10;

fn rows(of: &CalibrationTable) -> Section {
    let wrong = |row: &&CalibrationRow| {
        row.predicted.map_or(0.0, |[low, high]| (row.cycles / (low * high).sqrt()).ln().abs())
    };
    let mut worst: Vec<&CalibrationRow> = of.rows.iter().collect();
    worst.sort_by(|one, other| wrong(other).total_cmp(&wrong(one)));
    let columns = [
        ("row", Kind::Row),
        ("measured", Kind::Number),
        ("low", Kind::Number),
        ("high", Kind::Number),
    ];
    let lines = worst.into_iter().take(SHOWN).map(|row| {
        let [low, high] = row.predicted.unwrap_or_default();
        Line::of([row.row.clone(), measured(row.cycles), measured(low), measured(high)])
    });
    let title = format!(
        "An operation takes so many {CYCLES} ({}; low and high as the other programs predict; the \
         {} that are predicted worst):",
        of.machine,
        SHOWN.min(of.rows.len())
    );
    Section::Table { title, table: Table::of(columns).with(lines), notes: Vec::new() }
}
