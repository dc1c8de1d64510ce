use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::WireError;
use super::answer::{refused, started};
use super::lines::decimal;
use ktax_model::NamedFiles;

/// Parses the answer to an order that traces the files of `program`; or the escaped reason why
/// there are none.
///
/// # Errors
///
/// A line is malformed, or there are too many.
pub fn parse_files(wire: &[u8], program: &str) -> Result<Result<NamedFiles, String>, WireError> {
    let mut lines = match started(wire, program)? {
        Ok(lines) => lines,
        Err(reason) => return Ok(Err(reason)),
    };
    let mut files = NamedFiles::default();
    loop {
        let line = lines.next()?;
        if let Some(text) = line.bytes().strip_prefix(b"fail ") {
            return Ok(Err(refused(text, lines)?));
        }
        let (kind, rest) = line.split()?;
        let to = match (kind, rest) {
            ("opened", _) => &mut files.opened,
            ("executed", _) => &mut files.executed,
            ("missing", _) => &mut files.missing,
            ("value", entry) => {
                if let Some(status) = status(entry) {
                    files.status = status;
                }
                continue;
            }
            ("end", "") => break,
            _ => return Err(line.malformed()),
        };
        to.push(path(rest).ok_or_else(|| line.malformed())?);
        if to.len() > NamedFiles::MOST {
            return Err(WireError::TooMany { limit: NamedFiles::MOST });
        }
    }
    lines.nothing_more()?;
    Ok(Ok(files))
}

fn status(entry: &str) -> Option<u64> {
    match entry.split_once(' ')? {
        ("status", status) => decimal(status),
        ("signal", signal) => decimal(signal)?.checked_add(128),
        _ => None,
    }
}

/// An absolute path, in which `%XX` is a byte.
fn path(text: &str) -> Option<PathBuf> {
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
    use proptest::prelude::*;

    use super::*;

    fn parse(middle: &str) -> Result<Result<NamedFiles, String>, WireError> {
        parse_files(format!("ktax 1\nstart program\n{middle}").as_bytes(), "program")
    }

    #[test]
    fn files_are_sorted_by_what_became_of_them() {
        let text = "executed /bin/perl\nopened /a%20b%25\nmissing /x\nmissing /c\n\
            value page-faults 3\nvalue status 2\nend\n";
        let files = parse(text).unwrap().unwrap();
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let wanted = NamedFiles {
            opened: paths(&["/a b%"]),
            executed: paths(&["/bin/perl"]),
            missing: paths(&["/x", "/c"]),
            status: 2,
        };
        assert_eq!(files, wanted);
        assert_eq!(parse("value signal 11\nend\n").unwrap().unwrap().status, 139);
        assert_eq!(parse("fail mount: no\n").unwrap(), Err("mount: no".into()));
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for line in
            ["opened", "opened a", "opened /%2", "opened /%zz", "opened /%00", "opened /a b"]
        {
            assert!(parse(&format!("{line}\nend\n")).is_err(), "{line}");
        }
        assert!(parse("opened /a\n").is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let head = b"ktax 1\nstart program\n".to_vec();
            drop(parse_files(&[head, bytes].concat(), "program"));
        }
    }
}
