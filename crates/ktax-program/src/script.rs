//! Scripts: the `#!` of their first line.

use std::path::Path;

use super::error::ProgramError;
use ktax_host::text::escape_path;

/// As much of the first line as Linux reads.
const LONGEST_LINE: usize = 256;

/// The words behind `#!`: the interpreter and at most one argument; `None` if it is no script.
pub(super) fn interpreter(bytes: &[u8], path: &Path) -> Result<Option<Vec<String>>, ProgramError> {
    let Some(rest) = bytes.strip_prefix(b"#!") else { return Ok(None) };
    let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(&line[..line.len().min(LONGEST_LINE)]).into_owned();
    // A carriage return is a part of the name, as it is to Linux.
    let line = line.trim_matches([' ', '\t']);
    let (program, argument) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    if !program.starts_with('/') {
        return Err(ProgramError::NoInterpreter { path: escape_path(path).to_string() });
    }
    let argument = Some(argument.trim()).filter(|argument| !argument.is_empty());
    Ok(Some([Some(program), argument].into_iter().flatten().map(str::to_owned).collect()))
}

/// What `env` runs: `env python3`, `env -S python3 -u`.
pub(super) fn behind_env(words: &[String]) -> Option<&str> {
    let (program, rest) = words.split_first()?;
    let is_env = Path::new(program).file_name().is_some_and(|name| name == "env");
    let mut rest = rest.iter().flat_map(|word| word.split_whitespace());
    is_env.then(|| rest.find(|word| !word.starts_with('-') && !word.contains('=')))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Option<Vec<String>>, ProgramError> {
        interpreter(text.as_bytes(), Path::new("script"))
    }

    #[test]
    fn an_interpreter_has_at_most_one_argument() {
        assert_eq!(of("#!/bin/sh\necho").unwrap().unwrap(), ["/bin/sh"]);
        assert_eq!(of("#! /bin/sh -e -u \n").unwrap().unwrap(), ["/bin/sh", "-e -u"]);
        assert_eq!(of("echo\n").unwrap(), None);
        assert_eq!(of("#!/bin/sh\r\n").unwrap().unwrap(), ["/bin/sh\r"]);
        assert!(matches!(of("#!\n"), Err(ProgramError::NoInterpreter { .. })));
    }

    #[test]
    fn env_names_the_program_in_its_argument() {
        let words = |text: &str| of(text).unwrap().unwrap();
        assert_eq!(behind_env(&words("#!/usr/bin/env python3")), Some("python3"));
        assert_eq!(behind_env(&words("#!/usr/bin/env -S A=1 perl -w")), Some("perl"));
        assert_eq!(behind_env(&words("#!/bin/sh -e")), None);
    }
}
