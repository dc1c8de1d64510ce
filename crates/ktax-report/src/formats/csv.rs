//! Unrounded lines, for a spreadsheet or R.

use ::csv::Writer;

use super::format::Format;
use crate::error::ReportError;
use crate::view::{Records, Value};
use ktax_host::text::csv_cell;

/// The records; several reports have one header with the columns of all of them.
pub const FORMAT: Format = Format {
    name: "csv",
    file: Some("report.csv"),
    write: |report, _| write(&report.records()),
    several: |all, _| write(&together(all.iter().map(|report| report.records()))),
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

/// One table, in which a line has nothing where its report has no such column.
fn together(all: impl Iterator<Item = Records>) -> Records {
    let mut one = Records::default();
    for Records { header, lines } in all {
        let new: Vec<&String> = header.iter().filter(|name| !one.header.contains(name)).collect();
        let new: Vec<String> = new.into_iter().cloned().collect();
        one.header.extend(new);
        let place = |name: &String| one.header.iter().position(|own| own == name);
        let places: Vec<Option<usize>> = header.iter().map(place).collect();
        for values in lines {
            let mut line = vec![Value::Nothing; one.header.len()];
            for (place, value) in places.iter().zip(values) {
                line[place.expect("the header has all of them")] = value;
            }
            one.lines.push(line);
        }
    }
    let columns = one.header.len();
    one.lines.iter_mut().for_each(|line| line.resize(columns, Value::Nothing));
    one
}
