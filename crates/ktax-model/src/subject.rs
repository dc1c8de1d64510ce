use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Disk, Model};

/// One of the two Subjects of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// What the change is measured against.
    Base,
    /// What is measured.
    Change,
}

impl Side {
    /// Both Sides, base first.
    pub const BOTH: [Side; 2] = [Side::Base, Side::Change];

    /// `base` or `change`.
    pub fn name(self) -> &'static str {
        match self {
            Side::Base => "base",
            Side::Change => "change",
        }
    }

    /// The one that this is compared with.
    pub fn other(self) -> Side {
        match self {
            Side::Base => Side::Change,
            Side::Change => Side::Base,
        }
    }
}

/// One value for each Side.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sides<T> {
    /// The base's value.
    pub base: T,
    /// The change's value.
    pub change: T,
}

impl<T> Sides<T> {
    /// The value of one Side.
    pub fn get(&self, side: Side) -> &T {
        match side {
            Side::Base => &self.base,
            Side::Change => &self.change,
        }
    }

    /// What `make` makes of each value.
    pub fn map<U>(self, mut make: impl FnMut(T) -> U) -> Sides<U> {
        Sides { base: make(self.base), change: make(self.change) }
    }

    /// The value of one Side, to be changed.
    pub fn get_mut(&mut self, side: Side) -> &mut T {
        match side {
            Side::Base => &mut self.base,
            Side::Change => &mut self.change,
        }
    }

    /// Calls `make` for each Side, base first.
    pub fn of(mut make: impl FnMut(Side) -> T) -> Self {
        Sides { base: make(Side::Base), change: make(Side::Change) }
    }

    /// Calls `make` for each Side, base first, until it fails.
    pub fn try_from_fn<E>(mut make: impl FnMut(Side) -> Result<T, E>) -> Result<Self, E> {
        Ok(Sides { base: make(Side::Base)?, change: make(Side::Change)? })
    }
}

/// The shape of the computer; both Sides share it unless it is the declared factor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Machine {
    /// QEMU's name of a CPU model, with its features (`max`, `EPYC,-x2apic`).
    pub cpu: String,
    /// Guest memory in MiB.
    pub memory_mib: u32,
    /// How many CPUs it has.
    #[serde(skip_serializing_if = "is_one")]
    pub cpus: u32,
    /// How many instructions each of several CPUs executes in turn. Absent: [`QUANTUM`], and
    /// [`CONTENDED_QUANTUM`] while they wait for each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantum: Option<u32>,
    /// What is modelled beside counting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
}

impl Machine {
    /// As many CPUs as the plugin tells apart.
    pub const MOST_CPUS: u32 = 32;

    /// What a machine with so many CPUs is, where nothing else is asked for.
    pub fn of_cpus(cpus: u32) -> Machine {
        let machine = Machine { cpus, ..Machine::default() };
        Machine { cpu: machine.usual_cpu().to_owned(), ..machine }
    }

    /// Layouts per Side, where nothing else is asked for. In which order several CPUs execute
    /// is the largest noise of all, and a row of theirs has more Metrics that can decide it.
    pub fn usual_layouts(&self) -> u32 {
        if self.cpus == 1 { 5 } else { 7 }
    }

    /// QEMU's name of the CPU, where nothing else is asked for. A kernel that sees a hypervisor
    /// spins on one byte where it has queued locks on a real machine, so several CPUs show none.
    pub fn usual_cpu(&self) -> &'static str {
        if self.cpus == 1 { "max" } else { "max,-hypervisor" }
    }
}

/// The quantum of several CPUs, where nothing else is asked for.
pub const QUANTUM: u32 = 1000;

/// The same while they wait for each other.
pub const CONTENDED_QUANTUM: u32 = 200;

/// Most machines have one CPU, and files say nothing of it.
pub(super) fn is_one(cpus: &u32) -> bool {
    *cpus == 1
}

pub(super) fn one() -> u32 {
    1
}

impl Default for Machine {
    fn default() -> Self {
        Machine { cpu: "max".into(), memory_mib: 512, cpus: one(), quantum: None, model: None }
    }
}

/// What is measured: a Kernel by its specification, and the boot line it is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// A path, `debian:…`, or source; see `ktax help compare`.
    pub kernel: String,
    /// Kernel parameters beyond those that the engine needs.
    #[serde(default)]
    pub boot_line: String,
    /// Of source: options, `CONFIG_NAME=VALUE`, or paths of files of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config: Vec<String>,
    /// Of source: paths of patches, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<String>,
    /// Of source, what the configuration begins with: `base`, `defconfig`, `running`, or a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_config: Option<String>,
    /// Of a revision: the directory of its repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// Kernel settings by their names as sysctl(8) has them, written before the guest is frozen.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctl: BTreeMap<String, String>,
    /// Modules that only this Side's guest loads, each with its parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<String>,
    /// The file system of this Side's files, where the other Side has another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
    /// Files for this Side's programs and commands, `PATH` or `PATH:AT`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Shell commands that run once in this Side's guest, before it is frozen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
}

impl Subject {
    /// A Kernel as it comes, and its boot line.
    pub fn of(kernel: &str, boot_line: &str) -> Subject {
        Subject {
            kernel: kernel.to_owned(),
            boot_line: boot_line.to_owned(),
            config: Vec::new(),
            patches: Vec::new(),
            start_config: None,
            tree: None,
            sysctl: BTreeMap::new(),
            modules: Vec::new(),
            disk: None,
            files: Vec::new(),
            setup: None,
        }
    }

    /// The same Kernel with an empty boot line and no settings of its own.
    pub fn kernel_alone(&self) -> Subject {
        let Subject { kernel, config, patches, start_config, tree, .. } = self.clone();
        Subject { config, patches, start_config, tree, ..Subject::of(&kernel, "") }
    }

    /// The same guest settings on a Kernel and boot line without names.
    pub fn settings_alone(&self) -> Subject {
        let Subject { sysctl, modules, disk, files, setup, .. } = self.clone();
        Subject { sysctl, modules, disk, files, setup, ..Subject::of("", "") }
    }

    /// Whether its guest has settings that the other Side's need not have.
    pub fn has_settings(&self) -> bool {
        self.settings_alone() != Subject::of("", "")
    }

    /// What tells it from others with the same Kernel's name: options, patches, boot line, then
    /// the guest's settings as `key=value`.
    pub fn beside_kernel(&self) -> String {
        let start = self.start_config.iter().map(|start| format!("start_config={start}"));
        let words = start.chain(self.config.iter().cloned()).chain(self.patches.iter().cloned());
        let boot_line = (!self.boot_line.is_empty()).then(|| self.boot_line.clone());
        words.chain(boot_line).chain(self.settings()).collect::<Vec<_>>().join(" ")
    }

    /// The guest's settings, each as `key=value` with the value quoted for a shell, and the disk in
    /// parentheses.
    pub fn settings(&self) -> Vec<String> {
        let word = |key: &str, value: &str| format!("{key}={}", quoted(value));
        let sysctl = self.sysctl.iter().map(|(name, value)| word(name, value));
        let modules = self.modules.iter().map(|module| word("module", module));
        let disk = self.disk.iter().map(|disk| format!("disk=({disk})"));
        let files = self.files.iter().map(|file| word("file", file));
        let setup = self.setup.iter().map(|commands| word("setup", commands));
        sysctl.chain(modules).chain(disk).chain(files).chain(setup).collect()
    }

    /// Whether it has the same Kernel, whatever the boot lines and settings.
    pub fn is_kernel_of(&self, other: &Subject) -> bool {
        self.kernel_alone() == other.kernel_alone()
    }

    /// The revision that its Kernel is built from: of `git:REVISION`.
    pub fn revision(&self) -> Option<&str> {
        self.kernel.strip_prefix("git:")
    }

    /// Whether it asks for what only a Kernel from source can have.
    pub fn is_built(&self) -> bool {
        !self.config.is_empty()
            || !self.patches.is_empty()
            || self.start_config.is_some()
            || self.tree.is_some()
    }
}

/// A word as a shell takes it, on one line: line feeds and the like are escaped.
fn quoted(word: &str) -> String {
    let quoted = shlex::try_quote(word).map_or_else(|_| word.to_owned(), |word| word.into_owned());
    let on_one_line = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    quoted.chars().map(on_one_line).collect()
}
