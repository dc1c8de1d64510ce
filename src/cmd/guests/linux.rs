use crate::cmd::args::HostArgs;
use crate::cmd::drive::obtain;
use crate::cmd::exit::UsageError;
use crate::cmd::kvm_host::with_host;
use crate::engine::qemu::Qemu;
use crate::kvmhost::guests::{Guest, Task, record};
use crate::model::{ExitRun, Identity};
use crate::plan::{GuestExperiment, GuestSubject, GuestWork};
use crate::text::escape;
use crate::vmm::linux::Feature;

/// Nobody waits for a host to hear that it knows no such feature.
pub fn check(experiment: &GuestExperiment<GuestSubject>) -> Result<(), UsageError> {
    let mut names = experiment.subjects().flat_map(|subject| &subject.without);
    match names.find(|name| Feature::named(name).is_none()) {
        None => Ok(()),
        Some(name) => {
            let (name, known) = (escape(name), Feature::ALL.map(Feature::name).join(", "));
            Err(UsageError::Text(format!("KVM has no feature {name}; it has {known}")))
        }
    }
}

/// Records the guests of one Side, each in a host of its own; also what they are.
pub fn side(
    experiment: &GuestExperiment<GuestSubject>,
    subject: &GuestSubject,
    works: &[(String, GuestWork)],
    host: &HostArgs,
) -> anyhow::Result<(Vec<ExitRun>, String)> {
    let is_alone = experiment.change.is_none();
    let guest = obtain(&subject.subject(), &host.cache()?)?;
    let identity = guest.identity;
    let guest = Guest {
        kernel: guest.image,
        boot_line: subject.boot_line.clone(),
        without: subject.without.clone(),
        cpus: subject.cpus,
        memory_mib: subject.memory_mib,
    };
    let task = |(row, work): &(String, GuestWork)| {
        let task = match work {
            GuestWork::Boot => Task::Boot,
            GuestWork::Raw(raw) => Task::Raw { kind: raw.kind.clone(), count: raw.count },
            GuestWork::Program(workload) => {
                Task::Program { workload: workload.clone(), native: is_alone }
            }
        };
        (row.clone(), task)
    };
    let tasks: Vec<(String, Task)> = works.iter().map(task).collect();
    with_host(&experiment.host_subject(), true, host, |host, own| {
        let named = name(subject, &identity, &own.identity, host.qemu);
        Ok((record(host, &guest, &tasks)?, named))
    })
}

/// Which versions a Side is of.
fn name(subject: &GuestSubject, guest: &Identity, host: &Identity, qemu: &Qemu) -> String {
    let cpus = if subject.cpus == 1 { "1 vCPU".into() } else { format!("{} vCPUs", subject.cpus) };
    let mut beside = format!("{}, {cpus}", subject.subject().beside_kernel());
    if !subject.without.is_empty() {
        beside += &format!(", without {}", subject.without.join(" "));
    }
    let beside = beside.trim_start_matches([',', ' ']);
    format!("{} ({beside}) on KVM of {}, exact, QEMU {}", guest.name(), host.name(), qemu.version)
}
