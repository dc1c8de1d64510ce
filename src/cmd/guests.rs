//! `ktax compare` of an experiment whose Subjects are guests of a KVM host.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ValueEnum;

use super::args::{HostArgs, first_free};
use super::drive::{cancel, obtain, talking};
use super::exit::{Exit, UsageError};
use super::output::{text_options, write_stdout};
use super::progress::spinner;
use crate::engine::qemu::Qemu;
use crate::kernel;
use crate::kvmhost::guests::{Guest, Task};
use crate::kvmhost::{self, Host};
use crate::model::{ExitRun, Identity, Subject};
use crate::plan::{GuestExperiment, GuestSubject, GuestWork};
use crate::report;
use crate::rundir::write_atomically;
use crate::vmm::linux::Feature;

/// Records each Side in a host of its own and says what changed.
pub fn run(
    experiment: &GuestExperiment,
    out: Option<&Path>,
    is_json: bool,
    host: &HostArgs,
) -> anyhow::Result<Exit> {
    let works = experiment.works()?;
    check(experiment)?;
    let out = out.map_or_else(first_free, PathBuf::from);
    std::fs::create_dir(&out)
        .with_context(|| format!("cannot make {}; give --out another name", out.display()))?;
    let is_alone = experiment.change.is_none();
    let (mut sides, mut names) = (Vec::new(), String::new());
    for (name, subject) in ["base", "change"].into_iter().zip(experiment.subjects()) {
        let bar = spinner();
        bar.set_message(format!("{name}: {} guests in a KVM host", works.len()));
        let (runs, named) = side(experiment, subject, &works, is_alone, host)?;
        bar.finish_and_clear();
        names += &format!("{name:<8}{named}\n");
        write_atomically(&out.join(format!("{name}.json")), report::json(&runs)?.as_bytes())?;
        sides.push(runs);
    }
    let text = match is_json {
        true => report::json(&sides)?,
        false => text(experiment, &names, &sides),
    };
    write_stdout(&text)?;
    note!("ktax: everything is in {}", out.display());
    Ok(Exit::Ok)
}

/// Nobody waits for a host to hear that it knows no such feature.
fn check(experiment: &GuestExperiment) -> Result<(), UsageError> {
    let mut names = experiment.subjects().flat_map(|subject| &subject.without);
    let known = || Feature::value_variants().iter().filter_map(Feature::to_possible_value);
    match names.find(|name| Feature::from_str(name, false).is_err()) {
        None => Ok(()),
        Some(name) => {
            let known: Vec<String> = known().map(|value| value.get_name().to_owned()).collect();
            let (name, known) = (report::escape(name), known.join(", "));
            Err(UsageError::Text(format!("KVM has no feature {name}; it has {known}")))
        }
    }
}

fn side(
    experiment: &GuestExperiment,
    subject: &GuestSubject,
    works: &[(String, GuestWork)],
    is_alone: bool,
    host: &HostArgs,
) -> anyhow::Result<(Vec<ExitRun>, String)> {
    let cancel = cancel()?;
    let qemu = Qemu::find(host.qemu.as_deref())?;
    let cache = host.cache()?;
    let guest = obtain(&subject.subject(), &cache)?;
    let own = obtain(&Subject::of(&experiment.host_kernel, ""), &cache)?;
    let named = name(subject, &guest.identity, &own.identity, &qemu);
    let modules = talking(|talk| kernel::modules(&own, &kvmhost::MODULES, &cache, talk))?;
    let host = Host {
        qemu: &qemu,
        kernel: &own.image,
        modules: &modules,
        exact: true,
        limits: &host.limits(),
        cancel: &cancel,
        scratch: &cache.join("runs"),
    };
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
            GuestWork::Raw { kind, count } => Task::Raw { kind: kind.clone(), count: *count },
            GuestWork::Program(workload) => {
                Task::Program { workload: workload.clone(), native: is_alone }
            }
        };
        (row.clone(), task)
    };
    let tasks: Vec<(String, Task)> = works.iter().map(task).collect();
    Ok((kvmhost::guests::record(&host, &guest, &tasks)?, named))
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

fn text(experiment: &GuestExperiment, names: &str, sides: &[Vec<ExitRun>]) -> String {
    let names: String = names.lines().map(|line| report::paragraph(line, text_options())).collect();
    let title = format!("{}\n\n{names}", report::escape(&experiment.title));
    match sides {
        [base, change] => title + &report::guests_compared(base, change, text_options()),
        [base] => title + &report::guests(base, text_options()),
        _ => title,
    }
}
