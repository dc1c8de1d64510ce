//! Keys of experiment files: the methods that each applies to, and the flag that sets it.

use crate::error::PlanError;
use crate::experiment::method_of;
use crate::file::{ExperimentFile, MachineKeys, SubjectKeys};
use ktax_engine::{ENGINES, EngineEntry, Measures};
use ktax_model::{HostKind, Method, RunsOn};

const COUNTS: &str = "the exact engine";
const GUESTS: &str = "guests of a KVM host";

/// Refuses a key that belongs to another method and so would do nothing.
pub fn check_keys(file: &ExperimentFile) -> Result<(), PlanError> {
    check_keys_of_method(file, method_of(file))
}

/// Refuses a key that this method does not have.
pub(super) fn check_keys_of_method(file: &ExperimentFile, method: Method) -> Result<(), PlanError> {
    let uses = match (file.host, file.engine) {
        (Some(host), _) => host_description(host),
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
    let is_here = file.engine.is_some_and(|engine| engine.runs_on == RunsOn::RunningKernel);
    for (key, is_set, methods) in file_keys(file) {
        if is_set && !methods.contains(&method) {
            return refuse(key.into(), &method_names(methods));
        }
        // The machine of the running kernel cannot be chosen.
        if is_set && is_here && key.starts_with("machine.") {
            let counts = methods.contains(&Method::Counts).then(|| COUNTS.to_owned());
            let guest_engines = timed_engines(|engine| engine.runs_on == RunsOn::Guests);
            let guest_engine = format!("the {guest_engines} engine");
            return refuse(
                key.into(),
                &counts.into_iter().chain([guest_engine]).collect::<Vec<_>>(),
            );
        }
    }
    let sides = [("base", Some(&file.base)), ("change", file.change.as_ref())];
    for (side, keys) in sides.into_iter().filter_map(|(side, keys)| Some((side, keys?))) {
        for (key, is_set, methods) in subject_keys(keys) {
            if is_set && !methods.contains(&method) {
                return refuse(format!("{side}.{key}"), &method_names(methods));
            }
        }
    }
    Ok(())
}

/// Words for an experiment with this host, in messages.
pub(super) fn host_description(host: HostKind) -> String {
    match host.name().strip_prefix("kvm-") {
        Some(board) => format!("{GUESTS} for {board}"),
        None => GUESTS.to_owned(),
    }
}

fn method_names(methods: &[Method]) -> Vec<String> {
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

type MethodKey = (&'static str, bool, &'static [Method]);

fn file_keys(file: &ExperimentFile) -> Vec<MethodKey> {
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

fn subject_keys(keys: &SubjectKeys) -> Vec<MethodKey> {
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

/// Flags that set a key, for messages: whoever typed a flag need not know the key.
const FLAGS: [(&str, &str); 49] = [
    ("engine", "--engine"),
    ("layouts", "--layouts"),
    ("same", "--same"),
    ("threshold_percent", "--threshold"),
    ("program", "-- CMD"),
    ("hooks", "--setup or --prepare"),
    ("workloads_from", "--workloads"),
    ("files", "--file"),
    ("root", "--root"),
    ("setup", "--setup"),
    ("prepare", "--prepare"),
    ("user", "--user"),
    ("ops_from", "--ops-from"),
    ("sizes", "--sizes"),
    ("modules", "--module"),
    ("disk", "--disk"),
    ("pairs", "--pairs"),
    ("most_pairs", "--most-pairs"),
    ("loops", "--loops"),
    ("allow_differences", "--allow-differences"),
    ("secondary", "--secondary"),
    ("sweep", "--sweep"),
    ("machine.cpu", "--cpu"),
    ("machine.memory_mib", "--memory"),
    ("machine.cpus", "--cpus"),
    ("machine.quantum", "--quantum"),
    ("machine.model", "--model"),
    ("machine.cores", "--cores"),
    ("base.bare_metal", "--bare-metal"),
    ("base.boot_line", "--base-boot-line"),
    ("change.boot_line", "--change-boot-line"),
    ("base.config", "--base-config"),
    ("base.patches", "--base-patch"),
    ("change.config", "--config"),
    ("change.patches", "--patch"),
    ("base.start_config", "--start-config"),
    ("change.start_config", "--start-config"),
    ("base.tree", "--tree"),
    ("change.tree", "--tree"),
    ("base.modules", "--base-module"),
    ("change.modules", "--change-module"),
    ("base.disk", "--base-disk"),
    ("change.disk", "--change-disk"),
    ("base.files", "--base-file"),
    ("change.files", "--change-file"),
    ("base.setup", "--base-setup"),
    ("change.setup", "--change-setup"),
    ("base.", "--base-set"),
    ("change.", "--change-set"),
];

/// The keys that `--base-set` and `--change-set` set.
const SET_KEYS: [&str; 4] = ["sysctl", "thp", "governor", "prefix"];

/// Name of a key in messages: after the flag that sets it, if there is one.
pub(super) fn with_flag(key: &str) -> String {
    let is_set = key.rsplit('.').next().is_some_and(|last| SET_KEYS.contains(&last));
    let is_key =
        |known: &str| known == key || (is_set && known.ends_with('.') && key.starts_with(known));
    match FLAGS.iter().find(|(known, _)| is_key(known)) {
        Some((_, flag)) => format!("{flag} ({key})"),
        None => key.to_owned(),
    }
}
