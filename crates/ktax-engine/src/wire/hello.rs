//! A guest's report about itself: its hello, and the symbols of its kernel.

use serde::{Deserialize, Serialize};

use super::Lines;
use ktax_host::text::escape_bytes;
use ktax_model::{Error, Result};

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
    /// Whether the kernel's random number generator has no seed.
    pub is_unseeded: bool,
}

/// The largest number of unknown boot parameters, or of busy kernel threads, in a hello.
const LINES: usize = 64;

/// Parses a hello up to and including `ready`.
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
    // If an address has several names, the alphabetically first is used: the order of the table may
    // differ between boots.
    let mut functions =
        parse_symbol_lines(wire, |address, kind| address >> 63 == 1 && is_text(kind))?;
    if functions.is_empty() {
        return Err(Error::guest("the symbol table has no kernel functions")
            .next("check that kernel.kptr_restrict is not 2"));
    }
    functions.dedup_by_key(|(address, _)| *address);
    Ok(symbol_file(&functions))
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
        if line.bytes() == b"end" {
            break;
        }
        let text = std::str::from_utf8(line.bytes()).map_err(|_| line.malformed())?;
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
