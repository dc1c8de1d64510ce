//! Arguments that several commands share.

use std::path::{Path, PathBuf};

use clap::Args;

use super::exit::UsageError;
use crate::engine::Limits;
use crate::model::{Subject, TimedEngine};
use crate::plan::{Experiment, GuestFile, TimedExperiment};

/// What to compare.
#[derive(Debug, Default, PartialEq, Args)]
pub struct ExperimentArgs {
    /// Experiment file; the flags below override what it says
    #[arg(value_name = "EXPERIMENT.toml")]
    experiment: Option<PathBuf>,
    /// Kernel of both sides: a bzImage or vmlinux file, debian:PACKAGE, debian:cloud-amd64; or
    /// source to build: src:DIR, git:REVISION, debian-src:6.12
    #[arg(long, value_name = "KERNEL", help_heading = "Subjects")]
    #[arg(conflicts_with_all = ["base", "change"])]
    kernel: Option<String>,
    /// Kernel of the base
    #[arg(long, value_name = "KERNEL", help_heading = "Subjects")]
    base: Option<String>,
    /// Kernel of the change
    #[arg(long, value_name = "KERNEL", help_heading = "Subjects")]
    change: Option<String>,
    /// Kernel parameters of the base
    #[arg(long, value_name = "PARAMETERS", help_heading = "Subjects")]
    base_boot_line: Option<String>,
    /// Kernel parameters of the change
    #[arg(long, value_name = "PARAMETERS", help_heading = "Subjects")]
    change_boot_line: Option<String>,
    /// Option of the change's kernel, built from source: CONFIG_NAME=VALUE, or a file of them
    #[arg(long, value_name = "OPTION", help_heading = "Kernels from source")]
    config: Vec<String>,
    /// Patch for the change's kernel, built from source
    #[arg(long, value_name = "FILE", help_heading = "Kernels from source")]
    patch: Vec<String>,
    /// What both configurations begin with: base (small), defconfig, running, or a file [default:
    /// base]
    #[arg(long, value_name = "CONFIG", help_heading = "Kernels from source")]
    start_config: Option<String>,
    /// Repository of git:REVISION [default: the current directory]
    #[arg(long, value_name = "DIR", help_heading = "Kernels from source")]
    tree: Option<String>,
    /// CPU model of the guest, in QEMU's words
    #[arg(long, value_name = "MODEL", help_heading = "Subjects")]
    cpu: Option<String>,
    /// Memory of the guest
    #[arg(long, value_name = "MIB", help_heading = "Subjects")]
    memory: Option<u32>,
    /// Workload, @GROUP or row to measure, as `ktax workloads` lists them; repeat for more
    /// [default: all but those marked *, of times none]
    #[arg(short, long = "workload", value_name = "ROW", help_heading = "Measuring")]
    workloads: Vec<String>,
    /// Layouts per side: irrelevant perturbations whose spread is the noise floor [default: 5]
    #[arg(short, long, value_name = "N", help_heading = "Measuring")]
    layouts: Option<u32>,
    /// What the layouts are drawn from; of times the order of the pairs [default: 1]
    #[arg(long, value_name = "N", help_heading = "Measuring")]
    seed: Option<u64>,
    /// Smallest change that gets a verdict [default: 0.1, of times 1]
    #[arg(long, value_name = "PERCENT", help_heading = "Measuring")]
    threshold: Option<f64>,
}

impl ExperimentArgs {
    /// The Experiment that the file and the flags make together.
    pub fn experiment(&self) -> anyhow::Result<Experiment> {
        let mut experiment = match &self.experiment {
            Some(path) => read(path)?,
            None => self.flags_alone()?,
        };
        let both = [&mut experiment.base.kernel, &mut experiment.change.kernel];
        for (kernel, own) in both.into_iter().zip([&self.base, &self.change]) {
            set(kernel, own.as_ref().or(self.kernel.as_ref()));
        }
        set(&mut experiment.base.boot_line, self.base_boot_line.as_ref());
        set(&mut experiment.change.boot_line, self.change_boot_line.as_ref());
        for subject in [&mut experiment.base, &mut experiment.change] {
            subject.start_config = self.start_config.clone().or(subject.start_config.take());
            subject.tree = self.tree.clone().or(subject.tree.take());
        }
        experiment.change.config.extend(self.config.clone());
        experiment.change.patches.extend(self.patch.clone());
        set(&mut experiment.machine.cpu, self.cpu.as_ref());
        set(&mut experiment.machine.memory_mib, self.memory.as_ref());
        set(&mut experiment.layouts, self.layouts.as_ref());
        set(&mut experiment.seed, self.seed.as_ref());
        set(&mut experiment.threshold_percent, self.threshold.as_ref());
        if !self.workloads.is_empty() {
            experiment.workloads = Some(self.workloads.clone());
        }
        self.check_tree(&experiment)?;
        experiment.check()?;
        Ok(experiment)
    }

    /// The experiment file: its name for messages, and its text.
    pub fn file(&self) -> Result<Option<(String, String)>, UsageError> {
        self.experiment.as_deref().map(text).transpose()
    }

    /// What these flags say of an Experiment of times; those that it has no place for are refused.
    pub fn apply_to_timed(&self, experiment: &mut TimedExperiment) -> Result<(), UsageError> {
        self.check_timed(experiment)?;
        let base = self.base.as_ref().or(self.kernel.as_ref());
        let change = self.change.as_ref().or(self.kernel.as_ref());
        for (subject, kernel, line) in [
            (&mut experiment.base, base, &self.base_boot_line),
            (&mut experiment.change, change, &self.change_boot_line),
        ] {
            if !subject.bare_metal {
                subject.kernel = kernel.cloned().or(subject.kernel.take());
            }
            set(&mut subject.boot_line, line.as_ref());
        }
        set(&mut experiment.seed, self.seed.as_ref());
        set(&mut experiment.threshold_percent, self.threshold.as_ref());
        if !self.workloads.is_empty() {
            experiment.workloads.clone_from(&self.workloads);
        }
        set(&mut experiment.machine.cpu, self.cpu.as_ref());
        set(&mut experiment.machine.memory_mib, self.memory.as_ref());
        Ok(())
    }

    fn check_timed(&self, experiment: &TimedExperiment) -> Result<(), UsageError> {
        let is_host = experiment.engine == TimedEngine::Host;
        let kernels = [&self.kernel, &self.base, &self.change];
        let is_built = !self.config.is_empty() || !self.patch.is_empty();
        let is_built = is_built || self.start_config.is_some() || self.tree.is_some();
        let text = if is_built || self.layouts.is_some() {
            "kernels from source and --layouts are the exact engine's; leave them out"
        } else if is_host && kernels.into_iter().any(Option::is_some) {
            "the host engine runs the kernel that is running; for kernels that you boot write \
             --base-set kernel=6.1 --change-set kernel=6.12, or for guests --engine kvm"
        } else if is_host && (self.cpu.is_some() || self.memory.is_some()) {
            "--cpu and --memory are of guests; leave them out, or write --engine kvm"
        } else if experiment.base.bare_metal && self.base.is_some() {
            "the base is bare metal, which is no kernel to start; name the change's with --change"
        } else {
            return Ok(());
        };
        Err(UsageError::Text(text.into()))
    }

    /// The file, if its Subjects are guests of a KVM host: its flags are --workload and --out.
    pub fn guests(&self) -> anyhow::Result<Option<GuestFile>> {
        let Some(path) = &self.experiment else { return Ok(None) };
        let (name, text) = text(path)?;
        if !GuestFile::is_one(&text) {
            return Ok(None);
        }
        let mut experiment = GuestFile::parse(&text, &name)?;
        let alone = ExperimentArgs {
            experiment: self.experiment.clone(),
            workloads: self.workloads.clone(),
            ..ExperimentArgs::default()
        };
        if *self != alone {
            let text = "an experiment with a host takes no flags but --workload; change the file";
            return Err(UsageError::Text(text.into()).into());
        }
        if !self.workloads.is_empty() {
            experiment.workloads().clone_from(&self.workloads);
        }
        Ok(Some(experiment))
    }

    /// Refuses a repository that nothing is looked up in.
    fn check_tree(&self, experiment: &Experiment) -> Result<(), UsageError> {
        let revision = experiment.base.revision().or(experiment.change.revision());
        match self.tree.is_some() && revision.is_none() {
            true => Err(UsageError::Text(
                "--tree is where git:REVISION is looked up; name a kernel so, or leave it out"
                    .into(),
            )),
            false => Ok(()),
        }
    }

    fn flags_alone(&self) -> Result<Experiment, UsageError> {
        let base = self.base.as_ref().or(self.kernel.as_ref());
        let change = self.change.as_ref().or(self.kernel.as_ref()).or(base);
        let (Some(base), Some(change)) = (base, change) else {
            let text = "nothing to compare; name an experiment file, or kernels: \
                        --kernel debian:cloud-amd64 --change-boot-line mitigations=off";
            return Err(UsageError::Text(text.into()));
        };
        let subject = |kernel: &str| Subject::of(kernel, "");
        Ok(Experiment::of(self.title(base, change), subject(base), subject(change)))
    }

    fn title(&self, base: &str, change: &str) -> String {
        let boot_line = |line: &Option<String>| line.clone().unwrap_or_default();
        let base = Subject::of(base, &boot_line(&self.base_boot_line));
        let mut change = Subject::of(change, &boot_line(&self.change_boot_line));
        change.config.clone_from(&self.config);
        change.patches.clone_from(&self.patch);
        let side = |subject: &Subject| format!("{} {}", subject.kernel, subject.beside_kernel());
        let title = format!("{} against {}", side(&base).trim_end(), side(&change).trim_end());
        // A title is ASCII, and a path need not be.
        let ascii =
            |c: char| if c.is_ascii() { c.to_string() } else { c.escape_unicode().to_string() };
        title.chars().map(ascii).collect()
    }
}

fn read(path: &Path) -> anyhow::Result<Experiment> {
    let (name, text) = text(path)?;
    Ok(Experiment::parse(&text, &name)?)
}

/// A file's name for messages, and what is in it.
fn text(path: &Path) -> Result<(String, String), UsageError> {
    let name = path.display().to_string();
    let wanted = "an experiment file";
    match std::fs::read_to_string(path) {
        Ok(text) => Ok((name, text)),
        Err(reason) => Err(UsageError::Unreadable { path: name, reason, wanted }),
    }
}

fn set<T: Clone>(place: &mut T, value: Option<&T>) {
    if let Some(value) = value {
        value.clone_into(place);
    }
}

/// Where things are and how hard to work.
#[derive(Debug, Clone, Args)]
pub struct HostArgs {
    /// QEMU to run [default: qemu-system-x86_64]
    #[arg(long, value_name = "PROGRAM", env = "KTAX_QEMU", help_heading = "Host")]
    pub qemu: Option<PathBuf>,
    /// VMs at a time [default: one for each CPU]
    #[arg(short, long, value_name = "N", help_heading = "Host")]
    pub jobs: Option<usize>,
    /// Kernels, snapshots and symbols are kept here [default: $XDG_CACHE_HOME/ktax]
    #[arg(long, value_name = "DIR", env = "KTAX_CACHE", help_heading = "Host")]
    pub cache: Option<PathBuf>,
    /// Give up on a boot or a run after this much real time
    #[arg(long, value_name = "SECONDS", default_value_t = 180, help_heading = "Host")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub time_limit: u64,
}

impl HostArgs {
    /// ktax's own directory for what can be made again.
    pub fn cache(&self) -> anyhow::Result<PathBuf> {
        cache_directory(self.cache.as_deref())
    }

    /// VMs at a time.
    pub fn jobs(&self) -> usize {
        let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.unwrap_or_else(cpus).max(1)
    }

    /// The limits of Boots and Runs.
    pub fn limits(&self) -> Limits {
        Limits::of_real_time(self.time_limit)
    }
}

/// The cache's directory: as named, else below that of the user.
pub fn cache_directory(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    let from = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let named = named.map(std::path::absolute).transpose()?;
    named
        .or_else(|| from("XDG_CACHE_HOME").map(|dir| dir.join("ktax")))
        .or_else(|| from("HOME").map(|dir| dir.join(".cache/ktax")))
        .ok_or_else(|| {
            UsageError::Text("no place for the cache; set HOME or give --cache DIR".into()).into()
        })
}

/// The first of ktax-1, ktax-2, … that is not there.
pub fn first_free() -> PathBuf {
    let mut names = (1u32..).map(|number| PathBuf::from(format!("ktax-{number}")));
    names.find(|name| !Path::exists(name)).expect("numbers do not run out")
}
