use super::rows::rows;
use super::sweep::{CPUS, swept};
use crate::asked::Experiment;
use crate::error::{PlanError, printable_line, range};
use crate::file::{ExperimentFile, SubjectKeys};
use crate::{keys, layouts};
use ktax_host::text::nearest;
use ktax_model::{
    GuestRow, GuestSide, GuestSubject, GuestsPlan, HostKind, Identity, Key, Plan, Side, Subject,
};

/// What only such an Experiment has.
#[derive(Debug, Clone, PartialEq)]
pub struct GuestsExperiment {
    /// What the guests run on.
    pub host: HostKind,
    /// The host's own Kernel.
    pub host_subject: Subject,
    /// Layouts per Side.
    pub layouts: u32,
    /// What the guests do.
    pub rows: Vec<GuestRow>,
    /// What the change is measured against.
    pub base: GuestSubject,
    /// What is measured; without it the base is described alone.
    pub change: Option<GuestSubject>,
    /// The vCPUs of both guests, one run for each number; none: those of the guests, one run.
    pub swept_cpus: Vec<u8>,
}

impl GuestsExperiment {
    pub(crate) fn of(file: &ExperimentFile) -> Result<GuestsExperiment, PlanError> {
        let host = file.host.unwrap_or(HostKind::Kvm);
        let names = file.workloads.as_deref().unwrap_or_default();
        let rows = rows(host, names)?;
        let swept_cpus = swept(host, &rows, file)?;
        let mut experiment = GuestsExperiment {
            host,
            host_subject: host_subject(host, file),
            layouts: file.layouts.unwrap_or(layouts::DEFAULT),
            rows,
            base: subject(host, &file.base)?,
            change: file.change.as_ref().map(|keys| subject(host, keys)).transpose()?,
            swept_cpus,
        };
        match host.is_board() {
            true => experiment.give_hosts(file)?,
            false => experiment.check_difference()?,
        }
        layouts::check(experiment.layouts)?;
        printable_line("the host's options and patches", &experiment.host_subject.beside_kernel())?;
        Ok(experiment)
    }

    /// Refuses Sides whose only difference no guest finds.
    fn check_difference(&self) -> Result<(), PlanError> {
        let Some(change) = &self.change else { return Ok(()) };
        let findable = |subject: &GuestSubject| {
            let mut subject = subject.clone();
            subject.without.retain(|name| name != GuestSubject::PV_EOI);
            subject
        };
        match self.base != *change && findable(&self.base) == findable(change) {
            true => Err(PlanError::NeverFound { name: GuestSubject::PV_EOI }),
            false => Ok(()),
        }
    }

    /// A board's guest has no kernel, so a Side's Kernel is that of its host: where one Side names
    /// one, both have one.
    fn give_hosts(&mut self, file: &ExperimentFile) -> Result<(), PlanError> {
        if self.subjects().all(|subject| subject.kernel.is_none()) {
            return Ok(());
        }
        let others = !file.host_config.is_empty() || !file.host_patches.is_empty();
        if file.host_kernel.is_some() || others {
            let applies_to = "an experiment without host_kernel, host_config and host_patches";
            let (key, applies_to) = ("kernel".to_owned(), applies_to.to_owned());
            return Err(PlanError::Misplaced { key, applies_to, uses: keys::uses(self.host) });
        }
        let usual = self.host_subject.clone();
        for subject in [Some(&mut self.base), self.change.as_mut()].into_iter().flatten() {
            subject.kernel.get_or_insert_with(|| usual.clone());
        }
        self.host_subject = self.base.kernel.clone().unwrap_or(usual);
        Ok(())
    }

    /// Base, and change where there is one.
    pub fn subjects(&self) -> impl Iterator<Item = &GuestSubject> {
        std::iter::once(&self.base).chain(&self.change)
    }
}

/// The kernel of hosts of this kind, unless the experiment names another.
fn usual_kernel(host: HostKind) -> &'static str {
    match host {
        HostKind::Kvm => "debian:cloud-amd64",
        HostKind::KvmE500v2 | HostKind::KvmPower9 | HostKind::KvmRiscv64 => "debian-src:6.12",
        HostKind::KvmArm64 => "debian:cloud-arm64",
    }
}

fn host_subject(host: HostKind, file: &ExperimentFile) -> Subject {
    let kernel = file.host_kernel.as_deref().unwrap_or(usual_kernel(host));
    let mut subject = Subject::of(kernel, "");
    subject.config.clone_from(&file.host_config);
    subject.patches.clone_from(&file.host_patches);
    subject
}

fn subject(host: HostKind, keys: &SubjectKeys) -> Result<GuestSubject, PlanError> {
    let refuse = |key: &str| {
        let uses = keys::uses(host);
        let applies_to = "host = \"kvm\"".to_owned();
        Err(PlanError::Misplaced { key: key.to_owned(), applies_to, uses })
    };
    let subject = GuestSubject {
        kernel: match host.is_board() {
            true => keys.subject_or(usual_kernel(host)),
            false => keys.subject(),
        },
        without: keys.without.clone(),
        cpus: keys.cpus.unwrap_or(1),
        memory_mib: keys.memory_mib.unwrap_or(256),
    };
    for text in subject.without.iter().chain(&keys.boot_line).chain(&keys.kernel) {
        printable_line("a guest's kernel, boot line or feature", text)?;
    }
    match host {
        HostKind::Kvm if subject.kernel.is_none() => {
            let next = "write kernel = \"debian:cloud-amd64\" for each guest";
            return Err(PlanError::Missing { key: "a guest's kernel", next });
        }
        HostKind::Kvm => {}
        _ if keys.cpus.is_some() => return refuse("cpus"),
        _ if keys.memory_mib.is_some() => return refuse("memory_mib"),
        _ => check_features(host, &subject.without)?,
    }
    range("cpus", subject.cpus.into(), GuestSubject::CPUS)?;
    range("memory_mib", subject.memory_mib, GuestSubject::MEMORY_MIB)?;
    Ok(subject)
}

/// Refuses a feature that KVM on this board does not have.
fn check_features(host: HostKind, without: &[String]) -> Result<(), PlanError> {
    let known = if host.has_magic_page() {
        GuestSubject::MAGIC_PAGE
    } else {
        "no feature that can be left out"
    };
    match without.iter().find(|name| !host.has_magic_page() || *name != GuestSubject::MAGIC_PAGE) {
        Some(name) => {
            let near = nearest(name, host.has_magic_page().then_some(GuestSubject::MAGIC_PAGE));
            let (name, near) = (name.clone(), near.map(str::to_owned));
            Err(PlanError::UnknownFeature { name, near, known: known.to_owned() })
        }
        None => Ok(()),
    }
}

/// What is known of a Plan's Kernels and its host.
#[derive(Debug, Clone)]
pub struct GuestKernels {
    /// The host's Kernel.
    pub host: Identity,
    /// The base's, if guests of that host have one.
    pub base: Option<Identity>,
    /// The change's.
    pub change: Option<Identity>,
}

impl Experiment<GuestsExperiment> {
    /// The Experiments that the swept vCPUs make, each with what it is called; without any it is
    /// the one.
    pub fn of_settings(&self) -> Vec<(String, Experiment<GuestsExperiment>)> {
        if self.method.swept_cpus.is_empty() {
            return vec![(String::new(), self.with(self.method.clone()))];
        }
        let point = |&cpus: &u8| {
            let mut method = self.method.clone();
            method.swept_cpus.clear();
            for subject in std::iter::once(&mut method.base).chain(&mut method.change) {
                subject.cpus = cpus;
            }
            (format!("{CPUS}={cpus}"), self.with(method))
        };
        self.method.swept_cpus.iter().map(point).collect()
    }

    /// Orders the Boots: each Layout is a pair of adjacent Steps, whose first Side is drawn.
    /// Without a change it is one Step.
    pub fn plan(&self, kernels: GuestKernels, key: Key) -> Plan<GuestsPlan> {
        let of = &self.method;
        let (layouts, mut steps) = layouts::steps(self.seed, of.layouts);
        if of.change.is_none() {
            steps.retain(|step| step.side == Side::Base);
            (0..).zip(&mut steps).for_each(|(index, step)| step.index = index);
        }
        let side = |subject: &GuestSubject, kernel| GuestSide { subject: subject.clone(), kernel };
        let method = GuestsPlan {
            host: of.host,
            key,
            host_subject: of.host_subject.clone(),
            host_kernel: kernels.host,
            base: side(&of.base, kernels.base),
            change: of.change.as_ref().map(|subject| side(subject, kernels.change)),
            rows: of.rows.clone(),
            layouts,
            steps,
        };
        self.plan_of(method)
    }
}
