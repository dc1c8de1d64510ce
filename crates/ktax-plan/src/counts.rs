//! Experiments of the exact engine, which count instructions.

use crate::experiment::{
    Error, Experiment, check_layouts, check_memory_mib, check_printable_line, draw_steps,
    program_error,
};
use crate::file::{ExperimentFile, SubjectKeys, checked_disk};
use crate::keys::{MAX_BOOT_LINE, bounds, bounds_text, check_bounds, default_number, with_flag};
use crate::models::ModelKey;
use crate::program;
use crate::program::{check_files, check_sysctl, checked_hooks};
use crate::workloads::{
    Definition, check_for_guest, check_memory, select_rows, unique_rows, with_definitions,
};
use ktax_engine::{ENGINES, EngineEntry};
use ktax_model::{
    AskedCounts, AskedGuest, CountsPlan, Disk, Identity, Key, Machine, MachineModel, Method, Model,
    Plan, QUANTUM, Region, Sides, Subject, Workload,
};

/// Settings that only experiments of counts have.
#[derive(Debug, Clone, PartialEq)]
pub struct CountsExperiment {
    pub engine: &'static EngineEntry,
    /// Layouts per Side.
    pub layouts: u32,
    /// Rows by name; by default the programs, or all default rows if there are none.
    pub workloads: Option<Vec<String>>,
    /// Workloads that the user's directory defines.
    pub definitions: Vec<Definition>,
    pub asked: AskedCounts,
}

impl CountsExperiment {
    /// Creates an experiment of two Subjects, with all defaults.
    pub fn between(base: Subject, change: Subject) -> CountsExperiment {
        CountsExperiment {
            engine: &ENGINES[0],
            layouts: Machine::default().default_layouts(),
            workloads: None,
            definitions: Vec::new(),
            asked: AskedCounts {
                machine: Machine::default(),
                subjects: Sides { base, change },
                guest: AskedGuest::default(),
                calibration: None,
            },
        }
    }

    pub(super) fn from_file(file: &ExperimentFile) -> Result<CountsExperiment, Error> {
        let missing = |key: &str| {
            Error::user(format!("{key} is missing")).next("write kernel = \"debian:cloud-amd64\"")
        };
        let mut base = file.base.subject().ok_or_else(|| missing("base.kernel"))?;
        let change = file.change.as_ref().and_then(|keys| keys.subject());
        let mut change = change.ok_or_else(|| missing("change.kernel"))?;
        let machine = file.machine.machine()?;
        let (defined, workloads) =
            program::split_names(&with_definitions(&file.definitions)?, file.workloads.as_deref())?;
        let disk;
        [disk, base.disk, change.disk] = disks_of_sides(file)?;
        let implied = Disk::with_modules(disk.as_ref(), &[]);
        let modules = file.modules.iter().filter(|module| !implied.contains(module));
        let guest = AskedGuest {
            modules: modules.cloned().collect(),
            disk,
            programs: [program::checked_programs(&file.program)?, defined].concat(),
            hooks: file.hooks.as_ref().map(checked_hooks).transpose()?,
            workloads_from: file.workloads_from.clone(),
        };
        let calibration = file.machine.model.as_ref().and_then(ModelKey::calibration);
        let subjects = Sides { base, change };
        let experiment = CountsExperiment {
            engine: file.engine.unwrap_or(&ENGINES[0]),
            layouts: file.layouts.unwrap_or(machine.default_layouts()),
            workloads,
            definitions: file.definitions.clone(),
            asked: AskedCounts { machine, subjects, guest, calibration },
        };
        experiment.check()?;
        Ok(experiment)
    }

    /// Refuses an experiment that cannot be planned. Call it again after changing a field.
    pub fn check(&self) -> Result<(), Error> {
        check_layouts(self.layouts)?;
        let AskedCounts { machine, subjects: Sides { base, change }, guest, .. } = &self.asked;
        if guest.hooks.is_some() && self.workloads.is_none() && !guest.programs.is_empty() {
            let reason = "hooks only run with rows that are not programs, and there is no such \
                          row; write setup and prepare into the [[program]] or [run] table";
            return Err(program_error(reason));
        }
        let &Machine { cpus, quantum, memory_mib, ref model, .. } = machine;
        if !bounds("machine.cpus", Method::Counts).contains(&cpus) {
            let (key, bounds) = (with_flag("machine.cpus"), bounds_text("machine.cpus"));
            return Err(Error::user(format!("{key} must be {bounds}, not {cpus}")).next(format!(
                "remove it to use the default of {}",
                default_number("machine.cpus")
            )));
        }
        check_bounds("machine.quantum", quantum.unwrap_or(QUANTUM), Method::Counts)?;
        let is_coherence = *model == Some(Model::Coherence);
        for (is_set, key) in [(quantum.is_some(), "quantum"), (is_coherence, "model")] {
            if cpus == 1 && is_set {
                let what = format!("--{key} (machine.{key}) only applies to several CPUs");
                return Err(Error::user(what).next("write --cpus 4 (machine.cpus), or remove it"));
            }
        }
        if let Some(machine) = model.as_ref().and_then(Model::machine).filter(|_| cpus > 1) {
            let name = &machine.name;
            return Err(Error::user(format!("{name} (--model, machine.model) models one CPU"))
                .next("remove --cpus (machine.cpus), or write --model coherence"));
        }
        let has_machine = model.as_ref().is_some_and(|model| model.machine().is_some());
        if has_machine && memory_mib > MachineModel::MAX_MEMORY_MIB {
            let (max_mib, key) = (MachineModel::MAX_MEMORY_MIB, with_flag("machine.memory_mib"));
            return Err(Error::user(format!(
                "a guest whose machine is modelled has at most {max_mib} MiB, not {memory_mib}"
            ))
            .next(format!("lower {key}")));
        }
        check_memory_mib(memory_mib)?;
        for subject in [base, change] {
            if subject.boot_line.len() > MAX_BOOT_LINE {
                let length = subject.boot_line.len();
                return Err(Error::user(format!(
                    "a boot line has {length} characters, but at most {MAX_BOOT_LINE} fit"
                ))
                .next("shorten it"));
            }
        }
        for (name, text) in [
            ("--base-boot-line (base.boot_line)", &base.boot_line),
            ("--change-boot-line (change.boot_line)", &change.boot_line),
            ("--cpu (machine.cpu)", &machine.cpu),
            ("--module (modules)", &guest.modules.join(" ")),
            ("--base-module (base.modules)", &base.modules.join(" ")),
            ("--change-module (change.modules)", &change.modules.join(" ")),
            ("the base's options and patches", &base.kernel_only().variant_text()),
            ("the change's options and patches", &change.kernel_only().variant_text()),
        ] {
            check_printable_line(name, text)?;
        }
        self.check_settings("base", base)?;
        self.check_settings("change", change)
    }

    /// Refuses settings that cannot be applied in the guest of a Side.
    fn check_settings(&self, side: &str, subject: &Subject) -> Result<(), Error> {
        let Subject { sysctl, files, setup, .. } = subject;
        let refuse = |key: &str, reason: String| {
            let key = with_flag(&format!("{side}.{key}"));
            Err(Error::user(format!("{key} cannot be used: {reason}")))
        };
        if let Err(reason) = check_sysctl(sysctl) {
            return refuse("sysctl", reason);
        }
        if setup.as_ref().is_some_and(|commands| commands.contains('\0')) {
            return refuse("setup", "a text has a NUL character; remove it".into());
        }
        // The files of the Side are added to the files of each program and of the hooks.
        let AskedGuest { programs, hooks, .. } = &self.asked.guest;
        let lists = programs.iter().chain(hooks).map(|program| program.files.as_slice());
        for list in lists.chain([&[][..]]) {
            check_files(&[list, files].concat())?;
        }
        Ok(())
    }

    /// The rows, those of programs first. Fails if a row is unknown, needs another engine, or does
    /// not fit in the memory.
    pub fn rows(&self) -> Result<Vec<Workload>, Error> {
        let definitions = with_definitions(&self.definitions)?;
        let (workloads, AskedCounts { machine, guest, .. }) = (&self.workloads, &self.asked);
        let programs = &guest.programs;
        let mut rows = program::rows_of_separate_guests(programs, &definitions);
        if workloads.is_some() || programs.is_empty() {
            let selected = select_rows(&definitions, workloads.as_deref())?;
            selected.iter().try_for_each(|row| check_for_guest(&definitions, row))?;
            rows.extend(selected);
        }
        check_memory(&rows, u64::from(machine.memory_mib) << 20)?;
        check_cpus(&rows, machine.cpus)?;
        check_boots(&rows, machine.cpus)?;
        unique_rows(rows)
    }
}

/// Refuses rows that run on more CPUs than the guest has; the error names the row with most CPUs.
fn check_cpus(rows: &[Workload], cpus: u32) -> Result<(), Error> {
    let row_cpus = |row: &&Workload| row.params.get("cpus").copied().unwrap_or(0);
    match rows.iter().max_by_key(row_cpus) {
        Some(row) if row_cpus(&row) > u64::from(cpus) => {
            let (row, needed) = (&row.row, row_cpus(&row));
            Err(Error::user(format!("{row} runs on {needed} CPUs"))
                .next(format!("write --cpus {needed} (machine.cpus)")))
        }
        _ => Ok(()),
    }
}

/// Refuses rows whose Region is a boot if the guest has several CPUs: the other CPUs start in the
/// middle of the boot, so the times of the CPUs would not add up.
fn check_boots(rows: &[Workload], cpus: u32) -> Result<(), Error> {
    match rows.iter().find(|row| cpus > 1 && matches!(row.region, Region::Boot)) {
        Some(Workload { row, .. }) => Err(Error::user(format!(
            "{row} is a whole boot, which only the first of several CPUs executes"
        ))
        .next(format!("remove --cpus (machine.cpus), or leave {row} out"))),
        None => Ok(()),
    }
}

impl Experiment<CountsExperiment> {
    /// Orders the Boots: each Layout is a pair of adjacent Steps in random order.
    pub fn plan(
        &self,
        kernels: Sides<Identity>,
        key: Key,
        archives: Option<Sides<String>>,
    ) -> Result<Plan<CountsPlan>, Error> {
        let workloads = self.method.rows()?;
        let (layouts, steps) = draw_steps(self.seed, self.method.layouts);
        let asked = self.method.asked.clone();
        Ok(self.plan_with_method(CountsPlan {
            asked,
            key,
            archives,
            kernels,
            workloads,
            layouts,
            steps,
        }))
    }
}

/// Disk of both Sides, or else the disk of the base and the disk of the change. A Side without its
/// own disk has the disk of the file.
fn disks_of_sides(file: &ExperimentFile) -> Result<[Option<Disk>; 3], Error> {
    let shared = file.disk.as_ref().map(checked_disk).transpose()?.flatten();
    let disk_of = |keys: &SubjectKeys| match &keys.disk {
        Some(disk) => checked_disk(disk),
        None => Ok(shared.clone()),
    };
    let base = disk_of(&file.base)?;
    let change = file.change.as_ref().map_or(Ok(shared.clone()), disk_of)?;
    Ok(match base == change {
        true => [base, None, None],
        false => [None, base, change],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(machine: &str) -> Result<CountsExperiment, Error> {
        let text = format!(
            "title = \"t\"\nworkloads = [\"scale:cpus=4\"]\nmachine = {{ {machine} }}\n\
             [base]\nkernel = \"a\"\n[change]\nkernel = \"b\"\n"
        );
        CountsExperiment::from_file(&ExperimentFile::parse(&text, "t.toml")?)
    }

    #[test]
    fn several_cpus_change_the_defaults_of_layouts_and_cpu() {
        let one = experiment("").unwrap();
        assert_eq!((one.asked.machine.cpu.as_str(), one.layouts), ("max", 5));
        // `vcpus` is the older name of the key in experiments with timed guests.
        for key in ["cpus = 4", "vcpus = 4"] {
            let four = experiment(key).unwrap();
            assert_eq!((four.asked.machine.quantum, four.layouts), (None, 7));
            assert_eq!(four.asked.machine.cpu, "max,-hypervisor");
            assert_eq!(four.rows().unwrap().len(), 1);
        }
        let asked = experiment("cpus = 4, quantum = 500, cpu = \"max\"").unwrap().asked.machine;
        assert_eq!((asked.cpu.as_str(), asked.quantum), ("max", Some(500)));
    }

    #[test]
    fn cpus_that_rows_or_options_do_not_allow_are_refused() {
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
                .contains("zen3 (--model, machine.model) models one")
        );
    }
}
