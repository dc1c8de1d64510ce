//! The format of the second serial port: init writes one line of JSON for each command, then as
//! many bytes as that line says. The reader trusts none of it.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use ktax_host::text::counted;

/// A header is shorter than this.
const HEADER_MAX: usize = 4096;

/// The output and the exit status of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// The exit status; 128 and the signal's number if it was killed, as in a shell.
    pub status: u8,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// The line before the bytes of a command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Header {
    /// A command has ended; how many bytes it wrote to stdout and stderr.
    Ran { status: u8, stdout: usize, stderr: usize },
    /// Init cannot go on.
    Failed { reason: String },
}

/// Why a command has no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FrameProblem {
    /// Init has failed, and says why.
    Init(String),
    /// The bytes are not of the format.
    Garbled(String),
}

/// Writes the answer of one command.
pub(super) fn write_frame(out: &mut impl Write, output: &CommandOutput) -> io::Result<()> {
    let (stdout, stderr) = (output.stdout.len(), output.stderr.len());
    let header = Header::Ran { status: output.status, stdout, stderr };
    out.write_all(&header_line(&header)?)?;
    out.write_all(&output.stdout)?;
    out.write_all(&output.stderr)
}

/// Writes why no more answers come.
pub(super) fn write_failure(out: &mut impl Write, reason: &str) -> io::Result<()> {
    // A header that is too long could not be parsed.
    let reason = reason.chars().take(HEADER_MAX / 16).collect();
    out.write_all(&header_line(&Header::Failed { reason })?)
}

fn header_line(header: &Header) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(header)?;
    line.push(b'\n');
    Ok(line)
}

/// Reads the answers of `commands` commands.
pub(super) fn parse_frames(
    mut bytes: &[u8],
    commands: usize,
) -> Result<Vec<CommandOutput>, FrameProblem> {
    let garbled = |reason: String| FrameProblem::Garbled(reason);
    let mut answers = Vec::new();
    while !bytes.is_empty() {
        let end = bytes.iter().take(HEADER_MAX).position(|byte| *byte == b'\n');
        let end = end.ok_or_else(|| garbled("a line has no end".into()))?;
        let header = serde_json::from_slice(&bytes[..end]).map_err(|error| {
            garbled(format!("`{}`: {error}", ktax_engine::wire::tail(&bytes[..end])))
        })?;
        bytes = &bytes[end + 1..];
        let (status, stdout, stderr) = match header {
            Header::Ran { status, stdout, stderr } => (status, stdout, stderr),
            Header::Failed { reason } => {
                return Err(FrameProblem::Init(ktax_host::text::escape_bytes(reason.as_bytes())));
            }
        };
        let mut take = |length| {
            let (taken, rest) = bytes.split_at_checked(length)?;
            bytes = rest;
            Some(taken.to_vec())
        };
        let (Some(stdout), Some(stderr)) = (take(stdout), take(stderr)) else {
            return Err(garbled("it ends within the words of a command".into()));
        };
        answers.push(CommandOutput { status, stdout, stderr });
    }
    match answers.len() == commands {
        true => Ok(answers),
        false => {
            Err(garbled(format!("{} of {} answered", answers.len(), counted(commands, "command"))))
        }
    }
}

/// QEMU's fw_cfg has the order of a frozen host under this name.
pub(super) const ORDER_ITEM: &str = "opt/ktax/order";

/// The work of the host's init.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Order {
    /// Iterations of an empty loop before the first command: they move it against the timer tick.
    pub phase: u64,
    /// Each command's program and arguments, in the order in which they run.
    pub commands: Vec<Vec<String>>,
}

impl Order {
    /// Serializes the order as init reads it.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and text have a form in JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn command_output(stdout: &[u8], stderr: &[u8]) -> CommandOutput {
        CommandOutput { status: 3, stdout: stdout.to_vec(), stderr: stderr.to_vec() }
    }

    fn written(answers: &[CommandOutput]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for answer in answers {
            write_frame(&mut bytes, answer).unwrap();
        }
        bytes
    }

    #[test]
    fn any_bytes_come_through() {
        let answers = [
            command_output(b"", b""),
            command_output(b"\0\n\xff{}\r\n", b"\x1b["),
            command_output(b"x", b""),
        ];
        assert_eq!(parse_frames(&written(&answers), 3), Ok(answers.to_vec()));
    }

    #[test]
    fn what_is_missing_is_said() {
        let bytes = written(&[command_output(b"abc", b"def")]);
        for (bytes, commands, expected) in [
            (&bytes[..], 2, "1 of 2 commands answered"),
            (&bytes[..bytes.len() - 1], 1, "it ends within the words of a command"),
            (&bytes[..9], 1, "a line has no end"),
            (b"", 1, "0 of 1 command answered"),
        ] {
            assert_eq!(parse_frames(bytes, commands), Err(FrameProblem::Garbled(expected.into())));
        }
        assert!(matches!(parse_frames(b"hello\n", 1), Err(FrameProblem::Garbled(_))));
    }

    #[test]
    fn init_says_why() {
        let mut bytes = Vec::new();
        write_failure(&mut bytes, "no \x1b[module").unwrap();
        assert_eq!(parse_frames(&bytes, 1), Err(FrameProblem::Init("no \\x1b[module".into())));
    }

    proptest! {
        #[test]
        fn noise_is_an_answer_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_frames(&bytes, 1);
            let mut framed = written(&[command_output(b"abc", b"")]);
            framed.extend(bytes);
            let _ = parse_frames(&framed, 1);
        }
    }
}
