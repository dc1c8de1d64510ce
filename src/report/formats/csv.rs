//! Unrounded lines, for a spreadsheet or R.

use ::csv::Writer;

use super::format::Format;
use crate::report::error::ReportError;
use crate::report::view::{Records, Value};
use crate::text::csv_cell;

/// The records; several reports with the same columns have one header.
pub const FORMAT: Format = Format {
    name: "csv",
    file: Some("report.csv"),
    write: |report, _| write(&report.records()),
    join,
};

fn write(records: &Records) -> Result<String, ReportError> {
    to_text(records).map_err(|error| ReportError::Csv(error.to_string()))
}

fn to_text(records: &Records) -> Result<String, Box<dyn std::error::Error>> {
    let mut writer = Writer::from_writer(Vec::new());
    writer.write_record(&records.header)?;
    for line in &records.lines {
        writer.write_record(line.iter().map(cell))?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

fn cell(value: &Value) -> String {
    match value {
        Value::Nothing => String::new(),
        Value::Text(text) => csv_cell(text),
        Value::Count(count) => count.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Flag(flag) => flag.to_string(),
    }
}

fn join(all: &[String]) -> String {
    let header = all.first().and_then(|first| first.lines().next()).unwrap_or_default();
    let mut joined = String::new();
    for (index, table) in all.iter().enumerate() {
        match table.split_once('\n') {
            Some((own, lines)) if index > 0 && own == header => joined += lines,
            Some(_) if index > 0 => joined.extend(["\n", table]),
            _ => joined += table,
        }
    }
    joined
}
