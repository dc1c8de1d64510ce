use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A program of the user's, and what it runs with: a row of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserProgram {
    /// What its row is called, behind `program:`.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The text of a shell script that its command runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// More files for it, `PATH` or `PATH:AT`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// A directory or a tar archive whose content becomes the root directory of the guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// Whether it is run once on this machine, to find the files that it names.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trace_files: bool,
    /// The files that were found so, of which copies are in the guest: absolute, or relative to the
    /// directory in which it starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traced: Vec<String>,
    /// Its environment beside the usual one: `NAME=VALUE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// The file that it reads from its standard input; nothing where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// The user, and the group, that it runs as, by number.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub user: u32,
    /// The exit status that says that it did its work.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub status: u32,
    /// Commands for a shell in its root directory, before anything is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// The same, before each run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<String>,
    /// Numbers that it prints, as a part of its work signature: by name, the text before each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<String, String>,
    /// Whether it may print something else each time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_output: bool,
    /// How often it runs before it is counted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub warm_up: u32,
    /// How many operations one run of it is, where the user says so; else 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ops: Option<u64>,
    /// Which of two sizes it is; absent where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Box<ProgramSize>>,
    /// Whether a workload file has it: its row bears its name alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub defined: bool,
}

/// One of the sizes of a program, whose row has its name and the size: `program:fio-256`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramSize {
    /// This one.
    pub size: u64,
    /// All of them, the smallest first.
    pub sizes: Vec<u64>,
    /// The program as the user wrote it, with `{size}` where a size stands.
    pub program: UserProgram,
}

impl ProgramSize {
    /// Whether it is the smallest.
    pub fn is_smallest(&self) -> bool {
        self.sizes.first() == Some(&self.size)
    }
}

/// What the names of such rows begin with.
const ROW: &str = "program:";

impl UserProgram {
    /// The number of its operations, among those that it prints.
    pub const OPS: &str = "ops";

    /// What the guest calls the directory that a program starts in.
    pub const WORK: &str = "/work";

    /// The file of its script, from the directory on in which it starts.
    pub const SCRIPT: &str = "script.sh";

    /// Its row's name.
    pub fn row(&self) -> String {
        match self.defined {
            true => self.name.clone(),
            false => format!("{ROW}{}", self.name),
        }
    }

    /// Whether the user says how many operations it does, or where it prints that.
    pub fn knows_ops(&self) -> bool {
        self.ops.is_some() || self.numbers.contains_key(UserProgram::OPS)
    }

    /// The program without the files that were found by tracing it: what a user asked for.
    #[must_use]
    pub fn without_traced(&self) -> UserProgram {
        UserProgram { traced: Vec::new(), ..self.clone() }
    }

    /// What stands for a size in the texts of a program that has several.
    pub const SIZE: &str = "{size}";

    /// What the name of the row of its start ends in, where it has several sizes.
    pub const START: &str = "-start";

    /// The name of the row of its start.
    pub fn row_of_start(&self) -> String {
        self.row() + UserProgram::START
    }

    /// What of it only a guest has: on the running kernel a program runs where it is.
    pub fn only_in_guests(&self) -> Option<&'static str> {
        let set = [
            ("files", !self.files.is_empty()),
            ("root", self.root.is_some()),
            ("trace_files", self.trace_files),
            ("script", self.script.is_some()),
            ("setup", self.setup.is_some()),
            ("prepare", self.prepare.is_some()),
            ("user", self.user != 0),
        ];
        set.into_iter().find_map(|(key, is_set)| is_set.then_some(key))
    }

    /// Whether a row's name is that of one that no workload file has.
    pub fn is_row(row: &str) -> bool {
        UserProgram::name_of(row).is_some()
    }

    /// A file's path on this machine, and its place in the guest if it says one, absolute or below
    /// the working directory: `PATH` or `PATH:AT`.
    pub fn path_and_place(file: &str) -> (&str, Option<&str>) {
        file.split_once(':').map_or((file, None), |(path, at)| (path, Some(at)))
    }

    /// The name of such a row's program.
    pub fn name_of(row: &str) -> Option<&str> {
        row.strip_prefix(ROW)
    }
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}
