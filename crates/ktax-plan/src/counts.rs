//! Experiments that count instructions.

use crate::bounds::{CPUS, LONGEST_BOOT_LINE, MEMORY_MIB};
use crate::error::{PlanError, printable_line, range};
use crate::experiment::Experiment;
use crate::file::{ExperimentFile, MachineKeys, SubjectKeys};
use crate::keys::with_flag;
use crate::models::ModelKey;
use crate::program::{check_files, check_sysctl, checked_hooks};
use crate::workloads::{
    Definition, check_for_guest, check_memory, each_once, select, with_definitions,
};
use crate::{bounds, disk, layouts, program};
use ktax_engine::{ENGINES, EngineEntry};
use ktax_model::{
    Calibration, CountsPlan, Disk, Identity, Key, Machine, MachineModel, Model, Plan, QUANTUM,
    Region, Sides, Subject, UserProgram, Workload,
};

/// Settings that only experiments of counts have.
#[derive(Debug, Clone, PartialEq)]
pub struct CountsExperiment {
    /// Engine that counts.
    pub engine: &'static EngineEntry,
    /// Layouts per Side.
    pub layouts: u32,
    /// Rows by name; by default the programs, or all default rows if there are none.
    pub workloads: Option<Vec<String>>,
    /// The directory of the user's workloads.
    pub workloads_from: Option<String>,
    /// Workloads that this directory defines.
    pub definitions: Vec<Definition>,
    /// Modules that each guest loads, with their parameters.
    pub modules: Vec<String>,
    /// File system of the guest's files.
    pub disk: Option<Disk>,
    /// Programs of the user and of workload files; each is a row.
    pub programs: Vec<UserProgram>,
    /// Commands that run beside rows that are no programs.
    pub hooks: Option<Box<UserProgram>>,
    /// Shape of the computer, the same for both Sides.
    pub machine: Machine,
    /// Cycles of the modelled machine, if its file has them.
    pub calibration: Option<Box<Calibration>>,
    /// Base of the comparison.
    pub base: Subject,
    /// Change of the comparison.
    pub change: Subject,
}

impl CountsExperiment {
    /// An experiment with two Subjects and all defaults.
    pub fn between(base: Subject, change: Subject) -> CountsExperiment {
        CountsExperiment {
            engine: &ENGINES[0],
            layouts: Machine::default().usual_layouts(),
            workloads: None,
            workloads_from: None,
            definitions: Vec::new(),
            modules: Vec::new(),
            disk: None,
            programs: Vec::new(),
            hooks: None,
            machine: Machine::default(),
            calibration: None,
            base,
            change,
        }
    }

    pub(super) fn from_file(file: &ExperimentFile) -> Result<CountsExperiment, PlanError> {
        let missing =
            |key| PlanError::Missing { key, next: "write kernel = \"debian:cloud-amd64\"" };
        let mut base = file.base.subject().ok_or_else(|| missing("base.kernel"))?;
        let change = file.change.as_ref().and_then(|keys| keys.subject());
        let mut change = change.ok_or_else(|| missing("change.kernel"))?;
        let machine = machine_of_keys(&file.machine)?;
        let (defined, workloads) =
            program::split_names(&with_definitions(&file.definitions)?, file.workloads.as_deref())?;
        let disk;
        [disk, base.disk, change.disk] = disks_of_sides(file)?;
        let experiment = CountsExperiment {
            modules: file.modules.clone(),
            disk,
            engine: file.engine.unwrap_or(&ENGINES[0]),
            layouts: file.layouts.unwrap_or(machine.usual_layouts()),
            workloads,
            workloads_from: file.workloads_from.clone(),
            definitions: file.definitions.clone(),
            programs: [program::checked_programs(&file.program)?, defined].concat(),
            hooks: file.hooks.as_ref().map(checked_hooks).transpose()?.map(Box::new),
            machine,
            calibration: file.machine.model.as_ref().and_then(ModelKey::calibration),
            base,
            change,
        };
        experiment.check()?;
        Ok(experiment)
    }

    /// Refuses an experiment that cannot be planned. Call it again after changing a field.
    pub fn check(&self) -> Result<(), PlanError> {
        layouts::check_layouts(self.layouts)?;
        if self.hooks.is_some() && self.workloads.is_none() && !self.programs.is_empty() {
            let reason = "hooks run beside rows that are no programs, and there is none: write \
                          setup and prepare into its [[program]] or [run]";
            return Err(PlanError::Program { reason: reason.into() });
        }
        let Machine { cpus, quantum, model, .. } = &self.machine;
        let (cpus, quantum) = (*cpus, *quantum);
        if !CPUS.contains(&cpus) {
            return Err(PlanError::Cpus { value: cpus });
        }
        range("machine.quantum", quantum.unwrap_or(QUANTUM), bounds::QUANTUM)?;
        let is_coherence = *model == Some(Model::Coherence);
        for (is_set, key) in [(quantum.is_some(), "quantum"), (is_coherence, "model")] {
            if cpus == 1 && is_set {
                return Err(PlanError::OneCpu { key });
            }
        }
        if let Some(machine) = model.as_ref().and_then(Model::machine).filter(|_| cpus > 1) {
            return Err(PlanError::OneCpuModelled { name: machine.name.clone() });
        }
        let is_machine = model.as_ref().is_some_and(|model| model.machine().is_some());
        let memory_mib = self.machine.memory_mib;
        if is_machine && memory_mib > MachineModel::MOST_MEMORY_MIB {
            return Err(PlanError::ModelledMemory { memory_mib });
        }
        if !MEMORY_MIB.contains(&self.machine.memory_mib) {
            return Err(PlanError::Memory { memory_mib: self.machine.memory_mib });
        }
        for subject in [&self.base, &self.change] {
            if subject.boot_line.len() > LONGEST_BOOT_LINE {
                return Err(PlanError::BootLine { length: subject.boot_line.len() });
            }
        }
        for (what, text) in [
            ("--base-boot-line (base.boot_line)", &self.base.boot_line),
            ("--change-boot-line (change.boot_line)", &self.change.boot_line),
            ("--cpu (machine.cpu)", &self.machine.cpu),
            ("--module (modules)", &self.modules.join(" ")),
            ("--base-module (base.modules)", &self.base.modules.join(" ")),
            ("--change-module (change.modules)", &self.change.modules.join(" ")),
            ("the base's options and patches", &self.base.kernel_alone().beside_kernel()),
            ("the change's options and patches", &self.change.kernel_alone().beside_kernel()),
        ] {
            printable_line(what, text)?;
        }
        self.check_settings("base", &self.base)?;
        self.check_settings("change", &self.change)
    }

    /// Refuses settings that cannot be made in a Side's guest.
    fn check_settings(&self, side: &str, subject: &Subject) -> Result<(), PlanError> {
        let Subject { sysctl, files, setup, .. } = subject;
        let refuse = |key: &str, reason: String| {
            Err(PlanError::Settings { key: with_flag(&format!("{side}.{key}")), reason })
        };
        if let Err(reason) = check_sysctl(sysctl) {
            return refuse("sysctl", reason);
        }
        if setup.as_ref().is_some_and(|commands| commands.contains('\0')) {
            return refuse("setup", "a text has a NUL character; remove it".into());
        }
        // Programs, hooks and set-up each have the Side's files beside their own.
        let own = self
            .programs
            .iter()
            .chain(self.hooks.as_deref())
            .map(|program| program.files.as_slice());
        for own in own.chain([&[][..]]) {
            check_files(&[own, files].concat())?;
        }
        Ok(())
    }

    /// The rows, the user's programs first. It fails if a row is unknown, needs another engine, or
    /// does not fit in the memory.
    pub fn rows(&self) -> Result<Vec<Workload>, PlanError> {
        let definitions = with_definitions(&self.definitions)?;
        let CountsExperiment { workloads, programs, machine, .. } = self;
        let mut rows = program::rows_alone(programs, &definitions);
        if workloads.is_some() || programs.is_empty() {
            let selected = select(&definitions, workloads.as_deref())?;
            selected.iter().try_for_each(|row| check_for_guest(&definitions, row))?;
            rows.extend(selected);
        }
        check_memory(&rows, u64::from(machine.memory_mib) << 20)?;
        check_cpus(&rows, machine.cpus)?;
        check_boots(&rows, machine.cpus)?;
        each_once(rows)
    }
}

/// Refuses rows that run on more CPUs than there are; the largest is named.
fn check_cpus(rows: &[Workload], cpus: u32) -> Result<(), PlanError> {
    let wanted = |row: &&Workload| row.params.get("cpus").copied().unwrap_or(0);
    match rows.iter().max_by_key(wanted) {
        Some(row) if wanted(&row) > u64::from(cpus) => {
            Err(PlanError::TooFewCpus { row: row.row.clone(), wanted: wanted(&row) })
        }
        _ => Ok(()),
    }
}

/// Refuses rows that boot the kernel within the region if there are several CPUs: their times would
/// not add up, because the other CPUs come up in the middle.
fn check_boots(rows: &[Workload], cpus: u32) -> Result<(), PlanError> {
    match rows.iter().find(|row| cpus > 1 && matches!(row.region, Region::Boot)) {
        Some(row) => Err(PlanError::BootOfSeveral { row: row.row.clone() }),
        None => Ok(()),
    }
}

impl Experiment<CountsExperiment> {
    /// Orders the Boots: each Layout is a pair of adjacent Steps, whose first Side is drawn.
    pub fn plan(
        &self,
        kernels: Sides<Identity>,
        key: Key,
        archives: Option<Sides<String>>,
    ) -> Result<Plan<CountsPlan>, PlanError> {
        let CountsExperiment { layouts, machine, base, change, programs, disk, .. } = &self.method;
        let hooks = self.method.hooks.as_deref().cloned();
        let workloads_from = self.method.workloads_from.clone();
        let workloads = self.method.rows()?;
        let (layouts, steps) = layouts::draw_steps(self.seed, *layouts);
        let method = CountsPlan {
            key,
            archives,
            machine: machine.clone(),
            subjects: Sides { base: base.clone(), change: change.clone() },
            kernels,
            calibration: self.method.calibration.as_deref().cloned(),
            disk: disk.clone(),
            programs: programs.clone(),
            hooks,
            workloads_from,
            workloads,
            layouts,
            steps,
        };
        Ok(self.plan_of(method))
    }
}

/// The disk that both Sides have, or else that of the base and that of the change. A Side without a
/// disk of its own has that of the file.
fn disks_of_sides(file: &ExperimentFile) -> Result<[Option<Disk>; 3], PlanError> {
    let both = file.disk.as_ref().map(disk::checked_disk).transpose()?.flatten();
    let disk_of = |keys: &SubjectKeys| match &keys.disk {
        Some(own) => disk::checked_disk(own),
        None => Ok(both.clone()),
    };
    let base = disk_of(&file.base)?;
    let change = file.change.as_ref().map_or(Ok(both.clone()), disk_of)?;
    Ok(match base == change {
        true => [base, None, None],
        false => [None, base, change],
    })
}

fn machine_of_keys(keys: &MachineKeys) -> Result<Machine, PlanError> {
    let MachineKeys { cpu, memory_mib, cpus, quantum, model, .. } = keys.clone();
    let usual = Machine::with_cpus(cpus.unwrap_or(Machine::default().cpus));
    Ok(Machine {
        cpu: cpu.unwrap_or(usual.cpu),
        memory_mib: memory_mib.unwrap_or(usual.memory_mib),
        cpus: usual.cpus,
        quantum,
        model: model.as_ref().map(ModelKey::model).transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(machine: &str) -> Result<CountsExperiment, PlanError> {
        let text = format!(
            "title = \"t\"\nworkloads = [\"scale:cpus=4\"]\nmachine = {{ {machine} }}\n\
             [base]\nkernel = \"a\"\n[change]\nkernel = \"b\"\n"
        );
        CountsExperiment::from_file(&ExperimentFile::parse(&text, "t.toml")?)
    }

    #[test]
    fn several_cpus_have_more_layouts_and_show_no_hypervisor() {
        let one = experiment("").unwrap();
        assert_eq!((one.machine.cpu.as_str(), one.layouts), ("max", 5));
        // `vcpus` is the older name of the key in experiments with timed guests.
        for key in ["cpus = 4", "vcpus = 4"] {
            let four = experiment(key).unwrap();
            assert_eq!((four.machine.quantum, four.layouts), (None, 7));
            assert_eq!(four.machine.cpu, "max,-hypervisor");
            assert_eq!(four.rows().unwrap().len(), 1);
        }
        let asked = experiment("cpus = 4, quantum = 500, cpu = \"max\"").unwrap().machine;
        assert_eq!((asked.cpu.as_str(), asked.quantum), ("max", Some(500)));
    }

    #[test]
    fn too_few_and_too_many_cpus_are_refused() {
        let refused = |machine: &str| match experiment(machine) {
            Ok(experiment) => experiment.rows().unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        let reason = refused("cpus = 2");
        assert_eq!(reason, "scale:cpus=4 runs on 4 CPUs; write --cpus 4 (machine.cpus)");
        assert!(refused("cpus = 33").contains("(machine.cpus) must be 1 to 32, or 1 to 255"));
        assert!(refused("cpus = 4, quantum = 3").contains("(machine.quantum) must be 20"));
        assert!(refused("quantum = 500").contains("only applies to several CPUs"));
        let reason = refused("model = \"zen3\", memory_mib = 4096");
        assert!(reason.contains("at most 2048 MiB, not 4096"), "{reason}");
        assert!(refused("model = \"coherence\"").contains("only applies to several CPUs"));
        assert!(
            refused("cpus = 4, model = \"zen3\"")
                .contains("zen3 (--model or --machine, machine.model) models one")
        );
    }
}
