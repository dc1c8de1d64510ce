//! The only parser of what the guest prints: `docs/wire.md`. Its input is untrusted.

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

/// The first line of everything that the guest prints; it has the version of the format.
pub const VERSION: &str = "ktax 1";

const LINE_BYTES: usize = 4096;

/// The error of more lines of one kind than the format allows.
fn too_many(limit: usize) -> Error {
    Error::guest(format!("it has more than {limit} lines of one kind"))
}

/// The longest quotation in an error, in bytes before escaping.
const QUOTE_BYTES: usize = 80;

/// Lines with their numbers, which count from 1. A last line without a line feed is not a line.
#[derive(Debug)]
struct Lines<'a> {
    rest: &'a [u8],
    number: usize,
}

/// One line: a keyword and what follows it.
#[derive(Debug, Clone, Copy)]
struct WireLine<'a> {
    number: usize,
    bytes: &'a [u8],
}

impl<'a> Lines<'a> {
    pub fn after_version(bytes: &'a [u8]) -> Result<Lines<'a>> {
        if bytes.is_empty() {
            return Err(Error::guest("the guest printed nothing").kind(ErrorKind::Empty));
        }
        let mut lines = Lines { rest: bytes, number: 0 };
        let first = lines.next()?;
        if first.bytes == VERSION.as_bytes() { Ok(lines) } else { Err(first.malformed()) }
    }

    /// Reads the next line. Every format requires that there is one.
    pub fn next(&mut self) -> Result<WireLine<'a>> {
        let window = &self.rest[..self.rest.len().min(LINE_BYTES + 1)];
        let Some(end) = window.iter().position(|byte| *byte == b'\n') else {
            return Err(match window.len() > LINE_BYTES {
                true => Error::guest(format!(
                    "line {} is longer than {LINE_BYTES} bytes",
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

    /// Checks that nothing follows the end.
    pub fn nothing_more(&mut self) -> Result<()> {
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
        let quote = escape_bytes(&self.bytes[..self.bytes.len().min(QUOTE_BYTES)]);
        Error::guest(format!("line {} is malformed: {quote}", self.number))
    }
}

fn decimal(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Checks the name of a Workload, a parameter or a signature entry: `[a-z0-9-]{1,32}`.
fn is_name(text: &str) -> bool {
    let is_name_byte =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=32).contains(&text.len()) && text.bytes().all(is_name_byte)
}

/// The order that asks for the symbol table.
pub const SYMBOLS_ORDER: &str = "ktax 1\nphase 0\nops 1\nrun symbols\nend\n";

/// The order that asks for all other symbols of a kernel.
pub const VARIABLES_ORDER: &str = "ktax 1\nphase 0\nops 1\nrun symbols\nparam variables 1\nend\n";

/// Returns the arguments of the guest program when it runs as a plain process: as in an order.
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
const TAIL_BYTES: usize = 240;

/// Returns the text after `Kernel panic - not syncing: ` on the console, escaped.
pub fn panic_message(console: &[u8]) -> Option<String> {
    const MARK: &[u8] = b"Kernel panic - not syncing: ";
    let start = console.windows(MARK.len()).position(|window| window == MARK)?;
    let message = &console[start + MARK.len()..];
    let end = message.iter().position(|byte| b"\r\n".contains(byte)).unwrap_or(message.len());
    Some(escape_bytes(&message[..end.min(TAIL_BYTES)]))
}

/// Fails if the kernel has panicked.
pub(super) fn check_panic(console: &[u8]) -> Result<(), Failure> {
    panic_message(console).map_or(Ok(()), |message| Err(Failure::Panic { message }))
}

/// Returns the message of a panic once the kernel has printed all of it and only waits for a reset.
pub fn panic_that_stays(console: &[u8]) -> Option<String> {
    const LAST: &[u8] = b"---[ end Kernel panic - not syncing: ";
    let is_whole = console.windows(LAST.len()).any(|window| window == LAST);
    if is_whole { panic_message(console) } else { None }
}

/// Returns the end of a console, escaped, on one line.
pub fn tail(console: &[u8]) -> String {
    escape_bytes(&console[console.len().saturating_sub(TAIL_BYTES)..])
}

/// The report of a guest about itself before its freeze.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// `uname -r`.
    pub release: String,
    /// GNU build-id in hexadecimal.
    pub build_id: Option<String>,
    /// Boot parameters that the kernel does not know.
    pub ignored: Vec<String>,
    /// Kernel threads that still ran when the guest no longer waited for an idle kernel.
    pub busy: Vec<String>,
    /// Preparations that failed before the freeze: modules, the disk; escaped.
    pub failed: Vec<String>,
    /// Name in /proc/crypto of the kernel's code that computes crc32c; only where there is a disk.
    pub crc32c: Option<String>,
    /// True if the kernel's random number generator has no seed.
    pub is_unseeded: bool,
}

/// The largest number of unknown boot parameters, or of busy kernel threads, in a hello.
const LINES: usize = 64;

pub fn parse_hello(wire: &[u8]) -> Result<Hello> {
    let mut lines = Lines::after_version(wire)?;
    let mut ignored = Vec::new();
    let line = loop {
        let line = lines.next()?;
        match line.split()? {
            ("ignored", parameter) if ignored.len() < LINES => {
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
            ("busy", task) if hello.busy.len() < LINES => hello.busy.push(task.to_owned()),
            ("failed", what) if hello.failed.len() < LINES => {
                hello.failed.push(escape_bytes(what.as_bytes()));
            }
            ("ready", "") => break,
            _ => return Err(line.malformed()),
        }
    }
    lines.nothing_more()?;
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
    // The order of the table may differ between boots. The name of a section that begins with a
    // function, or ends before it, would hide the function from the plugin.
    functions.sort_unstable_by_key(|&(address, name)| (address, is_section_bound(name), name));
    functions.dedup_by_key(|(address, _)| *address);
    Ok(symbol_file(&functions))
}

/// Checks for a name that the linker gives to an end of a section: `__irqentry_text_start`,
/// `_stext`.
fn is_section_bound(name: &str) -> bool {
    let of_section = name.strip_prefix("__").is_some_and(|rest| {
        ["_start", "_end", "_begin"].iter().any(|suffix| rest.ends_with(suffix))
    });
    of_section || matches!(name, "_text" | "_stext" | "_etext" | "_sinittext" | "_einittext")
}

/// Parses `/proc/kallsyms` and returns all symbols that are no functions: variables, also those of
/// which each CPU has one, at low addresses. Several may have one address. A kernel without
/// `CONFIG_KALLSYMS_ALL` has few.
pub fn parse_variables(wire: &[u8]) -> Result<String> {
    Ok(symbol_file(&parse_symbol_lines(wire, |_, kind| !is_text(kind))?))
}

fn symbol_file(symbols: &[(u64, &str)]) -> String {
    symbols.iter().map(|(address, name)| format!("{address:016x} {name}\n")).collect()
}

fn is_text(kind: &str) -> bool {
    matches!(kind, "t" | "T" | "w" | "W")
}

/// Parses the symbols that are asked for, sorted.
fn parse_symbol_lines(wire: &[u8], is_asked: fn(u64, &str) -> bool) -> Result<Vec<(u64, &str)>> {
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
        symbols.extend(parse_symbol(text, is_asked).map_err(|()| line.malformed())?);
    }
    lines.nothing_more()?;
    symbols.sort_unstable();
    Ok(symbols)
}

/// Parses one symbol; `None` if it is not asked for, or if no file can name it.
fn parse_symbol(line: &str, is_asked: fn(u64, &str) -> bool) -> Result<Option<(u64, &str)>, ()> {
    let mut fields = line.split_whitespace();
    let (Some(address), Some(kind), Some(name)) = (fields.next(), fields.next(), fields.next())
    else {
        return Err(());
    };
    let address = u64::from_str_radix(address, 16).map_err(|_| ())?;
    let nameable = (1..=127).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.$".contains(&byte));
    Ok((nameable && is_asked(address, kind)).then_some((address, name)))
}

/// Parses the lines between the start of `program` and its end. `parse_line` gets the keyword and
/// the rest of each, and returns false for a line that does not belong there. The inner error is
/// the escaped reason why there is no answer.
fn parse_between(
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
        // A reason may quote the kernel's own words; it is escaped, not refused.
        if let Some(text) = line.bytes.strip_prefix(b"fail ") {
            return Ok(Err(parse_refusal(text, lines)?));
        }
        match line.split()? {
            ("end", "") => break,
            (keyword, rest) if parse_line(keyword, rest)? => {}
            _ => return Err(line.malformed()),
        }
    }
    lines.nothing_more()?;
    Ok(Ok(()))
}

/// Parses the answer to an order that traces `program`: its calls, or the escaped reason why there
/// are none.
pub fn parse_trace(wire: &[u8], program: &str) -> Result<Result<Vec<TracedCall>, String>> {
    let mut calls = Vec::new();
    let parsed = parse_between(wire, program, |keyword, rest| {
        match keyword {
            "call" => match parse_call(rest) {
                Some(call) => calls.push(call),
                None => return Ok(false),
            },
            // The program and its tracer also send page faults and the like.
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
    let (task, number, given) = (next()?, next()?, next()?);
    numbers.next().is_none().then_some(())?;
    Some(TracedCall {
        task: task.try_into().ok()?,
        number: number.try_into().ok()?,
        result_hash: given.try_into().ok()?,
    })
}

/// Parses the answer to an order that traces the files of `program`; or the escaped reason why
/// there are none.
pub fn parse_files(wire: &[u8], program: &str) -> Result<Result<NamedFiles, String>> {
    let mut files = NamedFiles::default();
    let parsed = parse_between(wire, program, |keyword, rest| {
        let to = match keyword {
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
        to.push(path);
        if to.len() > NamedFiles::MAX_FILES {
            Err(too_many(NamedFiles::MAX_FILES))
        } else {
            Ok(true)
        }
    })?;
    Ok(parsed.map(|()| files))
}

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
    fn a_panic_is_found_between_other_lines() {
        let console =
            b"[ 1.0] x\r\n[ 2.0] Kernel panic - not syncing: VFS: \x1b[31mno root\r\nmore";
        assert_eq!(panic_message(console).as_deref(), Some("VFS: \\x1b[31mno root"));
        assert_eq!(panic_message(b"all is well"), None);
        assert_eq!(panic_that_stays(console), None);
        let end = b"\n[ 2.1] ---[ end Kernel panic - not syncing: VFS: \x1b[31mno root ]---\n";
        let console = [&console[..], end].concat();
        assert_eq!(panic_that_stays(&console).as_deref(), Some("VFS: \\x1b[31mno root"));
    }

    #[test]
    fn a_hello_has_a_release_and_maybe_a_build_id() {
        let with = b"ktax 1\nrelease 6.1.0-56-cloud-amd64\nbuild-id 0123456789abcdef\nready\n";
        let hello = parse_hello(with).unwrap();
        assert_eq!(hello.release, "6.1.0-56-cloud-amd64");
        assert_eq!(hello.build_id.as_deref(), Some("0123456789abcdef"));
        let without = parse_hello(b"ktax 1\nrelease 6.12.0\nready\n").unwrap();
        assert_eq!((without.build_id, without.is_unseeded), (None, false));
    }

    #[test]
    fn a_hello_says_what_is_not_settled_yet() {
        let disk = parse_hello(b"ktax 1\nrelease 6\ncrc32c crc32c-intel\nready\n").unwrap();
        assert_eq!(disk.crc32c.as_deref(), Some("crc32c-intel"));
        let wire = b"ktax 1\nrelease 6\nunseeded\nbusy cryptomgr_test\nbusy kworker/0:1\nready\n";
        let hello = parse_hello(wire).unwrap();
        assert!(hello.is_unseeded);
        assert_eq!(hello.busy, ["cryptomgr_test", "kworker/0:1"]);
    }

    #[test]
    fn anything_else_is_refused() {
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
    fn variables_are_all_others_and_those_of_each_cpu_among_them() {
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
    fn a_table_of_zeroes_is_no_table() {
        let wire = b"ktax 1\nstart symbols\n0000000000000000 T _stext\nend\n";
        assert!(parse_symbols(wire).unwrap_err().message().ends_with("no kernel functions"));
    }

    fn parse_calls(middle: &str) -> Result<Result<Vec<TracedCall>, String>> {
        parse_trace(format!("ktax 1\nstart program\n{middle}").as_bytes(), "program")
    }

    #[test]
    fn calls_are_in_their_order() {
        let calls = parse_calls("call 0 96 7\nvalue page-faults 3\ncall 1 511 4294967295\nend\n");
        let calls = calls.unwrap().unwrap();
        let traced = |task, number, result_hash| TracedCall { task, number, result_hash };
        assert_eq!(calls, [traced(0, 96, 7), traced(1, TracedCall::RDTSC, u32::MAX)]);
    }

    #[test]
    fn a_program_that_fails_says_why() {
        assert_eq!(
            parse_calls("call 0 96 7\nfail it \x1b[2J\n").unwrap(),
            Err("it \\x1b[2J".into())
        );
        assert_eq!(parse_trace(b"ktax 1\nfail order: x\n", "program"), Ok(Err("order: x".into())));
    }

    #[test]
    fn what_is_no_call_is_refused() {
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
    fn files_are_sorted_by_what_became_of_them() {
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
    fn what_is_no_path_is_refused() {
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
