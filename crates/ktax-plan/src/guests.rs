//! Experiments with guests of a KVM host; a guest boots, makes exits of one kind, or runs a
//! program.

use std::collections::{BTreeMap, BTreeSet};

use crate::experiment::{
    self, Error, Experiment, check_layouts, draw_steps, misplaced, named_twice, no_workload,
    printable_line, sweep_error, unknown_feature,
};
use crate::file::{ExperimentFile, SubjectKeys};
use crate::keys::{check_range, usual};
use crate::workloads::{ParamValue, check_for_times, definitions, find, select};
use ktax_host::text::nearest;
use ktax_model::{
    AskedGuests, GuestRow, GuestSide, GuestSubject, GuestWork, GuestsPlan, HostKind, Identity, Key,
    Machine, Plan, Side, Subject,
};

/// Settings that only experiments with guests have.
#[derive(Debug, Clone, PartialEq)]
pub struct GuestsExperiment {
    pub asked: AskedGuests,
    /// Layouts per Side.
    pub layouts: u32,
    /// Numbers of vCPUs of both guests, one run for each; if empty, one run with the guests' own
    /// numbers.
    pub swept_cpus: Vec<u8>,
}

impl GuestsExperiment {
    pub(crate) fn from_file(file: &ExperimentFile) -> Result<GuestsExperiment, Error> {
        let host = file.host.unwrap_or(HostKind::Kvm);
        let rows = guest_rows(host, file.workloads.as_deref().unwrap_or_default())?;
        let swept_cpus = swept_cpus(host, &rows, file)?;
        let guest = |keys: &SubjectKeys| {
            guest_subject(host, keys).map(|subject| GuestSide { subject, kernel: None })
        };
        let mut experiment = GuestsExperiment {
            asked: AskedGuests {
                host,
                host_subject: host_subject(host, file),
                base: guest(&file.base)?,
                change: file.change.as_ref().map(guest).transpose()?,
                rows,
            },
            layouts: file.layouts.unwrap_or(Machine::default().default_layouts()),
            swept_cpus,
        };
        match host.is_board() {
            true => experiment.give_hosts(file)?,
            false => experiment.check_difference()?,
        }
        check_layouts(experiment.layouts)?;
        let variant_text = experiment.asked.host_subject.variant_text();
        printable_line("the host's options and patches", &variant_text)?;
        Ok(experiment)
    }

    /// Refuses Sides whose only difference no guest finds.
    fn check_difference(&self) -> Result<(), Error> {
        let AskedGuests { base, change: Some(change), .. } = &self.asked else { return Ok(()) };
        let findable = |side: &GuestSide| {
            let mut subject = side.subject.clone();
            subject.hidden_features.retain(|name| name != GuestSubject::PV_EOI);
            subject
        };
        match base != change && findable(base) == findable(change) {
            true => Err(Error::user(format!(
                "the sides differ only in {}, which no guest of host = \"kvm\" finds, because \
                 QEMU's translator would deliver interrupts twice",
                GuestSubject::PV_EOI
            ))
            .next("compare another feature")),
            false => Ok(()),
        }
    }

    /// Gives each Side the Kernel of its host. A board's guest has no kernel; if one Side names
    /// one, both have one.
    fn give_hosts(&mut self, file: &ExperimentFile) -> Result<(), Error> {
        let asked = &mut self.asked;
        if asked.sides().all(|side| side.subject.kernel.is_none()) {
            return Ok(());
        }
        let others = !file.host_config.is_empty() || !file.host_patches.is_empty();
        if file.host_kernel.is_some() || others {
            let applies_to = "an experiment without host_kernel, host_config and host_patches";
            return Err(misplaced("kernel", applies_to, &experiment::host_description(asked.host)));
        }
        let usual = asked.host_subject.clone();
        for side in asked.sides_mut() {
            side.subject.kernel.get_or_insert_with(|| usual.clone());
        }
        asked.host_subject = asked.base.subject.kernel.clone().unwrap_or(usual);
        Ok(())
    }
}

fn usual_kernel(host: HostKind) -> &'static str {
    match host {
        HostKind::Kvm => "debian:cloud-amd64",
        HostKind::KvmE500v2 | HostKind::KvmPower9 | HostKind::KvmRiscv64 => "debian-src:6.12",
        HostKind::KvmArm64 => "debian:cloud-arm64",
    }
}

fn host_subject(host: HostKind, file: &ExperimentFile) -> Subject {
    let kernel = file.host_kernel.as_deref().unwrap_or(usual_kernel(host));
    let mut subject = Subject::new(kernel, "");
    subject.config.clone_from(&file.host_config);
    subject.patches.clone_from(&file.host_patches);
    subject
}

fn guest_subject(host: HostKind, keys: &SubjectKeys) -> Result<GuestSubject, Error> {
    let refuse =
        |key: &str| Err(misplaced(key, "host = \"kvm\"", &experiment::host_description(host)));
    let subject = GuestSubject {
        kernel: match host.is_board() {
            true => keys.subject_or(usual_kernel(host)),
            false => keys.subject(),
        },
        hidden_features: keys.without.clone(),
        cpus: keys.cpus.unwrap_or(1),
        memory_mib: keys.memory_mib.unwrap_or_else(|| usual("base.memory_mib")),
    };
    for text in subject.hidden_features.iter().chain(&keys.boot_line).chain(&keys.kernel) {
        printable_line("a guest's kernel, boot line or feature", text)?;
    }
    match host {
        HostKind::Kvm if subject.kernel.is_none() => {
            return Err(Error::user("a guest's kernel is missing")
                .next("write kernel = \"debian:cloud-amd64\" for each guest"));
        }
        HostKind::Kvm => {}
        _ if keys.cpus.is_some() => return refuse("cpus"),
        _ if keys.memory_mib.is_some() => return refuse("memory_mib"),
        _ => check_features(host, &subject.hidden_features)?,
    }
    check_range("cpus", subject.cpus.into(), GuestSubject::CPUS)?;
    check_range("memory_mib", subject.memory_mib, GuestSubject::MEMORY_MIB)?;
    Ok(subject)
}

/// Refuses a feature that KVM on this board does not have.
fn check_features(host: HostKind, without: &[String]) -> Result<(), Error> {
    let known = if host.has_magic_page() {
        GuestSubject::MAGIC_PAGE
    } else {
        "no feature that can be left out"
    };
    match without.iter().find(|name| !host.has_magic_page() || *name != GuestSubject::MAGIC_PAGE) {
        Some(name) => {
            let near = nearest(name, host.has_magic_page().then_some(GuestSubject::MAGIC_PAGE));
            Err(unknown_feature(name, near, known))
        }
        None => Ok(()),
    }
}

impl Experiment<GuestsExperiment> {
    /// An Experiment for each swept number of vCPUs, with its name; without a sweep this Experiment
    /// alone.
    pub fn each_setting(&self) -> Vec<(String, Experiment<GuestsExperiment>)> {
        if self.method.swept_cpus.is_empty() {
            return vec![(String::new(), self.with(self.method.clone()))];
        }
        let point = |&cpus: &u8| {
            let mut method = self.method.clone();
            method.swept_cpus.clear();
            method.asked.sides_mut().for_each(|side| side.subject.cpus = cpus);
            (format!("{CPUS}={cpus}"), self.with(method))
        };
        self.method.swept_cpus.iter().map(point).collect()
    }

    /// Orders the Boots: each Layout is a pair of adjacent Steps, whose first Side is drawn.
    /// Without a change it is one Step. The Sides have their Kernels already.
    pub fn plan(&self, host_kernel: Identity, key: Key) -> Plan<GuestsPlan> {
        let (layouts, mut steps) = draw_steps(self.seed, self.method.layouts);
        let asked = self.method.asked.clone();
        if asked.change.is_none() {
            steps.retain(|step| step.side == Side::Base);
            (0..).zip(&mut steps).for_each(|(index, step)| step.index = index);
        }
        self.plan_of(GuestsPlan { asked, key, host_kernel, layouts, steps })
    }
}

/// Rows of these names, in their order.
fn guest_rows(host: HostKind, names: &[String]) -> Result<Vec<GuestRow>, Error> {
    let definitions = definitions()?;
    let mut rows = Vec::new();
    for name in names {
        let row = |work| GuestRow { row: name.clone(), work };
        match name.strip_prefix("raw:") {
            Some(raw) => rows.push(row(raw_work(host, name, raw)?)),
            // A board's guest has no kernel that could boot or run a program.
            None if host.is_board() => rows.push(row(raw_work(host, name, "")?)),
            None if name == "boot" => rows.push(row(GuestWork::Boot)),
            None => {
                let selected = select(&definitions, Some(std::slice::from_ref(name)))?;
                for row in &selected {
                    check_for_times(find(
                        &definitions,
                        row.row.split(':').next().unwrap_or_default(),
                    )?)?;
                }
                rows.extend(selected.into_iter().map(|workload| GuestRow {
                    row: workload.row.clone(),
                    work: GuestWork::Program(workload),
                }));
            }
        }
    }
    let mut seen = BTreeSet::new();
    match rows.iter().find(|row| !seen.insert(&row.row)) {
        Some(twice) => Err(named_twice(&twice.row)),
        None if rows.is_empty() => Err(no_workload()),
        None => Ok(rows),
    }
}

/// Parses `KIND=N`, a name without its `raw:`.
fn raw_work(host: HostKind, name: &str, text: &str) -> Result<GuestWork, Error> {
    let found = text
        .split_once('=')
        .and_then(|(kind, times)| Some((kind, times, host.permitted_counts(kind)?)));
    let Some((kind, times, range)) = found else {
        let kinds = host.raw_kinds().join(", ");
        return Err(Error::user(format!("{name:?} is not work for a guest of this host"))
            .next(format!("write raw:KIND=N with one of {kinds}")));
    };
    match times.parse().ok().filter(|times| range.contains(times)) {
        Some(count) => Ok(GuestWork::Raw { kind: kind.to_owned(), count }),
        None => {
            Err(Error::user(format!("{name:?} has a number that no guest of this host can do"))
                .next(format!(
                    "write raw:{kind}=N with N from {} to {}",
                    range.start(),
                    range.end()
                )))
        }
    }
}

/// Name of the only swept setting in experiment files.
pub(super) const CPUS: &str = "cpus";

/// Numbers of vCPUs, one for each run; empty without a sweep.
fn swept_cpus(host: HostKind, rows: &[GuestRow], file: &ExperimentFile) -> Result<Vec<u8>, Error> {
    let others = file.sweep.keys().find(|name| *name != CPUS);
    let wrong = |name: &str, reason: &str| Err(sweep_error(name, reason));
    if host != HostKind::Kvm && !file.sweep.is_empty() {
        return wrong(CPUS, "only guests of host = \"kvm\" can have several; remove it");
    }
    if let Some(name) = others {
        return wrong(name, "of guests, only cpus can be swept; name a row for each value instead");
    }
    let Some(values) = file.sweep.get(CPUS) else { return Ok(Vec::new()) };
    if rows.iter().all(|row| matches!(row.work, GuestWork::Raw { .. })) {
        return wrong(
            CPUS,
            "raw guests have CPUs of their own; remove it, or add the row \"boot\"",
        );
    }
    let sides = || std::iter::once(&file.base).chain(&file.change);
    let given: BTreeMap<String, &ParamValue> =
        values.iter().map(|value| (value.to_string(), value)).collect();
    if values.is_empty() {
        return wrong(CPUS, "a value is missing; write cpus = [2, 4]");
    }
    if given.len() < values.len() {
        return wrong(CPUS, "a value is given twice; give it once");
    }
    if sides().any(|side| side.cpus.is_some()) {
        return wrong(CPUS, "a side has cpus, too; remove them there");
    }
    values.iter().map(number_of_cpus).collect()
}

fn number_of_cpus(value: &ParamValue) -> Result<u8, Error> {
    let number = match value {
        ParamValue::Number(number) => u32::try_from(*number).unwrap_or(u32::MAX),
        ParamValue::Word(_) => 0,
    };
    check_range(CPUS, number, GuestSubject::CPUS)?;
    Ok(u8::try_from(number).expect("it is in range"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::ExperimentMethod;

    const FILE: &str = r#"
    title = "Clocks"
    host = "kvm"
    workloads = ["boot", "raw:out=2000", "getppid"]
    base = { kernel = "debian:cloud-amd64" }
    change = { kernel = "debian:cloud-amd64", without = ["kvmclock"], cpus = 2 }
    "#;

    const OF_E500V2: &str = r#"
    title = "The page"
    host = "kvm-e500v2"
    host_patches = ["a.patch"]
    workloads = ["raw:all=2000"]
    base = { without = ["magic-page"] }
    change = {}
    "#;

    fn read(text: &str) -> Result<GuestsExperiment, Error> {
        match Experiment::parse(text, "x.toml")?.method {
            ExperimentMethod::Guests(guests) => Ok(guests),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_file_is_read() {
        let experiment = read(FILE).unwrap();
        assert_eq!(experiment.asked.host_subject, Subject::new("debian:cloud-amd64", ""));
        assert_eq!(
            experiment.asked.sides().map(|side| side.subject.cpus).collect::<Vec<_>>(),
            [1, 2]
        );
        let works: Vec<_> = experiment.asked.rows.iter().map(|row| &row.work).collect();
        assert_eq!(works[0], &GuestWork::Boot);
        assert_eq!(works[1], &GuestWork::Raw { kind: "out".into(), count: 2000 });
        assert!(matches!(works[2], GuestWork::Program(workload) if workload.row == "getppid"));
    }

    #[test]
    fn a_file_of_e500v2_is_read() {
        let experiment = read(OF_E500V2).unwrap();
        let without: Vec<_> =
            experiment.asked.sides().map(|side| side.subject.hidden_features.len()).collect();
        assert_eq!(without, [1, 0]);
        let work = GuestWork::Raw { kind: "all".into(), count: 2000 };
        assert_eq!(experiment.asked.rows[0].work, work);
        let host = experiment.asked.host_subject;
        assert_eq!(
            (host.kernel.as_str(), host.patches),
            ("debian-src:6.12", vec!["a.patch".into()])
        );
    }

    #[test]
    fn a_sweep_of_cpus_makes_runs() {
        let text = format!("{}[sweep]\ncpus = [2, 16]\n", FILE.replace(", cpus = 2", ""));
        let experiment = Experiment::parse(&text, "x.toml").unwrap();
        let ExperimentMethod::Guests(guests) = &experiment.method else { panic!("{experiment:?}") };
        let runs = experiment.with(guests.clone()).each_setting();
        let cpus = |experiment: &GuestsExperiment| {
            experiment.asked.sides().map(|side| side.subject.cpus).collect::<Vec<_>>()
        };
        let runs: Vec<_> = runs.iter().map(|(name, run)| (&**name, cpus(&run.method))).collect();
        assert_eq!(runs, [("cpus=2", vec![2, 2]), ("cpus=16", vec![16, 16])]);
    }

    #[test]
    fn what_cannot_be_swept_is_refused() {
        let plain = FILE.replace(", cpus = 2", "");
        let raw = plain.replace("\"boot\", ", "").replace(", \"getppid\"", "");
        for (file, sweep, reason) in [
            (FILE, "cpus = [2, 4]", "a side has cpus, too"),
            (&*plain, "cpus = []", "a value is missing"),
            (&plain, "cpus = [2, 2]", "a value is given twice"),
            (&plain, "cpus = [2, 17]", "cpus must be 1 to 16, not 17"),
            (&plain, "cpus = [\"two\"]", "cpus must be 1 to 16, not 0"),
            (&plain, "memory_mib = [256, 512]", "only cpus can be swept"),
            (&raw, "cpus = [2, 4]", "raw guests have CPUs of their own"),
            (OF_E500V2, "cpus = [2, 4]", "only guests of host = \"kvm\" can have several"),
        ] {
            let error = read(&format!("{file}[sweep]\n{sweep}\n")).unwrap_err().to_string();
            assert!(error.contains(reason), "{sweep}: {error}");
        }
    }

    #[test]
    fn a_kernel_of_a_boards_side_is_that_of_its_host() {
        const OF_ARM64: &str = r#"
    title = "Exits"
    host = "kvm-arm64"
    workloads = ["raw:hvc=20"]
    base = {}
    "#;
        let alone = read(OF_ARM64).unwrap();
        assert_eq!(
            (alone.asked.host_subject, alone.asked.base.subject.kernel),
            (Subject::new("debian:cloud-arm64", ""), None)
        );
        let named = read(&OF_ARM64.replace("{}", "{ kernel = \"Image\" }")).unwrap();
        assert_eq!(named.asked.host_subject, Subject::new("Image", ""));
        // The Side that names no kernel gets the usual one.
        let two = read(&format!("{OF_ARM64}change = {{ boot_line = \"x\" }}")).unwrap();
        let kernels: Vec<_> =
            two.asked.sides().map(|side| side.subject.kernel.clone().unwrap()).collect();
        assert_eq!(kernels, ["", "x"].map(|line| Subject::new("debian:cloud-arm64", line)));
        assert_eq!(two.asked.host_subject, kernels[0]);
        let both = OF_ARM64.replace("{}", "{ kernel = \"x\" }\nhost_kernel = \"y\"");
        let error = read(&both).unwrap_err().to_string();
        let expected = "kernel only applies to an experiment without host_kernel";
        assert!(error.starts_with(expected), "{error}");
        let page = read(&OF_ARM64.replace("{}", "{ without = [\"magic-page\"] }")).unwrap_err();
        assert!(page.to_string().contains("no feature \"magic-page\""), "{page}");
    }

    #[test]
    fn mistakes_are_named() {
        for (file, from, to, reason) in [
            (FILE, "\"kvm\"", "\"xen\"", "unknown variant `xen`"),
            (FILE, "cpus = 2", "cpus = 17", "cpus must be 1 to 16, not 17"),
            (FILE, "without", "with", "unknown field `with`"),
            (
                FILE,
                "out=2000",
                "rdtsc=1",
                "one of cpuid, rdmsr, wrmsr, fault, pic, interrupt, wake, ",
            ),
            (FILE, "out=2000", "hlt=1,wake=1", "write raw:hlt=N with N from 1 to 4294967295"),
            (FILE, "out=2000", "ipi=0", "write raw:ipi=N with N from 1 to 4294967295"),
            (FILE, "out=2000", "fault=196097", "write raw:fault=N with N from 1 to 196096"),
            (FILE, "base = { kernel = \"debian:cloud-amd64\" }", "base = {}", "kernel is missing"),
            (FILE, "\"getppid\"", "\"boot\"", "boot is named twice"),
            (FILE, "title", "pairs = 10\ntitle", "--pairs (pairs) only applies to timed engines"),
            (FILE, "title", "engine = \"kvm\"\ntitle", "--engine (engine) only applies to"),
            (
                FILE,
                "[\"kvmclock\"], cpus = 2",
                "[\"kvm-pv-eoi\"]",
                "differ only in kvm-pv-eoi, which no",
            ),
            (
                OF_E500V2,
                "\"magic-page\"",
                "\"kvmclock\"",
                "KVM has no feature \"kvmclock\"; it has",
            ),
            (
                OF_E500V2,
                "magic-page",
                "magic-pag",
                "(did you mean \"magic-page\"?); it has magic-page",
            ),
            (OF_E500V2, "change = {}", "change = { kernel = \"x\" }", "kernel only applies to"),
            (OF_E500V2, "a.patch", "a\\u001b.patch", "the host's options and patches must be one"),
            (OF_E500V2, "all=2000", "all=-1", "write raw:all=N with N from 1 to 4294967295"),
            (
                OF_E500V2,
                "raw:all=2000",
                "getppid",
                "one of all, mfmsr, mtspr, mfspr, mmio, wrtee, rfi",
            ),
        ] {
            let error = read(&file.replace(from, to)).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
}
