use std::collections::BTreeSet;

use super::names::{is_hash, is_printable, is_row};
use ktax_model::{GuestSubject, GuestWork, GuestsPlan, HostKind, Step};

/// Row names and hashes become file names.
pub(super) fn check(plan: &GuestsPlan) -> Result<(), &'static str> {
    let sides = || std::iter::once(&plan.base).chain(&plan.change);
    let kernels = sides().filter_map(|side| side.kernel.as_ref());
    let mut kernels = kernels.chain([&plan.host_kernel]);
    let rows = plan.rows.iter().map(|row| &row.row).collect::<BTreeSet<_>>();
    let names = plan.steps.iter().map(Step::name).collect::<BTreeSet<_>>();
    if !kernels.all(|kernel| is_hash(&kernel.sha256)) {
        Err("a kernel's sha256 is not of 64 hexadecimal digits")
    } else if rows.len() != plan.rows.len() || rows.is_empty() {
        Err("it has no rows, or one of them twice")
    } else if names.len() != plan.steps.len() {
        Err("a step is there twice")
    } else if !rows.iter().all(|row| is_row(row)) {
        Err("a row's name is not of [a-z0-9:=,-]")
    } else if !plan.steps.iter().all(|step| step.layout < plan.layouts.len()) {
        Err("a step's layout does not exist")
    } else if !plan.layouts.iter().all(|layout| layout.padding <= 4096) {
        Err("a layout's padding is above 4096")
    } else if !sides().all(|side| GuestSubject::CPUS.contains(&side.subject.cpus.into())) {
        Err("a guest's CPUs are not 1 to 16")
    } else if !sides().all(|side| GuestSubject::MEMORY_MIB.contains(&side.subject.memory_mib)) {
        Err("a guest's memory is not of 64 to 3072 MiB")
    } else if !plan.rows.iter().all(|row| is_work(plan.host, &row.work)) {
        Err("a row has no operations, or is not for this host")
    } else if !texts(plan).all(is_printable) {
        Err("a text has control characters")
    } else {
        Ok(())
    }
}

/// Whether there is something to do, and a host of this kind can do it.
fn is_work(host: HostKind, work: &GuestWork) -> bool {
    match work {
        GuestWork::Raw { kind, count } => {
            host.times(kind).is_some_and(|range| range.contains(count))
        }
        GuestWork::Boot => !host.is_board(),
        GuestWork::Program(workload) => !host.is_board() && workload.ops > 0,
    }
}

/// What is shown to people or handed to QEMU.
fn texts(plan: &GuestsPlan) -> impl Iterator<Item = &str> {
    let sides = || std::iter::once(&plan.base).chain(&plan.change);
    let features = sides().flat_map(|side| side.subject.without.iter().map(String::as_str));
    let subjects = sides().filter_map(|side| side.subject.kernel.as_ref());
    let subjects = subjects.chain([&plan.host_subject]);
    let subjects = subjects.flat_map(|subject| [subject.kernel.as_str(), &subject.boot_line]);
    let kernels = sides().filter_map(|side| side.kernel.as_ref()).chain([&plan.host_kernel]);
    let sources = kernels.map(|kernel| kernel.source.as_str());
    let kinds = plan.rows.iter().filter_map(|row| match &row.work {
        GuestWork::Raw { kind, .. } => Some(kind.as_str()),
        GuestWork::Boot | GuestWork::Program(_) => None,
    });
    let key = [plan.key.qemu.as_str(), &plan.key.machine, &plan.key.cpu];
    features.chain(subjects).chain(sources).chain(kinds).chain(key)
}
