//! Keys as messages name them.

/// The flags that set a key: who typed one need not know the key.
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
const OF_SET: [&str; 4] = ["sysctl", "thp", "governor", "prefix"];

/// A key as messages name it: behind the flag that sets it, if there is one.
pub(super) fn with_flag(key: &str) -> String {
    let is_set = key.rsplit('.').next().is_some_and(|last| OF_SET.contains(&last));
    let of =
        |known: &str| known == key || (is_set && known.ends_with('.') && key.starts_with(known));
    match FLAGS.iter().find(|(known, _)| of(known)) {
        Some((_, flag)) => format!("{flag} ({key})"),
        None => key.to_owned(),
    }
}
