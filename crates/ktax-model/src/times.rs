//! Timed pairs: their plan, boots and evidence.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Failure, Identity, Machine, Side, Sides, Signature, UserProgram, Workload};

/// Merged and checked request of timed pairs. Plans and comparisons hold it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskedTimes {
    pub engine: String,
    /// Machines for both Sides.
    pub runs_on: RunsOn,
    /// Fixed number of pairs, with one look; if absent, a pilot decides and there are five looks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<u32>,
    pub most_pairs: u32,
    /// Number of runs of each row in a Boot; their median is the Boot's value.
    pub loops: u32,
    /// Go on, with a warning, if the Sides differ in more than was declared.
    #[serde(default)]
    pub allow_differences: bool,
    /// Shape of the guests.
    #[serde(default)]
    pub machine: TimedMachine,
    pub subjects: Sides<TimedSubject>,
    /// Programs of the user; each is a row that decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<UserProgram>,
}

/// Plan of timed pairs: the request, and the results of planning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimesPlan {
    #[serde(flatten)]
    pub asked: AskedTimes,
    /// Kernels of guests, by the Subjects' names for them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kernels: BTreeMap<String, Identity>,
    /// In guests: SHA-256 of the archive with the programs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub packed: String,
    /// On the running kernel: identity of the programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs_here: Option<ProgramsHere>,
    /// Parameters whose values make a curve of the rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub swept: Vec<String>,
    /// Rows that decide.
    pub headline: Vec<Workload>,
    /// Rows that do not decide.
    pub secondary: Vec<Workload>,
}

/// Programs that run without being copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgramsHere {
    /// Directory in which they start.
    pub directory: String,
    /// SHA-256 of the programs, their arguments with the files that they name, and their standard
    /// input.
    pub sha256: String,
}

impl AskedTimes {
    /// True if the Sides are kernels that the user boots: then there are no pairs, but blocks.
    pub fn is_in_blocks(&self) -> bool {
        let Sides { base, change } = &self.subjects;
        self.runs_on == RunsOn::RunningKernel && base.kernel != change.kernel
    }

    /// True if a Side is the running kernel.
    pub fn is_here(&self) -> bool {
        self.runs_on == RunsOn::RunningKernel || self.subjects.base.bare_metal
    }

    /// True if that Side runs in a guest.
    pub fn is_guest(&self, side: Side) -> bool {
        self.runs_on == RunsOn::Guests && !self.subjects.get(side).bare_metal
    }
}

impl TimesPlan {
    /// All rows, those that decide first.
    pub fn workloads(&self) -> impl Iterator<Item = &Workload> {
        self.headline.iter().chain(&self.secondary)
    }
}

/// Machines that run the Subjects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunsOn {
    RunningKernel,
    /// Guests that ktax boots.
    Guests,
}

/// A Side. For the running kernel: settings that are made before its Boots and put back afterwards.
/// For a guest: its Kernel and boot line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TimedSubject {
    /// For a guest, a kernel as in every experiment. For the running kernel, a word for the Kernel
    /// that the user boots for this Side; the Sides are then measured in blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// True if the base is this machine itself, so that the cost of being a guest is compared.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub bare_metal: bool,
    /// Kernel parameters of a guest.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub boot_line: String,
    /// Values by name, as `sysctl` has them: `vm.swappiness`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctl: BTreeMap<String, String>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thp: Option<String>,
    /// Frequency governor of all CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// The command that runs each loop, itself given the program and its arguments:
    /// `taskset -c 1`, `chrt -f 10`, `setarch -R`.
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

    /// True if this setting is made.
    pub fn sets(&self, name: &str) -> bool {
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
        /// The processor.
        #[default]
        Kvm = "kvm",
        /// QEMU's translator: everything works and times mean nothing. For tests.
        Tcg = "tcg",
    }
}

impl Accelerator {
    /// Default CPU model of a guest: the most that the accelerator has.
    pub fn cpu(self) -> &'static str {
        match self {
            Accelerator::Kvm => "host",
            Accelerator::Tcg => "max",
        }
    }
}

/// The shape of a timed guest, the same for both Sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TimedMachine {
    /// QEMU's name of a CPU model, with its features.
    pub cpu: String,
    pub memory_mib: u32,
    /// Number of vCPUs.
    #[serde(rename = "vcpus")]
    pub cpus: u32,
    /// Number of CPUs of this machine, the quiet ones; fewer than vCPUs is overcommit. If absent,
    /// as many as vCPUs, or all that there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    pub accelerator: Accelerator,
}

impl Default for TimedMachine {
    fn default() -> Self {
        let accelerator = Accelerator::Kvm;
        let cpu = accelerator.cpu().to_owned();
        let memory_mib = Machine::USUAL_MEMORY_MIB;
        TimedMachine { cpu, memory_mib, cpus: 1, cores: None, accelerator }
    }
}

/// Facts of a machine that change times, by name (`model::fact`), as the kernel spells them;
/// unknown facts are left out.
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
    /// Facts of the machine after the Side's settings were made.
    pub facts: Facts,
    /// By row.
    pub runs: BTreeMap<String, TimedRun>,
    /// Reason why the Boot was made a second time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<Failure>,
}

/// Other work of the machine during a measurement. Shares are of the time of the CPUs in use.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    pub seconds: f64,
    /// CPUs in use: those where vCPUs are kept, else all that ktax may use.
    pub cpus: u32,
    /// Time in which a hypervisor ran something else.
    pub steal_percent: f64,
    /// Time of tasks and interrupts that do not belong to the measurement.
    pub others_percent: f64,
    /// Number of times that a CPU was slowed down for its heat.
    pub throttled: u64,
}

/// One pair of Boots, next to each other in time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedPair {
    /// Position in the order, from 0.
    pub index: u32,
    /// An A/A pair: the base in both places.
    pub is_control: bool,
    /// True if the Boot in the place of the change ran first.
    pub change_first: bool,
    /// Boots in each place.
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
    /// The kernel's id of that boot: `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// In order of time.
    pub boots: Vec<TimedBoot>,
    pub noise: Noise,
}

/// Ratio of change to base, such as 1.05, with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// Hodges and Lehmann's estimate.
    pub estimate: f64,
    /// Lower end of the interval; 0 if it has none.
    pub low: f64,
    /// Upper end of the interval; absent if it has none.
    pub high: Option<f64>,
}

/// The A/A pairs of a row: the base in both places.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AaControl {
    pub pairs: usize,
    /// Ratio of the pairs; 1 on a fair machine.
    pub ratio: Ratio,
    /// Standard deviation of the pairs, in percent.
    pub spread_percent: f64,
}

/// Ratio of one pair for a row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PairRatio {
    /// Position among all pairs, from 0.
    pub pair: u32,
    /// Change over base; for an A/A pair, the base in the change's place over the base.
    pub ratio: f64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_control: bool,
}

/// Evidence of the pairs for a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimesEvidence {
    /// Nanoseconds per operation: the median over the Boots, each the median of its loops. Absent
    /// if no Boot of a Side has times.
    pub ns: Sides<Option<f64>>,
    /// Change over base.
    pub ratio: Option<Ratio>,
    pub pairs: usize,
    /// Number of rows tested together, for which the p-value is corrected.
    pub family: usize,
    /// p-value, corrected for the looks and the family.
    pub p_adjusted: f64,
    /// Minimum detectable effect in percent; absent if there is none.
    pub detectable_percent: Option<f64>,
    /// Absent with fewer than two A/A pairs.
    pub control: Option<AaControl>,
    /// Percent of the base's variance between Boots; the rest is between loops. At 100 only more
    /// pairs help.
    pub between_boots_percent: Option<f64>,
    /// Pairs in order of time; empty in results of older releases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<PairRatio>,
}

/// Point of a curve at which the faster Side becomes the slower one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Crossing {
    /// Common part of the rows' names.
    pub family: String,
    /// Swept parameter.
    pub parameter: String,
    /// Neighbouring values of the parameter on both sides of the crossing.
    pub between: (u64, u64),
    /// Approximate value at the crossing, if the ratio's logarithm is a straight line in the
    /// parameter's.
    pub at: f64,
    /// Ratios at both values of `between`.
    pub ratios: (Ratio, Ratio),
    /// True if both ratios differ from 1 by more than chance.
    pub certain: bool,
}

/// Data of the pairs for all rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimesComparison {
    /// Seed of the order of the pairs.
    pub seed: u64,
    pub plan: TimesPlan,
    /// Pairs on disk.
    pub pairs: usize,
    /// A/A pairs on disk.
    pub controls: usize,
    /// Reason why this machine cannot measure; every row is then inconclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfit: Option<String>,
    /// Facts of the machine in the first Boot of each Side.
    pub facts: Sides<Facts>,
    /// Numbers of pairs at which there was a look.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub looks: Vec<usize>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crossings: Vec<Crossing>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_one_table_and_has_no_unknown_key() {
        let plan = TimesPlan {
            asked: AskedTimes {
                engine: "kvm".into(),
                runs_on: RunsOn::Guests,
                pairs: Some(20),
                most_pairs: 200,
                loops: 5,
                allow_differences: true,
                machine: TimedMachine::default(),
                subjects: Sides::default(),
                programs: vec![UserProgram::default()],
            },
            kernels: BTreeMap::new(),
            packed: "ab".into(),
            programs_here: None,
            swept: vec!["pages".into()],
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
