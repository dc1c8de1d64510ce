use crate::model::{Calibration, CalibrationFit, CalibrationRow, CalibrationTable, LowHigh};
use crate::report::number::measured;
use crate::report::view::{Kind, Legend, Line, Section, Table, View};
use crate::text::counted;

/// What is missing first, then costly instructions, the constants, and the rows that are predicted
/// worst.
pub fn view(table: &CalibrationTable) -> View {
    let calibration = &table.calibration;
    let mut sections = vec![Section::Sentences(missing(table))];
    sections.push(operations(table));
    if let Some(fit) = &calibration.fit {
        sections.push(constants(calibration, fit));
        sections.push(rows(&table.rows, calibration, fit));
    }
    let is_virtual = if calibration.is_virtual { " · a virtual machine" } else { "" };
    let microcode = match calibration.microcode.as_str() {
        "" => String::new(),
        microcode => format!(" · microcode {microcode}"),
    };
    View {
        title: format!("What {} takes", calibration.cpu),
        headline: headline(table),
        how: format!(
            "{}{microcode}{is_virtual} · {} {} a nanosecond · model {}",
            calibration.cpu,
            measured(calibration.cycles_per_ns),
            calibration.clock.unit(),
            table.model
        ),
        sections,
        legend: Legend::of([format!(
            "Use it: ktax compare --machine {machine}, or ktax report --machine {machine} for what \
             was counted already.",
            machine = table.machine
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
    let columns =
        [("costly instruction", Kind::Name), ("low", Kind::Number), ("high", Kind::Number)];
    let all = table.calibration.operations.iter();
    let lines = all.map(|(kind, [low, high])| {
        Line::of([kind.name().to_owned(), measured(*low), measured(*high)])
    });
    Section::Table {
        title: format!(
            "One takes so many {} (9 of 10 lie between):",
            table.calibration.clock.unit()
        ),
        table: Table::of(columns).with(lines),
        notes: Vec::new(),
    }
}

fn constants(calibration: &Calibration, fit: &CalibrationFit) -> Section {
    let columns = [("of each", Kind::Name), ("low", Kind::Number), ("high", Kind::Number)];
    let lines = fit.cycles.iter().map(|(thing, cycles)| {
        let [low, high]: LowHigh = fit.error.map(|ratio| cycles * ratio);
        Line::of([thing.name().to_owned(), measured(low), measured(high)])
    });
    Section::Table {
        title: format!(
            "Each takes so many {} (fitted to {} of {}):",
            calibration.clock.unit(),
            counted(fit.rows, "row"),
            counted(fit.groups, "group")
        ),
        table: Table::of(columns).with(lines),
        notes: Vec::new(),
    }
}

/// So many rows.
const SHOWN: usize = 10;

fn rows(rows: &[CalibrationRow], calibration: &Calibration, fit: &CalibrationFit) -> Section {
    let wrong = |row: &&CalibrationRow| {
        row.predicted.map_or(0.0, |predicted| (row.cycles / predicted).ln().abs())
    };
    let mut worst: Vec<&CalibrationRow> = rows.iter().collect();
    worst.sort_by(|one, other| wrong(other).total_cmp(&wrong(one)));
    let columns = [
        ("row", Kind::Row),
        ("measured", Kind::Number),
        ("low", Kind::Number),
        ("high", Kind::Number),
    ];
    let lines = worst.into_iter().take(SHOWN).map(|row| {
        let [low, high] = fit.error.map(|ratio| row.predicted.unwrap_or_default() * ratio);
        Line::of([row.row.clone(), measured(row.cycles), measured(low), measured(high)])
    });
    Section::Table {
        title: format!(
            "An operation takes so many {} (low and high as the other groups predict; the {} \
             that are predicted worst):",
            calibration.clock.unit(),
            SHOWN.min(rows.len())
        ),
        table: Table::of(columns).with(lines),
        notes: Vec::new(),
    }
}
