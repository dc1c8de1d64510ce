use std::io::ErrorKind;
use std::process::{Command, Output};
use std::thread::yield_now;

use ktax::model::Comparison;

use super::printed;

/// Result of a command.
#[derive(Debug)]
pub struct Ran {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Asserts that it exited with this status.
    #[track_caller]
    pub fn exits(self, status: i32) -> Ran {
        assert_eq!(self.status, status, "{}{}", self.stdout, self.stderr);
        self
    }

    /// The comparison that it printed as JSON.
    #[track_caller]
    pub fn comparison(&self) -> Comparison {
        assert!(!self.stdout.is_empty(), "{}", self.stderr);
        printed::comparison(&self.stdout)
    }

    /// Asserts that its output has this text.
    #[track_caller]
    pub fn prints(&self, text: impl AsRef<str>) -> &Ran {
        assert!(self.stdout.contains(text.as_ref()), "{}", self.stdout);
        self
    }

    /// Asserts that its messages have this text.
    #[track_caller]
    pub fn says(&self, text: impl AsRef<str>) -> &Ran {
        assert!(self.stderr.contains(text.as_ref()), "{}", self.stderr);
        self
    }
}

/// Runs to the end. A program that was just written is busy while another test, which forked in
/// that moment, has not become its own program yet.
pub fn run(command: &mut Command) -> Ran {
    let ended = loop {
        match command.output() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => yield_now(),
            ended => break ended,
        }
    };
    let Output { status, stdout, stderr } = ended.unwrap();
    Ran {
        status: status.code().unwrap_or(-1),
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
    }
}
