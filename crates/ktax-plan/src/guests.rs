//! Experiments with guests of a KVM host. A guest boots, makes exits of one kind, or runs a
//! program.

use std::collections::BTreeSet;

use crate::experiment::{
    self, Error, Experiment, check_layouts, check_printable_line, draw_steps, duplicate_row_error,
    misplaced_key_error, no_workload_error, sweep_error, unknown_feature_error,
};
use crate::file::{ExperimentFile, SubjectKeys};
use crate::keys::{check_range, default_number};
use crate::workloads::{ParamValue, check_for_times, definitions, find_definition, select_rows};
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
    /// Swept numbers of vCPUs of both guests, one run for each number; if empty, one run with the
    /// numbers of the Sides.
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
            true => experiment.set_host_kernels(file)?,
            false => experiment.check_difference()?,
        }
        check_layouts(experiment.layouts)?;
        let variant_text = experiment.asked.host_subject.variant_text();
        check_printable_line("the host's options and patches", &variant_text)?;
        Ok(experiment)
    }

    /// Refuses Sides that differ only in a feature that QEMU hides from guests.
    fn check_difference(&self) -> Result<(), Error> {
        let AskedGuests { base, change: Some(change), .. } = &self.asked else { return Ok(()) };
        let visible_subject = |side: &GuestSide| {
            let mut subject = side.subject.clone();
            subject.hidden_features.retain(|name| name != GuestSubject::PV_EOI);
            subject
        };
        match base != change && visible_subject(base) == visible_subject(change) {
            true => Err(Error::user(format!(
                "the sides differ only in {}, which no guest of host = \"kvm\" finds, because \
                 QEMU's translator would deliver interrupts twice",
                GuestSubject::PV_EOI
            ))
            .next("compare another feature")),
            false => Ok(()),
        }
    }

    /// Sets the kernel of each Side to the kernel of its host, because the guests of a board have
    /// no kernel. Does nothing if no Side names a kernel.
    fn set_host_kernels(&mut self, file: &ExperimentFile) -> Result<(), Error> {
        let asked = &mut self.asked;
        if asked.sides().all(|side| side.subject.kernel.is_none()) {
            return Ok(());
        }
        let has_host_changes = !file.host_config.is_empty() || !file.host_patches.is_empty();
        if file.host_kernel.is_some() || has_host_changes {
            let applies_to = "an experiment without host_kernel, host_config and host_patches";
            return Err(misplaced_key_error(
                "kernel",
                applies_to,
                &experiment::host_description(asked.host),
            ));
        }
        let default = asked.host_subject.clone();
        for side in asked.sides_mut() {
            side.subject.kernel.get_or_insert_with(|| default.clone());
        }
        asked.host_subject = asked.base.subject.kernel.clone().unwrap_or(default);
        Ok(())
    }
}

fn default_kernel(host: HostKind) -> &'static str {
    match host {
        HostKind::Kvm => "debian:cloud-amd64",
        HostKind::KvmE500v2 | HostKind::KvmPower9 | HostKind::KvmRiscv64 => "debian-src:6.12",
        HostKind::KvmArm64 => "debian:cloud-arm64",
    }
}

fn host_subject(host: HostKind, file: &ExperimentFile) -> Subject {
    let kernel = file.host_kernel.as_deref().unwrap_or(default_kernel(host));
    let mut subject = Subject::new(kernel, "");
    subject.config.clone_from(&file.host_config);
    subject.patches.clone_from(&file.host_patches);
    subject
}

fn guest_subject(host: HostKind, keys: &SubjectKeys) -> Result<GuestSubject, Error> {
    let refuse = |key: &str| {
        Err(misplaced_key_error(key, "host = \"kvm\"", &experiment::host_description(host)))
    };
    let subject = GuestSubject {
        kernel: match host.is_board() {
            true => keys.subject_or(default_kernel(host)),
            false => keys.subject(),
        },
        hidden_features: keys.without.clone(),
        cpus: keys.cpus.unwrap_or(1),
        memory_mib: keys.memory_mib.unwrap_or_else(|| default_number("base.memory_mib")),
    };
    for text in subject.hidden_features.iter().chain(&keys.boot_line).chain(&keys.kernel) {
        check_printable_line("a guest's kernel, boot line or feature", text)?;
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
    let known_features = if host.has_magic_page() {
        GuestSubject::MAGIC_PAGE
    } else {
        "no feature that can be left out"
    };
    match without.iter().find(|name| !host.has_magic_page() || *name != GuestSubject::MAGIC_PAGE) {
        Some(name) => {
            let similar = nearest(name, host.has_magic_page().then_some(GuestSubject::MAGIC_PAGE));
            Err(unknown_feature_error(name, similar, known_features))
        }
        None => Ok(()),
    }
}

impl Experiment<GuestsExperiment> {
    /// Returns an Experiment for each swept number of vCPUs, with its name; without a sweep only
    /// this Experiment.
    pub fn each_setting(&self) -> Vec<(String, Experiment<GuestsExperiment>)> {
        if self.method.swept_cpus.is_empty() {
            return vec![(String::new(), self.with_method(self.method.clone()))];
        }
        let point = |&cpus: &u8| {
            let mut method = self.method.clone();
            method.swept_cpus.clear();
            method.asked.sides_mut().for_each(|side| side.subject.cpus = cpus);
            (format!("{CPUS}={cpus}"), self.with_method(method))
        };
        self.method.swept_cpus.iter().map(point).collect()
    }

    /// Orders the Boots: each Layout is a pair of adjacent Steps in random order; without a change,
    /// one Step. The Sides have their Kernels already.
    pub fn plan(&self, host_kernel: Identity, key: Key) -> Plan<GuestsPlan> {
        let (layouts, mut steps) = draw_steps(self.seed, self.method.layouts);
        let asked = self.method.asked.clone();
        if asked.change.is_none() {
            steps.retain(|step| step.side == Side::Base);
            (0..).zip(&mut steps).for_each(|(index, step)| step.index = index);
        }
        self.plan_with_method(GuestsPlan { asked, key, host_kernel, layouts, steps })
    }
}

/// Rows with these names, in this order.
fn guest_rows(host: HostKind, names: &[String]) -> Result<Vec<GuestRow>, Error> {
    let definitions = definitions()?;
    let mut rows = Vec::new();
    for name in names {
        let row = |work| GuestRow { row: name.clone(), work };
        match name.strip_prefix("raw:") {
            Some(raw) => rows.push(row(parse_raw_work(host, name, raw)?)),
            // A board's guest has no kernel that could boot or run a program.
            None if host.is_board() => rows.push(row(parse_raw_work(host, name, "")?)),
            None if name == "boot" => rows.push(row(GuestWork::Boot)),
            None => {
                let selected = select_rows(&definitions, Some(std::slice::from_ref(name)))?;
                for row in &selected {
                    check_for_times(find_definition(
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
        Some(twice) => Err(duplicate_row_error(&twice.row)),
        None if rows.is_empty() => Err(no_workload_error()),
        None => Ok(rows),
    }
}

/// Parses `KIND=N`, the part of a name after `raw:`.
fn parse_raw_work(host: HostKind, name: &str, text: &str) -> Result<GuestWork, Error> {
    let parsed = text
        .split_once('=')
        .and_then(|(kind, count)| Some((kind, count, host.permitted_counts(kind)?)));
    let Some((kind, count, range)) = parsed else {
        let kinds = host.raw_kinds().join(", ");
        return Err(Error::user(format!("{name:?} is not work for a guest of this host"))
            .next(format!("write raw:KIND=N with one of {kinds}")));
    };
    match count.parse().ok().filter(|count| range.contains(count)) {
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

/// Name of the only setting that can be swept.
pub(super) const CPUS: &str = "cpus";

/// Numbers of vCPUs, one for each run; empty without a sweep.
fn swept_cpus(host: HostKind, rows: &[GuestRow], file: &ExperimentFile) -> Result<Vec<u8>, Error> {
    let unsupported = file.sweep.keys().find(|name| *name != CPUS);
    let refuse = |name: &str, reason: &str| Err(sweep_error(name, reason));
    if host != HostKind::Kvm && !file.sweep.is_empty() {
        return refuse(CPUS, "only guests of host = \"kvm\" can have several; remove it");
    }
    if let Some(name) = unsupported {
        return refuse(
            name,
            "of guests, only cpus can be swept; name a row for each value instead",
        );
    }
    let Some(values) = file.sweep.get(CPUS) else { return Ok(Vec::new()) };
    if rows.iter().all(|row| matches!(row.work, GuestWork::Raw { .. })) {
        return refuse(
            CPUS,
            "raw guests have CPUs of their own; remove it, or add the row \"boot\"",
        );
    }
    let sides = || std::iter::once(&file.base).chain(&file.change);
    let distinct: BTreeSet<String> = values.iter().map(ParamValue::to_string).collect();
    if values.is_empty() {
        return refuse(CPUS, "a value is missing; write cpus = [2, 4]");
    }
    if distinct.len() < values.len() {
        return refuse(CPUS, "a value is given twice; give it once");
    }
    if sides().any(|side| side.cpus.is_some()) {
        return refuse(CPUS, "a side has cpus, too; remove them there");
    }
    values.iter().map(parse_cpus).collect()
}

fn parse_cpus(value: &ParamValue) -> Result<u8, Error> {
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

    const E500V2_FILE: &str = r#"
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
    fn a_file_of_guests_is_read() {
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
        let experiment = read(E500V2_FILE).unwrap();
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
        let runs = experiment.with_method(guests.clone()).each_setting();
        let cpus = |experiment: &GuestsExperiment| {
            experiment.asked.sides().map(|side| side.subject.cpus).collect::<Vec<_>>()
        };
        let runs: Vec<_> = runs.iter().map(|(name, run)| (&**name, cpus(&run.method))).collect();
        assert_eq!(runs, [("cpus=2", vec![2, 2]), ("cpus=16", vec![16, 16])]);
    }

    #[test]
    fn invalid_sweeps_are_refused() {
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
            (E500V2_FILE, "cpus = [2, 4]", "only guests of host = \"kvm\" can have several"),
        ] {
            let error = read(&format!("{file}[sweep]\n{sweep}\n")).unwrap_err().to_string();
            assert!(error.contains(reason), "{sweep}: {error}");
        }
    }

    #[test]
    fn the_kernel_of_a_side_is_the_kernel_of_its_board() {
        const ARM64_FILE: &str = r#"
    title = "Exits"
    host = "kvm-arm64"
    workloads = ["raw:hvc=20"]
    base = {}
    "#;
        let alone = read(ARM64_FILE).unwrap();
        assert_eq!(
            (alone.asked.host_subject, alone.asked.base.subject.kernel),
            (Subject::new("debian:cloud-arm64", ""), None)
        );
        let named = read(&ARM64_FILE.replace("{}", "{ kernel = \"Image\" }")).unwrap();
        assert_eq!(named.asked.host_subject, Subject::new("Image", ""));
        // The Side that names no kernel gets the default_number one.
        let two = read(&format!("{ARM64_FILE}change = {{ boot_line = \"x\" }}")).unwrap();
        let kernels: Vec<_> =
            two.asked.sides().map(|side| side.subject.kernel.clone().unwrap()).collect();
        assert_eq!(kernels, ["", "x"].map(|line| Subject::new("debian:cloud-arm64", line)));
        assert_eq!(two.asked.host_subject, kernels[0]);
        let both = ARM64_FILE.replace("{}", "{ kernel = \"x\" }\nhost_kernel = \"y\"");
        let error = read(&both).unwrap_err().to_string();
        let expected = "kernel only applies to an experiment without host_kernel";
        assert!(error.starts_with(expected), "{error}");
        let page = read(&ARM64_FILE.replace("{}", "{ without = [\"magic-page\"] }")).unwrap_err();
        assert!(page.to_string().contains("no feature \"magic-page\""), "{page}");
    }

    #[test]
    fn errors_name_the_wrong_key_or_value() {
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
                E500V2_FILE,
                "\"magic-page\"",
                "\"kvmclock\"",
                "KVM has no feature \"kvmclock\"; it has",
            ),
            (
                E500V2_FILE,
                "magic-page",
                "magic-pag",
                "(did you mean \"magic-page\"?); it has magic-page",
            ),
            (E500V2_FILE, "change = {}", "change = { kernel = \"x\" }", "kernel only applies to"),
            (
                E500V2_FILE,
                "a.patch",
                "a\\u001b.patch",
                "the host's options and patches must be one",
            ),
            (E500V2_FILE, "all=2000", "all=-1", "write raw:all=N with N from 1 to 4294967295"),
            (
                E500V2_FILE,
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
