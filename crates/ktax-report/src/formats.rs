//! The formats of a [`Report`]. A format prints the report's `View`, `Records` or JSON.
//!
//! A new format is a constant of type [`Format`] and an entry of [`FORMATS`].

mod html;
mod markdown;
mod text;

pub use html::{HTML, PageEntry, SITE_MARK, flame_file, results_of_page, site_index};
pub use markdown::MARKDOWN;
pub use text::{MAIL, Page, TEXT, plain_table, published_table};

use std::fmt;

use ::csv::Writer;
use serde::Serialize;

use crate::view::{Document, Records, Report, Value};
use ktax_host::text::{csv_cell, escape_json};
use ktax_model::{Error, Result};

/// All formats; the first is the default.
pub const FORMATS: &[Format] = &[TEXT, MARKDOWN, CSV, JSON, HTML, MAIL];

/// Format that reports can be printed in.
#[derive(Clone, Copy)]
pub struct Format {
    /// Name for `--format`.
    pub name: &'static str,
    /// Name of the file in a run directory; `None` if no such file is written.
    pub file: Option<&'static str>,
    /// Prints all reports as one text, which ends in a newline.
    pub write: fn(&[Document<'_>], TextOptions) -> Result<String>,
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

/// Prints a report in a format.
pub fn render(report: &dyn Report, format: Format, options: TextOptions) -> Result<String> {
    (format.write)(&[Document::from(report)], options)
}

/// Prints each document, with an empty line between two.
fn joined_by_line(
    documents: &[Document<'_>],
    write: impl Fn(&Document<'_>) -> String,
) -> Result<String> {
    Ok(documents.iter().map(write).collect::<Vec<String>>().join("\n"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOptions {
    /// Columns that a line may have; less than 40 counts as 40.
    pub width: u16,
    /// True if verdicts are coloured.
    pub colour: bool,
    /// True if all characters are ASCII.
    pub ascii: bool,
}

impl Default for TextOptions {
    /// Options for files: 100 columns, no colour, all of Unicode.
    fn default() -> Self {
        TextOptions { width: 100, colour: false, ascii: false }
    }
}

/// Error for a result that cannot be printed. ktax writes no such result, so the file was edited.
fn not_writable(format: &str, reason: impl fmt::Display) -> Error {
    Error::host(format!("cannot write as {format}: {reason}"))
        .next("create the result again; for a comparison, run `ktax analyse DIR`")
}

/// CSV: unrounded values. Several reports share one header with the columns of all.
pub const CSV: Format = Format {
    name: "csv",
    file: Some("report.csv"),
    write: |documents, _| {
        let records = join_records(documents.iter().map(Document::records));
        csv_text(&records).map_err(|error| not_writable("CSV", error))
    },
};

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
        Value::Empty => String::new(),
        Value::Text(text) => csv_cell(text),
        Value::Count(count) => count.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Flag(flag) => flag.to_string(),
    }
}

/// Joins records into one table. A line has empty values for columns that its report does not have.
fn join_records(all: impl Iterator<Item = Records>) -> Records {
    let mut records = Records::default();
    for Records { header, lines } in all {
        let new: Vec<&String> =
            header.iter().filter(|name| !records.header.contains(name)).collect();
        let new: Vec<String> = new.into_iter().cloned().collect();
        records.header.extend(new);
        let column = |name: &String| records.header.iter().position(|known| known == name);
        let columns: Vec<Option<usize>> = header.iter().map(column).collect();
        for values in lines {
            let mut line = vec![Value::Empty; records.header.len()];
            for (column, value) in columns.iter().zip(values) {
                line[column.expect("the joint header has the columns of each report")] = value;
            }
            records.lines.push(line);
        }
    }
    let columns = records.header.len();
    records.lines.iter_mut().for_each(|line| line.resize(columns, Value::Empty));
    records
}

/// JSON: the complete result in the form that is kept on disk, with escapes that make it safe to
/// print on a terminal. Several results are an array.
pub const JSON: Format = Format {
    name: "json",
    file: None,
    write: |documents, _| {
        if let [document] = documents {
            return to_json(&document.saved());
        }
        let texts =
            documents.iter().map(|document| Ok(to_json(&document.saved())?.trim_end().to_owned()));
        Ok(format!("[\n{}\n]\n", texts.collect::<Result<Vec<String>>>()?.join(",\n")))
    },
};

/// Writes pretty JSON that is safe to print on a terminal.
pub fn to_json(value: &impl Serialize) -> Result<String> {
    let json = serde_json::to_string_pretty(value).map_err(|error| not_writable("JSON", error))?;
    Ok(escape_json(&json) + "\n")
}
