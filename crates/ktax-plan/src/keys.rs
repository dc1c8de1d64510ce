//! Which keys only some methods have.

use super::error::PlanError;
use super::file::{ExperimentFile, MachineKeys, SubjectKeys};
use super::method::Method;
use ktax_engine::{ENGINES, EngineEntry, Measures};
use ktax_model::{HostKind, RunsOn};

const COUNTS: &str = "the exact engine";
const GUESTS: &str = "guests of a KVM host";

/// Refuses a key that would do nothing.
///
/// # Errors
/// A key belongs to another method.
pub fn check_keys(file: &ExperimentFile) -> Result<(), PlanError> {
    check(file, Method::of(file))
}

/// Refuses a key that this method does not have.
pub(super) fn check(file: &ExperimentFile, method: Method) -> Result<(), PlanError> {
    let uses = match (file.host, file.engine) {
        (Some(host), _) => uses(host),
        (None, Some(engine)) => format!("the {} engine", engine.name),
        (None, None) => COUNTS.to_owned(),
    };
    let refuse = |key: String, applies_to: &[String]| {
        let uses = uses.clone();
        Err(PlanError::Misplaced { key, applies_to: applies_to.join(" and "), uses })
    };
    if method == Method::Guests && file.engine.is_some_and(is_timed) {
        return refuse("engine".into(), &["an experiment without host".into()]);
    }
    let is_here = file.engine.is_some_and(|it| it.runs_on == RunsOn::RunningKernel);
    for (key, is_set, methods) in of_file(file) {
        if is_set && !methods.contains(&method) {
            return refuse(key.into(), &names(methods));
        }
        // The running kernel's machine is what it is.
        if is_set && is_here && key.starts_with("machine.") {
            let counts = methods.contains(&Method::Counts).then(|| COUNTS.to_owned());
            let of_guests = timed_engines(|it| it.runs_on == RunsOn::Guests);
            let of_guests = format!("the {of_guests} engine");
            return refuse(key.into(), &counts.into_iter().chain([of_guests]).collect::<Vec<_>>());
        }
    }
    let sides = [("base", Some(&file.base)), ("change", file.change.as_ref())];
    for (side, keys) in sides.into_iter().filter_map(|(side, keys)| Some((side, keys?))) {
        for (key, is_set, methods) in of_subject(keys) {
            if is_set && !methods.contains(&method) {
                return refuse(format!("{side}.{key}"), &names(methods));
            }
        }
    }
    Ok(())
}

/// What an experiment with this host uses, in messages.
pub(super) fn uses(host: HostKind) -> String {
    match host.name().strip_prefix("kvm-") {
        Some(board) => format!("{GUESTS} for {board}"),
        None => GUESTS.to_owned(),
    }
}

fn names(methods: &[Method]) -> Vec<String> {
    let name = |method: &Method| match method {
        Method::Counts => COUNTS.to_owned(),
        Method::Times => format!("timed engines ({})", timed_engines(|_| true)),
        Method::Guests => GUESTS.to_owned(),
    };
    methods.iter().map(name).collect()
}

fn is_timed(engine: &EngineEntry) -> bool {
    matches!(engine.measures, Measures::Times { .. })
}

/// The names of those timed engines: `host and kvm`.
fn timed_engines(which: fn(&EngineEntry) -> bool) -> String {
    let timed = ENGINES.iter().filter(|engine| is_timed(engine) && which(engine));
    timed.map(|engine| engine.name).collect::<Vec<_>>().join(" and ")
}

type Key = (&'static str, bool, &'static [Method]);

fn of_file(file: &ExperimentFile) -> Vec<Key> {
    use Method::{Counts, Guests, Times};
    let MachineKeys { cpu, memory_mib, cpus, quantum, model, cores, accelerator } = &file.machine;
    vec![
        ("layouts", file.layouts.is_some(), &[Counts, Guests]),
        ("workloads_from", file.workloads_from.is_some(), &[Counts]),
        ("modules", !file.modules.is_empty(), &[Counts]),
        ("disk", file.disk.is_some(), &[Counts]),
        ("hooks", file.hooks.is_some(), &[Counts]),
        ("program", !file.program.is_empty(), &[Counts, Times]),
        ("pairs", file.pairs.is_some(), &[Times]),
        ("most_pairs", file.most_pairs.is_some(), &[Times]),
        ("loops", file.loops.is_some(), &[Times]),
        ("allow_differences", file.allow_differences.is_some(), &[Times]),
        ("secondary", !file.secondary.is_empty(), &[Times]),
        ("sweep", !file.sweep.is_empty(), &[Guests, Times]),
        ("host_kernel", file.host_kernel.is_some(), &[Guests]),
        ("host_config", !file.host_config.is_empty(), &[Guests]),
        ("host_patches", !file.host_patches.is_empty(), &[Guests]),
        ("machine.cpu", cpu.is_some(), &[Counts, Times]),
        ("machine.memory_mib", memory_mib.is_some(), &[Counts, Times]),
        ("machine.cpus", cpus.is_some(), &[Counts, Times]),
        ("machine.quantum", quantum.is_some(), &[Counts]),
        ("machine.model", model.is_some(), &[Counts]),
        ("machine.cores", cores.is_some(), &[Times]),
        ("machine.accelerator", accelerator.is_some(), &[Times]),
    ]
}

fn of_subject(keys: &SubjectKeys) -> Vec<Key> {
    use Method::{Counts, Guests, Times};
    vec![
        ("config", !keys.config.is_empty(), &[Counts, Guests]),
        ("patches", !keys.patches.is_empty(), &[Counts, Guests]),
        ("start_config", keys.start_config.is_some(), &[Counts]),
        ("tree", keys.tree.is_some(), &[Counts]),
        ("bare_metal", keys.bare_metal, &[Times]),
        ("sysctl", !keys.sysctl.is_empty(), &[Counts, Times]),
        ("modules", !keys.modules.is_empty(), &[Counts]),
        ("disk", keys.disk.is_some(), &[Counts]),
        ("files", !keys.files.is_empty(), &[Counts]),
        ("setup", keys.setup.is_some(), &[Counts]),
        ("thp", keys.thp.is_some(), &[Times]),
        ("governor", keys.governor.is_some(), &[Times]),
        ("prefix", !keys.prefix.is_empty(), &[Times]),
        ("without", !keys.without.is_empty(), &[Guests]),
        ("cpus", keys.cpus.is_some(), &[Guests]),
        ("memory_mib", keys.memory_mib.is_some(), &[Guests]),
    ]
}
