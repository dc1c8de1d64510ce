//! Programs of the user, and their observed work.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Sides, is_default};

/// A program of the user, with its environment: a row of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserProgram {
    /// Name of its row, behind `program:`.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Text of a shell script that its command runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// More files, `PATH` or `PATH:AT`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// A directory or a tar archive whose content becomes the root directory of the guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// True if it is run once on this machine, to find the files that it names.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trace_files: bool,
    /// Files found that way, which are copied to the guest: absolute, or relative to the directory
    /// in which it starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traced: Vec<String>,
    /// Environment beside the usual one: `NAME=VALUE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// File for its standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// User and group id that it runs as.
    #[serde(default, skip_serializing_if = "is_default")]
    pub user: u32,
    /// Exit status of success.
    #[serde(default, skip_serializing_if = "is_default")]
    pub status: u32,
    /// Commands for a shell in its root directory, before anything is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// Commands for a shell in its root directory, before each run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<String>,
    /// Numbers in its output that are part of its work signature: by name, the text before each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<String, String>,
    /// True if its output may differ each time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_output: bool,
    /// Number of runs before it is counted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub warm_up: u32,
    /// Operations of one run, if the user gives them; else 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ops: Option<u64>,
    /// Absent if it has one size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Box<ProgramSize>>,
    /// True for a program of a workload file: its row bears its name alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub defined: bool,
}

/// One of the sizes of a program, whose row has its name and the size: `program:fio-256`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgramSize {
    pub size: u64,
    /// All sizes, the smallest first.
    pub sizes: Vec<u64>,
    /// Program as the user wrote it, with `{size}` as the placeholder.
    pub program: UserProgram,
}

impl ProgramSize {
    pub fn is_smallest(&self) -> bool {
        self.sizes.first() == Some(&self.size)
    }
}

/// Prefix of the row names of programs.
const ROW_PREFIX: &str = "program:";

impl UserProgram {
    /// Name of its operation count among the numbers that it prints.
    pub const OPS: &str = "ops";

    /// Directory of the guest in which a program starts.
    pub const WORK: &str = "/work";

    /// File of its script, relative to the directory in which it starts.
    pub const SCRIPT: &str = "script.sh";

    pub fn row(&self) -> String {
        match self.defined {
            true => self.name.clone(),
            false => format!("{ROW_PREFIX}{}", self.name),
        }
    }

    /// Copy without the files that tracing found: the program as asked for.
    #[must_use]
    pub fn without_traced(&self) -> UserProgram {
        UserProgram { traced: Vec::new(), ..self.clone() }
    }

    /// Placeholder of a size in a program's texts.
    pub const SIZE: &str = "{size}";

    /// Suffix of the row of its start, if it has several sizes.
    pub const START: &str = "-start";

    pub fn row_of_start(&self) -> String {
        self.row() + UserProgram::START
    }

    /// First key that only a guest can have; on the running kernel a program runs where it is.
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

    /// True if the row's name is that of a program that no workload file has.
    pub fn is_row(row: &str) -> bool {
        UserProgram::name_of(row).is_some()
    }

    /// Splits `PATH` or `PATH:AT` into the file's path here and its place in the guest, absolute or
    /// below the working directory.
    pub fn path_and_place(file: &str) -> (&str, Option<&str>) {
        file.split_once(':').map_or((file, None), |(path, place)| (path, Some(place)))
    }

    /// Program name of such a row.
    pub fn name_of(row: &str) -> Option<&str> {
        row.strip_prefix(ROW_PREFIX)
    }
}

/// Observed work of a user's program in a Region: its work signature.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgramWork {
    /// By name; `other` are those that no function of the kernel served.
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
    /// Programs that it executed, with its own exec.
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
    /// `wchar` of the same file.
    pub written: u64,
}

impl ProgramWork {
    pub fn all_system_calls(&self) -> u64 {
        self.system_calls.values().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

/// A kind of work in which the Sides differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkDifference {
    /// Name of a system call, or `clock reads`, `page faults`, `forks`, `execs`, `bytes read`,
    /// `bytes written`.
    pub what: String,
    /// True for system calls and reads of the clock: the requests of a program.
    pub is_request: bool,
    /// In the headline's Layout.
    pub count: Sides<u64>,
}

/// Operations that a program counts itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CountedOperations {
    /// Printed number, in the headline's Layout.
    pub count: Sides<u64>,
    /// Suite that was recognized by its output; absent if the user tells where the number is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
}

/// Work of a program on both Sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkEvidence {
    /// In the headline's Layout.
    pub sides: Sides<ProgramWork>,
    /// Differences larger than between Layouts of one Side, the largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<WorkDifference>,
}

impl WorkEvidence {
    /// Differing system calls and reads of the clock.
    pub fn requests(&self) -> impl Iterator<Item = &WorkDifference> + Clone {
        self.differences.iter().filter(|difference| difference.is_request)
    }

    /// Amount by which they differ, in percent of the base's requests.
    pub fn requests_differ_percent(&self) -> f64 {
        let differing =
            self.requests().map(|request| request.count.base.abs_diff(request.count.change));
        let differing: u64 = differing.fold(0, u64::saturating_add);
        let requested =
            self.sides.base.all_system_calls().saturating_add(self.sides.base.clock_reads);
        100.0 * differing as f64 / requested.max(1) as f64
    }
}

/// Files that a program named in its system calls, by absolute path, each once and in that order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedFiles {
    /// Files and directories that existed.
    pub opened: Vec<PathBuf>,
    /// Programs that it executed, with itself.
    pub executed: Vec<PathBuf>,
    /// Files and directories that did not exist.
    pub missing: Vec<PathBuf>,
    /// Exit status, or 128 and the signal as in shells.
    pub status: u64,
}

impl NamedFiles {
    /// Value of the guest parameter `trace` that asks for them.
    pub const TRACED: u64 = 2;

    /// Most of each kind; the guest ends a program before that.
    pub const MOST: usize = 1 << 17;
}

/// System call, or read of the time-stamp counter, of a traced program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracedCall {
    /// Number of the thread or process, in the order in which they began.
    pub task: u16,
    /// Number of the system call; [`TracedCall::RDTSC`] for the time-stamp counter.
    pub number: u16,
    /// Hash of the result: the return value, and the data that the call wrote.
    pub given: u32,
}

impl TracedCall {
    /// Number for the time-stamp counter.
    pub const RDTSC: u16 = 511;

    /// Most traced calls; a program ends after them.
    pub const MOST: usize = 1 << 15;
}
