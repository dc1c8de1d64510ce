//! A global spinlock around getppid, built into the kernel: one CPU pays its instructions, and four
//! wait for it, in the functions of the lock and nowhere else, and pass its cache line around.

use std::fs;

use ktax::model::{CacheLine, Comparison, Effect, Memory, SPIN_WAIT, TRANSFERS, Verdict};

use super::{SOURCE, hunk_of_getppid};
use crate::common::require::newer_qemu as newer;
use crate::common::{ktax, printed, row, run, scratch};

const LOCK: &str = "\tstatic DEFINE_SPINLOCK(planted_lock);\n\n\tspin_lock(&planted_lock);\n\
    \tasm volatile(\".rept 100\\n\\tnop\\n\\t.endr\");\n\tspin_unlock(&planted_lock);";

const ROW: &str = "scale:call=getppid,cpus=4,ops=64000";

/// Of its 100 instructions and of the lock, where there is no need to wait.
const OWN: [&str; 3] = ["__do_sys_getppid", "_raw_spin_lock", "_raw_spin_unlock"];

const SLOW_PATH: &str = "queued_spin_lock_slowpath";

fn carried(effect: &Effect) -> Vec<&str> {
    effect.functions.iter().map(|one| one.function.as_str()).collect()
}

#[test]
fn a_planted_lock_is_found_by_one_cpu_as_instructions_and_by_four_as_waits_for_its_line() {
    let Some(qemu) = newer() else { return };
    let dir = scratch();
    fs::write(dir.path().join("lock.patch"), hunk_of_getppid(LOCK)).unwrap();
    let subject = format!("kernel = \"{SOURCE}\", config = [\"CONFIG_KALLSYMS_ALL=y\"]");
    let text = format!(
        "title = \"t\"\nbase = {{ {subject} }}\n\
         change = {{ {subject}, patches = [\"lock.patch\"] }}\n"
    );
    fs::write(dir.path().join("e.toml"), text).unwrap();
    let compared = |args: &[&str], out: &str| -> Comparison {
        let command = ["compare", "e.toml", "--json", "--out", out];
        let ran = run(ktax().current_dir(dir.path()).args(command).args(args));
        assert_eq!(ran.status, 3, "{}\n{}", ran.stderr, ran.stdout);
        printed::comparison(&ran.stdout)
    };

    let one = compared(&["-w", "getppid"], "one");
    let effect = &row(&one, "getppid").effects()[0];
    assert_eq!(effect.verdict, Verdict::Slower);
    assert!((100.0..200.0).contains(&effect.delta), "{effect:?}");
    let others: Vec<&str> =
        carried(effect).into_iter().filter(|name| !OWN.contains(name)).collect();
    assert_eq!(others, Vec::<&str>::new());

    let qemu = qemu.display().to_string();
    let four = ["-w", ROW, "--cpus", "4", "--model", "coherence", "--qemu", &qemu];
    let four = compared(&four, "four");
    let row = row(&four, ROW);
    assert_eq!(row.verdict, Verdict::Slower);
    let waits = row.effect(SPIN_WAIT).unwrap();
    let [none, some] = [&waits.samples.base, &waits.samples.change];
    // A CPU in four waits for others half of its time; without the lock, for hardly anything.
    assert!(none.iter().all(|wait| *wait * 100 < *some.iter().min().unwrap()), "{waits:?}");
    let in_slow_path: u64 = row.counts().unwrap().waits.as_ref().unwrap().change[SLOW_PATH];
    assert!(in_slow_path * 100 >= some.iter().min().unwrap() * 99, "{in_slow_path} of {some:?}");
    let transfers = row.effect(TRANSFERS).unwrap();
    assert_eq!(transfers.verdict, Verdict::Slower);
    let lines = row.counts().unwrap().model_lines.as_ref().unwrap();
    // The lock itself, and where each CPU waits for its turn.
    let is_of_lock = |line: &CacheLine| match line.memory {
        Memory::Data => line.name.starts_with("planted_lock"),
        memory => memory == Memory::Percpu && line.name == "qnodes",
    };
    let of_lock = |side: &[CacheLine]| -> u64 {
        let named = side.iter().filter(|line| is_of_lock(line));
        named.map(|line| line.transfers).sum()
    };
    assert_eq!(of_lock(&lines.base), 0);
    // Nearly all that is more is this line's.
    let more =
        transfers.samples.change[transfers.layout] - transfers.samples.base[transfers.layout];
    assert!(of_lock(&lines.change) * 10 >= more * 9, "{lines:?}");
    let mut most = transfers.functions.iter().filter(|one| one.transfers.change > more / 20);
    assert!(most.all(|one| OWN.contains(&&*one.function) || one.function == SLOW_PATH));
}
