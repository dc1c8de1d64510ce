//! Needs of tests. A test whose need is missing is skipped, and `make test` lists it on its last
//! lines. If `KTAX_REQUIRE` names the need, the test fails instead.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;
use std::path::PathBuf;

use super::files::has;

/// The needs, by the names that `KTAX_REQUIRE` has for them, separated by commas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The user is root.
    Root,
    /// /dev/kvm can be opened.
    Kvm,
    /// QEMU 10 or newer is in target/qemu-backports.
    Qemu10,
    /// Namespaces of a user's own, in which it may mount and write settings.
    Namespaces,
    /// Every CPU of the machine may be used.
    Cpus,
    /// The hypervisor leaves the CPUs to this machine.
    Quiet,
    /// kernel.perf_event_paranoid is as the test needs it.
    Paranoid,
    /// Linux 6.0 or newer.
    Linux6,
    /// The kernels and the QEMU that a document was written with.
    Versions,
    /// QEMU, compiler and kernel of another architecture.
    Hosts,
    /// Chromium, and a reader of PDF.
    Browser,
    /// axe-core, the rules of accessibility.
    Axe,
    /// The programs of Slurm.
    Slurm,
    /// Programs that make a clean root of Debian, and a Debian package.
    Roots,
    /// Programs that are counted, and valgrind.
    Programs,
    /// The tree has a page of results: `docs/published`.
    Publication,
}

const ALL: [(&str, Need); 16] = [
    ("root", Need::Root),
    ("kvm", Need::Kvm),
    ("qemu10", Need::Qemu10),
    ("namespaces", Need::Namespaces),
    ("cpus", Need::Cpus),
    ("quiet", Need::Quiet),
    ("paranoid", Need::Paranoid),
    ("linux6", Need::Linux6),
    ("versions", Need::Versions),
    ("hosts", Need::Hosts),
    ("browser", Need::Browser),
    ("axe", Need::Axe),
    ("slurm", Need::Slurm),
    ("roots", Need::Roots),
    ("programs", Need::Programs),
    ("publication", Need::Publication),
];

/// The needs that a value of `KTAX_REQUIRE` names.
pub fn named(value: &str) -> Result<Vec<Need>, String> {
    let words = value.split(',').map(str::trim).filter(|word| !word.is_empty());
    let need = |word: &str| {
        let found = ALL.iter().find(|(name, _)| *name == word).map(|(_, need)| *need);
        let names = ALL.map(|(name, _)| name).join(", ");
        found.ok_or_else(|| format!("KTAX_REQUIRE names {word:?}; give some of {names}"))
    };
    words.map(need).collect()
}

/// Whether the test can run. If not, it is listed as skipped, or fails where it is required.
#[track_caller]
pub fn require(need: Need, is_there: bool, why: impl Display) -> bool {
    if is_there {
        return true;
    }
    let required = std::env::var("KTAX_REQUIRE").unwrap_or_default();
    let is_required = named(&required).unwrap_or_else(|error| panic!("{error}")).contains(&need);
    assert!(!is_required, "KTAX_REQUIRE={required} requires it, but: {why}");
    let (name, _) = ALL.iter().find(|(_, listed)| *listed == need).unwrap();
    let line = format!("skipped: {} ({name}: {why})\n", test());
    print!("{line}");
    let list = concat!(env!("CARGO_TARGET_TMPDIR"), "/skipped");
    let mut list = OpenOptions::new().append(true).create(true).open(list).unwrap();
    list.write_all(line.as_bytes()).unwrap();
    false
}

/// The running test: libtest names its threads so. With one thread it runs in the first one.
#[track_caller]
fn test() -> String {
    match std::thread::current().name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => Location::caller().to_string(),
    }
}

/// Whether all of these programs are installed.
#[track_caller]
pub fn are_there(programs: &[&str]) -> bool {
    let missing: Vec<&str> = programs.iter().copied().filter(|program| !has(program)).collect();
    let why = format!("{} missing; scripts/setup-programs.sh installs it", missing.join(" and "));
    require(Need::Programs, missing.is_empty(), why)
}

/// The QEMU that `make newer-qemu` unpacks; without it a test is reported as skipped.
#[track_caller]
pub fn newer_qemu() -> Option<PathBuf> {
    let unpacked = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../qemu-backports");
    let program = unpacked.join("qemu-system-x86_64");
    let why = "no newer QEMU here; `make newer-qemu` fetches it";
    require(Need::Qemu10, program.is_file(), why).then_some(program)
}
