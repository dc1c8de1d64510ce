//! A campaign on a real Slurm of two nodes.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::files::files_below;
use crate::common::{KERNEL, Need, QUICK_BOOT, Ran, isolate, ktax, require, run, scratch};

const ROWS: &str =
    r#"["getppid", "stat", "open-close", "pipe", "read-1", "write-1", "fork-exit", "fstat"]"#;

/// 40 shards: five boot lines, eight rows.
fn plan(dir: &Path, out: &str, more: &[&str]) -> Ran {
    let lines = ["audit=0", "audit=1", "lsm=capability", "quiet", "nosmap"];
    let subject = |line| format!("{{ kernel = {KERNEL:?}, boot_line = \"{QUICK_BOOT} {line}\" }}");
    let subjects = lines.map(subject).join(", ");
    let text =
        format!("title = \"A fleet\"\nlayouts = 2\nworkloads = {ROWS}\nsubjects = [{subjects}]\n");
    fs::write(dir.join("fleet.toml"), text).unwrap();
    let words = ["campaign", "plan", "fleet.toml", "--out", out, "--no-store"];
    run(ktax().args(words).args(more).current_dir(dir))
}

#[test]
fn a_fleet_on_slurm_gives_the_bytes_of_one_machine() {
    let has = |program: &str| {
        ["/usr/sbin", "/usr/bin"].iter().any(|dir| Path::new(dir).join(program).exists())
    };
    let has_slurm = ["slurmctld", "slurmd", "munged", "sbatch"].iter().all(|program| has(program));
    let why = "slurmctld, slurmd or munge is missing; scripts/setup-slurm.sh installs them";
    if !require(Need::Root, rustix::process::geteuid().is_root(), "a cluster needs root")
        || !require(Need::Slurm, has_slurm, why)
    {
        return;
    }
    let dir = scratch();
    plan(dir.path(), "fleet", &["--shards", "40"]).says("in 40 shards");
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut cluster = Command::new(data.join("slurm-cluster.sh"));
    let ktax = ktax().get_program().to_owned();
    cluster.arg(dir.path().join("slurm")).arg(data.join("slurm-fleet.sh")).arg(ktax);
    let ran = run(isolate(&mut cluster).arg(dir.path().join("fleet"))).exits(0);
    ran.prints("killed 5; drained n2; requeued ");
    assert!(!ran.stdout.contains("requeued \n"), "{}", ran.stdout);
    ran.prints("all of 40 measurements done");
    // The reference run is on one machine.
    assert_eq!(plan(dir.path(), "one", &[]).status, 0);
    let campaign = |words: &[&str]| {
        run(crate::common::ktax().arg("campaign").args(words).current_dir(dir.path()))
    };
    assert_eq!(campaign(&["run", "one", "--no-store"]).status, 0);
    let [fleet, local] = ["fleet", "one"].map(|out| {
        let ran = campaign(&["collect", out, "--no-store", "--json"]).exits(4);
        ran.stdout
    });
    assert!(fleet == local);
    for part in ["store", "site"] {
        let files_of = |out: &str| files_below(&dir.path().join(out).join(part));
        assert!(files_of("fleet") == files_of("one"), "{part}");
    }
}
