//! Refuses plans that ktax does not make: a plan may come from anywhere.

use std::collections::BTreeSet;

use ktax_model::{
    AskedTimes, CampaignPlan, CountsPlan, GuestSubject, GuestWork, GuestsPlan, HostKind, Identity,
    Layout, Machine, Model, Plan, PlanMethod, Side, Step, TimesPlan,
};

/// Refuses plans that would leave the directory, act on a terminal, take all memory, or never end.
pub(super) fn check_plan(plan: &Plan) -> Result<(), &'static str> {
    if !is_printable(&plan.title) {
        return Err("the title has control characters");
    }
    match &plan.method {
        PlanMethod::Counts(counts) => check_counts(counts),
        PlanMethod::Times(times) => check_times(times, plan.threshold_percent),
        PlanMethod::Guests(guests) => check_guests(guests),
    }
}

/// Refuses campaigns that ktax does not make. The plans of units are checked where their
/// directories are made.
pub(super) fn check_campaign(plan: &CampaignPlan) -> Result<(), &'static str> {
    let has_hash = |kernel: &Identity| is_hash(&kernel.sha256);
    if !is_printable(&plan.title) {
        Err("the title has control characters")
    } else if !plan.timed.iter().all(|name| is_plain_name(name)) {
        Err("the name of a timed experiment is not of [A-Za-z0-9._-]")
    } else if !plan.subjects.iter().filter_map(|subject| subject.kernel.as_ref()).all(has_hash) {
        Err("a kernel's sha256 is not of 64 hexadecimal digits")
    } else {
        plan.fault().map_or(Ok(()), Err)
    }
}

/// Refuses plans of counts whose names cannot be file names, or whose numbers are out of bounds.
fn check_counts(plan: &CountsPlan) -> Result<(), &'static str> {
    let rows = plan.workloads.iter().map(|workload| &workload.row).collect::<BTreeSet<_>>();
    let models = [&plan.asked.machine.model, &plan.key.machine.model];
    first_fault([
        (
            !Side::BOTH.iter().all(|side| is_hash(&plan.kernels.get(*side).sha256)),
            "a kernel's sha256 is not of 64 hexadecimal digits",
        ),
        (rows.len() != plan.workloads.len(), "a row is there twice"),
        (!rows.iter().all(|row| is_row_name(row)), "a row's name is not of [a-z0-9:=,-]"),
        (plan.workloads.iter().any(|workload| workload.ops == 0), "a row has no operations"),
        (
            !(128..=65536).contains(&plan.asked.machine.memory_mib),
            "the memory is not of 128 to 65536 MiB",
        ),
        (!(1..=Machine::MOST_CPUS).contains(&plan.asked.machine.cpus), "the CPUs are not 1 to 32"),
        (plan.asked.machine.quantum == Some(0), "the quantum is 0"),
        (!models.into_iter().all(can_be_modelled), "the machine cannot be modelled"),
        (
            plan.asked.calibration.as_ref().is_some_and(|calibration| calibration.check().is_err()),
            "the machine's calibration is none",
        ),
        (!counts_texts(plan).all(is_printable), "a text has control characters"),
    ])?;
    check_steps(&plan.steps, &plan.layouts)
}

/// The message of the first fault that the plan has.
fn first_fault<const N: usize>(faults: [(bool, &'static str); N]) -> Result<(), &'static str> {
    faults.into_iter().find(|(is_so, _)| *is_so).map_or(Ok(()), |(_, message)| Err(message))
}

fn check_steps(steps: &[Step], layouts: &[Layout]) -> Result<(), &'static str> {
    let names = steps.iter().map(Step::name).collect::<BTreeSet<_>>();
    first_fault([
        (names.len() != steps.len(), "a step is there twice"),
        (!steps.iter().all(|step| step.layout < layouts.len()), "a step's layout does not exist"),
        (!layouts.iter().all(|layout| layout.padding <= 4096), "a layout's padding is above 4096"),
    ])
}

fn can_be_modelled(model: &Option<Model>) -> bool {
    let machine = model.as_ref().and_then(Model::machine);
    machine.is_none_or(|machine| machine.wire().is_ok())
}

/// Texts that are shown to people or handed to QEMU.
fn counts_texts(plan: &CountsPlan) -> impl Iterator<Item = &str> {
    let sides = Side::BOTH.into_iter().flat_map(|side| {
        let (subject, kernel) = (plan.asked.subjects.get(side), plan.kernels.get(side));
        [subject.kernel.as_str(), &subject.boot_line, &kernel.source]
    });
    let key = &plan.key;
    sides.chain([plan.asked.machine.cpu.as_str(), &key.qemu, &key.machine_type, &key.machine.cpu])
}

/// Refuses plans of guests whose names cannot be file names, or whose numbers are out of bounds.
fn check_guests(plan: &GuestsPlan) -> Result<(), &'static str> {
    let asked = &plan.asked;
    let kernels = asked.sides().filter_map(|side| side.kernel.as_ref());
    let mut kernels = kernels.chain([&plan.host_kernel]);
    let rows = asked.rows.iter().map(|row| &row.row).collect::<BTreeSet<_>>();
    first_fault([
        (
            !kernels.all(|kernel| is_hash(&kernel.sha256)),
            "a kernel's sha256 is not of 64 hexadecimal digits",
        ),
        (rows.len() != asked.rows.len() || rows.is_empty(), "it has no rows, or one of them twice"),
        (!rows.iter().all(|row| is_row_name(row)), "a row's name is not of [a-z0-9:=,-]"),
        (
            !asked.sides().all(|side| GuestSubject::CPUS.contains(&side.subject.cpus.into())),
            "a guest's CPUs are not 1 to 16",
        ),
        (
            !asked.sides().all(|side| GuestSubject::MEMORY_MIB.contains(&side.subject.memory_mib)),
            "a guest's memory is not of 64 to 3072 MiB",
        ),
        (
            !asked.rows.iter().all(|row| can_do_work(asked.host, &row.work)),
            "a row has no operations, or is not for this host",
        ),
        (!guests_texts(plan).all(is_printable), "a text has control characters"),
    ])?;
    check_steps(&plan.steps, &plan.layouts)
}

/// Whether the work is not empty, and a host of this kind can do it.
fn can_do_work(host: HostKind, work: &GuestWork) -> bool {
    match work {
        GuestWork::Raw { kind, count } => {
            host.times(kind).is_some_and(|range| range.contains(count))
        }
        GuestWork::Boot => !host.is_board(),
        GuestWork::Program(workload) => !host.is_board() && workload.ops > 0,
    }
}

/// Texts that are shown to people or handed to QEMU.
fn guests_texts(plan: &GuestsPlan) -> impl Iterator<Item = &str> {
    let asked = &plan.asked;
    let features = asked.sides().flat_map(|side| side.subject.without.iter().map(String::as_str));
    let subjects = asked.sides().filter_map(|side| side.subject.kernel.as_ref());
    let subjects = subjects.chain([&asked.host_subject]);
    let subjects = subjects.flat_map(|subject| [subject.kernel.as_str(), &subject.boot_line]);
    let kernels = asked.sides().filter_map(|side| side.kernel.as_ref()).chain([&plan.host_kernel]);
    let sources = kernels.map(|kernel| kernel.source.as_str());
    let kinds = asked.rows.iter().filter_map(|row| match &row.work {
        GuestWork::Raw { kind, .. } => Some(kind.as_str()),
        GuestWork::Boot | GuestWork::Program(_) => None,
    });
    let key = [plan.key.qemu.as_str(), &plan.key.machine_type, &plan.key.machine.cpu];
    features.chain(subjects).chain(sources).chain(kinds).chain(key)
}

/// Refuses plans that ktax does not make, or that would take all memory or never end.
fn check_times(plan: &TimesPlan, threshold_percent: f64) -> Result<(), &'static str> {
    let AskedTimes { loops, pairs, most_pairs, .. } = &plan.asked;
    let within = |value: u32, most: u32| (1..=most).contains(&value);
    let rows = plan.workloads().count();
    first_fault([
        (
            !within(*loops, 1000) || plan.headline.is_empty() || rows > 10_000,
            "it has no loops or no rows, or too many of them",
        ),
        (
            !within(*most_pairs, 10_000) || !within(pairs.unwrap_or(1), 10_000),
            "it has no pairs, or too many of them",
        ),
        (
            !(threshold_percent > 0.0 && threshold_percent <= 100.0),
            "its threshold is not above 0 and at most 100 percent",
        ),
        (plan.workloads().any(|workload| workload.ops == 0), "a row has no operations"),
    ])
}

/// Whether a row's name can be a file name.
fn is_row_name(row: &str) -> bool {
    let is_usual =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-:=,".contains(&byte);
    (1..=100).contains(&row.len()) && row.bytes().all(is_usual)
}

/// Whether this can be the name of a directory that is not hidden.
fn is_plain_name(name: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=100).contains(&name.len()) && name.bytes().all(is_usual) && !name.starts_with('.')
}

/// Whether the text is a SHA-256.
pub(super) fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a terminal only shows the text.
fn is_printable(text: &str) -> bool {
    !text.chars().any(char::is_control)
}
