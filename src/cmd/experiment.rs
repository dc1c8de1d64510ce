//! Experiment of a command: an experiment file, and flags for its keys.

mod guests;
mod measuring;

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::Args;

use super::options::{experiment, number, percent};
use crate::flow::{self, Error};
use crate::model::{ErrorKind, Method, RunsOn};
use crate::plan::{
    self, DiskKeys, Experiment, ExperimentFile, SubjectKeys, check_keys, help, method_of,
};
use crate::text::{shell_path, shell_word};
use guests::{MachineArgs, ProgramArgs, SideArgs};
use measuring::TimedArgs;

pub use measuring::RowArgs;

/// Flags of an experiment.
#[derive(Debug, Args)]
pub struct ExperimentArgs {
    #[command(flatten)]
    counted: CountedArgs,
    #[command(flatten)]
    timed: TimedArgs,
}

/// Flags of an experiment of the exact engine.
#[derive(Debug, Args)]
pub struct CountedArgs {
    #[command(flatten)]
    shared: SharedArgs,
    #[command(flatten)]
    program: ProgramArgs,
}

impl CountedArgs {
    pub fn experiment(&self) -> Result<Experiment, Error> {
        let mut file = self.shared.file()?.unwrap_or_default();
        check_keys(&file)?;
        self.program.apply(&mut file)?;
        self.shared.apply_sides(&mut file)?;
        self.shared.apply(&mut file)?;
        Experiment::from_file(&file).map_err(|error| self.shared.explain(error))
    }
}

impl ExperimentArgs {
    pub fn experiment(&self) -> Result<Experiment, Error> {
        let CountedArgs { shared, program } = &self.counted;
        let from_file = shared.file()?;
        let mut file = from_file.clone().unwrap_or_default();
        self.timed.apply(&mut file)?;
        program.apply(&mut file)?;
        shared.apply_sides(&mut file)?;
        if let Some(from_file) =
            from_file.filter(|from_file| method_of(from_file) != method_of(&file))
        {
            return Err(engine_error(&from_file));
        }
        // A flag of another engine may be why a kernel is missing, so report the flag first.
        check_keys(&file)?;
        shared.apply(&mut file)?;
        // Counts use a fixed seed, so that everybody gets the same digits.
        if method_of(&file) == Method::Times {
            file.seed.get_or_insert_with(random_seed);
        }
        Experiment::from_file(&file).map_err(|error| shared.explain(error))
    }
}

/// Error if `--engine` chooses another method than the file.
fn engine_error(from_file: &ExperimentFile) -> Error {
    let engine = match method_of(from_file) {
        Method::Counts => "the exact engine",
        Method::Times => "a timed engine",
        Method::Guests => "guests of a KVM host",
    };
    Error::user(format!(
        "--engine cannot change how the experiment file is measured: it uses {engine}; leave \
         --engine out"
    ))
}

/// Flags that experiments of all methods have.
#[derive(Debug, Args)]
struct SharedArgs {
    /// Read the experiment from this file, or from this one of `ktax experiments`; flags override
    /// its keys
    #[arg(value_name = "EXPERIMENT.toml|NAME", value_parser = experiment())]
    #[arg(hide_possible_values = true)]
    experiment: Option<PathBuf>,
    /// Use this kernel for both sides: a bzImage or vmlinux file, debian:PACKAGE, or source to
    /// build: src:DIR, git:REVISION, debian-src:6.12
    #[arg(long, value_name = "KERNEL", help_heading = "Subjects")]
    #[arg(conflicts_with_all = ["base", "change"])]
    kernel: Option<String>,
    #[arg(long, value_name = "KERNEL", help_heading = "Subjects", help = help("base.kernel"))]
    base: Option<String>,
    #[arg(long, value_name = "KERNEL", help_heading = "Subjects", help = help("change.kernel"))]
    change: Option<String>,
    #[arg(long, value_name = "PARAMETERS", help_heading = "Subjects")]
    #[arg(help = help("base.boot_line"))]
    base_boot_line: Option<String>,
    #[arg(long, value_name = "PARAMETERS", help_heading = "Subjects")]
    #[arg(help = help("change.boot_line"))]
    change_boot_line: Option<String>,
    #[arg(long, value_name = "OPTION", help_heading = "Kernels from source")]
    #[arg(help = help("change.config"))]
    config: Vec<String>,
    #[arg(long, value_name = "FILE", help_heading = "Kernels from source")]
    #[arg(help = help("change.patches"))]
    patch: Vec<String>,
    #[arg(long, value_name = "OPTION", help_heading = "Kernels from source")]
    #[arg(help = help("base.config"))]
    base_config: Vec<String>,
    #[arg(long, value_name = "FILE", help_heading = "Kernels from source")]
    #[arg(help = help("base.patches"))]
    base_patch: Vec<String>,
    #[arg(long, value_name = "CONFIG", help_heading = "Kernels from source")]
    #[arg(help = help("base.start_config"))]
    start_config: Option<String>,
    #[arg(long, value_name = "DIR", help_heading = "Kernels from source", help = help("base.tree"))]
    tree: Option<String>,
    #[command(flatten)]
    shape: MachineArgs<true>,
    /// The older name of --model for a file that has times
    #[arg(long, value_name = "FILE", hide = true, conflicts_with = "model")]
    machine: Option<PathBuf>,
    #[arg(long, value_name = "NAME [PARAMETERS]", help_heading = "Subjects")]
    #[arg(help = help("modules"))]
    module: Vec<String>,
    #[arg(long, value_name = "FS [KEY=VALUE]…", help_heading = "Subjects", help = help("disk"))]
    disk: Option<String>,
    #[command(flatten)]
    sides: SideArgs,
    #[command(flatten)]
    rows: RowArgs,
    #[arg(long, help_heading = "Measuring", help = help("same"))]
    same: bool,
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Measuring")]
    #[arg(value_parser = number(0..=u64::MAX), help = help("seed"))]
    seed: Option<u64>,
    #[arg(long, value_name = "PERCENT", allow_negative_numbers = true, help_heading = "Measuring")]
    #[arg(value_parser = percent, help = help("threshold_percent"))]
    threshold: Option<f64>,
}

impl SharedArgs {
    /// Content of the experiment file; `None` if none is named.
    pub fn file(&self) -> Result<Option<ExperimentFile>, Error> {
        let Some(path) = &self.experiment else { return Ok(None) };
        let program_error = || {
            Error::user(format!(
                "{path} is a program, but an experiment file is expected here; to measure the \
                 program, write -- before it: -- {path}",
                path = shell_path(path)
            ))
        };
        if is_program(path) {
            return Err(program_error());
        }
        let text = flow::experiment_text(path);
        let text = text.map_err(|error| if is_in_path(path) { program_error() } else { error })?;
        let mut file = ExperimentFile::parse(&text, &path.display().to_string())?;
        self.rows.choose_programs(&mut file)?;
        Ok(Some(file))
    }

    /// Replaces keys of the file by the flags of one side.
    pub fn apply_sides(&self, file: &mut ExperimentFile) -> Result<(), Error> {
        self.sides.apply(file)
    }

    /// Replaces keys of the file by all other flags.
    pub fn apply(&self, file: &mut ExperimentFile) -> Result<(), Error> {
        self.set_kernels(file)?;
        set(&mut file.base.boot_line, &self.base_boot_line);
        if self.change_boot_line.is_some() {
            file.change_mut().boot_line.clone_from(&self.change_boot_line);
        }
        set(&mut file.base.start_config, &self.start_config);
        set(&mut file.base.tree, &self.tree);
        if self.start_config.is_some() || self.tree.is_some() {
            set(&mut file.change_mut().start_config, &self.start_config);
            set(&mut file.change_mut().tree, &self.tree);
        }
        file.base.config.extend(self.base_config.clone());
        file.base.patches.extend(self.base_patch.clone());
        if !self.config.is_empty() || !self.patch.is_empty() {
            file.change_mut().config.extend(self.config.clone());
            file.change_mut().patches.extend(self.patch.clone());
        }
        self.shape.apply(file)?;
        file.machine.model = file.machine.model.take().map(flow::model).transpose()?;
        set(&mut file.machine.model, &self.machine.as_deref().map(flow::calibrated).transpose()?);
        file.modules.extend(self.module.clone());
        if let Some(disk) = &self.disk {
            file.disk = Some(DiskKeys::parse(disk)?);
        }
        set(&mut file.same, &self.same.then_some(true));
        set(&mut file.seed, &self.seed);
        set(&mut file.threshold_percent, &self.threshold);
        self.rows.apply(file)?;
        flow::expand_touching(file)?;
        self.check_tree(file)?;
        if file.title.is_none() {
            file.title = Some(plan::experiment_title(file));
        }
        Ok(())
    }

    /// Replaces the error of equal sides if `--base` or `--change` is missing.
    pub fn explain(&self, error: Error) -> Error {
        match (error.kind, &self.base, &self.change) {
            (ErrorKind::SameSides, Some(base), None) if self.experiment.is_none() => {
                single_side_error("base", base, "change")
            }
            _ => error,
        }
    }

    /// Sets the kernels. Without a file the change has the base's kernel unless it has its own.
    fn set_kernels(&self, file: &mut ExperimentFile) -> Result<(), Error> {
        let base = self.base.as_ref().or(self.kernel.as_ref());
        let change = self.change.as_ref().or(self.kernel.as_ref());
        let is_host = file.engine.is_some_and(|engine| engine.runs_on == RunsOn::RunningKernel);
        if is_host && (base.is_some() || change.is_some()) {
            return Err(Error::user(
                "--kernel, --base and --change do not apply to the host engine, because it \
                 measures the running kernel; name kernels that you boot with --base-set \
                 kernel=6.1 --change-set kernel=6.12, or use --engine kvm",
            ));
        }
        if file.base.bare_metal && self.base.is_some() {
            return Err(Error::user(
                "--base does not apply, because the base is bare metal and boots no kernel; name \
                 the change's kernel with --change",
            ));
        }
        if !file.base.bare_metal {
            set(&mut file.base.kernel, &base.cloned());
        }
        if change.is_some() {
            file.change_mut().kernel = change.cloned();
        }
        if self.experiment.is_some() || is_host {
            return Ok(());
        }
        let base = file.base.kernel.clone();
        let kernel = &mut file.change_mut().kernel;
        *kernel = kernel.take().or(base);
        let lacks_kernel =
            kernel.is_none() || (file.base.kernel.is_none() && !file.base.bare_metal);
        if let (true, Some(change)) = (lacks_kernel, &self.change) {
            return Err(single_side_error("change", change, "base"));
        }
        if lacks_kernel {
            return Err(Error::user(
                "there is nothing to compare; name an experiment file, or kernels, such as \
                 --kernel debian:cloud-amd64 --change-boot-line mitigations=off",
            ));
        }
        Ok(())
    }

    /// Refuses `--tree` if no kernel is named git:REVISION.
    fn check_tree(&self, file: &ExperimentFile) -> Result<(), Error> {
        let is_revision = |keys: &SubjectKeys| {
            keys.kernel.as_deref().is_some_and(|kernel| kernel.starts_with("git:"))
        };
        let mut sides = std::iter::once(&file.base).chain(&file.change);
        match self.tree.is_some() && !sides.any(is_revision) {
            true => Err(Error::user(
                "--tree only applies to kernels named git:REVISION; name such a kernel, or remove \
                 --tree",
            )),
            false => Ok(()),
        }
    }
}

/// Error for a single side; names the missing flag.
fn single_side_error(flag: &str, kernel: &str, missing_flag: &str) -> Error {
    let kernel = shell_word(kernel);
    Error::user(format!(
        "--{flag} {kernel} names one side alone; name the other with --{missing_flag} KERNEL, or \
         write --kernel {kernel} --change-boot-line LINE to compare two boot lines"
    ))
}

/// Returns true if a name is a program on the PATH, so the user probably forgot `--` before it.
fn is_in_path(name: &Path) -> bool {
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let is_name = name.components().count() == 1 && !name.exists();
    is_name
        && std::env::split_paths(&directories).any(|directory| is_program(&directory.join(name)))
}

fn is_program(path: &Path) -> bool {
    let is_executable =
        |metadata: &fs::Metadata| metadata.is_file() && metadata.mode() & 0o111 != 0;
    path.extension().is_none_or(|extension| extension != "toml")
        && fs::metadata(path).is_ok_and(|metadata| is_executable(&metadata))
}

/// Sets a key to the value of its flag, if the flag is given.
fn set<T: Clone>(key: &mut Option<T>, flag: &Option<T>) {
    if flag.is_some() {
        key.clone_from(flag);
    }
}

/// Draws a seed for the order of timed runs. With a fixed seed, all users would measure in the same
/// order. The seed has 32 bits, so that it is short to type.
pub fn random_seed() -> u64 {
    // The standard library gets its seed from the operating system.
    RandomState::new().hash_one(()) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        experiment: ExperimentArgs,
    }

    fn seed(words: &str) -> u64 {
        let words = ["ktax"].into_iter().chain(words.split(' '));
        CommandLine::try_parse_from(words).unwrap().experiment.experiment().unwrap().seed
    }

    #[test]
    fn timed_runs_have_random_seeds_and_counts_have_a_fixed_seed() {
        let times = "--engine host -w getppid --change-set prefix=env";
        let random = seed(times);
        assert_ne!(random, seed(times)); // once in 2^32 runs they are the same
        assert!(random < 1 << 32);
        assert_eq!(seed(&format!("{times} --seed 7")), 7);
        let counts = "--kernel debian:cloud-amd64 -w getppid --change-boot-line pti=on";
        assert_eq!((seed(counts), seed(counts)), (1, 1));
    }
}

#[cfg(test)]
#[path = "experiment_tests.rs"]
mod printed_command_tests;
