//! Costly instructions: what a mitigation, or another clock, adds to a system call, exactly.

use std::fs;
use std::path::Path;

use crate::common::require::newer_qemu;
use crate::common::rows::costly_of;
use crate::common::{KERNEL, QUICK_BOOT, compare, ktax, printed, row, run, scratch};
use crate::program::compile;
use ktax::model::{Comparison, Costly};

const GETPPID: &str = "getppid:ops=500";

/// A CPU that has the faults whose mitigations are asked about.
const CPU: &str = "Skylake-Client";

/// Under one layout: a layout decides nothing of what is looked for here.
fn compared(dir: &Path, words: [&str; 2], cpu: &str) -> Comparison {
    let (ran, comparison) =
        compare(&dir.join("out"), words, &["-w", GETPPID, "--layouts", "1", "--cpu", cpu]);
    assert!(matches!(ran.status, 0 | 4), "{}", ran.stderr);
    comparison
}

#[test]
fn page_table_isolation_loads_cr3_twice_in_each_call_in_the_functions_that_do() {
    let dir = scratch();
    let comparison = compared(dir.path(), ["pti=off", ""], CPU);
    let row = row(&comparison, GETPPID);
    assert_eq!(costly_of(row, |effect| effect.delta.abs() > 0.5), [(Costly::Cr3Write, 2.0)]);
    let effect = row.effect(Costly::Cr3Write.name()).unwrap();
    assert_eq!((effect.base, effect.change), (0.0, 2.0));
    // One where the call enters the kernel, and one where it leaves, each on a path of its own.
    let profile = dir.path().join(format!("out/boots/001-change/runs/{GETPPID}.profile.tsv"));
    let profile = fs::read_to_string(profile).unwrap();
    let lines = |begin: &str| -> Vec<String> {
        profile.lines().filter_map(|line| line.strip_prefix(begin)).map(str::to_owned).collect()
    };
    let functions = ["entry_SYSCALL_64", "syscall_return_via_sysret"];
    assert_eq!(lines("costly\tprocess\tcr3-write\t500\t"), functions);
    assert_eq!(lines("path-costly\t500\tcr3-write"), [""; 2]);
    // Costly instructions decide nothing: all instructions do.
    assert_eq!(row.counts().unwrap().decided_by, "instructions");
}

/// The kinds that differ under the only layout, each with its delta per operation.
fn differing(cpu: &str) -> Vec<(Costly, f64)> {
    let dir = scratch();
    let comparison = compared(dir.path(), ["mitigations=off", ""], cpu);
    // Without a timer tick more or less.
    costly_of(row(&comparison, GETPPID), |effect| effect.delta.abs() > 0.5)
}

#[test]
fn which_mitigations_are_counted_depends_on_the_cpu() {
    assert_eq!(differing("max"), []);
    let [cr3, verw, thunks] = differing(CPU)[..] else { panic!("three kinds") };
    assert_eq!([cr3, verw], [(Costly::Cr3Write, 2.0), (Costly::Verw, 1.0)]);
    assert!(thunks.0 == Costly::ReturnThunk && thunks.1 > 1.0, "{thunks:?}");
}

/// Both sides as `base` and `change` of an experiment, with these words on their boot lines.
fn sides(words: [&str; 2]) -> String {
    let side = |words| format!("{{ kernel = \"{KERNEL}\", boot_line = \"{QUICK_BOOT} {words}\" }}");
    format!("base = {}\nchange = {}\n", side(words[0]), side(words[1]))
}

/// A program of the C file `text`, which does 500 of what it is named after.
fn programmed(dir: &Path, name: &str, text: &str, words: [&str; 2], more: &[&str]) -> Comparison {
    compile(dir, name, text, &["-static"]);
    let program = format!("[[program]]\nname = \"{name}\"\nops = 500\ncommand = [\"./{name}\"]\n");
    let text = format!("title = \"t\"\nlayouts = 1\n{}{program}", sides(words));
    fs::write(dir.join("e.toml"), text).unwrap();
    let command = ["compare", "e.toml", "--json", "--out", "out"];
    let ran = run(ktax().current_dir(dir).args(command).args(more));
    assert!(!ran.stdout.is_empty(), "{}", ran.stderr);
    printed::comparison(&ran.stdout)
}

/// Calls of a clock, which on one side is read from a device.
fn clocks(dir: &Path, more: &[&str]) -> Comparison {
    let clocks = ["clocksource=tsc", "clocksource=hpet"];
    programmed(dir, "clock", include_str!("costly/clock.c"), clocks, more)
}

/// How often a device's memory is accessed in a call, on each side; None: nobody looked.
fn accesses(comparison: &Comparison) -> Option<(f64, f64)> {
    comparison.rows[0].effect(Costly::Mmio.name()).map(|effect| (effect.base, effect.change))
}

#[test]
#[ignore = "boots four guests of its own: make test-long"]
fn a_clock_that_is_a_device_is_read_once_in_each_call() {
    let dir = scratch();
    let modelled = clocks(dir.path(), &["--model", "skylake"]);
    assert_eq!(accesses(&modelled), Some((0.0, 1.0)));
    let profile = dir.path().join("out/boots/001-change/runs/program:clock.profile.tsv");
    let profile = fs::read_to_string(profile).unwrap();
    assert!(profile.contains("\ncostly\tprocess\tmmio\t500\tread_hpet\n"), "{profile}");
    let dir = scratch();
    assert_eq!(accesses(&clocks(dir.path(), &[])), None);
}

/// Without FSGSBASE the kernel writes the base of a program's GS by the number of a register,
/// C0000102: KERNEL_GS_BASE.
fn bases(dir: &Path, more: &[&str]) -> Comparison {
    let lines = ["", "nofsgsbase"];
    programmed(dir, "bases", include_str!("costly/bases.c"), lines, more)
}

#[test]
#[ignore = "boots four guests of its own: make test-long"]
fn a_register_that_is_written_is_known_by_its_number() {
    let Some(qemu) = newer_qemu() else { return };
    let dir = scratch();
    let comparison = bases(dir.path(), &["--qemu", qemu.to_str().unwrap()]);
    let effect = comparison.rows[0].effect(Costly::Wrmsr.name()).unwrap();
    assert_eq!((effect.base, effect.change), (0.0, 1.0));
    let profile = dir.path().join("out/boots/001-change/runs/program:bases.profile.tsv");
    let profile = fs::read_to_string(profile).unwrap();
    let line = profile.lines().find(|line| line.starts_with("msr\t")).unwrap();
    assert!(line.starts_with("msr\tprocess\twrmsr\tc0000102\t500\t"), "{profile}");
    // QEMU 7.2 does not let it be read.
    let dir = scratch();
    let comparison = bases(dir.path(), &[]);
    assert_eq!(comparison.rows[0].effect(Costly::Wrmsr.name()).unwrap().change, 1.0);
    let profile = dir.path().join("out/boots/001-change/runs/program:bases.profile.tsv");
    assert!(!fs::read_to_string(profile).unwrap().contains("\nmsr\t"));
}
