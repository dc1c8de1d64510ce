//! Programs of the user's, and what was seen of them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Sides, is_default};

/// A program of the user's, and what it runs with: a row of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserProgram {
    /// Name of its row, behind `program:`.
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
    /// Environment beside the usual one: `NAME=VALUE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// The file that it reads from its standard input; nothing where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// The user, and the group, that it runs as, by number.
    #[serde(default, skip_serializing_if = "is_default")]
    pub user: u32,
    /// The exit status that says that it did its work.
    #[serde(default, skip_serializing_if = "is_default")]
    pub status: u32,
    /// Commands for a shell in its root directory, before anything is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// Commands for a shell in its root directory, before each run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<String>,
    /// Numbers that it prints, as a part of its work signature: by name, the text before each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<String, String>,
    /// Whether it may print something else each time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_output: bool,
    /// Number of runs before it is counted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub warm_up: u32,
    /// Number of operations of one run, where the user says so; else 1.
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

/// Prefix of the names of such rows.
const ROW_PREFIX: &str = "program:";

impl UserProgram {
    /// The number of its operations, among those that it prints.
    pub const OPS: &str = "ops";

    /// Directory of the guest in which a program starts.
    pub const WORK: &str = "/work";

    /// The file of its script, from the directory on in which it starts.
    pub const SCRIPT: &str = "script.sh";

    /// Name of its row.
    pub fn row(&self) -> String {
        match self.defined {
            true => self.name.clone(),
            false => format!("{ROW_PREFIX}{}", self.name),
        }
    }

    /// The program without the files that were found by tracing it: what a user asked for.
    #[must_use]
    pub fn without_traced(&self) -> UserProgram {
        UserProgram { traced: Vec::new(), ..self.clone() }
    }

    /// Placeholder of a size in the texts of a program that has several.
    pub const SIZE: &str = "{size}";

    /// Suffix of the row of its start, where it has several sizes.
    pub const START: &str = "-start";

    /// The name of the row of its start.
    pub fn row_of_start(&self) -> String {
        self.row() + UserProgram::START
    }

    /// First key that only a guest can have: on the running kernel a program runs where it is.
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

    /// Whether a row's name is that of a program that no workload file has.
    pub fn is_row(row: &str) -> bool {
        UserProgram::name_of(row).is_some()
    }

    /// A file's path on this machine, and its place in the guest if it says one, absolute or below
    /// the working directory: `PATH` or `PATH:AT`.
    pub fn path_and_place(file: &str) -> (&str, Option<&str>) {
        file.split_once(':').map_or((file, None), |(path, place)| (path, Some(place)))
    }

    /// The name of such a row's program.
    pub fn name_of(row: &str) -> Option<&str> {
        row.strip_prefix(ROW_PREFIX)
    }
}

/// Work of a program of the user's in a Region, as counted from outside: its work signature.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgramWork {
    /// System calls by name; `other` are those that no function of the kernel served.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub system_calls: BTreeMap<String, u64>,
    /// Reads of the time-stamp counter in user mode: the vDSO reads it for `clock_gettime`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clock_reads: u64,
    /// Page faults, also those that the kernel took for the program.
    #[serde(default, skip_serializing_if = "is_default")]
    pub page_faults: u64,
    /// Processes and threads that it started.
    #[serde(default, skip_serializing_if = "is_default")]
    pub forks: u64,
    /// Programs that it executed; its own exec is one of them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub execs: u64,
    /// Bytes that its system calls read and wrote, where the kernel accounts for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<TransferredBytes>,
}

/// Bytes that system calls moved, from a program's exec to its exit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransferredBytes {
    /// `rchar` of `/proc/PID/io`.
    pub read: u64,
    /// `wchar` of it.
    pub written: u64,
}

impl ProgramWork {
    /// All system calls.
    pub fn all_system_calls(&self) -> u64 {
        self.system_calls.values().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

/// One kind of work of which the Sides did not do as much.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkDifference {
    /// The name of a system call, or `clock reads`, `page faults`, `forks`, `execs`,
    /// `bytes read`, `bytes written`.
    pub what: String,
    /// Whether this is a system call or a read of the clock: those are what a program asked for.
    pub is_request: bool,
    /// Amount of each Side, in the headline's Layout.
    pub count: Sides<u64>,
}

/// Operations that a program counts itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CountedOperations {
    /// Printed number of each Side, in the headline's Layout.
    pub count: Sides<u64>,
    /// The suite that was known by what it prints; absent where the user says where it prints them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
}

/// Work of a program on both Sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkEvidence {
    /// In the headline's Layout.
    pub sides: Sides<ProgramWork>,
    /// Differences by more than Layouts of one Side differ, the largest difference first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<WorkDifference>,
}

impl WorkEvidence {
    /// The system calls and reads of the clock that differ.
    pub fn requests(&self) -> impl Iterator<Item = &WorkDifference> + Clone {
        self.differences.iter().filter(|difference| difference.is_request)
    }

    /// By how much they differ, in percent of what the base asked for.
    pub fn requests_differ_percent(&self) -> f64 {
        let differing = self.requests().map(|one| one.count.base.abs_diff(one.count.change));
        let differing: u64 = differing.fold(0, u64::saturating_add);
        let all = self.sides.base.all_system_calls().saturating_add(self.sides.base.clock_reads);
        100.0 * differing as f64 / all.max(1) as f64
    }
}

/// The files that a program named in its system calls, by absolute path, each once and in the order
/// in which it named them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedFiles {
    /// Files and directories that were there.
    pub opened: Vec<PathBuf>,
    /// Programs that it executed, itself among them.
    pub executed: Vec<PathBuf>,
    /// Files and directories that were not there.
    pub missing: Vec<PathBuf>,
    /// Exit status, or 128 and the signal as shells have it.
    pub status: u64,
}

impl NamedFiles {
    /// The value of a guest's parameter `trace` that asks for them.
    pub const TRACED: u64 = 2;

    /// The most of each kind; the guest ends a program before that.
    pub const MOST: usize = 1 << 17;
}

/// A system call that a traced program made, or its reading of the time-stamp counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracedCall {
    /// Which of the program's threads and processes, in the order in which they began.
    pub task: u16,
    /// The number of the system call; [`TracedCall::RDTSC`] for the time-stamp counter.
    pub number: u16,
    /// A hash of what the call gave: what it returned, and the data that it wrote.
    pub given: u32,
}

impl TracedCall {
    /// The number that stands for the time-stamp counter.
    pub const RDTSC: u16 = 511;

    /// The most calls that are traced; a program ends after them.
    pub const MOST: usize = 1 << 15;
}
