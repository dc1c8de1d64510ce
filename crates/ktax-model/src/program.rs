//! Programs of the user: their request, and their observed work.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Sides, is_default};

/// Program of the user with its environment. Each program is a row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserProgram {
    /// Name of the program; its row is `program:NAME`.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Text of a shell script that the command runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// Additional files, each `PATH` or `PATH:AT`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// A directory or a tar archive whose content becomes the root directory of the guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// True if the program is run once on this machine to find the files that it names.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trace_files: bool,
    /// Files that tracing found and that are copied to the guest: absolute, or relative to the
    /// directory in which the program starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traced: Vec<String>,
    /// Environment variables in addition to the default ones: `NAME=VALUE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// File for the standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// User and group id of the process.
    #[serde(default, skip_serializing_if = "is_default")]
    pub user: u32,
    /// Exit status of success.
    #[serde(default, skip_serializing_if = "is_default")]
    pub status: u32,
    /// Shell commands that run once in the program's root directory, before the guest is frozen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// Shell commands that run in the program's root directory before each run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<String>,
    /// Numbers in the output that are part of the work signature. Each has a name, and the text
    /// before the number or a regular expression.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<String, String>,
    /// True if the output may differ between runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_output: bool,
    /// Number of runs before the counted run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub warm_up: u32,
    /// Operations of one run, if the user gives the number; else one run is one operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ops: Option<u64>,
    /// Size of this program; absent if the program has one size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Box<ProgramSize>>,
    /// True for a program of a workload file, whose row is `NAME` without `program:`.
    #[serde(rename = "defined", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_from_workload_file: bool,
}

/// One size of a program with several sizes. Its row has name and size: `program:fio-256`.
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

/// Prefix of the rows of programs that are in no workload file.
const ROW_PREFIX: &str = "program:";

impl UserProgram {
    /// Name of the number of operations among the numbers that a program prints.
    pub const OPS: &str = "ops";

    /// Directory of the guest in which programs start.
    pub const WORK: &str = "/work";

    /// File with the text of `script`, relative to the directory in which the program starts.
    pub const SCRIPT: &str = "script.sh";

    /// Name of the program's row.
    pub fn row(&self) -> String {
        match self.is_from_workload_file {
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

    /// Suffix of the row with the cost of the program's start, if the program has several sizes.
    pub const START: &str = "-start";

    /// Name of the row with the cost of the program's start.
    pub fn start_row(&self) -> String {
        self.row() + UserProgram::START
    }

    /// First set key that only guests support; `None` if the program can run on the running kernel.
    pub fn guest_only_key(&self) -> Option<&'static str> {
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

    /// True for the name of a row of a program that is in no workload file.
    pub fn is_program_row(row: &str) -> bool {
        UserProgram::name_in_row(row).is_some()
    }

    /// Splits `PATH` or `PATH:AT` into the file's path on this machine and its path in the guest,
    /// which is absolute or relative to the working directory.
    pub fn path_and_guest_path(file: &str) -> (&str, Option<&str>) {
        file.split_once(':').map_or((file, None), |(path, guest)| (path, Some(guest)))
    }

    /// Name of the program in the name of a row; `None` if the row has no `program:`.
    pub fn name_in_row(row: &str) -> Option<&str> {
        row.strip_prefix(ROW_PREFIX)
    }
}

/// Observed work of a user's program in a Region: its work signature.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgramWork {
    /// Numbers of system calls by name; `other` are system calls without a function in the kernel.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub system_calls: BTreeMap<String, u64>,
    /// Reads of the time-stamp counter in user mode: the vDSO reads it for `clock_gettime`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clock_reads: u64,
    /// Page faults, with those that the kernel caused on behalf of the program.
    #[serde(default, skip_serializing_if = "is_default")]
    pub page_faults: u64,
    /// Processes and threads that the program started.
    #[serde(default, skip_serializing_if = "is_default")]
    pub forks: u64,
    /// Successful calls of `execve`, with that of the program itself.
    #[serde(default, skip_serializing_if = "is_default")]
    pub execs: u64,
    /// Bytes that system calls read and wrote, if the kernel has I/O accounting.
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
    /// Number of all system calls.
    pub fn all_system_calls(&self) -> u64 {
        self.system_calls.values().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

/// Kind of work in which the Sides differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkDifference {
    /// Name of a system call, `clock reads`, `page faults`, `forks`, `execs`, `bytes read` or
    /// `bytes written`.
    #[serde(rename = "what")]
    pub kind: String,
    /// True for system calls and reads of the clock: the requests of a program.
    pub is_request: bool,
    /// Amounts in the headline's Layout.
    pub count: Sides<u64>,
}

/// Numbers of operations that a program counted itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CountedOperations {
    /// Printed numbers in the headline's Layout.
    pub count: Sides<u64>,
    /// Benchmark suite that was recognized by its output; absent if the user told ktax how to find
    /// the number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
}

/// Work of a program on both Sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkEvidence {
    /// Work in the headline's Layout.
    pub sides: Sides<ProgramWork>,
    /// Differences that exceed those between Layouts of one Side, the largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<WorkDifference>,
}

impl WorkEvidence {
    /// Differences in requests: system calls and reads of the clock.
    pub fn requests(&self) -> impl Iterator<Item = &WorkDifference> + Clone {
        self.differences.iter().filter(|difference| difference.is_request)
    }

    /// Sum of the differences in requests, in percent of the base's requests.
    pub fn request_difference_percent(&self) -> f64 {
        let differing =
            self.requests().map(|request| request.count.base.abs_diff(request.count.change));
        let differing: u64 = differing.fold(0, u64::saturating_add);
        let requested =
            self.sides.base.all_system_calls().saturating_add(self.sides.base.clock_reads);
        100.0 * differing as f64 / requested.max(1) as f64
    }
}

/// Files that a program named in its system calls. Lists have absolute paths in the order of their
/// first use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedFiles {
    /// Files and directories that existed.
    pub opened: Vec<PathBuf>,
    /// Programs that were executed, with the traced program itself.
    pub executed: Vec<PathBuf>,
    /// Files and directories that did not exist.
    pub missing: Vec<PathBuf>,
    /// Exit status, or 128 and the signal as in shells.
    pub status: u64,
}

impl NamedFiles {
    /// Value of the guest parameter `trace` that makes the guest report named files.
    pub const TRACE_MODE: u64 = 2;

    /// Maximum number of files in a list. The guest ends a program that would exceed it.
    pub const MAX_FILES: usize = 1 << 17;
}

/// System call, or read of the time-stamp counter, of a traced program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracedCall {
    /// Number of the thread or process, in the order of their start.
    pub task: u16,
    /// Number of the system call; [`TracedCall::RDTSC`] for the time-stamp counter.
    pub number: u16,
    /// Hash of the result: the return value, and the data that the call wrote.
    pub result_hash: u32,
}

impl TracedCall {
    /// Number for the time-stamp counter.
    pub const RDTSC: u16 = 511;

    /// Maximum number of traced calls. The guest ends a program after this many.
    pub const MAX_CALLS: usize = 1 << 15;
}
