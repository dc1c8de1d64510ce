//! The only parser of the guest's output, whose format `docs/wire.md` describes. The output is
//! untrusted.

mod answer;

use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use ktax_host::text::escape_bytes;
use ktax_model::{Error, ErrorKind, Failure, Layout, NamedFiles, Result, TracedCall, Workload};

use answer::{parse_refusal, parse_start};

pub use answer::{
    Answer, Done, Printed, PrintedText, is_finished, parse_answer, parse_printed, split_answers,
};

/// The version line as a literal, for texts that begin with it.
macro_rules! version_line {
    () => {
        "ktax 1"
    };
}

/// The first line of all orders and of all output of guests: the name and version of the format.
pub const VERSION: &str = version_line!();

/// The longest line, in bytes without the line feed.
const MAX_LINE_BYTES: usize = 4096;

/// Error for more lines of one kind than the format allows.
fn too_many(limit: usize) -> Error {
    Error::guest(format!("it has more than {limit} lines of one kind"))
}

/// The longest quotation in an error, in bytes before escaping.
const MAX_QUOTE_BYTES: usize = 80;

/// Reader of lines. Their numbers count from 1. A text without a line feed at the end is no line.
#[derive(Debug)]
struct Lines<'a> {
    rest: &'a [u8],
    number: usize,
}

/// One line: a keyword and its arguments.
#[derive(Debug, Clone, Copy)]
struct WireLine<'a> {
    number: usize,
    bytes: &'a [u8],
}

impl<'a> Lines<'a> {
    /// Checks the version line, and returns the lines after it.
    pub fn after_version(bytes: &'a [u8]) -> Result<Lines<'a>> {
        if bytes.is_empty() {
            return Err(Error::guest("the guest printed nothing").kind(ErrorKind::Empty));
        }
        let mut lines = Lines { rest: bytes, number: 0 };
        let first = lines.next()?;
        if first.bytes == VERSION.as_bytes() { Ok(lines) } else { Err(first.malformed()) }
    }

    /// Reads the next line. It is an error if there is none: an `end` line must come first.
    pub fn next(&mut self) -> Result<WireLine<'a>> {
        let window = &self.rest[..self.rest.len().min(MAX_LINE_BYTES + 1)];
        let Some(end) = window.iter().position(|byte| *byte == b'\n') else {
            return Err(match window.len() > MAX_LINE_BYTES {
                true => Error::guest(format!(
                    "line {} is longer than {MAX_LINE_BYTES} bytes",
                    self.number + 1
                )),
                false if window.is_empty() => {
                    Error::guest(format!("the output ends early, after line {}", self.number))
                        .kind(ErrorKind::Truncated)
                }
                false => WireLine { number: self.number + 1, bytes: window }.malformed(),
            });
        };
        self.number += 1;
        let bytes = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        Ok(WireLine { number: self.number, bytes })
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Checks that no line follows.
    pub fn expect_end(&mut self) -> Result<()> {
        if self.is_empty() { Ok(()) } else { Err(self.next()?.malformed()) }
    }
}

impl<'a> WireLine<'a> {
    /// Splits the line into its keyword and the rest, both printable ASCII.
    pub fn split(self) -> Result<(&'a str, &'a str)> {
        let printable = self.bytes.iter().all(|byte| (0x20..0x7f).contains(byte));
        let text = std::str::from_utf8(self.bytes).ok().filter(|_| printable);
        let text = text.ok_or_else(|| self.malformed())?;
        Ok(text.split_once(' ').unwrap_or((text, "")))
    }

    /// Returns the rest of the line after `keyword`.
    pub fn expect(self, keyword: &str) -> Result<&'a str> {
        let (found, rest) = self.split()?;
        if found == keyword { Ok(rest) } else { Err(self.malformed()) }
    }

    pub fn malformed(self) -> Error {
        let quote = escape_bytes(&self.bytes[..self.bytes.len().min(MAX_QUOTE_BYTES)]);
        Error::guest(format!("line {} is malformed: {quote}", self.number))
    }
}

fn decimal(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Returns whether a text can be the name of a Workload, a parameter or a signature entry:
/// `[a-z0-9-]{1,32}`.
fn is_name(text: &str) -> bool {
    let is_name_byte =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=32).contains(&text.len()) && text.bytes().all(is_name_byte)
}

/// The order that asks for the symbol table.
pub const SYMBOLS_ORDER: &str = concat!(version_line!(), "\nphase 0\nops 1\nrun symbols\nend\n");

/// The order that asks for the symbols of a kernel that are no functions.
pub const VARIABLES_ORDER: &str =
    concat!(version_line!(), "\nphase 0\nops 1\nrun symbols\nparam variables 1\nend\n");

/// Returns the arguments of the guest program for a Workload on the running kernel. They have the
/// content of an order: the Workload, `ops`, and the parameters.
pub fn arguments(workload: &Workload) -> Vec<String> {
    let params = workload.params.iter().map(|(name, value)| format!("{name}={value}"));
    [workload.program.clone(), format!("ops={}", workload.ops)].into_iter().chain(params).collect()
}

/// Returns the order for one Workload under one Layout.
pub fn order(workload: &Workload, layout: &Layout) -> String {
    let mut text = format!("{VERSION}\nphase {}\nops {}\n", layout.phase, workload.ops);
    text += &format!("run {}\n", workload.program);
    for (name, value) in &workload.params {
        writeln!(text, "param {name} {value}").expect("a String takes everything");
    }
    text + "end\n"
}

/// The longest part of the console in a message, in bytes before escaping.
const MAX_TAIL_BYTES: usize = 240;

/// Returns the text after `Kernel panic - not syncing: ` on the console, escaped.
pub fn panic_message(console: &[u8]) -> Option<String> {
    const PREFIX: &[u8] = b"Kernel panic - not syncing: ";
    let start = console.windows(PREFIX.len()).position(|window| window == PREFIX)?;
    let message = &console[start + PREFIX.len()..];
    let end = message.iter().position(|byte| b"\r\n".contains(byte)).unwrap_or(message.len());
    Some(escape_bytes(&message[..end.min(MAX_TAIL_BYTES)]))
}

/// Fails if the console has the first line of a panic.
pub(super) fn check_panic_message(console: &[u8]) -> Result<(), Failure> {
    panic_message(console).map_or(Ok(()), |message| Err(Failure::Panic { message }))
}

/// Returns the message of a panic if the console also has its last line: then the kernel only waits
/// for a reset.
pub fn finished_panic_message(console: &[u8]) -> Option<String> {
    const LAST_LINE: &[u8] = b"---[ end Kernel panic - not syncing: ";
    let is_finished = console.windows(LAST_LINE.len()).any(|window| window == LAST_LINE);
    if is_finished { panic_message(console) } else { None }
}

/// Returns the end of a console, escaped, on one line.
pub fn tail(console: &[u8]) -> String {
    escape_bytes(&console[console.len().saturating_sub(MAX_TAIL_BYTES)..])
}

/// A guest's report about itself, which it prints before its freeze.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// `uname -r`.
    pub release: String,
    /// GNU build-id in hexadecimal.
    pub build_id: Option<String>,
    /// Boot parameters that the kernel does not know, and ignores.
    pub ignored: Vec<String>,
    /// Kernel threads that still ran when the guest stopped waiting for an idle kernel.
    pub busy: Vec<String>,
    /// Preparations that failed before the freeze: modules, the disk; escaped.
    pub failed: Vec<String>,
    /// The driver for crc32c in /proc/crypto; `None` for a guest without a disk.
    pub crc32c: Option<String>,
    /// True if the kernel's random number generator has no seed.
    pub is_unseeded: bool,
}

/// The largest number of lines of one kind in a hello.
const MAX_HELLO_LINES: usize = 64;

pub fn parse_hello(wire: &[u8]) -> Result<Hello> {
    let mut lines = Lines::after_version(wire)?;
    let mut ignored = Vec::new();
    let line = loop {
        let line = lines.next()?;
        match line.split()? {
            ("ignored", parameter) if ignored.len() < MAX_HELLO_LINES => {
                ignored.push(parameter.to_owned());
            }
            _ => break line,
        }
    };
    let release = line.expect("release")?;
    if release.is_empty() || release.contains(' ') {
        return Err(line.malformed());
    }
    let mut hello = Hello {
        release: release.to_owned(),
        build_id: None,
        ignored,
        busy: Vec::new(),
        failed: Vec::new(),
        crc32c: None,
        is_unseeded: false,
    };
    loop {
        let line = lines.next()?;
        match line.split()? {
            ("build-id", id) if hello.build_id.is_none() && is_build_id(id) => {
                hello.build_id = Some(id.to_owned());
            }
            ("crc32c", driver) if hello.crc32c.is_none() && is_driver(driver) => {
                hello.crc32c = Some(driver.to_owned());
            }
            ("unseeded", "") => hello.is_unseeded = true,
            ("busy", task) if hello.busy.len() < MAX_HELLO_LINES => {
                hello.busy.push(task.to_owned());
            }
            ("failed", message) if hello.failed.len() < MAX_HELLO_LINES => {
                hello.failed.push(escape_bytes(message.as_bytes()));
            }
            ("ready", "") => break,
            _ => return Err(line.malformed()),
        }
    }
    lines.expect_end()?;
    Ok(hello)
}

fn is_driver(text: &str) -> bool {
    (1..128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is_build_id(text: &str) -> bool {
    (8..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Parses `/proc/kallsyms` as the guest sends it and returns the plugin's symbol file: the
/// functions of the kernel and its modules, sorted by address, one for each address.
pub fn parse_symbols(wire: &[u8]) -> Result<String> {
    let mut functions =
        parse_symbol_lines(wire, |address, kind| address >> 63 == 1 && is_text(kind))?;
    if functions.is_empty() {
        return Err(Error::guest("the symbol table has no kernel functions")
            .next("check that kernel.kptr_restrict is not 2"));
    }
    // Sort, because the order of the table may differ between boots. Of several names of one
    // address, keep that of a function: the plugin would not find a function under the name of the
    // section that begins or ends there.
    functions.sort_unstable_by_key(|&(address, name)| (address, is_section_bound(name), name));
    functions.dedup_by_key(|(address, _)| *address);
    Ok(symbol_file(&functions))
}

/// Returns whether this is a symbol that the linker script defines at the start or end of a
/// section, such as `__irqentry_text_start` or `_stext`.
fn is_section_bound(name: &str) -> bool {
    let has_section_suffix = name.strip_prefix("__").is_some_and(|rest| {
        ["_start", "_end", "_begin"].iter().any(|suffix| rest.ends_with(suffix))
    });
    has_section_suffix
        || matches!(name, "_text" | "_stext" | "_etext" | "_sinittext" | "_einittext")
}

/// Parses `/proc/kallsyms` and returns all symbols that are no functions: variables, also per-CPU
/// variables, which have low addresses. Several symbols may have the same address. A kernel without
/// `CONFIG_KALLSYMS_ALL` lists few variables.
pub fn parse_variables(wire: &[u8]) -> Result<String> {
    Ok(symbol_file(&parse_symbol_lines(wire, |_, kind| !is_text(kind))?))
}

/// Returns the text of a symbol file: a line with address and name for each symbol.
fn symbol_file(symbols: &[(u64, &str)]) -> String {
    symbols.iter().map(|(address, name)| format!("{address:016x} {name}\n")).collect()
}

fn is_text(kind: &str) -> bool {
    matches!(kind, "t" | "T" | "w" | "W")
}

/// Parses the symbols that `is_wanted` accepts, sorted by address.
fn parse_symbol_lines(wire: &[u8], is_wanted: fn(u64, &str) -> bool) -> Result<Vec<(u64, &str)>> {
    let mut lines = Lines::after_version(wire)?;
    let start = lines.next()?;
    if start.expect("start")? != "symbols" {
        return Err(start.malformed());
    }
    let mut symbols = Vec::new();
    loop {
        let line = lines.next()?;
        if line.bytes == b"end" {
            break;
        }
        let text = std::str::from_utf8(line.bytes).map_err(|_| line.malformed())?;
        symbols.extend(parse_symbol(text, is_wanted).map_err(|()| line.malformed())?);
    }
    lines.expect_end()?;
    symbols.sort_unstable();
    Ok(symbols)
}

/// Parses one symbol; `None` if the symbol is not wanted, or if its name does not fit a symbol
/// file.
fn parse_symbol(line: &str, is_wanted: fn(u64, &str) -> bool) -> Result<Option<(u64, &str)>, ()> {
    let mut fields = line.split_whitespace();
    let (Some(address), Some(kind), Some(name)) = (fields.next(), fields.next(), fields.next())
    else {
        return Err(());
    };
    let address = u64::from_str_radix(address, 16).map_err(|_| ())?;
    let fits_file = (1..=127).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.$".contains(&byte));
    Ok((fits_file && is_wanted(address, kind)).then_some((address, name)))
}

/// Parses the lines between `start PROGRAM` and `end`. `parse_line` gets the keyword and the rest
/// of each line, and returns false for a line that is not allowed. The inner error is the escaped
/// reason of a `fail` line.
fn parse_body(
    wire: &[u8],
    program: &str,
    mut parse_line: impl FnMut(&str, &str) -> Result<bool>,
) -> Result<Result<(), String>> {
    let mut lines = match parse_start(wire, program)? {
        Ok(lines) => lines,
        Err(reason) => return Ok(Err(reason)),
    };
    loop {
        let line = lines.next()?;
        // A reason may quote text of the kernel, so it can have any bytes.
        if let Some(text) = line.bytes.strip_prefix(b"fail ") {
            return Ok(Err(parse_refusal(text, lines)?));
        }
        match line.split()? {
            ("end", "") => break,
            (keyword, rest) if parse_line(keyword, rest)? => {}
            _ => return Err(line.malformed()),
        }
    }
    lines.expect_end()?;
    Ok(Ok(()))
}

/// Parses the answer to an order that traces the system calls of `program`. The inner error is the
/// escaped reason why there are none.
pub fn parse_trace(wire: &[u8], program: &str) -> Result<Result<Vec<TracedCall>, String>> {
    let mut calls = Vec::new();
    let parsed = parse_body(wire, program, |keyword, rest| {
        match keyword {
            "call" => match parse_call(rest) {
                Some(call) => calls.push(call),
                None => return Ok(false),
            },
            // The tracer also sends values such as page faults, and the program's output.
            "value" | "stdout" | "stderr" | "cut" => {}
            _ => return Ok(false),
        }
        if calls.len() > TracedCall::MAX_CALLS {
            Err(too_many(TracedCall::MAX_CALLS))
        } else {
            Ok(true)
        }
    })?;
    Ok(parsed.map(|()| calls))
}

fn parse_call(fields: &str) -> Option<TracedCall> {
    let mut numbers = fields.split(' ').map(decimal);
    let mut next = || numbers.next().flatten();
    let (task, number, result_hash) = (next()?, next()?, next()?);
    numbers.next().is_none().then_some(())?;
    Some(TracedCall {
        task: task.try_into().ok()?,
        number: number.try_into().ok()?,
        result_hash: result_hash.try_into().ok()?,
    })
}

/// Parses the answer to an order that traces the files of `program`. The inner error is the escaped
/// reason why there are none.
pub fn parse_files(wire: &[u8], program: &str) -> Result<Result<NamedFiles, String>> {
    let mut files = NamedFiles::default();
    let parsed = parse_body(wire, program, |keyword, rest| {
        let list = match keyword {
            "opened" => &mut files.opened,
            "executed" => &mut files.executed,
            "missing" => &mut files.missing,
            "value" => {
                files.status = parse_status(rest).unwrap_or(files.status);
                return Ok(true);
            }
            _ => return Ok(false),
        };
        let Some(path) = parse_path(rest) else { return Ok(false) };
        list.push(path);
        if list.len() > NamedFiles::MAX_FILES {
            Err(too_many(NamedFiles::MAX_FILES))
        } else {
            Ok(true)
        }
    })?;
    Ok(parsed.map(|()| files))
}

/// Parses a `status` or a `signal` as an exit status; a signal is 128 plus its number, as in a
/// shell.
fn parse_status(entry: &str) -> Option<u64> {
    match entry.split_once(' ')? {
        ("status", status) => decimal(status),
        ("signal", signal) => decimal(signal)?.checked_add(128),
        _ => None,
    }
}

/// Parses an absolute path, in which `%XX` is a byte.
fn parse_path(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let byte = match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            b' ' => return None,
            plain => plain,
        };
        bytes.push(byte);
    }
    (bytes.starts_with(b"/") && !bytes.contains(&0)).then(|| OsString::from_vec(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_panic_is_found_and_finished_by_its_last_line() {
        let console =
            b"[ 1.0] x\r\n[ 2.0] Kernel panic - not syncing: VFS: \x1b[31mno root\r\nmore";
        assert_eq!(panic_message(console).as_deref(), Some("VFS: \\x1b[31mno root"));
        assert_eq!(panic_message(b"all is well"), None);
        assert_eq!(finished_panic_message(console), None);
        let end = b"\n[ 2.1] ---[ end Kernel panic - not syncing: VFS: \x1b[31mno root ]---\n";
        let console = [&console[..], end].concat();
        assert_eq!(finished_panic_message(&console).as_deref(), Some("VFS: \\x1b[31mno root"));
    }

    #[test]
    fn a_hello_has_a_release_and_maybe_a_build_id() {
        let with_id = b"ktax 1\nrelease 6.1.0-56-cloud-amd64\nbuild-id 0123456789abcdef\nready\n";
        let hello = parse_hello(with_id).unwrap();
        assert_eq!(hello.release, "6.1.0-56-cloud-amd64");
        assert_eq!(hello.build_id.as_deref(), Some("0123456789abcdef"));
        let without_id = parse_hello(b"ktax 1\nrelease 6.12.0\nready\n").unwrap();
        assert_eq!((without_id.build_id, without_id.is_unseeded), (None, false));
    }

    #[test]
    fn a_hello_lists_busy_threads_and_a_missing_seed() {
        let disk = parse_hello(b"ktax 1\nrelease 6\ncrc32c crc32c-intel\nready\n").unwrap();
        assert_eq!(disk.crc32c.as_deref(), Some("crc32c-intel"));
        let wire = b"ktax 1\nrelease 6\nunseeded\nbusy cryptomgr_test\nbusy kworker/0:1\nready\n";
        let hello = parse_hello(wire).unwrap();
        assert!(hello.is_unseeded);
        assert_eq!(hello.busy, ["cryptomgr_test", "kworker/0:1"]);
    }

    #[test]
    fn malformed_hellos_are_refused() {
        for wire in [
            &b""[..],
            b"ktax 2\nrelease 6\nready\n",
            b"ktax 1\nrelease \nready\n",
            b"ktax 1\nrelease 6\nbuild-id zz\nready\n",
            b"ktax 1\nrelease 6\ncrc32c \nready\n",
            b"ktax 1\nrelease 6\ncrc32c a\ncrc32c b\nready\n",
            b"ktax 1\nrelease 6\nready\nready\n",
            b"ktax 1\nrelease 6\nready",
            b"ktax 1\nrelease \x1b[31m6\nready\n",
        ] {
            assert!(parse_hello(wire).is_err(), "{}", wire.escape_ascii());
        }
    }

    #[test]
    fn functions_of_the_image_and_of_modules_are_kept_in_order() {
        let wire = b"ktax 1\nstart symbols\n\
            ffffffff81000040 T second\n\
            ffffffff81000000 t b_first\n\
            ffffffff81000000 T a_first\n\
            ffffffff82000000 D data\n\
            0000000000001000 T percpu\n\
            ffffffffc0000000 t helper\t[module]\n\
            end\n";
        let symbols = parse_symbols(wire).unwrap();
        let image = "ffffffff81000000 a_first\nffffffff81000040 second\n";
        assert_eq!(symbols, format!("{image}ffffffffc0000000 helper\n"));
    }

    #[test]
    fn a_function_is_named_rather_than_the_section_that_begins_with_it() {
        let wire = b"ktax 1\nstart symbols\n\
            ffffffff81000000 T _stext\n\
            ffffffff81000000 T startup_64\n\
            ffffffff81800200 T __irqentry_text_start\n\
            ffffffff81800200 T irq_entries_start\n\
            ffffffff81801000 T __irqentry_text_end\n\
            end\n";
        let image = "ffffffff81000000 startup_64\nffffffff81800200 irq_entries_start\n";
        assert_eq!(
            parse_symbols(wire).unwrap(),
            format!("{image}ffffffff81801000 __irqentry_text_end\n")
        );
    }

    #[test]
    fn variables_are_all_symbols_but_functions() {
        let wire = b"ktax 1\nstart symbols\n\
            ffffffff82000000 D data\n\
            ffffffff81000000 T function\n\
            0000000000001000 A percpu\n\
            ffffffff82000000 b also_there\n\
            end\n";
        let high = "ffffffff82000000 also_there\nffffffff82000000 data\n";
        assert_eq!(parse_variables(wire).unwrap(), format!("0000000000001000 percpu\n{high}"));
    }

    #[test]
    fn a_table_of_zero_addresses_is_refused() {
        let wire = b"ktax 1\nstart symbols\n0000000000000000 T _stext\nend\n";
        assert!(parse_symbols(wire).unwrap_err().message().ends_with("no kernel functions"));
    }

    fn parse_calls(middle: &str) -> Result<Result<Vec<TracedCall>, String>> {
        parse_trace(format!("ktax 1\nstart program\n{middle}").as_bytes(), "program")
    }

    #[test]
    fn calls_keep_their_order() {
        let calls = parse_calls("call 0 96 7\nvalue page-faults 3\ncall 1 511 4294967295\nend\n");
        let calls = calls.unwrap().unwrap();
        let traced = |task, number, result_hash| TracedCall { task, number, result_hash };
        assert_eq!(calls, [traced(0, 96, 7), traced(1, TracedCall::RDTSC, u32::MAX)]);
    }

    #[test]
    fn a_failed_program_has_an_escaped_reason() {
        assert_eq!(
            parse_calls("call 0 96 7\nfail it \x1b[2J\n").unwrap(),
            Err("it \\x1b[2J".into())
        );
        assert_eq!(parse_trace(b"ktax 1\nfail order: x\n", "program"), Ok(Err("order: x".into())));
    }

    #[test]
    fn malformed_calls_are_refused() {
        for line in ["call 0 96", "call 0 96 7 8", "call 0 -1 7", "call 65536 1 7", "sig a 1", ""] {
            assert!(parse_calls(&format!("{line}\nend\n")).is_err(), "{line}");
        }
        assert!(parse_calls("call 0 96 7\n").is_err());
        assert!(parse_calls("end\nend\n").is_err());
        assert!(parse_trace(b"ktax 1\nstart pipe\nend\n", "program").is_err());
        let many = "call 0 1 2\n".repeat(TracedCall::MAX_CALLS + 1);
        assert_eq!(parse_calls(&many), Err(too_many(TracedCall::MAX_CALLS)));
    }

    fn parse_names(middle: &str) -> Result<Result<NamedFiles, String>> {
        parse_files(format!("ktax 1\nstart program\n{middle}").as_bytes(), "program")
    }

    #[test]
    fn files_are_listed_by_the_outcome_of_the_call() {
        let text = "executed /bin/perl\nopened /a%20b%25\nmissing /x\nmissing /c\n\
            value page-faults 3\nvalue status 2\nend\n";
        let files = parse_names(text).unwrap().unwrap();
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let wanted = NamedFiles {
            opened: paths(&["/a b%"]),
            executed: paths(&["/bin/perl"]),
            missing: paths(&["/x", "/c"]),
            status: 2,
        };
        assert_eq!(files, wanted);
        assert_eq!(parse_names("value signal 11\nend\n").unwrap().unwrap().status, 139);
        assert_eq!(parse_names("fail mount: no\n").unwrap(), Err("mount: no".into()));
    }

    #[test]
    fn malformed_paths_are_refused() {
        for line in
            ["opened", "opened a", "opened /%2", "opened /%zz", "opened /%00", "opened /a b"]
        {
            assert!(parse_names(&format!("{line}\nend\n")).is_err(), "{line}");
        }
        assert!(parse_names("opened /a\n").is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let head = b"ktax 1\nstart program\n".to_vec();
            drop(parse_files(&[head, bytes].concat(), "program"));
        }
    }
}
