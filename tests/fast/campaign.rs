//! A campaign whose store lost what it had: nothing is missing in silence.

use std::fs;
use std::path::Path;

use ktax::model::{CampaignPlan, CampaignSubject, CampaignUnit, FORMAT, Measurement, Shard};
use ktax::rundir::CampaignDir;
use ktax::store::Store;

use crate::common::{Ran, ktax, run, scratch};
use crate::stored::generated::{Made, measurement};

const ROWS: [&str; 2] = ["getppid", "stat"];
const RELEASES: [&str; 2] = ["6.1.1", "6.1.2"];

/// Both rows of both kernels.
fn all_measurements() -> Vec<Vec<Measurement>> {
    let measurements =
        |release| ROWS.map(|row| measurement(&Made::new(row, release, 100))).to_vec();
    RELEASES.map(measurements).to_vec()
}

/// A campaign that was planned when a store had all but one row of one kernel, with all measured.
fn campaign(root: &Path) -> CampaignDir {
    let measurements = all_measurements();
    let subject = |measurements: &Vec<Measurement>| CampaignSubject {
        subject: measurements[0].subject.clone(),
        kernel: Some(measurements[0].kernel.clone()),
    };
    let first = &measurements[0][0];
    let plan = CampaignPlan {
        format: FORMAT,
        title: "What is lost".into(),
        seed: first.seed,
        threshold_percent: 0.1,
        key: first.measurand.key.clone(),
        machine: first.measurand.machine.clone(),
        workloads: measurements[0]
            .iter()
            .map(|measurement| measurement.measurand.workload.clone())
            .collect(),
        layouts: first.measurand.layouts.clone(),
        subjects: measurements.iter().map(subject).collect(),
        timed: Vec::new(),
        shards: vec![Shard::Counts(vec![CampaignUnit { subject: 1, rows: vec![1], seconds: 9.0 }])],
    };
    let dir = CampaignDir::new(root, plan).begin().unwrap();
    let store = Store::new(dir.store());
    measurements.iter().flatten().for_each(|measurement| assert!(store.put(measurement).is_ok()));
    dir
}

fn campaign_command(words: &[&str], dir: &CampaignDir, store: Option<&Store>) -> Ran {
    let mut command = ktax();
    command.arg("campaign").args(words).arg(dir.root());
    match store {
        Some(store) => command.arg("--store").arg(store.root()),
        None if words[0] == "status" => &mut command,
        None => command.arg("--no-store"),
    };
    run(&mut command)
}

#[test]
fn what_the_store_had_and_lost_is_named_measured_and_taken_from_the_users_store() {
    let dir = scratch();
    let campaign = campaign(&dir.path().join("C"));
    let ask = |words: &[&str], store: Option<&Store>| campaign_command(words, &campaign, store);
    let ran = ask(&["status"], None);
    assert!(ran.status == 0 && ran.stdout.contains("all of 1 measurement done"), "{ran:?}");
    let expected = ask(&["collect", "--json"], None).exits(0);
    let store = Store::new(campaign.store());
    let lost = [(0, 1, "stat of 6.1.1", 1), (1, 1, "stat of 6.1.2", 0)];
    let user = Store::new(dir.path().join("user"));
    for (subject, row, name, shard) in lost {
        let measurement = &all_measurements()[subject][row];
        fs::remove_file(store.path(&measurement.measurand)).unwrap();
        let ran = ask(&["status"], None);
        assert!(ran.status == 4 && !ran.stdout.contains("all of"), "{}", ran.stdout);
        let json = ask(&["status", "--json"], None).stdout;
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json[shard]["missing_rows"], serde_json::json!([name]), "{json}");
        let ran = ask(&["collect"], None).exits(2);
        let message = format!("1 result is not measured: {name}; run shard {shard} with ");
        ran.says(&message);
        // This machine's QEMU is another one: it would be booted.
        let ran = ask(&["run", "--shard", &shard.to_string()], None);
        assert!(ran.status != 0 && ran.stderr.contains("nothing was booted"), "{}", ran.stderr);
        let ran = ask(&["run"], None);
        assert!(ran.status != 0 && ran.stderr.contains("nothing was booted"), "{}", ran.stderr);
        // The user's store has it: `run` takes it from there, and so does `collect`.
        user.put(measurement).unwrap();
        for words in [&["run"][..], &["collect", "--json"]] {
            let ran = ask(words, Some(&user)).exits(0);
            assert_eq!(ask(&["status"], None).status, 0);
            if words[0] == "run" {
                fs::remove_file(store.path(&measurement.measurand)).unwrap();
            } else {
                assert!(ran.stdout == expected.stdout);
            }
        }
    }
}

/// A file that is no measurement counts as lost.
#[test]
fn a_damaged_object_is_moved_aside_and_named() {
    let dir = scratch();
    let campaign = campaign(&dir.path().join("C"));
    let store = Store::new(campaign.store());
    let path = store.path(&all_measurements()[0][0].measurand);
    fs::remove_file(&path).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let ran = campaign_command(&["collect"], &campaign, None).exits(2);
    ran.says("1 result is not measured: getppid of 6.1.1");
    assert!(fs::symlink_metadata(&path).is_err(), "it is in the quarantine");
}
