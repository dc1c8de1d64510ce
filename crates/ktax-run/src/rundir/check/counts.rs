use std::collections::BTreeSet;

use super::names::{is_hash, is_printable, is_row};
use ktax_model::{CountsPlan, Machine, Model, Side, Step};

/// A plan may come from anywhere, and its row names and hashes become file names.
pub(super) fn check(plan: &CountsPlan) -> std::result::Result<(), &'static str> {
    let rows = plan.workloads.iter().map(|workload| &workload.row).collect::<BTreeSet<_>>();
    let names = plan.steps.iter().map(Step::name).collect::<BTreeSet<_>>();
    if !Side::BOTH.iter().all(|side| is_hash(&plan.kernels.get(*side).sha256)) {
        Err("a kernel's sha256 is not of 64 hexadecimal digits")
    } else if rows.len() != plan.workloads.len() {
        Err("a row is there twice")
    } else if names.len() != plan.steps.len() {
        Err("a step is there twice")
    } else if !plan.workloads.iter().all(|workload| is_row(&workload.row)) {
        Err("a row's name is not of [a-z0-9:=,-]")
    } else if plan.workloads.iter().any(|workload| workload.ops == 0) {
        Err("a row has no operations")
    } else if !plan.steps.iter().all(|step| step.layout < plan.layouts.len()) {
        Err("a step's layout does not exist")
    } else if !plan.layouts.iter().all(|layout| layout.padding <= 4096) {
        Err("a layout's padding is above 4096")
    } else if !(128..=65536).contains(&plan.machine.memory_mib) {
        Err("the memory is not of 128 to 65536 MiB")
    } else if !(1..=Machine::MOST_CPUS).contains(&plan.machine.cpus) {
        Err("the CPUs are not 1 to 32")
    } else if plan.machine.quantum == Some(0) {
        Err("the quantum is 0")
    } else if [&plan.machine.model, &plan.key.model].into_iter().any(|it| !can_be_modelled(it)) {
        Err("the machine cannot be modelled")
    } else if plan.calibration.as_ref().is_some_and(|it| it.check().is_err()) {
        Err("the machine's calibration is none")
    } else if !texts(plan).all(is_printable) {
        Err("a text has control characters")
    } else {
        Ok(())
    }
}

fn can_be_modelled(model: &Option<Model>) -> bool {
    let machine = model.as_ref().and_then(Model::machine);
    machine.is_none_or(|machine| machine.wire().is_ok())
}

/// What is shown to people or handed to QEMU.
fn texts(plan: &CountsPlan) -> impl Iterator<Item = &str> {
    let sides = Side::BOTH.into_iter().flat_map(|side| {
        let (subject, kernel) = (plan.subjects.get(side), plan.kernels.get(side));
        [subject.kernel.as_str(), &subject.boot_line, &kernel.source]
    });
    let key = &plan.key;
    sides.chain([plan.machine.cpu.as_str(), &key.qemu, &key.machine, &key.cpu])
}
