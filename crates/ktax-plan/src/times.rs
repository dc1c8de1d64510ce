//! Experiments that time pairs of boots.

use std::collections::BTreeMap;

use crate::experiment::{
    Error, Experiment, check_memory_mib, check_printable_line, duplicate_row_error,
    no_workload_error, program_error, sweep_error,
};
use crate::file::ExperimentFile;
use crate::keys::{check_bounds, default_number, with_flag};
use crate::program;
use crate::workloads::{
    ParamValue, check_for_guest, definitions, native_names, native_rows, unique_rows,
};
use ktax_engine::{EngineEntry, host};
use ktax_model::{
    AskedTimes, Method, Plan, RunsOn, Sides, TimedMachine, TimedSubject, TimesPlan, UserProgram,
    Workload,
};

/// Settings that only experiments of times have.
#[derive(Debug, Clone, PartialEq)]
pub struct TimesExperiment {
    pub asked: AskedTimes,
    /// Names of the headline rows.
    pub workloads: Vec<String>,
    /// Names of the rows that are measured, but do not count for the exit status.
    pub secondary: Vec<String>,
    /// Values by name: a row for each value of a workload's parameter, a run for each value of a
    /// setting, the same on both Sides.
    pub sweep: BTreeMap<String, Vec<ParamValue>>,
}

impl TimesExperiment {
    /// Creates an experiment with the defaults of this engine.
    pub fn new(engine: &'static EngineEntry) -> TimesExperiment {
        TimesExperiment {
            asked: AskedTimes {
                engine: engine.name.to_owned(),
                runs_on: engine.runs_on,
                pairs: None,
                max_pairs: default_number("most_pairs"),
                loops: default_number("loops"),
                allow_differences: false,
                machine: TimedMachine::default(),
                subjects: Sides::default(),
                programs: Vec::new(),
            },
            workloads: Vec::new(),
            secondary: Vec::new(),
            sweep: BTreeMap::new(),
        }
    }

    pub(crate) fn from_file(file: &ExperimentFile) -> Result<TimesExperiment, Error> {
        let default = TimesExperiment::new(file.engine.unwrap_or(&host::ENGINE)).asked;
        let experiment = TimesExperiment {
            asked: AskedTimes {
                pairs: file.pairs,
                max_pairs: file.most_pairs.unwrap_or(default.max_pairs),
                loops: file.loops.unwrap_or(default.loops),
                allow_differences: file.allow_differences.unwrap_or_default(),
                machine: file.machine.timed_machine(),
                subjects: Sides {
                    base: file.base.timed_subject(),
                    change: file.change.clone().unwrap_or_default().timed_subject(),
                },
                programs: program::checked_programs(&file.program)?,
                ..default
            },
            workloads: file.workloads.clone().unwrap_or_default(),
            secondary: file.secondary.clone(),
            sweep: file.sweep.clone(),
        };
        experiment.check()?;
        Ok(experiment)
    }

    /// The headline rows, those of programs first.
    fn headline(&self, names: &[String]) -> Result<Vec<Workload>, Error> {
        let mut headline = program::rows_with_definitions(&self.asked.programs, &[]);
        if !names.is_empty() || headline.is_empty() {
            headline.extend(timed_rows(self.asked.runs_on, names)?);
        }
        unique_rows(headline)
    }
}

impl Experiment<TimesExperiment> {
    /// Checks the experiment and makes its Plan, which has no Kernels yet.
    pub fn plan(&self) -> Result<Plan<TimesPlan>, Error> {
        let times = &self.method;
        times.check()?;
        let (names, swept) = times.swept_rows();
        let headline = times.headline(&names)?;
        let secondary = match times.secondary.is_empty() {
            true => Vec::new(),
            false => timed_rows(times.asked.runs_on, &times.secondary)?,
        };
        let duplicate =
            secondary.iter().find(|row| headline.iter().any(|other| other.row == row.row));
        if let Some(duplicate) = duplicate {
            return Err(duplicate_row_error(&duplicate.row));
        }
        let method = TimesPlan {
            asked: times.asked.clone(),
            kernels: BTreeMap::new(),
            archive_sha256: String::new(),
            native_programs: None,
            swept_parameters: swept,
            headline,
            secondary,
        };
        Ok(self.plan_with_method(method))
    }
}

impl TimesExperiment {
    /// Refuses an experiment that cannot be planned. Call it again after changing a field.
    pub fn check(&self) -> Result<(), Error> {
        let AskedTimes { pairs, max_pairs, loops, ref machine, ref subjects, .. } = self.asked;
        let check = |name: &str, value: Option<u32>| {
            value.map_or(Ok(()), |value| check_bounds(name, value, Method::Times))
        };
        check("pairs", pairs)?;
        check("most_pairs", Some(max_pairs))?;
        check("loops", Some(loops))?;
        let is_running_kernel = self.asked.runs_on == RunsOn::RunningKernel;
        if is_running_kernel && *machine != TimedMachine::default() {
            return Err(self.unsupported_error("a [machine] table"));
        }
        let &TimedMachine { memory_mib, cpus, cores, .. } = machine;
        check("machine.cpus", Some(cpus))?;
        check("machine.cores", cores)?;
        check_memory_mib(memory_mib)?;
        check_printable_line("--cpu (machine.cpu)", &machine.cpu)?;
        if subjects.change.bare_metal {
            return Err(bare_metal_error("change.bare_metal"));
        }
        if subjects.base.bare_metal && is_running_kernel {
            return Err(bare_metal_error("base.bare_metal"));
        }
        self.check_sweep()?;
        self.check_programs()?;
        self.check_subject(&subjects.base, "the base's kernel, boot line or settings")?;
        self.check_subject(&subjects.change, "the change's kernel, boot line or settings")
    }

    /// Refuses programs that cannot be timed.
    fn check_programs(&self) -> Result<(), Error> {
        let refuse = |reason: String| Err(program_error(reason));
        let is_here = self.asked.uses_running_kernel();
        for program in &self.asked.programs {
            if program.numbers.contains_key(UserProgram::OPS) {
                let key = with_flag("ops_from");
                return refuse(format!("only counts have {key}; give its times --ops (ops)"));
            }
            if program.size.is_some() {
                let key = with_flag("sizes");
                return refuse(format!("only counts have {key}; remove it, or count it"));
            }
            if let (true, Some(key)) = (is_here, program.guest_only_key()) {
                return refuse(format!(
                    "only a program in a guest has {}, and a side is this machine itself; remove \
                     it, or compare two guests",
                    with_flag(key)
                ));
            }
        }
        Ok(())
    }

    /// Refuses a Subject that the engine cannot run; `description` names its texts in messages.
    fn check_subject(
        &self,
        subject: &TimedSubject,
        description: &'static str,
    ) -> Result<(), Error> {
        let has_settings = !subject.sysctl.is_empty()
            || subject.thp.is_some()
            || subject.governor.is_some()
            || !subject.prefix.is_empty();
        match self.asked.runs_on {
            RunsOn::Guests if has_settings => Err(self
                .unsupported_error("--base-set or --change-set (sysctl, thp, governor, prefix)")),
            RunsOn::Guests if subject.bare_metal => match *subject == bare_metal() {
                true => Ok(()),
                false => Err(Error::user("the base is bare metal, which boots no kernel")
                    .next("remove the base's kernel and --base-boot-line (base.boot_line)")),
            },
            RunsOn::Guests if subject.kernel.is_none() => {
                let engine = &self.asked.engine;
                Err(Error::user(format!("the {engine} engine needs a kernel for each side"))
                    .next("write kernel = \"debian:cloud-amd64\""))
            }
            RunsOn::RunningKernel if !subject.boot_line.is_empty() => {
                Err(self.unsupported_error("--base-boot-line or --change-boot-line (boot_line)"))
            }
            RunsOn::RunningKernel | RunsOn::Guests => {
                let TimedSubject { kernel, boot_line, sysctl, thp, governor, prefix, .. } = subject;
                let values = sysctl.iter().flat_map(|(name, value)| [name, value]);
                let mut values = values
                    .chain(thp)
                    .chain(governor)
                    .chain(kernel)
                    .chain(prefix)
                    .chain([boot_line]);
                values.try_for_each(|text| check_printable_line(description, text))
            }
        }
    }

    /// Error of a key or flag that the engine does not support.
    fn unsupported_error(&self, name: &str) -> Error {
        Error::user(format!("{name} cannot be used with the {} engine", self.asked.engine))
            .next("remove it, or choose another engine")
    }
}

fn bare_metal_error(key: &str) -> Error {
    let key = with_flag(key);
    Error::user(format!(
        "{key} cannot be used: only the base can be bare metal, and only if the change is a guest"
    ))
    .next("remove it")
}

fn bare_metal() -> TimedSubject {
    TimedSubject { bare_metal: true, ..TimedSubject::default() }
}

/// Copy of a row with `ops` operations and the same name; for a program, with `ops` runs.
pub fn with_ops(workload: &Workload, ops: u64) -> Result<Workload, Error> {
    if workload.is_user_program() {
        return Ok(with_runs(workload, ops));
    }
    let (_, rows) = native_rows(&definitions()?, &workload.row, &[format!("ops={ops}")])?;
    let row = rows.into_iter().next().ok_or_else(no_workload_error)?;
    Ok(Workload { row: workload.row.clone(), ..row })
}

fn with_runs(program: &Workload, runs: u64) -> Workload {
    let mut row = program.clone();
    let old_runs = row.params.insert(Workload::RUNS.to_owned(), runs).unwrap_or(1);
    row.ops = (row.ops / old_runs.max(1)).saturating_mul(runs);
    row
}

/// Returns true if the name of the row sets the number of operations.
pub fn has_own_ops(workload: &Workload) -> bool {
    let params = workload.row.split_once(':').map_or("", |(_, params)| params);
    params.split(',').any(|param| param.starts_with("ops="))
}

/// Rows with these names, with the operations of a native run.
fn timed_rows(runs_on: RunsOn, names: &[String]) -> Result<Vec<Workload>, Error> {
    let definitions = definitions()?;
    let mut rows = Vec::new();
    for name in native_names(&definitions, names)? {
        rows.extend(native_rows(&definitions, &name, &[])?.1);
    }
    if runs_on == RunsOn::Guests {
        rows.iter().try_for_each(|row| check_for_guest(&definitions, row))?;
    }
    match rows.is_empty() {
        true => Err(Error::user("no workload is named, and timed engines have no default")
            .next("name rows with -w ROW, or with `workloads` in the file")),
        false => unique_rows(rows),
    }
}

impl Experiment<TimesExperiment> {
    /// Returns an Experiment for each combination of swept settings, with its name; without swept
    /// settings only this Experiment. Fails if any of the Experiments cannot be planned, so that
    /// users see the error before the first run.
    pub fn each_setting(&self) -> Result<Vec<(String, Experiment<TimesExperiment>)>, Error> {
        let points = self.method.expand_settings()?.into_iter();
        let experiments: Vec<_> =
            points.map(|(name, method)| (name, self.with_method(method))).collect();
        experiments.iter().try_for_each(|(_, experiment)| experiment.plan().map(drop))?;
        Ok(experiments)
    }
}

impl TimesExperiment {
    fn expand_settings(&self) -> Result<Vec<(String, TimesExperiment)>, Error> {
        self.check_sweep()?;
        let mut points = vec![(String::new(), self.clone())];
        for (setting, values) in self.sweep.iter().filter(|(name, _)| is_setting(name)) {
            let mut next = Vec::new();
            for (name, experiment) in &points {
                for value in values {
                    let mut point = experiment.clone();
                    point.sweep.remove(setting);
                    point.set(setting, value);
                    let name = format!("{name},{setting}={value}");
                    next.push((name.trim_start_matches(',').to_owned(), point));
                }
            }
            points = next;
        }
        Ok(points)
    }

    /// Sets a swept value on both Sides.
    fn set(&mut self, name: &str, value: &ParamValue) {
        match (name, number_of_cpus(value)) {
            ("cpus" | "vcpus", Some(number)) => self.asked.machine.cpus = number,
            ("cores", number @ Some(_)) => self.asked.machine.cores = number,
            _ => {
                for subject in [&mut self.asked.subjects.base, &mut self.asked.subjects.change] {
                    subject.set(name, &value.to_string());
                }
            }
        }
    }

    /// Refuses sweeps with invalid or repeated values, or with settings that the engine does not
    /// have.
    fn check_sweep(&self) -> Result<(), Error> {
        for (name, values) in &self.sweep {
            let refuse = |reason: String| Err(sweep_error(name, &reason));
            let is_empty = |value: &ParamValue| value.to_string().is_empty();
            if values.is_empty() || values.iter().any(is_empty) {
                return refuse("a value is missing; write NAME=V1,V2".into());
            }
            if !is_setting(name) {
                continue;
            }
            let mut sorted: Vec<String> = values.iter().map(ParamValue::to_string).collect();
            sorted.sort();
            if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
                return refuse("a value is given twice; give it once".into());
            }
            let is_for_guests = is_guest_setting(name);
            if is_for_guests != (self.asked.runs_on == RunsOn::Guests) {
                let engine = &self.asked.engine;
                return refuse(format!("the {engine} engine does not have it; remove it"));
            }
            if let Some(value) =
                values.iter().find(|value| is_for_guests && number_of_cpus(value).is_none())
            {
                let value = value.to_string();
                return refuse(format!("{value:?} is not a number of CPUs; write numbers from 1"));
            }
            if self.asked.subjects.both().iter().any(|side| side.has_setting(name)) {
                return refuse(
                    "a side sets it too, and the sweep sets it on both sides; remove one of the two"
                        .into(),
                );
            }
        }
        Ok(())
    }

    /// Names of the headline rows with every value of the swept parameters, and the names of the
    /// parameters.
    fn swept_rows(&self) -> (Vec<String>, Vec<String>) {
        let mut names = self.workloads.clone();
        let mut swept = Vec::new();
        for (name, values) in self.sweep.iter().filter(|(name, _)| !is_setting(name)) {
            let row_with_value = |row: &String, value: &ParamValue| {
                let separator = if row.contains(':') { ',' } else { ':' };
                format!("{row}{separator}{name}={value}")
            };
            names = names
                .iter()
                .flat_map(|row| values.iter().map(move |value| row_with_value(row, value)))
                .collect();
            swept.push(name.clone());
        }
        (names, swept)
    }
}

/// Returns true for a setting of the running kernel or of the guests, and false for a parameter of
/// a workload. Sysctls have dots or slashes in their names.
fn is_setting(name: &str) -> bool {
    matches!(name, "thp" | "governor") || is_guest_setting(name) || name.contains(['.', '/'])
}

fn is_guest_setting(name: &str) -> bool {
    matches!(name, "cpus" | "vcpus" | "cores")
}

/// Value as a number of CPUs, whose bounds are checked with the machine.
fn number_of_cpus(value: &ParamValue) -> Option<u32> {
    match value {
        ParamValue::Number(number) => u32::try_from(*number).ok(),
        ParamValue::Word(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::ExperimentMethod;
    use crate::workloads::select_rows;

    const FILE: &str = r#"
    title = "Group scheduling"
    engine = "host"
    workloads = ["pipe", "fork-pages:pages=16"]
    secondary = ["getppid"]
    [base]
    sysctl = { "kernel.sched_autogroup_enabled" = "0" }
    [change]
    sysctl = { "kernel.sched_autogroup_enabled" = "1" }
    prefix = ["taskset", "-c", "0"]
    "#;

    fn read(text: &str) -> Result<Experiment<TimesExperiment>, Error> {
        let experiment = Experiment::parse(text, "x.toml")?;
        match &experiment.method {
            ExperimentMethod::Times(times) => Ok(experiment.with_method(times.clone())),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_file_becomes_a_plan() {
        let plan = read(FILE).unwrap().plan().unwrap();
        assert_eq!((plan.seed, plan.threshold_percent, plan.method.asked.max_pairs), (1, 1.0, 200));
        let rows: Vec<&str> =
            plan.method.workloads().map(|workload| workload.row.as_str()).collect();
        assert_eq!(rows, ["pipe", "fork-pages:pages=16", "getppid"]);
        assert_eq!(plan.method.asked.subjects.change.prefix, ["taskset", "-c", "0"]);
        // A native run needs more operations than the exact engine, which counts short runs, too.
        let exact = select_rows(&definitions().unwrap(), Some(&["getppid".to_owned()])).unwrap();
        assert!(plan.method.secondary[0].ops > exact[0].ops);
    }

    #[test]
    fn with_ops_changes_only_the_operations() {
        let plan = read(FILE).unwrap().plan().unwrap();
        for row in plan.method.workloads() {
            let other = with_ops(row, 321).unwrap();
            assert_eq!(other.ops, 321);
            let same = Workload { ops: row.ops, signature: row.signature.clone(), ..other };
            assert_eq!(same, *row);
            assert!(!has_own_ops(row));
        }
        // Entries of the signature that depend on the operations change, too.
        assert_eq!(with_ops(&plan.method.secondary[0], 321).unwrap().signature["calls"], 321);
        let named = timed_rows(RunsOn::RunningKernel, &["getppid:ops=7".to_owned()]).unwrap();
        assert!(has_own_ops(&named[0]));
    }

    #[test]
    fn a_sweep_makes_rows_of_parameters_and_runs_of_settings() {
        let sweep = "[sweep]\npages = [16, 32]\nthp = [\"always\", \"never\"]\n";
        let text = FILE.replace("\"pipe\", \"fork-pages:pages=16\"", "\"fork-pages\"") + sweep;
        let experiment = read(&text).unwrap();
        let runs = experiment.each_setting().unwrap();
        let named: Vec<&str> = runs.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(named, ["thp=always", "thp=never"]);
        let plan = runs[1].1.plan().unwrap();
        let rows: Vec<&str> = plan.method.headline.iter().map(|row| row.row.as_str()).collect();
        assert_eq!(rows, ["fork-pages:pages=16", "fork-pages:pages=32"]);
        assert_eq!(
            (plan.method.swept_parameters, plan.method.asked.subjects.base.thp.as_deref()),
            (vec!["pages".into()], Some("never"))
        );
    }

    #[test]
    fn a_sysctl_is_swept_with_dots_or_slashes() {
        for name in ["vm.swappiness", "vm/swappiness"] {
            let text = format!("{FILE}[sweep]\n\"{name}\" = [10, 60]\n");
            let runs = read(&text).unwrap().each_setting().unwrap();
            let set = runs.iter().map(|(_, run)| {
                [
                    &run.method.asked.subjects.base.sysctl[name],
                    &run.method.asked.subjects.change.sysctl[name],
                ]
            });
            assert_eq!(set.collect::<Vec<_>>(), [["10", "10"], ["60", "60"]]);
            assert!(
                runs.iter().all(|(_, run)| run.plan().unwrap().method.swept_parameters.is_empty())
            );
        }
    }

    #[test]
    fn invalid_sweeps_are_refused_before_the_first_run() {
        let kvm = FILE
            .replace("engine = \"host\"", "engine = \"kvm\"")
            .replace("sysctl = { \"kernel.sched_autogroup_enabled\" = \"0\" }", "kernel = \"x\"")
            .replace("sysctl = { \"kernel.sched_autogroup_enabled\" = \"1\" }", "kernel = \"y\"")
            .replace("prefix = [\"taskset\", \"-c\", \"0\"]", "");
        for (file, sweep, reason) in [
            (FILE, "\"kernel.sched_autogroup_enabled\" = [0, 1]", "a side sets it too"),
            (FILE, "thp = []", "a value is missing"),
            (FILE, "thp = [\"\"]", "a value is missing"),
            (FILE, "pages = []", "a value is missing"),
            (FILE, "thp = [\"never\", \"never\"]", "given twice"),
            (FILE, "cpus = [1, 2]", "host engine"),
            (FILE, "cores = [1, 2]", "host engine"),
            (&kvm, "thp = [\"never\"]", "kvm engine"),
            (&kvm, "governor = [\"powersave\"]", "kvm engine"),
            (&kvm, "\"vm.swappiness\" = [1, 2]", "kvm engine"),
            (&kvm, "cores = [\"one\"]", "is not a number of CPUs"),
            (&kvm, "cpus = [1, 4294967296]", "is not a number of CPUs"),
            (&kvm, "cpus = [1, 300]", "(machine.cpus) must be 1 to 255, not 300"),
        ] {
            let text = format!("{file}[sweep]\n{sweep}\n");
            let error = read(&text)
                .and_then(|experiment| experiment.each_setting())
                .unwrap_err()
                .to_string();
            assert!(error.contains(reason), "{sweep}: {error}");
            assert!(error.contains("; "), "no next step: {error}");
        }
        let text = format!("{kvm}[sweep]\ncpus = [1, 2]\ncores = [1]\n");
        let runs = read(&text).unwrap().each_setting().unwrap();
        let shapes = runs
            .iter()
            .map(|(_, run)| (run.method.asked.machine.cpus, run.method.asked.machine.cores));
        assert_eq!(shapes.collect::<Vec<_>>(), [(1, Some(1)), (2, Some(1))]);
    }

    #[test]
    fn errors_name_the_wrong_key_or_value() {
        for (from, to, reason) in [
            ("prefix", "perfix", "unknown field `perfix`"),
            (
                "title = \"Group",
                "loops = 0\ntitle = \"Group",
                "--loops (loops) must be 1 to 1000, not 0",
            ),
            (
                "title = \"Group",
                "pairs = 9\ntitle = \"Group",
                "--pairs (pairs) must be 10 to 10000, not 9",
            ),
            ("title = \"Group", "threshold_percent = 0\ntitle = \"G", "threshold"),
            ("[\"getppid\"]", "[\"pipe\"]", "pipe is named twice"),
            ("\"getppid\"", "\"getpid\"", "did you mean \"getppid\""),
            ("engine = \"host\"", "engine = \"kvm\"", "kvm"),
            ("[change]\n", "[change]\nboot_line = \"quiet\"\n", "boot_line"),
            ("[\"pipe\", \"fork-pages:pages=16\"]", "[]", "name rows with -w"),
            ("workloads = [\"pipe\", \"fork-pages:pages=16\"]\n", "", "name rows with -w"),
            (
                "[base]",
                "[machine]\ncpus = 2\n[base]",
                "(machine.cpus) only applies to the exact engine and the kvm engine",
            ),
            ("taskset", "task\\u001bset", "printable"),
        ] {
            let planned = read(&FILE.replace(from, to));
            let error = planned.and_then(|experiment| experiment.plan()).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
        let misspelt = FILE.replace("engine = \"host\"", "engine = \"hots\"");
        let error = Experiment::parse(&misspelt, "x.toml").unwrap_err().to_string();
        assert!(error.contains("expected one of `exact`, `host`, `kvm`"), "{error}");
    }
}
