use std::fs;
use std::path::Path;
use std::process::Command;

use ktax::engine::kvm::allowed_cpus;
use ktax::model::{TimedPair, TimesComparison, fact};

use super::kernel;
use crate::common::{self, KERNEL, ktax, run, scratch, times_plan};

/// An experiment under QEMU's translator: everything works and times mean nothing.
fn compared(sides: &str) -> (TimesComparison, Vec<TimedPair>, String) {
    compared_by(ktax(), sides)
}

fn compared_by(mut ktax: Command, sides: &str) -> (TimesComparison, Vec<TimedPair>, String) {
    let dir = scratch();
    let file = dir.path().join("x.toml");
    let text = format!(
        "title = \"guests\"\nengine = \"kvm\"\nloops = 2\nworkloads = [\"getppid:ops=500\"]\n\
         [machine]\ncpu = \"max\"\naccelerator = \"tcg\"\n{sides}"
    );
    fs::write(&file, text).unwrap();
    let out = dir.path().join("run");
    let ran = run(ktax.arg("compare").arg(&file).arg("--json").arg("--out").arg(&out));
    assert_eq!(ran.status, 4, "{}", ran.stderr);
    let mut pairs = Vec::new();
    while let Ok(pair) = fs::read(out.join(format!("pairs/{:04}.json", pairs.len()))) {
        pairs.push(serde_json::from_slice(&pair).unwrap());
    }
    let text = run(common::ktax().arg("report").arg(&out)).stdout;
    let comparison = common::printed::comparison(&ran.stdout);
    (comparison.times().unwrap().clone(), pairs, text)
}

#[test]
fn a_run_goes_on_with_the_kernel_that_was_planned_or_not_at_all() {
    let dir = scratch();
    let image = dir.path().join("bzImage");
    fs::copy(kernel(), &image).unwrap();
    let out = dir.path().join("run");
    let flags = ["--engine", "kvm", "--change-boot-line", "nosmp", "-w", "getppid", "--kernel"];
    let own = dir.path().join("cache");
    let planned = ktax()
        .arg("plan")
        .args(flags)
        .args([&image, Path::new("--out"), &out])
        .env("KTAX_CACHE", &own)
        .output();
    assert!(planned.unwrap().status.success());
    let mut rebuilt = fs::read(&image).unwrap();
    rebuilt.push(0);
    fs::write(&image, rebuilt).unwrap();
    let gone_on = |cache: &Path| {
        let command = ["run", "--qemu", "/bin/false"];
        run(ktax().args(command).arg(&out).env("KTAX_CACHE", cache))
    };
    // The cache has what was planned: it is QEMU that is missing here.
    let ran = gone_on(&own);
    assert!(ran.stderr.contains("cannot start /bin/false"), "{}", ran.stderr);
    let ran = gone_on(&dir.path().join("other"));
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("another kernel than when the plan was made"), "{}", ran.stderr);
}

#[test]
fn more_cores_than_there_are_is_refused_before_anything_is_made() {
    let dir = scratch();
    let out = dir.path().join("run");
    let of_machine = ["--engine", "kvm", "--kernel", KERNEL, "--cores", "1023"];
    let others = ["--change-boot-line", "nosmp", "-w", "getppid", "--out"];
    for command in ["compare", "plan"] {
        let ran = run(ktax().arg(command).args(of_machine).args(others).arg(&out));
        assert_eq!((ran.status, out.exists()), (2, false), "{}", ran.stderr);
        assert!(ran.stderr.contains("--cores (machine.cores) is 1023"), "{}", ran.stderr);
    }
}

/// ktax as in a container or behind `taskset` that leaves it one CPU.
fn on_cpu(cpu: u32) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu.to_string()]).arg(env!("CARGO_BIN_EXE_ktax"));
    common::own(&mut command);
    command
}

#[test]
fn cpus_that_ktax_may_not_use_are_not_used() {
    let dir = scratch();
    let out = dir.path().join("run");
    let cpus = allowed_cpus().unwrap();
    let guests = ["--engine", "kvm", "--kernel", KERNEL, "--change-boot-line", "nosmp"];
    let plan = |cores: &[&str]| {
        let mut command = on_cpu(cpus[0]);
        command.arg("plan").args(guests).args(["-w", "getppid:ops=500"]).args(cores);
        run(command.arg("--out").arg(&out))
    };
    let ran = plan(&["--cores", "2"]);
    assert_eq!((ran.status, out.exists()), (2, false), "{}", ran.stderr);
    if let [_, other, ..] = cpus[..] {
        assert!(
            ran.stderr.contains("(machine.cores) is 2, but ktax may use only 1 of"),
            "{}",
            ran.stderr
        );
        // A run that began elsewhere does not go on, and says so before a guest is started.
        assert_eq!(plan(&["--cores", "1"]).status, 0);
        fs::write(out.join("cpus.json"), format!("[{other}]")).unwrap();
        let ran = run(on_cpu(cpus[0]).arg("run").arg(&out));
        assert_eq!((ran.status, out.join("pairs/0000.json").exists()), (2, false), "{ran:?}");
        let said =
            format!("CPU {other}, on which this run began, is not among those that ktax may use");
        assert!(ran.stderr.contains(&said), "{}", ran.stderr);
    }
}

#[test]
fn bare_metal_is_this_machine_and_shares_the_one_cpu_that_ktax_may_use() {
    let cpu = *allowed_cpus().unwrap().last().unwrap();
    let sides = format!("[base]\nbare_metal = true\n[change]\nkernel = \"{KERNEL}\"\n");
    let (comparison, pairs, text) = compared_by(on_cpu(cpu), &format!("cpus = 2\n{sides}"));
    assert_eq!(comparison.pairs, 1, "{comparison:?}");
    let boots = &pairs.last().unwrap().boots;
    let here = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(boots.base.facts[fact::KERNEL], here.trim());
    assert!(boots.change.facts.contains_key("accelerator"), "{:?}", boots.change.facts);
    // One vCPU: both run on the same CPU, in every pair.
    let cpu = cpu.to_string();
    assert_eq!(boots.change.facts[fact::VCPU_CPUS], cpu);
    assert!(pairs.iter().all(|pair| pair.boots.base.facts[fact::AFFINITY] == cpu), "{pairs:?}");
    let run = &boots.change.runs["getppid:ops=500"];
    assert!(run.failure.is_none(), "{run:?}");
    // What could not be measured is not said.
    assert!(!text.contains("% of bare metal"), "{text}");
}

#[test]
fn guests_are_told_apart_and_need_no_boot_of_the_machine() {
    let dir = scratch();
    let out = dir.path().join("run");
    let guests = ["--engine", "kvm", "--kernel", KERNEL, "-w", "control-planted:ops=50"];
    let lines = ["--base-boot-line", "quiet", "--change-boot-line", "quiet nosmt"];
    let ran = run(ktax().arg("plan").args(guests).args(lines).arg("--out").arg(&out));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let plan = times_plan(&fs::read_to_string(out.join("plan.json")).unwrap());
    assert_eq!(plan.title, format!("{KERNEL} quiet against {KERNEL} quiet nosmt"));
    let ran = run(ktax().arg("run").arg(&out).args(["--side", "base"]));
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("ktax starts both sides itself"), "{}", ran.stderr);
}

/// A program that leaves a directory and a process behind.
const PROGRAM: &str = r#"
[[program]]
name = "mine"
script = """
mkdir /tmp/left
echo $MINE
cat /tmp/setup /tmp/before
tail -f /dev/null &
"""
env = ["MINE=me"]
ops = 2
setup = "echo 1 > /tmp/setup"
prepare = "rm -rf /tmp/left; echo 2 > /tmp/before"
"#;

#[test]
fn guests_run_a_program_and_a_row_and_a_translator_is_no_clock() {
    let change = format!("[change]\nkernel = \"{KERNEL}\"\nboot_line = \"nosmp\"\n");
    let (comparison, pairs, text) =
        compared(&format!("[base]\nkernel = \"{KERNEL}\"\n{change}{PROGRAM}"));
    assert!(comparison.unfit.unwrap().contains("translator"));
    // Nobody goes on with what cannot be judged.
    assert_eq!((comparison.pairs, pairs.len()), (1, comparison.controls + 1));
    let boots = &pairs.last().unwrap().boots;
    for (boot, ends) in [(&boots.base, false), (&boots.change, true)] {
        let program = &boot.runs["program:mine"];
        assert!(program.failure.is_none() && program.loops_ns.len() == 2, "{program:?}");
        assert_eq!(program.signature["runs"], 1, "{program:?}");
        let row = &boot.runs["getppid:ops=500"];
        assert!(row.loops_ns.len() == 2 && row.failure.is_none(), "{row:?}");
        assert_eq!(row.signature["calls"], 500);
        assert_eq!(boot.facts[fact::BOOT_LINE].ends_with("nosmp"), ends, "{:?}", boot.facts);
    }
    assert!(text.contains("inconclusive"), "{text}");
    let rows = ["program:mine", "getppid:ops=500"].map(|row| text.find(row).unwrap());
    assert!(rows[0] < rows[1], "{text}");
}
