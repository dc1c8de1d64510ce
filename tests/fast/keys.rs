//! A key of an experiment that would do nothing is refused: every key, in every method.

use ktax::model::Error;
use ktax::plan::{Experiment, keys_table};

use crate::common::{ktax, run};

/// An experiment of each method: its name here, its head, its base and its change.
const METHODS: [(&str, &str, &str, &str); 6] = [
    ("the exact engine", "", "kernel = \"x\"\n", "kernel = \"x\"\n"),
    ("the host engine", "engine = \"host\"\nworkloads = [\"pipe\"]\n", "", ""),
    (
        "the kvm engine",
        "engine = \"kvm\"\nworkloads = [\"pipe\"]\n",
        "kernel = \"x\"\n",
        "kernel = \"x\"\n",
    ),
    (
        "guests of a KVM host",
        "host = \"kvm\"\nworkloads = [\"boot\"]\n",
        "kernel = \"x\"\n",
        "kernel = \"x\"\n",
    ),
    (
        "guests of a KVM host for e500v2",
        "host = \"kvm-e500v2\"\nworkloads = [\"raw:all=9\"]\n",
        "",
        "",
    ),
    (
        "guests of a KVM host for arm64",
        "host = \"kvm-arm64\"\nworkloads = [\"raw:hvc=9\"]\n",
        "",
        "",
    ),
];

const COUNTS: &str = "the exact engine";
const TIMES: &str = "timed engines (host and kvm)";
const GUESTS: &str = "guests of a KVM host";

/// Keys outside of the Subjects, a value of each, and what it applies to.
const KEYS: [(&str, &str, &[&str]); 16] = [
    ("layouts", "3", &[COUNTS, GUESTS]),
    ("pairs", "20", &[TIMES]),
    ("most_pairs", "40", &[TIMES]),
    ("loops", "3", &[TIMES]),
    ("allow_differences", "true", &[TIMES]),
    ("secondary", "[\"stat\"]", &[TIMES]),
    ("sweep", "{ ops = [50, 60] }", &[GUESTS, TIMES]),
    ("host_kernel", "\"x\"", &[GUESTS]),
    ("host_config", "[\"CONFIG_A=y\"]", &[GUESTS]),
    ("host_patches", "[\"a.patch\"]", &[GUESTS]),
    ("machine.cpu", "\"max\"", &[COUNTS, TIMES]),
    ("machine.memory_mib", "512", &[COUNTS, TIMES]),
    ("machine.cpus", "1", &[COUNTS, TIMES]),
    ("machine.quantum", "500", &[COUNTS]),
    ("machine.cores", "1", &[TIMES]),
    ("machine.accelerator", "\"kvm\"", &[TIMES]),
];

/// The flag that sets a key, in front of it.
fn named(key: &str) -> String {
    let flag = match key {
        "layouts" | "pairs" | "loops" | "secondary" | "sweep" => &format!("--{key}"),
        "most_pairs" => "--most-pairs",
        "allow_differences" => "--allow-differences",
        "machine.cpu" => "--cpu",
        "machine.memory_mib" => "--memory",
        "machine.cpus" => "--cpus",
        "machine.quantum" => "--quantum",
        "machine.cores" => "--cores",
        "base.bare_metal" => "--bare-metal",
        "base.config" => "--base-config",
        "base.patches" => "--base-patch",
        "base.modules" => "--base-module",
        "change.modules" => "--change-module",
        "base.disk" => "--base-disk",
        "change.disk" => "--change-disk",
        "base.files" => "--base-file",
        "change.files" => "--change-file",
        "base.setup" => "--base-setup",
        "change.setup" => "--change-setup",
        "change.config" => "--config",
        "change.patches" => "--patch",
        "base.start_config" | "change.start_config" => "--start-config",
        "base.tree" | "change.tree" => "--tree",
        "base.sysctl" | "base.thp" | "base.governor" | "base.prefix" => "--base-set",
        "change.sysctl" | "change.thp" | "change.governor" | "change.prefix" => "--change-set",
        other => return other.to_owned(),
    };
    format!("{flag} ({key})")
}

/// Keys of a Subject.
const OF_SUBJECT: [(&str, &str, &[&str]); 16] = [
    ("config", "[\"CONFIG_A=y\"]", &[COUNTS, GUESTS]),
    ("patches", "[\"a.patch\"]", &[COUNTS, GUESTS]),
    ("start_config", "\"base\"", &[COUNTS]),
    ("tree", "\".\"", &[COUNTS]),
    ("bare_metal", "true", &[TIMES]),
    ("sysctl", "{ \"vm.swappiness\" = \"1\" }", &[COUNTS, TIMES]),
    ("modules", "[\"zram\"]", &[COUNTS]),
    ("disk", "{ fs = \"ext4\" }", &[COUNTS]),
    ("files", "[\"README.md\"]", &[COUNTS]),
    ("setup", "\"true\"", &[COUNTS]),
    ("thp", "\"never\"", &[TIMES]),
    ("governor", "\"performance\"", &[TIMES]),
    ("prefix", "[\"env\"]", &[TIMES]),
    ("without", "[\"kvmclock\"]", &[GUESTS]),
    ("cpus", "2", &[GUESTS]),
    ("memory_mib", "128", &[GUESTS]),
];

fn is_of(method: &str, applies_to: &str) -> bool {
    match applies_to {
        TIMES => method.ends_with(" engine") && method != COUNTS,
        GUESTS => method.starts_with(GUESTS),
        other => method == other,
    }
}

/// Reads an experiment with one more line at its head, in its base or in its change.
fn read(method: (&str, &str, &str, &str), more: [&str; 3]) -> Result<Experiment, Error> {
    let (_, head, base, change) = method;
    let [of_head, of_base, of_change] = more;
    let text = format!(
        "title = \"x\"\nsame = true\n{of_head}\n{head}\
         [base]\n{base}{of_base}\n[change]\n{change}{of_change}\n"
    );
    Experiment::parse(&text, "x.toml")
}

/// Checks that a key is refused where it does not apply, and says so.
fn check(
    method: (&str, &str, &str, &str),
    key: &str,
    applies_to: &[&str],
    found: Result<Experiment, Error>,
) {
    let uses = method.0;
    let mut applies = applies_to.iter().any(|name| is_of(uses, name));
    let mut where_it_does = applies_to.join(" and ");
    if key.starts_with("machine.") && uses == "the host engine" {
        (applies, where_it_does) = (false, where_it_does.replace(TIMES, "the kvm engine"));
    }
    let named = named(key);
    let message = format!(
        "{named} only applies to {where_it_does}, and this experiment uses {uses}; remove it"
    );
    match found {
        // Guests of a board refuse x86 keys with a message of their own.
        Err(error) if applies && error.to_string().contains(", and this experiment uses ") => {
            assert!(error.to_string().contains("to host = \"kvm\", "), "{key}: {error}");
            assert!([METHODS[4].0, METHODS[5].0].contains(&uses), "{uses}: {key}");
        }
        Ok(_) if !applies => panic!("{uses} takes {key}"),
        Err(error) if !applies => assert_eq!(error.to_string(), message),
        _ => {}
    }
}

#[test]
fn the_experiments_themselves_are_taken() {
    for method in METHODS {
        read(method, [""; 3]).unwrap_or_else(|error| panic!("{}: {error}", method.0));
    }
}

#[test]
fn a_key_of_another_method_is_refused_with_what_to_do() {
    for method in METHODS {
        for (key, value, applies_to) in KEYS {
            let line = format!("{key} = {value}");
            check(method, key, applies_to, read(method, [&line, "", ""]));
        }
        for (key, value, applies_to) in OF_SUBJECT {
            let line = format!("{key} = {value}");
            let dotted = |side: &str| format!("{side}.{key}");
            check(method, &dotted("base"), applies_to, read(method, ["", &line, ""]));
            check(method, &dotted("change"), applies_to, read(method, ["", "", &line]));
        }
    }
}

#[test]
fn a_host_has_no_timed_engine() {
    let plan_with = |engine: &str| {
        let head = format!("engine = \"{engine}\"");
        read(METHODS[3], [&head, "", ""]).map(drop).map_err(|error| error.to_string())
    };
    let text = "--engine (engine) only applies to an experiment without host, and this experiment \
                uses guests of a KVM host; remove it";
    assert_eq!(plan_with("kvm"), Err(text.to_owned()));
    assert_eq!(plan_with("host"), Err(text.to_owned()));
}

#[test]
fn the_flags_that_messages_name_are_flags() {
    let help = run(ktax().args(["compare", "--help"])).stdout;
    let of_subject =
        OF_SUBJECT.iter().flat_map(|(key, ..)| ["base", "change"].map(|side| (side, key)));
    let keys = KEYS.iter().map(|(key, ..)| (*key).to_owned());
    let keys = keys.chain(of_subject.map(|(side, key)| format!("{side}.{key}")));
    let named: Vec<String> = keys.map(|key| named(&key)).collect();
    let flags: Vec<&str> =
        named.iter().filter_map(|part| part.split_once(" (")).map(|part| part.0).collect();
    assert!(flags.len() > 15, "{flags:?}");
    for flag in flags {
        assert!(
            help.contains(&format!("{flag} ")) || help.contains(&format!("{flag}\n")),
            "{flag}"
        );
    }
}

#[test]
fn a_search_has_no_flags_of_times() {
    let help = run(ktax().args(["bisect", "start", "--help"])).stdout;
    assert!(help.contains("--change-boot-line") && !help.contains("--pairs"), "{help}");
    let dir = crate::common::scratch();
    let file = dir.path().join("x.toml");
    let text = "title = \"x\"\nengine = \"host\"\nworkloads = [\"pipe\"]\n[base]\n[change]\nthp = \
                \"never\"\n";
    std::fs::write(&file, text).unwrap();
    let ran = run(ktax().args(["bisect", "start"]).arg(&file)).exits(2);
    ran.says("remove the keys engine and host");
}

/// BLESS=1 writes it.
#[test]
fn the_documentation_has_all_keys() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/compare.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once("| Key | Flag | Of | Meaning |").unwrap();
    let (_, after) = rest.split_once("\n\n").unwrap();
    let now = format!("{before}{}\n{after}", keys_table());
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &now).unwrap();
    }
    assert!(page == now || std::env::var_os("BLESS").is_some(), "BLESS=1 writes the table of keys");
}
