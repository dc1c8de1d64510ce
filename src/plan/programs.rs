//! Programs of the user's, as rows.

use serde::Deserialize;

use super::error::PlanError;
use super::workloads::each_once;
use crate::model::{RUNNER, Region, Signature, UserProgram, Workload};
use crate::text::shell_line;

const LONGEST_NAME: usize = 32;

/// What an experiment file or the command line says of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProgramKeys {
    /// What its row is called, behind `program:`; the command's name where absent.
    pub name: Option<String>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// More files for it, `PATH` or `PATH:AT`.
    pub files: Vec<String>,
    /// A directory or a tar archive whose content becomes the root directory of the guest.
    pub root: Option<String>,
    /// Its environment beside the usual one: `NAME=VALUE`.
    pub env: Vec<String>,
    /// The file that it reads from its standard input.
    pub stdin: Option<String>,
    /// The user, and the group, that it runs as, by number.
    pub user: Option<u32>,
    /// The exit status that says that it did its work.
    pub status: Option<u32>,
    /// How often it runs before it is counted.
    pub warm_up: Option<u32>,
    /// How many operations one run of it is.
    pub ops: Option<u64>,
}

/// The programs, checked.
pub(super) fn programs(keys: &[ProgramKeys]) -> Result<Vec<UserProgram>, PlanError> {
    let programs: Vec<UserProgram> = keys.iter().map(program).collect::<Result<_, _>>()?;
    each_once(rows(&programs))?;
    Ok(programs)
}

fn program(keys: &ProgramKeys) -> Result<UserProgram, PlanError> {
    let refuse = |reason: &str| Err(PlanError::Program { reason: reason.to_owned() });
    let texts = || {
        let optional = keys.root.iter().chain(&keys.stdin);
        keys.command.iter().chain(&keys.files).chain(&keys.env).chain(optional)
    };
    if keys.command.first().is_none_or(String::is_empty) {
        return refuse("it has no command; write command = [\"git\", \"status\"]");
    }
    if texts().any(|text| text.contains('\0')) {
        return refuse("a text has a NUL character; remove it");
    }
    let name = keys.name.clone().unwrap_or_else(|| usual_name(&keys.command[0]));
    let is_of_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if !(1..=LONGEST_NAME).contains(&name.len()) || !name.bytes().all(is_of_name) {
        return refuse("its name must be of a-z, 0-9 and -, at most 32; give it another name");
    }
    let (status, warm_up) = (keys.status.unwrap_or(0), keys.warm_up.unwrap_or(0));
    let ops = keys.ops.unwrap_or(1);
    if status > 255 {
        return refuse("its status must be of 0 to 255; give it another status");
    }
    if warm_up > 1000 {
        return refuse("its warm_up must be of 0 to 1000; give it fewer warm-up runs");
    }
    if ops == 0 {
        return refuse("its ops must be at least 1; give it the number of its operations");
    }
    Ok(UserProgram {
        name,
        command: keys.command.clone(),
        files: keys.files.clone(),
        root: keys.root.clone(),
        env: keys.env.clone(),
        stdin: keys.stdin.clone(),
        user: keys.user.unwrap_or(0),
        status,
        warm_up,
        ops,
    })
}

/// The file's name, with what a row's name cannot have as `-`.
fn usual_name(command: &str) -> String {
    let file = command.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let of = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
    let name: String = file.chars().map(of).take(LONGEST_NAME).collect();
    name.trim_matches('-').to_owned()
}

/// A row for each.
pub(super) fn rows(programs: &[UserProgram]) -> Vec<Workload> {
    (0..).zip(programs).map(|(number, program)| row(number, program)).collect()
}

fn row(number: u64, program: &UserProgram) -> Workload {
    let command = shell_line(program.command.iter().map(String::as_str));
    let operation = match program.ops {
        1 => "one run".to_owned(),
        ops => format!("one of {ops} operations of a run"),
    };
    let numbers = [
        ("number", number),
        ("status", program.status.into()),
        ("user", program.user.into()),
        ("warm-up", program.warm_up.into()),
    ];
    Workload {
        row: program.row(),
        title: command,
        operation,
        program: RUNNER.to_owned(),
        ops: program.ops,
        region: Region::default(),
        params: numbers.map(|(name, value)| (name.to_owned(), value)).into(),
        memory_bytes: 0,
        signature: Signature::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(command: &[&str]) -> ProgramKeys {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        ProgramKeys { command, ..ProgramKeys::default() }
    }

    #[test]
    fn a_row_is_named_after_its_command() {
        let named = |command: &str| program(&keys(&[command])).unwrap().row();
        assert_eq!(named("git"), "program:git");
        assert_eq!(named("./build/My_Test.sh"), "program:my-test-sh");
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        for (bad, reason) in [
            (keys(&[]), "command"),
            (keys(&["a\0b"]), "NUL"),
            (keys(&["__"]), "name"),
            (ProgramKeys { status: Some(256), ..keys(&["a"]) }, "status"),
            (ProgramKeys { warm_up: Some(1001), ..keys(&["a"]) }, "warm_up"),
            (ProgramKeys { ops: Some(0), ..keys(&["a"]) }, "ops"),
        ] {
            let refused = programs(&[bad]).unwrap_err().to_string();
            assert!(refused.contains(reason), "{refused}");
        }
        let twice = programs(&[keys(&["a"]), keys(&["/bin/a"])]);
        assert!(matches!(twice, Err(PlanError::Twice { .. })));
    }
}
