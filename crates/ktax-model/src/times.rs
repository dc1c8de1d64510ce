//! Timed pairs: their plan, boots and evidence.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Failure, Identity, Machine, Side, Sides, Signature, UserProgram, Workload};

/// Request of timed pairs, after file and flags were merged and checked. Plans and comparisons hold
/// it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskedTimes {
    pub engine: String,
    /// Machine on which the Sides run.
    pub runs_on: RunsOn,
    /// Fixed number of pairs, with one look at the data. If absent, a pilot determines the number
    /// of pairs, and there are five looks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<u32>,
    /// Maximum number of pairs if `pairs` is absent.
    #[serde(rename = "most_pairs")]
    pub max_pairs: u32,
    /// Number of loops of each row in a Boot. Their median is the Boot's value.
    pub loops: u32,
    /// True if undeclared differences between the Sides are a warning, not an error.
    #[serde(default)]
    pub allow_differences: bool,
    /// Machine of timed guests.
    #[serde(default)]
    pub machine: TimedMachine,
    pub subjects: Sides<TimedSubject>,
    /// Programs of the user. Each program is a headline row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<UserProgram>,
}

/// Plan of timed pairs: the request, and the results of planning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimesPlan {
    #[serde(flatten)]
    pub asked: AskedTimes,
    /// Identities of the guests' Kernels, by `TimedSubject::kernel`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kernels: BTreeMap<String, Identity>,
    /// SHA-256 of the archive with the programs; empty without programs in guests.
    #[serde(rename = "packed", default, skip_serializing_if = "String::is_empty")]
    pub archive_sha256: String,
    /// Identity of the programs that run on the running kernel.
    #[serde(rename = "programs_here", default, skip_serializing_if = "Option::is_none")]
    pub native_programs: Option<NativeProgramsIdentity>,
    /// Parameters with several values, over which rows form a curve.
    #[serde(rename = "swept", default, skip_serializing_if = "Vec::is_empty")]
    pub swept_parameters: Vec<String>,
    /// Rows that affect the exit status.
    pub headline: Vec<Workload>,
    /// Rows that do not affect the exit status.
    pub secondary: Vec<Workload>,
}

/// Identity of programs that run on the running kernel, from their own paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NativeProgramsIdentity {
    /// Directory in which the programs start.
    pub directory: String,
    /// SHA-256 over the programs, their arguments, the files that arguments name, and their
    /// standard input.
    pub sha256: String,
}

impl AskedTimes {
    /// True if the Sides are kernels that the user boots on this machine, so that they are measured
    /// in blocks and not in pairs.
    pub fn is_in_blocks(&self) -> bool {
        let Sides { base, change } = &self.subjects;
        self.runs_on == RunsOn::RunningKernel && base.kernel != change.kernel
    }

    /// True if a Side is the running kernel.
    pub fn uses_running_kernel(&self) -> bool {
        self.runs_on == RunsOn::RunningKernel || self.subjects.base.bare_metal
    }

    /// True if the Side runs in a guest.
    pub fn is_guest(&self, side: Side) -> bool {
        self.runs_on == RunsOn::Guests && !self.subjects.get(side).bare_metal
    }
}

impl TimesPlan {
    /// All rows, headline rows first.
    pub fn workloads(&self) -> impl Iterator<Item = &Workload> {
        self.headline.iter().chain(&self.secondary)
    }
}

/// Machines that run the Subjects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunsOn {
    /// This machine, with the kernel that it runs.
    RunningKernel,
    /// Guests that ktax boots.
    Guests,
}

/// Subject of a Side. On the running kernel: settings that are applied before its Boots and
/// restored afterwards. In a guest: Kernel and boot line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TimedSubject {
    /// In a guest: specification of the kernel, as in every experiment. On the running kernel: name
    /// of the Kernel that the user boots for this Side; the Sides are then measured in blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// True if the Side is this machine itself, not a guest; only for the base, to measure the cost
    /// of virtualization.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub bare_metal: bool,
    /// Kernel parameters of a guest.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub boot_line: String,
    /// Kernel settings by their names in sysctl(8): `vm.swappiness`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctl: BTreeMap<String, String>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thp: Option<String>,
    /// Frequency governor of all CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// Command that starts each loop, with the program and its arguments appended: `taskset -c 1`,
    /// `chrt -f 10`, `setarch -R`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prefix: Vec<String>,
}

impl TimedSubject {
    /// Sets `thp`, `governor`, `kernel`, or a sysctl by name.
    pub fn set(&mut self, name: &str, value: &str) {
        let value = value.to_owned();
        match name {
            "thp" => self.thp = Some(value),
            "governor" => self.governor = Some(value),
            "kernel" => self.kernel = Some(value),
            name => drop(self.sysctl.insert(name.to_owned(), value)),
        }
    }

    /// True if the Subject sets `thp`, `governor`, `kernel`, or this sysctl.
    pub fn has_setting(&self, name: &str) -> bool {
        match name {
            "thp" => self.thp.is_some(),
            "governor" => self.governor.is_some(),
            "kernel" => self.kernel.is_some(),
            name => self.sysctl.contains_key(name),
        }
    }
}

named_enum! {
    /// Accelerator that executes a guest's instructions.
    #[derive(Default)]
    pub enum Accelerator {
        /// Hardware virtualization.
        #[default]
        Kvm = "kvm",
        /// QEMU's translator. Its times are meaningless, so it is for tests alone.
        Tcg = "tcg",
    }
}

impl Accelerator {
    /// Default CPU model of a guest, with all features that the accelerator supports.
    pub fn cpu(self) -> &'static str {
        match self {
            Accelerator::Kvm => "host",
            Accelerator::Tcg => "max",
        }
    }
}

/// Machine of a timed guest, the same for both Sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TimedMachine {
    /// QEMU's name of a CPU model, with its features.
    pub cpu: String,
    pub memory_mib: u32,
    /// Number of vCPUs.
    #[serde(rename = "vcpus")]
    pub cpus: u32,
    /// Number of CPUs of this machine to which the vCPUs are pinned; the quietest CPUs are used.
    /// Fewer CPUs than vCPUs is overcommitment. If absent, as many as vCPUs, but at most all CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    pub accelerator: Accelerator,
}

impl Default for TimedMachine {
    fn default() -> Self {
        let accelerator = Accelerator::Kvm;
        let cpu = accelerator.cpu().to_owned();
        let memory_mib = Machine::DEFAULT_MEMORY_MIB;
        TimedMachine { cpu, memory_mib, cpus: 1, cores: None, accelerator }
    }
}

/// Facts of a machine that affect times, by name (`model::fact`), in the kernel's spelling. Unknown
/// facts are omitted.
pub type Facts = BTreeMap<String, String>;

/// Measurements of one row in one Boot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedRun {
    /// Nanoseconds per operation, one value for each loop.
    pub loops_ns: Vec<f64>,
    /// Work signature of the last loop.
    pub signature: Signature,
    /// Reason why the loops ended early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// One Boot of a Side.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedBoot {
    /// Facts of the machine after the Side's settings were applied.
    pub facts: Facts,
    /// Runs by row.
    pub runs: BTreeMap<String, TimedRun>,
    /// Failure after which the Boot was made a second time.
    #[serde(rename = "lost", default, skip_serializing_if = "Option::is_none")]
    pub retry_reason: Option<Failure>,
}

/// Other work of the machine during a measurement. Percentages are of the time of the CPUs in use.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    pub seconds: f64,
    /// Number of CPUs in use: those to which vCPUs are pinned, else all that ktax may use.
    pub cpus: u32,
    /// Time that a hypervisor took from the CPUs.
    pub steal_percent: f64,
    /// Time of tasks and interrupts that do not belong to the measurement.
    pub others_percent: f64,
    /// Number of times that a CPU was throttled because of its temperature.
    pub throttled: u64,
}

/// Pair of Boots that follow each other in time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedPair {
    /// Position in the order, from 0.
    pub index: u32,
    /// True for an A/A pair: both Boots are of the base.
    pub is_control: bool,
    /// True if the Boot of the change, or in an A/A pair the Boot in its role, ran first.
    pub change_first: bool,
    /// Boots of base and change. In an A/A pair `change` is a Boot of the base.
    pub boots: Sides<TimedBoot>,
    pub noise: Noise,
}

/// Measurements of one Side in one boot of this machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedBlock {
    /// Position among all blocks, from 0.
    pub index: u32,
    pub side: Side,
    /// Id of the machine's boot: `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// Boots in the order in which they were made.
    pub boots: Vec<TimedBoot>,
    pub noise: Noise,
}

/// Ratio of change to base, such as 1.05, with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// Hodges and Lehmann's estimate.
    pub estimate: f64,
    /// Lower end of the interval; 0 if the interval has no lower end.
    pub low: f64,
    /// Upper end of the interval; absent if the interval has no upper end.
    pub high: Option<f64>,
}

/// Result of a row's A/A pairs, in which both Boots are of the base.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AaControl {
    pub pairs: usize,
    /// Ratio of the pairs; 1 if the order of the Boots has no influence.
    pub ratio: Ratio,
    /// Standard deviation of the ratios, in percent.
    pub spread_percent: f64,
}

/// Ratio of one pair for a row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PairRatio {
    /// Position among all pairs, from 0.
    pub pair: u32,
    /// Time of the change divided by that of the base; in an A/A pair, of the second role by the
    /// first.
    pub ratio: f64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_control: bool,
}

/// Evidence of the pairs for a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimesEvidence {
    /// Nanoseconds per operation: the median over the Boots of the median over a Boot's loops.
    /// Absent if no Boot of the Side has times.
    pub ns: Sides<Option<f64>>,
    /// Time of the change divided by that of the base; absent without pairs.
    pub ratio: Option<Ratio>,
    pub pairs: usize,
    /// Number of rows that are tested together. The p-value is corrected for it.
    pub family: usize,
    /// p-value, corrected for the looks at the data and for the family of rows.
    pub p_adjusted: f64,
    /// Minimum detectable effect in percent; absent with too few pairs.
    pub detectable_percent: Option<f64>,
    /// Result of the A/A pairs; absent for fewer than two.
    pub control: Option<AaControl>,
    /// Share of the base's variance that is between Boots, in percent; the rest is between the
    /// loops of a Boot. At 100, more loops do not make the result more precise, only more pairs do.
    pub between_boots_percent: Option<f64>,
    /// Pairs in order of time; empty in results of older releases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<PairRatio>,
}

/// Value of a swept parameter at which the faster Side becomes the slower one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Crossing {
    /// Common part of the rows' names.
    pub family: String,
    /// Swept parameter.
    pub parameter: String,
    /// Neighbouring values of the parameter on both sides of the crossing.
    #[serde(rename = "between")]
    pub neighbours: (u64, u64),
    /// Approximate value at the crossing, from a straight line through the logarithms of parameter
    /// and ratio.
    #[serde(rename = "at")]
    pub value: f64,
    /// Ratios at the values of `neighbours`.
    pub ratios: (Ratio, Ratio),
    /// True if both ratios differ significantly from 1.
    #[serde(rename = "certain")]
    pub is_certain: bool,
}

/// Data of all timed rows together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimesComparison {
    /// Seed of the order of the pairs.
    pub seed: u64,
    pub plan: TimesPlan,
    /// Number of pairs in the run directory.
    pub pairs: usize,
    /// Number of A/A pairs in the run directory.
    pub controls: usize,
    /// Reason why the machine cannot measure times reliably. All rows are then inconclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfit: Option<String>,
    /// Facts of the machine in the first Boot of each Side.
    pub facts: Sides<Facts>,
    /// Numbers of pairs after which the data were looked at.
    #[serde(rename = "looks", default, skip_serializing_if = "Vec::is_empty")]
    pub pairs_at_looks: Vec<usize>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crossings: Vec<Crossing>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_flat_and_refuses_unknown_keys() {
        let plan = TimesPlan {
            asked: AskedTimes {
                engine: "kvm".into(),
                runs_on: RunsOn::Guests,
                pairs: Some(20),
                max_pairs: 200,
                loops: 5,
                allow_differences: true,
                machine: TimedMachine::default(),
                subjects: Sides::default(),
                programs: vec![UserProgram::default()],
            },
            kernels: BTreeMap::new(),
            archive_sha256: "ab".into(),
            native_programs: None,
            swept_parameters: vec!["pages".into()],
            headline: Vec::new(),
            secondary: Vec::new(),
        };
        let mut json = serde_json::to_value(&plan).unwrap();
        assert_eq!((&json["engine"], &json["packed"]), (&"kvm".into(), &"ab".into()));
        assert_eq!(serde_json::from_value::<TimesPlan>(json.clone()).unwrap(), plan);
        json["engines"] = "kvm".into();
        let error = serde_json::from_value::<TimesPlan>(json).unwrap_err().to_string();
        assert!(error.contains("unknown field `engines`"), "{error}");
    }
}
