use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::dangerous::is_dangerous;

/// A path as a word of a command that somebody can type: quoted for the shell where it must be, and
/// no option where it begins with a hyphen.
pub fn shell_path(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    let own = Path::new(".").join(path);
    let path = if path.as_os_str().as_bytes().starts_with(b"-") { &own } else { path };
    shell_bytes(path.as_os_str().as_bytes())
}

/// A word of a command that somebody can type, likewise.
pub fn shell_word(word: &str) -> String {
    shell_bytes(word.as_bytes())
}

/// Words as the command that somebody can type.
pub fn shell_line(words: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let words = words.into_iter().map(|word| shell_word(word.as_ref()));
    words.collect::<Vec<String>>().join(" ")
}

fn shell_bytes(bytes: &[u8]) -> String {
    // shlex also quotes `=`, which only means something in front of a command.
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._/=,:@%+-".contains(byte);
    if !bytes.is_empty() && bytes.iter().all(is_plain) {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let plain = std::str::from_utf8(bytes).ok().filter(|text| !text.contains(is_dangerous));
    let quoted = plain.and_then(|text| shlex::try_quote(text).ok());
    quoted.map_or_else(|| in_dollar_quotes(bytes), Into::into)
}

/// `$'…'`, which bash, zsh and ksh read: what a terminal would act on is spelled.
fn in_dollar_quotes(bytes: &[u8]) -> String {
    let mut quoted = "$'".to_owned();
    for byte in bytes {
        match byte {
            b'\n' => quoted.push_str("\\n"),
            b'\\' | b'\'' => quoted.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => quoted.push(char::from(*byte)),
            byte => write!(quoted, "\\x{byte:02x}").expect("a string takes all"),
        }
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::process::Command;

    use super::*;

    #[test]
    fn plain_paths_stay_as_they_are() {
        for plain in ["out", "out/lsm-1", "/tmp/x_y.d", "../a,b=c"] {
            assert_eq!(shell_path(plain), plain);
        }
        assert_eq!(shell_path("my dir"), "'my dir'");
        assert_eq!(shell_path("-x"), "./-x");
        assert_eq!(shell_path("two\nlines"), "$'two\\nlines'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn a_shell_reads_what_was_quoted() {
        let hard: [&[u8]; 9] = [
            b"my dir",
            b"it's",
            b"a\nb",
            b"\x1b[31m'\\x",
            b"$HOME `id`",
            b"~x",
            b"\xff\xfe",
            b"*",
            "\u{202e}é".as_bytes(),
        ];
        for bytes in hard {
            let script = format!("printf %s {}", shell_path(OsStr::from_bytes(bytes)));
            let read = Command::new("bash").args(["-c", &script]).output().unwrap();
            assert_eq!(read.stdout, bytes, "{script}");
            assert!(!script.contains(is_dangerous), "{script:?}");
        }
    }
}
