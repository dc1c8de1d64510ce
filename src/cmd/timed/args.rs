//! What only timed engines are told.

use clap::{Args, ValueEnum};

use super::super::args::ExperimentArgs;
use super::super::exit::UsageError;
use crate::model::{TimedEngine, TimedSubject};
use crate::plan::{TimedExperiment, Value};

/// How Subjects run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineArg {
    /// Counted, under QEMU's translator: the same numbers everywhere
    Exact,
    /// Timed, on the running kernel: what differs is set for each boot and put back
    Host,
    /// Timed, in guests under QEMU/KVM
    Kvm,
}

/// The flags of timed engines.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Timed engines")]
pub struct TimedArgs {
    /// How both sides run [default: exact]
    #[arg(long, value_enum)]
    engine: Option<EngineArg>,
    /// What the base is on the running kernel: a sysctl by its name, thp, governor, prefix (a
    /// command that runs each loop: prefix='taskset -c 1'), or kernel; repeat for more
    #[arg(long, value_name = "NAME=VALUE")]
    base_set: Vec<String>,
    /// What the change is on the running kernel
    #[arg(long, value_name = "NAME=VALUE")]
    change_set: Vec<String>,
    /// Of guests: the base is this machine itself, so that what a guest keeps of bare metal is seen
    #[arg(long)]
    bare_metal: bool,
    /// Of guests: number of vCPUs [default: 1]
    #[arg(long, value_name = "N")]
    vcpus: Option<u32>,
    /// Of guests: on so many CPUs, the quiet ones; fewer than vCPUs is overcommit [default: one for
    /// each vCPU]
    #[arg(long, value_name = "N")]
    cores: Option<u32>,
    /// So many pairs of boots, instead of as many as it takes
    #[arg(long, value_name = "N")]
    pairs: Option<u32>,
    /// No more pairs than this [default: 200]
    #[arg(long, value_name = "N")]
    most_pairs: Option<u32>,
    /// How often each row runs in a boot [default: 5]
    #[arg(long, value_name = "N")]
    loops: Option<u32>,
    /// Row to look at besides those that decide; repeat for more
    #[arg(long, value_name = "ROW")]
    secondary: Vec<String>,
    /// Values of a workload's parameter, each a row: a curve of each side and where they cross; or
    /// of a setting, each a run of its own; repeat for more
    #[arg(long, value_name = "NAME=VALUE,…")]
    sweep: Vec<String>,
    /// Go on, with a warning, where base and change differ in more than was declared
    #[arg(long)]
    allow_differences: bool,
}

impl TimedArgs {
    /// The Experiment that file and flags make together; `None` if it is counted.
    pub fn experiment(&self, shared: &ExperimentArgs) -> anyhow::Result<Option<TimedExperiment>> {
        let file = shared.file()?;
        let of_file = file.as_ref().filter(|(_, text)| TimedExperiment::is_one(text));
        let mut experiment = match (of_file, self.engine()) {
            (Some(_), _) if self.engine == Some(EngineArg::Exact) => {
                let text = "the experiment is of times; leave --engine exact out, or the file";
                return Err(UsageError::Text(text.into()).into());
            }
            (Some((name, text)), _) => TimedExperiment::parse(text, name)?,
            (None, Some(engine)) if file.is_none() => TimedExperiment::of(String::new(), engine),
            (None, Some(_)) => {
                let text = "the experiment is of the exact engine; leave --engine out, or the file";
                return Err(UsageError::Text(text.into()).into());
            }
            (None, None) if *self == (TimedArgs { engine: self.engine, ..Default::default() }) => {
                return Ok(None);
            }
            (None, None) => {
                let text = "this flag is for times; add --engine host or --engine kvm";
                return Err(UsageError::Text(text.into()).into());
            }
        };
        experiment.engine = self.engine().unwrap_or(experiment.engine);
        self.override_with(&mut experiment)?;
        shared.apply_to_timed(&mut experiment)?;
        if experiment.title.is_empty() {
            experiment.title = self.title(&experiment);
        }
        Ok(Some(experiment))
    }

    /// Refuses them where nothing is timed.
    pub fn refuse(&self) -> Result<(), UsageError> {
        match *self == TimedArgs::default() {
            true => Ok(()),
            false => Err(UsageError::Text(
                "an experiment with a host takes none of the timed engines' flags; leave them out"
                    .into(),
            )),
        }
    }

    fn engine(&self) -> Option<TimedEngine> {
        match self.engine? {
            EngineArg::Exact => None,
            EngineArg::Host => Some(TimedEngine::Host),
            EngineArg::Kvm => Some(TimedEngine::Kvm),
        }
    }

    fn override_with(&self, experiment: &mut TimedExperiment) -> Result<(), UsageError> {
        let is_of_guests = self.bare_metal || self.vcpus.is_some() || self.cores.is_some();
        if is_of_guests && experiment.engine == TimedEngine::Host {
            let text = "--bare-metal, --vcpus and --cores are of guests; leave them out, or write \
                        --engine kvm";
            return Err(UsageError::Text(text.into()));
        }
        self.base_set.iter().try_for_each(|text| set(&mut experiment.base, text))?;
        self.change_set.iter().try_for_each(|text| set(&mut experiment.change, text))?;
        experiment.base.bare_metal |= self.bare_metal;
        experiment.machine.vcpus = self.vcpus.unwrap_or(experiment.machine.vcpus);
        experiment.machine.cores = self.cores.or(experiment.machine.cores);
        experiment.pairs = self.pairs.or(experiment.pairs);
        experiment.most_pairs = self.most_pairs.unwrap_or(experiment.most_pairs);
        experiment.loops = self.loops.unwrap_or(experiment.loops);
        experiment.allow_differences |= self.allow_differences;
        for text in &self.sweep {
            let (name, values) = text.split_once('=').ok_or_else(|| {
                let text = text.escape_default();
                UsageError::Text(format!("{text} is no sweep; write users=500,1000,2000"))
            })?;
            let values = values.split(',').map(Value::of).collect();
            experiment.sweep.insert(name.to_owned(), values);
        }
        if !self.secondary.is_empty() {
            experiment.secondary.clone_from(&self.secondary);
        }
        Ok(())
    }

    fn title(&self, experiment: &TimedExperiment) -> String {
        let side = |settings: &[String], subject: &TimedSubject| {
            if subject.bare_metal {
                return "bare metal".to_owned();
            }
            // The kernel is there already, whichever flag named it.
            let settings = settings.iter().filter(|setting| !setting.starts_with("kernel="));
            let boot_line = Some(&subject.boot_line).filter(|line| !line.is_empty());
            let words = subject.kernel.iter().chain(boot_line).chain(settings);
            let words: Vec<&str> = words.map(String::as_str).collect();
            if words.is_empty() { "as it is".to_owned() } else { words.join(" ") }
        };
        let base = side(&self.base_set, &experiment.base);
        let change = side(&self.change_set, &experiment.change);
        format!("{base} against {change}").escape_default().to_string()
    }
}

fn set(subject: &mut TimedSubject, text: &str) -> Result<(), UsageError> {
    let wrong = |reason: &str| {
        let text = text.escape_default();
        UsageError::Text(format!("{text}: {reason}; write thp=never or vm.swappiness=10"))
    };
    let (name, value) = text.split_once('=').ok_or_else(|| wrong("no setting"))?;
    match name {
        "prefix" => {
            subject.prefix = shlex::split(value).ok_or_else(|| wrong("a quote is not closed"))?;
        }
        "thp" | "governor" | "kernel" => subject.set(name, value),
        name if name.contains(['.', '/']) => subject.set(name, value),
        _ => return Err(wrong("a sysctl has a dot or a slash in its name")),
    }
    Ok(())
}
