//! The formats of a [`Report`]: each shows its `View`, its `Records` or its JSON.
//!
//! A new format is a constant of type [`Format`] and an entry of [`FORMATS`].

mod html;
mod mail;
mod markdown;
mod text;

pub use html::{HTML, Listed, PageError, SITE_MARK, flame_file, results_of_page, site_index};
pub use mail::MAIL;
pub use markdown::MARKDOWN;
pub use text::{Page, TEXT, plain_table, published_table};

use std::fmt;

use ::csv::Writer;
use serde::Serialize;
use thiserror::Error;

use crate::view::{Records, Report, Value};
use ktax_host::text::{csv_cell, escape_json};

/// All formats; the first is the default.
pub const FORMATS: &[Format] = &[TEXT, MARKDOWN, CSV, JSON, HTML, MAIL];

/// Format that reports can be printed in.
#[derive(Clone, Copy)]
pub struct Format {
    /// Name for `--format`.
    pub name: &'static str,
    /// File that is kept beside a result; `None` for the format of the result itself.
    pub file: Option<&'static str>,
    /// Prints one report, ending in a newline.
    pub write: fn(&dyn Report, TextOptions) -> Result<String, ReportError>,
    /// Prints several reports as one document.
    pub several: fn(&[&dyn Report], TextOptions) -> Result<String, ReportError>,
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Format {
    fn eq(&self, other: &Format) -> bool {
        self.name == other.name
    }
}

/// Prints a report in a format, ending in a newline.
pub fn render(
    report: &dyn Report,
    format: Format,
    options: TextOptions,
) -> Result<String, ReportError> {
    (format.write)(report, options)
}

/// Prints several reports in a format; one report as [`render`] does.
pub fn render_all(
    reports: &[&dyn Report],
    format: Format,
    options: TextOptions,
) -> Result<String, ReportError> {
    match reports {
        [one] => render(*one, format, options),
        several => (format.several)(several, options),
    }
}

/// Prints several reports one after the other.
fn each(
    reports: &[&dyn Report],
    format: Format,
    options: TextOptions,
) -> Result<Vec<String>, ReportError> {
    reports.iter().map(|report| render(*report, format, options)).collect()
}

/// Options of text on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOptions {
    /// Columns that a line may have; less than 40 counts as 40.
    pub width: u16,
    /// Whether verdicts are coloured.
    pub colour: bool,
    /// Whether nothing but ASCII is printed.
    pub ascii: bool,
}

impl Default for TextOptions {
    /// Options of a document: 100 columns, no colour, every character.
    fn default() -> Self {
        TextOptions { width: 100, colour: false, ascii: false }
    }
}

/// Reason for which a report cannot be made. No result that ktax writes gets here.
#[derive(Debug, Error)]
pub enum ReportError {
    /// A value that JSON cannot hold.
    #[error("cannot write as JSON: {0}; make it again, a comparison with `ktax analyse DIR`")]
    Json(#[from] serde_json::Error),
    /// A table that CSV cannot hold.
    #[error("cannot write as CSV: {0}; make it again, a comparison with `ktax analyse DIR`")]
    Csv(String),
}

impl From<ReportError> for ktax_model::Error {
    fn from(error: ReportError) -> ktax_model::Error {
        ktax_model::Error::host(error.to_string())
    }
}

/// CSV: unrounded lines, for a spreadsheet or R. Several reports have one header with the columns
/// of all of them.
pub const CSV: Format = Format {
    name: "csv",
    file: Some("report.csv"),
    write: |report, _| write_csv(&report.records()),
    several: |all, _| write_csv(&joined(all.iter().map(|report| report.records()))),
};

fn write_csv(records: &Records) -> Result<String, ReportError> {
    csv_text(records).map_err(|error| ReportError::Csv(error.to_string()))
}

fn csv_text(records: &Records) -> Result<String, Box<dyn std::error::Error>> {
    let mut writer = Writer::from_writer(Vec::new());
    writer.write_record(&records.header)?;
    for line in &records.lines {
        writer.write_record(line.iter().map(csv_text_cell))?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

fn csv_text_cell(value: &Value) -> String {
    match value {
        Value::Nothing => String::new(),
        Value::Text(text) => csv_cell(text),
        Value::Count(count) => count.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Flag(flag) => flag.to_string(),
    }
}

/// Joins records into one table; a line is empty where its report has no such column.
fn joined(all: impl Iterator<Item = Records>) -> Records {
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

/// JSON: everything, for programs. It is the result as kept on disk, safe to print on a terminal;
/// several results are an array.
pub const JSON: Format = Format {
    name: "json",
    file: None,
    write: |report, _| to_json(&report.saved()),
    several: |all, options| {
        let all = each(all, JSON, options)?;
        let all: Vec<&str> = all.iter().map(|one| one.trim_end()).collect();
        Ok(format!("[\n{}\n]\n", all.join(",\n")))
    },
};

/// Writes pretty JSON that is safe to print on a terminal.
pub fn to_json(value: &impl Serialize) -> Result<String, ReportError> {
    Ok(escape_json(&serde_json::to_string_pretty(value)?) + "\n")
}
