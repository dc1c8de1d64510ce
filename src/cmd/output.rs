//! Prints results: all output of the commands goes through here.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, ColorChoice};
use serde_json::Value;

use super::Exit;
use super::options::by_name;
use crate::flow::{self, Error};
use crate::model::Saved;
use crate::report::{
    Document, FORMATS, Format, HTML, JSON, Report, TEXT, TextOptions, plain_table, to_json,
};
use crate::text::{ascii, escape};

/// Options of printing.
#[derive(Debug, Clone, Args)]
pub struct OutputArgs {
    /// Print in this format
    #[arg(short, long, value_parser = by_name(FORMATS, |format| format.name, |_| ""))]
    #[arg(default_value = TEXT.name, help_heading = "Output")]
    format: Format,
    /// Print as JSON, the same as --format json
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    json: bool,
    /// Also write a page for a browser, with pictures, to this file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    #[arg(value_parser = PathBufValueParser::new().try_map(writable_page))]
    html: Option<PathBuf>,
    /// Colour the verdicts of the text
    #[arg(long, default_value = "auto", value_name = "WHEN", help_heading = "Output")]
    color: ColorChoice,
}

/// Parses the path of a page. Checks that it is writable before a long measurement.
fn writable_page(path: PathBuf) -> Result<PathBuf, Error> {
    flow::check_output(&path)?;
    Ok(path)
}

impl OutputArgs {
    pub fn print(&self, result: &dyn Report) -> Result<Exit, Error> {
        self.print_all(&[result.into()])
    }

    pub fn print_all(&self, results: &[Document<'_>]) -> Result<Exit, Error> {
        let text = (self.format().write)(results, self.text_options())?;
        self.print_text(&text, results)
    }

    pub fn print_saved(&self, results: &[Saved]) -> Result<Exit, Error> {
        self.print_all(&documents(results))
    }

    /// Prints results that were read from files. The text format prints only their summary.
    pub fn print_summary(&self, results: &[Saved], summary: &str) -> Result<Exit, Error> {
        let documents = documents(results);
        match self.format().name == TEXT.name {
            true => self.print_text(summary, &documents),
            false => self.print_all(&documents),
        }
    }

    fn print_text(&self, text: &str, results: &[Document<'_>]) -> Result<Exit, Error> {
        write_stdout(text)?;
        if let Some(path) = &self.html {
            flow::write_output(path, &(HTML.write)(results, TextOptions::default())?)?;
        }
        Ok(Exit::Ok)
    }

    fn format(&self) -> Format {
        if self.json { JSON } else { self.format }
    }

    pub fn text_options(&self) -> TextOptions {
        let stdout = std::io::stdout();
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colour = match self.color {
            ColorChoice::Auto => stdout.is_terminal() && !no_color,
            ColorChoice::Always => true,
            ColorChoice::Never => false,
        };
        TextOptions { colour, ..text_options() }
    }
}

fn documents(results: &[Saved]) -> Vec<Document<'_>> {
    results.iter().map(|saved| Document::with_name(&saved.name, saved)).collect()
}

/// Options for text of the terminal's width, without colour.
pub fn text_options() -> TextOptions {
    let columns = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(0, |size| size.ws_col);
    // A pipe gets the width of the documents.
    let width = if columns == 0 { 100 } else { columns.clamp(60, 200) };
    TextOptions { width, colour: false, ascii: is_ascii() }
}

/// Options for a list that is no result: a pipe gets 80 columns.
pub fn list_options() -> TextOptions {
    let width = if std::io::stdout().is_terminal() { text_options().width } else { 80 };
    TextOptions { width, ..text_options() }
}

/// Prints bytes of other programs: unchanged to a file or a pipe, and escaped to a terminal.
pub fn write_foreign(mut to: impl Write + IsTerminal, bytes: &[u8]) -> std::io::Result<()> {
    match to.is_terminal() {
        true => to.write_all(escape_foreign(bytes).as_bytes()),
        false => to.write_all(bytes),
    }
}

/// Escapes control characters except newlines and tabs. Drops carriage returns before newlines,
/// because serial lines end with both.
fn escape_foreign(bytes: &[u8]) -> String {
    let line = |line: &str| {
        let (text, end) = match line.strip_suffix('\n') {
            Some(text) => (text.trim_end_matches('\r'), "\n"),
            None => (line, ""),
        };
        let cells: Vec<String> = text.split('\t').map(escape).collect();
        cells.join("\t") + end
    };
    String::from_utf8_lossy(bytes).split_inclusive('\n').map(line).collect()
}

/// Prints a text, or its data as JSON.
pub fn write_text_or_json(is_json: bool, text: &str, json: &Value) -> Result<Exit, Error> {
    write_stdout(&if is_json { to_json(json)? } else { format!("{text}\n") })?;
    Ok(Exit::Ok)
}

/// Prints a list as JSON, or as a table. A narrow terminal gets no `optional` columns.
pub fn print_list<T>(
    is_json: bool,
    list: &[T],
    json_of: impl Fn(&T) -> Value,
    (heads, optional): (&[&str], &[usize]),
    row: impl Fn(&T) -> Vec<String>,
) -> Result<Exit, Error> {
    write_stdout(&match is_json {
        true => to_json(&list.iter().map(json_of).collect::<Vec<_>>())?,
        false => plain_table(heads, list.iter().map(row).collect(), optional, list_options()),
    })?;
    Ok(Exit::Ok)
}

/// Prints words for people, in characters that their terminal can show.
pub fn write_words(text: &str) -> std::io::Result<()> {
    match is_ascii() {
        true => write_stdout(&ascii(text)),
        false => write_stdout(text),
    }
}

/// Prints a text. A reader that closes the pipe (`| head`) is no error.
pub fn write_stdout(text: &str) -> std::io::Result<()> {
    write_bytes(text.as_bytes())
}

/// Prints bytes. A reader that closes the pipe is no error.
pub fn write_bytes(bytes: &[u8]) -> std::io::Result<()> {
    try_write(bytes).map(drop)
}

/// Prints a text. Returns false if the reader has closed the pipe.
pub fn try_write_stdout(text: &str) -> std::io::Result<bool> {
    try_write(text.as_bytes())
}

fn try_write(bytes: &[u8]) -> std::io::Result<bool> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => {
            let text =
                format!("cannot print: {error}; free disk space, or redirect the output elsewhere");
            Err(std::io::Error::new(error.kind(), text))
        }
        Ok(()) => Ok(true),
    }
}

/// Path as text for JSON.
pub fn path_text(path: impl AsRef<Path>) -> String {
    path.as_ref().display().to_string()
}

/// Prints a note to stderr. A closed stderr (`2>&1 | head`) is no error, and control characters
/// from files are escaped.
macro_rules! note {
    ($($text:tt)*) => {{
        use std::io::Write;
        let text = std::fmt::format(format_args!($($text)*));
        let text = crate::text::escape_lines(&text);
        let text = if crate::cmd::output::is_ascii() { crate::text::ascii(&text) } else { text };
        let _ = writeln!(std::io::stderr(), "{text}");
    }};
}

pub(crate) use note;

/// Notes that the user stopped the command. `next_step` is empty, or `; ` and how to continue.
pub fn note_stopped(next_step: &str) -> Exit {
    note!("ktax: stopped{next_step}");
    Exit::Cancelled
}

/// Notes the directory of a run.
pub fn note_directory(out: &std::path::Path) {
    note!("ktax: everything is in {}", crate::text::shell_path(out));
}

/// Returns true if the user's locale is not UTF-8, as with `LANG=C`. Without a locale, as in
/// containers and CI, readers accept UTF-8.
pub fn is_ascii() -> bool {
    let value_of = |name: &&str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(value_of);
    locale.is_some_and(|locale| !is_utf8(&locale))
}

/// Returns true if the encoding after the dot is UTF-8, as in `de_DE.UTF-8`.
fn is_utf8(locale: &str) -> bool {
    let encoding = locale.split('@').next().and_then(|locale| locale.split_once('.'));
    encoding.is_some_and(|(_, encoding)| {
        encoding.chars().filter(|c| *c != '-').collect::<String>().eq_ignore_ascii_case("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_other_programs_are_escaped() {
        for (bytes, expected) in [
            (&b"a\tb\r\nc\r\r\n"[..], "a\tb\nc\n"),
            (b"\x1b[2Jover\rwritten\n", "\\u{1b}[2Jover\\rwritten\n"),
            (b"\x9b1m \x07\xe2\x80\xae end", "\u{fffd}1m \\u{7}\\u{202e} end"),
            (b"last\r", "last\\r"),
            (b"", ""),
        ] {
            assert_eq!(escape_foreign(bytes), expected);
        }
    }

    #[test]
    fn utf8_locales_are_recognized() {
        for (locale, expected) in [
            ("C", false),
            ("POSIX", false),
            ("de_DE", false),
            ("de_DE.ISO-8859-1", false),
            ("C.UTF-8", true),
            ("en_US.utf8", true),
            ("ca_ES.UTF-8@valencia", true),
        ] {
            assert_eq!(is_utf8(locale), expected, "{locale}");
        }
    }
}
