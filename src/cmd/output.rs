//! How a result reaches the user: every command prints through here.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};
use serde_json::Value;

use super::choice::{Choice, named, one_of};
use crate::flow::{self, Error};
use crate::model::Saved;
use crate::report::{self, FORMATS, Format, HTML, JSON, Report, TEXT, TextOptions, to_json};
use crate::text::{ascii, escape};

/// How to print.
#[derive(Debug, Clone, Args)]
pub struct OutputArgs {
    /// Print in this format
    #[arg(short, long, value_parser = named(FORMATS, |format| format.name, |_| ""))]
    #[arg(default_value = TEXT.name, help_heading = "Output")]
    format: Format,
    /// Print as JSON, the same as --format json
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    json: bool,
    /// Also write a page for a browser, with pictures, to this file
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new().try_map(page))]
    #[arg(help_heading = "Output")]
    html: Option<PathBuf>,
    /// Colour the verdicts of the text
    #[arg(long, value_parser = one_of(&COLOURS), default_value = "auto", value_name = "WHEN")]
    #[arg(help_heading = "Output")]
    color: Colour,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Colour {
    Auto,
    Always,
    Never,
}

const COLOURS: [Choice<Colour>; 3] =
    [(Colour::Auto, "auto", ""), (Colour::Always, "always", ""), (Colour::Never, "never", "")];

/// The path of a page. A measurement takes long: what cannot be written is said before it.
fn page(path: PathBuf) -> Result<PathBuf, Error> {
    flow::check_output(&path)?;
    Ok(path)
}

impl OutputArgs {
    /// Prints a result.
    pub fn print(&self, result: &dyn Report) -> Result<(), Error> {
        self.print_all(&[result])
    }

    /// Prints several results, one after the other.
    pub fn print_all(&self, results: &[&dyn Report]) -> Result<(), Error> {
        let text = report::render_all(results, self.format(), self.text_options())?;
        self.print_text(&text, results)
    }

    /// The same of results that were read.
    pub fn print_saved(&self, results: &[Saved]) -> Result<(), Error> {
        self.print_all(&results.iter().map(|result| result as &dyn Report).collect::<Vec<_>>())
    }

    /// The same, but for text, which is a summary.
    pub fn print_summary(&self, results: &[Saved], summary: &str) -> Result<(), Error> {
        let all: Vec<&dyn Report> = results.iter().map(|result| result as &dyn Report).collect();
        match self.format().name == TEXT.name {
            true => self.print_text(summary, &all),
            false => self.print_all(&all),
        }
    }

    fn print_text(&self, text: &str, results: &[&dyn Report]) -> Result<(), Error> {
        write_stdout(text)?;
        if let Some(path) = &self.html {
            flow::write_output(path, &report::render_all(results, HTML, TextOptions::default())?)?;
        }
        Ok(())
    }

    fn format(&self) -> Format {
        if self.json { JSON } else { self.format }
    }

    /// For a person at a terminal.
    pub fn text_options(&self) -> TextOptions {
        let stdout = std::io::stdout();
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colour = match self.color {
            Colour::Auto => stdout.is_terminal() && !no_color,
            Colour::Always => true,
            Colour::Never => false,
        };
        TextOptions { colour, ..text_options() }
    }
}

/// As wide as the terminal and without colour.
pub fn text_options() -> TextOptions {
    let columns = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(0, |size| size.ws_col);
    // A pipe gets the width that documents have.
    let width = if columns == 0 { 100 } else { columns.clamp(60, 200) };
    TextOptions { width, colour: false, ascii: is_ascii() }
}

/// The same of a list that is no result: a pipe gets 80 columns.
pub fn list_options() -> TextOptions {
    let width = if std::io::stdout().is_terminal() { text_options().width } else { 80 };
    TextOptions { width, ..text_options() }
}

/// Prints bytes of others: as they are to a file or a pipe, whose reader wants what was said, and
/// with nothing that acts to a terminal.
pub fn write_foreign(mut to: impl Write + IsTerminal, bytes: &[u8]) -> std::io::Result<()> {
    match to.is_terminal() {
        true => to.write_all(harmless(bytes).as_bytes()),
        false => to.write_all(bytes),
    }
}

/// Lines and their tabs stay; a carriage return is nothing at the end of a line, as serial lines
/// have it, and is shown elsewhere.
fn harmless(bytes: &[u8]) -> String {
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

/// Prints what is no result: a text, or the same as JSON.
pub fn write_either(is_json: bool, text: &str, json: &Value) -> Result<(), Error> {
    Ok(write_stdout(&if is_json { to_json(json)? } else { format!("{text}\n") })?)
}

/// Prints words for people, as far as their terminal can show them.
pub fn write_words(text: &str) -> std::io::Result<()> {
    match is_ascii() {
        true => write_stdout(&ascii(text)),
        false => write_stdout(text),
    }
}

/// Prints; a reader that has seen enough (`| head`) is no error.
pub fn write_stdout(text: &str) -> std::io::Result<()> {
    write_bytes(text.as_bytes())
}

/// The same of what may be no text.
pub fn write_bytes(bytes: &[u8]) -> std::io::Result<()> {
    offer(bytes).map(drop)
}

/// The same; whether somebody still reads it.
pub fn offer_stdout(text: &str) -> std::io::Result<bool> {
    offer(text.as_bytes())
}

fn offer(bytes: &[u8]) -> std::io::Result<bool> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => {
            let text = format!("cannot print: {error}; free space there, or print elsewhere");
            Err(std::io::Error::new(error.kind(), text))
        }
        Ok(()) => Ok(true),
    }
}

/// A path in JSON, which has no other bytes than text.
pub fn shown(path: impl AsRef<Path>) -> String {
    path.as_ref().display().to_string()
}

/// Tells the user something; one who does not listen (`2>&1 | head`) is no error. What comes from
/// files does nothing to a terminal.
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

/// Says where the files of a run are.
pub fn say_where(out: &std::path::Path) {
    note!("ktax: everything is in {}", crate::text::shell_path(out));
}

/// Whether the user's locale has nothing but ASCII, as `LANG=C` says. Where nothing is set, as in
/// containers and CI, whoever reads the output takes UTF-8.
pub fn is_ascii() -> bool {
    let named = |name: &&str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(named);
    locale.is_some_and(|locale| !is_utf8(&locale))
}

/// `de_DE.UTF-8`, `C.utf8@euro`: the part behind the dot is the encoding.
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
    fn what_others_say_does_nothing_and_stays_readable() {
        for (path, shown) in [
            (&b"a\tb\r\nc\r\r\n"[..], "a\tb\nc\n"),
            (b"\x1b[2Jover\rwritten\n", "\\u{1b}[2Jover\\rwritten\n"),
            (b"\x9b1m \x07\xe2\x80\xae end", "\u{fffd}1m \\u{7}\\u{202e} end"),
            (b"last\r", "last\\r"),
            (b"", ""),
        ] {
            assert_eq!(harmless(path), shown);
        }
    }

    #[test]
    fn the_encoding_is_behind_the_dot() {
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
