use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::disk::DiskKeys;
use super::error::Error;
use crate::models::ModelKey;
use crate::program::ProgramKeys;
use crate::workloads::{Definition, ParamValue};
use ktax_engine::EngineEntry;
use ktax_host::text::{escape_lines, shell_path};
use ktax_model::{Accelerator, HostKind, Machine, Subject, TimedMachine, TimedSubject};

/// Keys of an experiment file or the command line, for all methods; absent keys have defaults.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExperimentFile {
    /// Title in one line.
    pub title: Option<String>,
    /// Purpose, for people who read the file.
    pub why: String,
    /// Engine that runs the Subjects.
    pub engine: Option<&'static EngineEntry>,
    /// Guests: the kind of KVM host that they run on.
    pub host: Option<HostKind>,
    /// Random seed for the Layouts, or for the order of the pairs.
    pub seed: Option<u64>,
    /// A change below this many percent gets no verdict.
    pub threshold_percent: Option<f64>,
    /// Whether the Sides may be the same, which measures noise.
    pub same: Option<bool>,
    /// Rows by name.
    pub workloads: Option<Vec<String>>,
    /// Directory of the user's workloads, beside those of ktax.
    pub workloads_from: Option<String>,
    /// Workloads that the files of that directory define; filled in by the reader of this file.
    #[serde(skip)]
    pub definitions: Vec<Definition>,
    /// Rows of all programs in the file, if some were chosen.
    #[serde(skip)]
    pub all_programs: BTreeSet<String>,
    /// Modules that each guest loads, with their parameters.
    pub modules: Vec<String>,
    /// A file system for the guest's files.
    pub disk: Option<DiskKeys>,
    /// Programs of the user; each is a row.
    pub program: Vec<ProgramKeys>,
    /// Commands that run beside rows that are no programs.
    pub hooks: Option<ProgramKeys>,
    /// Layouts per Side.
    pub layouts: Option<u32>,
    /// Fixed number of pairs, with one look; by default a pilot decides, and there are five looks.
    pub pairs: Option<u32>,
    pub most_pairs: Option<u32>,
    /// Number of times that each row runs in a Boot.
    pub loops: Option<u32>,
    /// Whether to go on, with a warning, where the Sides differ in more than was declared.
    pub allow_differences: Option<bool>,
    /// Rows that are measured and do not decide.
    pub secondary: Vec<String>,
    /// Values by name: a row for each value of a workload's parameter, a run for each value of a
    /// setting.
    pub sweep: BTreeMap<String, Vec<ParamValue>>,
    /// Guests: the host's kernel, unless it is the usual one of its kind.
    pub host_kernel: Option<String>,
    /// Guests: options of the host's kernel, from source.
    pub host_config: Vec<String>,
    /// Guests: paths of patches for the host's kernel, from source.
    pub host_patches: Vec<String>,
    /// Shape of the computer, the same for both Sides.
    pub machine: MachineKeys,
    pub base: SubjectKeys,
    pub change: Option<SubjectKeys>,
    /// Ledgers: additions to the base, one at a time.
    pub add: Vec<Addition>,
    /// Campaigns: Subjects, each compared with the one before it.
    pub subjects: Vec<SubjectKeys>,
    /// Campaigns: timed experiments, by the names or paths of their files.
    pub timed: Vec<String>,
}

/// An addition to the base of a ledger.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Addition {
    pub name: String,
    /// Parameters after the base's.
    #[serde(default)]
    pub boot_line: String,
    /// Options after the base's, for a Kernel from source.
    #[serde(default)]
    pub config: Vec<String>,
    /// Patches after the base's, for a Kernel from source.
    #[serde(default)]
    pub patches: Vec<String>,
    /// Guests of a KVM host: features of KVM that the base lacks.
    #[serde(default)]
    pub with: Vec<String>,
    /// Kernel settings that replace the base's, by their names in sysctl(8).
    #[serde(default)]
    pub sysctl: BTreeMap<String, String>,
    /// Modules after the base's, with their parameters.
    #[serde(default)]
    pub modules: Vec<String>,
    /// Files beside the base's, `PATH` or `PATH:AT`.
    #[serde(default)]
    pub files: Vec<String>,
    /// Shell commands after the base's. They run once in the guest before it is frozen.
    #[serde(default)]
    pub setup: Option<String>,
}

/// Keys of the computer's shape.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MachineKeys {
    /// QEMU's name of a CPU model, with its features.
    pub cpu: Option<String>,
    pub memory_mib: Option<u32>,
    /// Number of the guest's CPUs.
    #[serde(alias = "vcpus")]
    pub cpus: Option<u32>,
    /// Number of instructions that each of several CPUs executes in turn.
    pub quantum: Option<u32>,
    /// Model beside the counts: coherence, or a machine.
    pub model: Option<ModelKey>,
    /// Number of CPUs of this machine that the guest's CPUs run on.
    pub cores: Option<u32>,
    /// Accelerator that executes the guest's instructions.
    pub accelerator: Option<Accelerator>,
}

impl MachineKeys {
    /// The machine of guests that are counted.
    pub(super) fn machine(&self) -> Result<Machine, Error> {
        let MachineKeys { cpu, memory_mib, cpus, quantum, model, .. } = self.clone();
        let usual = Machine::with_cpus(cpus.unwrap_or(Machine::default().cpus));
        Ok(Machine {
            cpu: cpu.unwrap_or(usual.cpu),
            memory_mib: memory_mib.unwrap_or(usual.memory_mib),
            cpus: usual.cpus,
            quantum,
            model: model.as_ref().map(ModelKey::model).transpose()?,
        })
    }

    /// The machine of guests that are timed.
    pub(super) fn timed_machine(&self) -> TimedMachine {
        let MachineKeys { cpu, memory_mib, cpus, cores, accelerator, .. } = self.clone();
        let (usual, accelerator) = (TimedMachine::default(), accelerator.unwrap_or_default());
        TimedMachine {
            cpu: cpu.unwrap_or_else(|| accelerator.cpu().to_owned()),
            memory_mib: memory_mib.unwrap_or(usual.memory_mib),
            cpus: cpus.unwrap_or(usual.cpus),
            cores,
            accelerator,
        }
    }
}

/// Kernel and settings of a Side.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SubjectKeys {
    /// A path, `debian:…`, or source. On the running kernel: a word for the kernel that the user
    /// boots.
    pub kernel: Option<String>,
    /// Kernel parameters.
    pub boot_line: Option<String>,
    /// Kernels from source: options, `CONFIG_NAME=VALUE`, or paths of files of them.
    pub config: Vec<String>,
    /// Kernels from source: paths of patches, in their order.
    pub patches: Vec<String>,
    /// Kernels from source: start configuration.
    pub start_config: Option<String>,
    /// Kernels from a revision: the directory of the repository.
    pub tree: Option<String>,
    /// Set if the base is this machine itself.
    pub bare_metal: bool,
    /// On the running kernel, or in a counted guest: values by name, as `sysctl` has them.
    pub sysctl: BTreeMap<String, String>,
    /// On the running kernel: transparent huge pages.
    pub thp: Option<String>,
    /// On the running kernel: frequency governor of all CPUs.
    pub governor: Option<String>,
    /// On the running kernel: the command that runs each loop.
    pub prefix: Vec<String>,
    /// Guests of a KVM host: features of KVM that they do not see.
    pub without: Vec<String>,
    /// Guests of a KVM host: number of vCPUs.
    pub cpus: Option<u8>,
    /// Guests of a KVM host: memory in MiB.
    pub memory_mib: Option<u32>,
    /// Modules that only this Side's guest loads, with their parameters.
    pub modules: Vec<String>,
    /// A file system for this Side's files.
    pub disk: Option<DiskKeys>,
    /// Files for this Side's programs and commands, `PATH` or `PATH:AT`.
    pub files: Vec<String>,
    /// Shell commands that run once in this Side's guest, before it is frozen.
    pub setup: Option<String>,
}

impl ExperimentFile {
    /// Parses an experiment file; `path` is for messages. It fails for a ledger or a campaign, and
    /// if a key is unknown or the title is missing.
    pub fn parse(text: &str, path: &str) -> Result<ExperimentFile, Error> {
        let file = ExperimentFile::read(text).map_err(|reason| {
            Error::user(format!(
                "{path} is not an experiment file: {reason}. `ktax compare --help` shows one"
            ))
        })?;
        if !file.add.is_empty() {
            return Err(Error::user(format!(
                "{path} is a ledger: it has additions. Run it with `ktax ledger {}`",
                shell_path(path)
            )));
        }
        match file.is_campaign() {
            true => Err(Error::user(format!(
                "{path} is a campaign: it has subjects. Plan it with `ktax campaign plan {}`",
                shell_path(path)
            ))),
            false => Ok(file),
        }
    }

    /// Whether it has keys that only a campaign has.
    pub(super) fn is_campaign(&self) -> bool {
        !self.subjects.is_empty() || !self.timed.is_empty()
    }

    /// Parses an experiment, a ledger or a campaign file.
    pub(super) fn read(text: &str) -> Result<ExperimentFile, String> {
        let file: ExperimentFile =
            toml::from_str(text).map_err(|error| escape_lines(error.to_string().trim_end()))?;
        match file.title {
            Some(_) => Ok(file),
            None => Err("the title is missing".into()),
        }
    }

    /// Keys of the change; created if there are none.
    pub fn change_mut(&mut self) -> &mut SubjectKeys {
        self.change.get_or_insert_default()
    }
}

impl SubjectKeys {
    /// The Kernel and its boot line; `None` without a kernel.
    pub(super) fn subject(&self) -> Option<Subject> {
        self.kernel.as_ref().map(|kernel| self.subject_of(kernel))
    }

    /// The Kernel, `usual` if none is named; `None` if no key is about a kernel.
    pub(super) fn subject_or(&self, usual: &str) -> Option<Subject> {
        let is_built = !self.config.is_empty() || !self.patches.is_empty();
        let says = is_built || self.boot_line.is_some() || self.kernel.is_some();
        says.then(|| self.subject_of(self.kernel.as_deref().unwrap_or(usual)))
    }

    /// The Subject of these keys in experiments of times.
    pub(super) fn timed_subject(&self) -> TimedSubject {
        let SubjectKeys { kernel, bare_metal, sysctl, thp, governor, prefix, .. } = self.clone();
        let boot_line = self.boot_line.clone().unwrap_or_default();
        TimedSubject { kernel, bare_metal, boot_line, sysctl, thp, governor, prefix }
    }

    /// The Subject of these keys with this kernel. It has no disk, because that is not checked yet.
    pub(super) fn subject_of(&self, kernel: &str) -> Subject {
        let mut subject = Subject::new(kernel, "");
        subject.boot_line = self.boot_line.clone().unwrap_or_default();
        subject.config.clone_from(&self.config);
        subject.patches.clone_from(&self.patches);
        subject.start_config.clone_from(&self.start_config);
        subject.tree.clone_from(&self.tree);
        subject.sysctl.clone_from(&self.sysctl);
        subject.modules.clone_from(&self.modules);
        subject.files.clone_from(&self.files);
        subject.setup.clone_from(&self.setup);
        subject
    }
}
