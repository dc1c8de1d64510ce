//! `ktax campaign`: shards in any order, on any machine, give the bytes of one machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ktax::model::{CampaignPlan, FORMAT, Measurement, Shard};
use ktax::store::{Store, encode_measurement};
use tempfile::TempDir;

use crate::common::files::files_below;
use crate::common::{KERNEL, QUICK_BOOT, Ran, ktax, link_shared, run, scratch};

const ROWS: &str = r#"["getppid", "stat", "open-close"]"#;

/// A campaign over boot lines of one kernel, in two Layouts.
struct Made {
    dir: TempDir,
    store: PathBuf,
}

impl Made {
    fn new() -> Made {
        let dir = scratch();
        let store = dir.path().join("store");
        Made { dir, store }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn ktax(&self, words: &[&str]) -> Ran {
        run(ktax().arg("campaign").args(words).current_dir(self.dir.path()))
    }

    /// Plans one with these boot lines behind the usual one.
    fn plan(&self, out: &str, lines: &[&str], more: &[&str]) -> Ran {
        let subject =
            |line: &&str| format!("{{ kernel = {KERNEL:?}, boot_line = \"{QUICK_BOOT} {line}\" }}");
        let subjects: Vec<String> = lines.iter().map(subject).collect();
        let text = format!(
            "title = \"Boot lines\"\nlayouts = 2\nworkloads = {ROWS}\nsubjects = [{}]\n",
            subjects.join(", ")
        );
        fs::write(self.at("campaign.toml"), text).unwrap();
        let store = self.store.to_str().unwrap();
        let words = ["plan", "campaign.toml", "--out", out, "--store", store];

        self.ktax(&[&words, more].concat()).exits(0)
    }

    fn collect(&self, words: &[&str]) -> Ran {
        let store = self.store.to_str().unwrap();
        self.ktax(&[&["collect", "--store", store], words].concat())
    }

    fn planned(&self, out: &str) -> CampaignPlan {
        let text = fs::read_to_string(self.at(out).join("campaign.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

#[test]
fn shards_of_many_processes_are_the_bytes_of_one() {
    let made = Made::new();
    let stderr = made.plan("many", &["audit=0", "audit=1"], &["--shards", "6"]).stderr;
    assert!(stderr.contains("planned 6 of 6 measurements in 6 shards"), "{stderr}");
    // Nothing is collected as long as something is missing.
    let ran = made.collect(&["many"]);
    assert_eq!(ran.status, 2);
    for message in ["6 results are not measured: ", " and 2 more; run shards 0,1,2,3,4,5 with "] {
        ran.says(message);
    }
    let ran = made.ktax(&["status", "many"]);
    assert_eq!(ran.status, 4);
    assert!(ran.stdout.starts_with("Boot lines: 6 of 6 measurements missing, about "), "{ran:?}");
    // Any order, several at a time, some twice.
    let mut shell = Command::new("sh");
    let each = "printf '%s\\n' 5 0 3 1 4 2 3 0 | \
                xargs -P 2 -I{} \"$1\" campaign run many --shard {} --jobs 1; exit 0";
    let ktax = ktax().current_dir(made.dir.path()).get_program().to_owned();
    crate::common::isolate(&mut shell).args(["-c", each, "sh"]).arg(ktax);
    run(shell.current_dir(made.dir.path())).exits(0);
    // Two of the same at once: one of them is told to try again, and nothing else.
    made.ktax(&["run", "many"]).exits(0);
    assert_eq!(made.ktax(&["status", "many"]).status, 0);
    assert_eq!(fs::read_dir(made.at("many/runs")).unwrap().count(), 0);
    let many = made.collect(&["many", "--json"]);
    assert_eq!(many.status, 4, "two layouts are too few for a verdict: {}", many.stderr);
    // One machine, one after the other.
    let other = Made { store: made.at("other"), ..made };
    other.plan("one", &["audit=0", "audit=1"], &[]);
    assert_eq!(other.ktax(&["run", "one", "--no-store"]).status, 0);
    let of_one = other.collect(&["one", "--json"]);
    assert!(of_one.stdout == many.stdout);
    for part in ["store", "site"] {
        let files_of = |out: &str| files_below(&other.at(out).join(part));
        assert!(files_of("one") == files_of("many"), "{part}");
    }
    // One subject more: what the store has is not measured again.
    let stderr = other.plan("more", &["audit=0", "audit=1", "quiet"], &[]).stderr;
    assert!(stderr.contains("planned 3 of 9 measurements in 1 shard"), "{stderr}");
    let ran = other.ktax(&["run", "more"]);
    ran.says("2 boots");
    assert_eq!(other.collect(&["more"]).status, 4);
    // Measurements that the campaign had when it was planned, and has lost, are made again.
    let lost = Store::new(other.at("more/store")).objects().unwrap().remove(0);
    let content = fs::read(&lost).unwrap();
    fs::remove_file(&lost).unwrap();
    assert_eq!(other.ktax(&["status", "more"]).status, 4);
    assert_eq!(other.ktax(&["run", "more", "--no-store"]).status, 0);
    assert!(fs::read(&lost).unwrap() == content);
}

/// A failure is a row: it is named, it is not tried again, and it stops nothing.
#[test]
fn what_fails_in_a_guest_is_named_and_the_rest_is_collected() {
    let made = Made::new();
    let lines = ["audit=0", "audit=1", "rdinit=/nothing"];
    made.plan("C", &lines, &["-w", "getppid"]);
    let ran = made.ktax(&["run", "C"]).exits(69);
    ran.says("1 measurement failed, such as getppid of 6.");
    let ran = made.ktax(&["status", "C"]).exits(69);
    assert!(ran.stdout.contains(" rdinit=/nothing: "), "{}", ran.stdout);
    let again = made.ktax(&["run", "C"]);
    assert!(again.status == 69 && !again.stderr.contains(" boots "), "{}", again.stderr);
    let ran = made.collect(&["C", "--format", "csv"]).exits(69);
    ran.says(" rdinit=/nothing: ");
    assert!(ran.stdout.contains(",too few boots,instructions,"), "{}", ran.stdout);
}

/// A machine with another package of QEMU.
#[test]
fn another_qemu_is_refused_before_anything_is_booted() {
    let made = Made::new();
    made.plan("C", &["audit=0"], &[]);
    let path = made.at("C/campaign.json");
    let text = fs::read_to_string(&path).unwrap();
    let qemu = made.planned("C").key.qemu;
    fs::write(&path, text.replace(&qemu, "9.9.9 (Debian 1:9.9.9+dfsg-1)")).unwrap();
    let ran = made.ktax(&["run", "C", "--shard", "0"]).exits(2);
    assert!(ran.stderr.contains("was planned for QEMU 9.9.9 (Debian 1:9.9.9+dfsg-1)"), "{ran:?}");
    ran.says("nothing was booted");
    assert!(!made.at("C/runs").exists() && !made.at("C/store").exists());
}

const TIMED: &str = r#"
title = "The same twice"
engine = "host"
same = true
pairs = 10
workloads = ["getppid"]
base = {}
change = {}
"#;

#[test]
fn times_are_measured_alone_and_both_sides_in_one_shard() {
    let made = Made::new();
    fs::write(made.at("alone.toml"), TIMED).unwrap();
    let text = "title = \"t\"\ntimed = [\"alone.toml\"]\n";
    fs::write(made.at("campaign.toml"), text).unwrap();
    made.ktax(&["plan", "campaign.toml", "--out", "C", "--no-store"]).exits(0);
    assert_eq!(made.planned("C").shards, [Shard::Times("alone".into())]);
    // Counts of the same machine are in the way.
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let cache_dir = made.at("cache");
    fs::create_dir(&cache_dir).unwrap();
    let lock = fs::File::create(cache_dir.join(format!("machine-{name}.lock"))).unwrap();
    let held = ktax::disk::Lock::share(lock).unwrap();
    let words = ["run", "C", "--shard", "0", "--no-store", "--cache", cache_dir.to_str().unwrap()];
    let ran = made.ktax(&words).exits(75);
    ran.says("a timed shard must run alone");
    drop(held);
    // A plan that would part them, or put one beside counts.
    let path = made.at("C/campaign.json");
    let sound = fs::read_to_string(&path).unwrap();
    let mut parted: serde_json::Value = serde_json::from_str(&sound).unwrap();
    parted["shards"] = serde_json::json!([{ "times": "alone" }, { "times": "alone" }]);
    let mut beside: serde_json::Value = serde_json::from_str(&sound).unwrap();
    beside["shards"] = serde_json::json!([{ "times": "alone", "counts": [] }]);
    for (plan, why) in [(parted, "its base and change need one"), (beside, "expected")] {
        fs::write(&path, plan.to_string()).unwrap();
        let ran = made.ktax(&words).exits(2);
        ran.says(why);
    }
}

/// Files from another machine are checked: none of them is trusted.
#[test]
fn copies_are_hostile_until_they_are_looked_at() {
    let made = Made::new();
    made.plan("C", &["audit=0"], &["--shards", "3"]);
    let mut copy = Command::new("cp");
    assert_eq!(run(copy.arg("-a").args([made.at("C"), made.at("D")])).status, 0);
    for (out, shard) in [("C", "0"), ("D", "1"), ("D", "2")] {
        assert_eq!(made.ktax(&["run", out, "--shard", shard, "--jobs", "1"]).status, 0);
    }
    let theirs = Store::new(made.at("D/store"));
    let [damaged, forged] = &theirs.objects().unwrap()[..] else { panic!() };
    // Bytes that are not those that were written; counts that do not add up, and are sealed; a
    // link that leads out; an object of something else.
    let of_forged: Measurement = theirs.read(forged).unwrap();
    let sound = (fs::read(damaged).unwrap(), fs::read(forged).unwrap());
    let mut wrong = of_forged.clone();
    wrong.layouts[0].sample.total += 1;
    let other = Measurement { format: FORMAT, ..of_forged.clone() };
    let mut foreign = other.clone();
    foreign.measurand.key.qemu = "9.9.9".into();
    let write = |path: &Path, bytes: &[u8]| {
        let _ = fs::remove_file(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    write(damaged, &sound.0[..sound.0.len() - 1]);
    write(forged, &encode_measurement(&wrong));
    write(&theirs.path(&foreign.measurand), &encode_measurement(&foreign));
    let before = files_below(&made.at("C/store"));
    let ran = made.collect(&["C", "D"]).exits(2);
    ran.says("2 results are not measured");
    assert!(files_below(&made.at("C/store")) == before, "nothing of it came in");
    fs::remove_file(forged).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", forged).unwrap();
    assert_eq!(made.collect(&["C", "D"]).status, 2);
    // Another campaign is none of this one, and a whole copy is taken.
    made.plan("E", &["audit=1"], &[]);
    let ran = made.collect(&["C", "E"]);
    assert!(ran.status == 2 && ran.stderr.contains("E is of another campaign"), "{}", ran.stderr);
    write(damaged, &sound.0);
    write(forged, &sound.1);
    made.collect(&["C", "D"]).exits(0);
    let store = Store::new(made.at("C/store"));
    assert_eq!(store.objects().unwrap().len(), 3, "the foreign one stayed where it was");
    // A damaged file is moved aside, and its row is missing.
    let object = store.objects().unwrap().remove(0);
    write(&object, b"damaged");
    let ran = made.ktax(&["collect", "--no-store", "C"]);
    assert!(ran.status == 2 && ran.stderr.contains("1 result is not measured"), "{}", ran.stderr);
    assert!(made.at("C/store/quarantine").exists() && !object.exists());
    // The user's store has what was collected before.
    assert_eq!(made.collect(&["C"]).status, 0);
    assert!(object.exists());
}

/// A kernel from the cache of the directory: a machine without packages and sources needs no other.
#[test]
fn a_machine_that_has_no_kernel_takes_that_of_the_directory() {
    let made = Made::new();
    made.plan("C", &["audit=0"], &[]);
    let cache_dir = made.at("cache");
    fs::create_dir(&cache_dir).unwrap();
    link_shared(&cache_dir, &["payload", "snapshots", "symbols"]);
    let words = ["run", "C", "--cache", cache_dir.to_str().unwrap(), "--cache-size", "unlimited"];
    let mut command = ktax();
    // No package and no network: apt is a program that fails.
    let bin = made.at("bin");
    fs::create_dir(&bin).unwrap();
    for name in ["apt-get", "apt-cache", "apt"] {
        std::os::unix::fs::symlink("/bin/false", bin.join(name)).unwrap();
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    command.arg("campaign").args(words).current_dir(made.dir.path()).env("PATH", path);
    run(&mut command).exits(0);
}
