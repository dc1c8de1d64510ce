use serde::{Deserialize, Serialize};

use super::WireError;
use super::lines::Lines;
use ktax_host::text::escape_bytes;

/// What a guest reports about itself before its freeze.
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
    /// What the guest could not do before its freeze: modules, the disk; escaped.
    pub failed: Vec<String>,
    /// Where there is a disk: the kernel's code that computes crc32c, as /proc/crypto calls it.
    pub crc32c: Option<String>,
    /// Whether the kernel's random number generator has no seed.
    pub is_unseeded: bool,
}

/// The largest number of unknown boot parameters, or of busy kernel threads, in a hello.
const LINES: usize = 64;

/// Parses a hello up to and including `ready`.
///
/// # Errors
///
/// The bytes are not in the format of `docs/wire.md`.
pub fn parse_hello(wire: &[u8]) -> Result<Hello, WireError> {
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
}
