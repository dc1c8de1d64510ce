//! A workload on the running kernel, as a report.

use crate::number::measured;
use crate::view::{FailureReason, Kind, Line, Records, Report, Section, Table, Value, View};
use crate::{shapes, words};
use ktax_host::text::counted;
use ktax_model::{Failure, NativeRow, NativeTable, SavedResult, Summary};

const COLUMNS: [&str; 8] = ["row", "column", "unit", "median", "min", "max", "samples", "failure"];

impl Report for NativeTable {
    /// Shows of one row all numbers, of several a line each; then what failed.
    fn view(&self) -> View {
        let mut sections = match self.rows.as_slice() {
            [row] => row_sections(self, row),
            _ => vec![rows_table(self)],
        };
        sections.push(failures(self));
        sections.extend(shapes::native_counters(self));
        sections.push(Section::Sentences(self.growth.iter().map(words::growth).collect()));
        View {
            title: format!("{}, per operation: {}", self.title, self.operation),
            headline: headline(self),
            how: format!(
                "Linux {} · {} · each sample is a fresh process",
                self.release,
                counted(self.cpus, "CPU")
            ),
            sections,
            ..View::default()
        }
    }

    /// Writes one line for each row and column, with all samples; a row that failed at once has one
    /// line.
    fn records(&self) -> Records {
        let cells = || self.rows.iter().flat_map(|row| &row.cells).flatten();
        let most = cells().map(|cell| cell.samples.len()).max().unwrap_or(0);
        let samples = (0..most).map(|sample| format!("sample_{sample}"));
        let mut records = Records::new(COLUMNS.map(str::to_owned).into_iter().chain(samples));
        for row in &self.rows {
            let name = || Value::from(&row.workload.row);
            let failure = row.failure.as_ref().map(ToString::to_string);
            let measured = self.columns.iter().zip(&row.cells);
            let measured = measured.filter_map(|(column, cell)| Some((column, cell.as_ref()?)));
            let mut is_there = false;
            for (column, cell) in measured {
                is_there = true;
                let fixed = [name(), (&column.name).into(), (&column.unit).into()];
                let values =
                    fixed.into_iter().chain(summary_values(cell)).chain([failure.as_ref().into()]);
                records.push(values.chain(cell.samples.iter().map(|value| Value::from(*value))));
            }
            if !is_there {
                let nothing = std::iter::repeat_n(Value::Nothing, 6);
                records.push([name()].into_iter().chain(nothing).chain([failure.as_ref().into()]));
            }
        }
        records
    }

    fn result(&self) -> SavedResult {
        SavedResult::Native(Box::new(self.clone()))
    }
}

/// Answer about the first quantity: of one row all of it, of several from the least median to the
/// most.
fn headline(table: &NativeTable) -> String {
    let Some(column) = table.columns.first() else { return String::new() };
    let named = |value: f64| format!("{} {}", measured(value), column.unit).trim_end().to_owned();
    let cells = table.rows.iter().filter_map(|row| Some((row, row.cells.first()?.as_ref()?)));
    let mut known: Vec<(&NativeRow, &Summary)> = cells.collect();
    known.sort_by(|(_, one), (_, other)| one.median.total_cmp(&other.median));
    let heading = &column.heading;
    let mut sentence = match known.as_slice() {
        [] => String::new(),
        [(row, cell)] => format!(
            "{}: {heading} {} (median of {}; {} to {})",
            row.workload.row,
            named(cell.median),
            counted(cell.samples.len(), "sample"),
            measured(cell.least),
            measured(cell.most),
        ),
        [(least, from), .., (most, to)] => format!(
            "{heading} from {} ({}) to {} ({})",
            named(from.median),
            least.workload.row,
            named(to.median),
            most.workload.row,
        ),
    };
    let failed = table.rows.iter().filter(|row| row.failure.is_some()).count();
    if failed > 0 {
        let rows = counted(table.rows.len(), "row");
        sentence = format!("{sentence}; {failed} of {rows} failed");
    }
    sentence.trim_start_matches("; ").to_owned()
}

fn row_sections(table: &NativeTable, row: &NativeRow) -> Vec<Section> {
    let columns = [
        ("quantity", Kind::Words),
        ("unit", Kind::Words),
        ("median", Kind::Number),
        ("min", Kind::Number),
        ("max", Kind::Number),
        ("samples", Kind::Number),
    ];
    let cells = || table.columns.iter().zip(&row.cells);
    let lines = cells().filter_map(|(column, cell)| {
        let cell = cell.as_ref()?;
        let numbers = [cell.median, cell.least, cell.most].map(measured);
        let names = [column.heading.clone(), column.unit.clone()];
        let samples = [cell.samples.len().to_string()];
        Some(Line::new(names.into_iter().chain(numbers).chain(samples)))
    });
    let mut sections = vec![Section::table(Table::new(columns).with(lines))];
    if let Some((column, Some(cell))) = cells().next() {
        let samples: Vec<String> = cell.samples.iter().map(|value| measured(*value)).collect();
        let samples = samples.join("  ");
        let samples = format!("{} of each sample, in order: {samples}", column.heading);
        sections.push(Section::Sentences(vec![samples]));
        let original = table.original.as_ref().map(|original| match column.unit.as_str() {
            "µs" => format!("{original}: {:.4} microseconds", cell.median),
            unit => format!("{original}: {:.2} {unit}", cell.median),
        });
        sections.push(Section::Sentences(original.into_iter().collect()));
    }
    sections
}

fn rows_table(table: &NativeTable) -> Section {
    let names: Vec<String> = table
        .columns
        .iter()
        .map(|column| match column.unit.as_str() {
            "" => column.heading.clone(),
            unit => format!("{}\n{unit}", column.heading),
        })
        .collect();
    let columns = names.iter().map(|name| (name.as_str(), Kind::Number));
    let columns = [("row", Kind::Row), ("samples", Kind::Number)].into_iter().chain(columns);
    let lines = table.rows.iter().map(|row| {
        let cell = |cell: &Option<Summary>| {
            cell.as_ref().map_or("–".to_owned(), |cell| measured(cell.median))
        };
        let fixed = [row.workload.row.clone(), row.samples.len().to_string()];
        let mut line: Vec<String> = fixed.into_iter().chain(row.cells.iter().map(cell)).collect();
        line.resize(names.len() + 2, "–".to_owned());
        Line::new(line)
    });
    let notes = vec!["Each number is the median of the samples.".to_owned()];
    Section::Table { title: String::new(), table: Table::new(columns).with(lines), notes }
}

/// Section of what could not be run, and what to do about it.
fn failures(table: &NativeTable) -> Section {
    let failed = table.rows.iter().filter_map(|row| Some((row, row.failure.as_ref()?)));
    let failed = failed.map(|(row, failure): (&NativeRow, &Failure)| FailureReason {
        rows: vec![row.workload.row.clone()],
        why: failure.to_string(),
        next_step: failure.next_step_natively().into_owned(),
        ..FailureReason::default()
    });
    Section::Reasons { title: "Failed:".to_owned(), reasons: failed.collect() }
}

fn summary_values(cell: &Summary) -> [Value; 4] {
    [cell.median.into(), cell.least.into(), cell.most.into(), cell.samples.len().into()]
}
