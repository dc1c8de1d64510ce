//! `ktax compare` with a store: what it has is not booted.

use std::path::Path;

use crate::common::{KERNEL, QUICK_BOOT, Ran, SLOWER, ktax, quick, run, scratch};

const ROWS: [&str; 4] = ["-w", "getppid", "-w", "stat"];

/// Compares two boot lines under two Layouts.
fn compare(out: &Path, store: &Path, change: &str, more: &[&str]) -> Ran {
    let mut command = ktax();
    command.args(["compare", "--kernel", KERNEL, "--layouts", "2", "--out"]).arg(out).args(ROWS);
    command.args(["--base-boot-line", QUICK_BOOT, "--change-boot-line", change]);
    run(command.arg("--store").arg(store).args(more))
}

/// The Sides that were booted: only a boot has the script that repeats it.
fn booted(out: &Path) -> Vec<String> {
    let mut booted = Vec::new();
    for entry in out.join("boots").read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.join("argv").exists() {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            booted.push(name.split_once('-').unwrap().1.to_owned());
        }
    }
    booted.sort();
    booted
}

#[test]
fn stored_rows_are_not_booted_and_give_the_same_result() {
    let dir = scratch();
    let (store, path_of) = (dir.path().join("store"), |name: &str| dir.path().join(name));
    let change = quick(SLOWER);
    let first = compare(&path_of("first"), &store, &change, &[]);
    // Two layouts are too few for a verdict, and enough to compare.
    assert_eq!(first.status, 4, "{}", first.stderr);
    assert_eq!(booted(&path_of("first")), ["base", "base", "change", "change"]);
    // A second comparison boots nothing.
    let second = compare(&path_of("second"), &store, &change, &[]);
    second.says("4 of 4 measurements are from the store");
    assert_eq!((booted(&path_of("second")), second.status), (vec![], first.status));
    assert!(second.stdout == first.stdout, "{}\n{}", first.stdout, second.stdout);
    for file in ["comparison.json", "report.csv", "report.html"] {
        let content_of = |name| std::fs::read(path_of(name).join(file)).unwrap();
        assert!(content_of("first") == content_of("second"), "{file}");
    }
    assert_diff_is(&path_of("first"), &store, [QUICK_BOOT, &change]);
    assert_newer_is_passed_over(&path_of("newer"), &store, &change, &first);
    // One option more: one side boots.
    let other = compare(&path_of("other"), &store, &format!("{change} quiet"), &[]);
    other.says("2 of 4 measurements are from the store");
    assert_eq!(booted(&path_of("other")), ["change", "change"]);
    // Without the store all of it is measured.
    let mut without = ktax();
    without.args(["compare", "--kernel", KERNEL, "--layouts", "2", "--no-store", "--out"]);
    without.arg(path_of("without")).args(ROWS).args(["--base-boot-line", QUICK_BOOT]);
    let without = run(without.args(["--change-boot-line", &change]));
    assert_eq!(booted(&path_of("without")).len(), 4, "{}", without.stderr);
    assert!(without.stdout == first.stdout);
}

/// `ktax diff` of both subjects by their names prints these bytes, and the log has one result.
fn assert_diff_is(dir: &Path, store: &Path, lines: [&str; 2]) {
    let stdout = |words: &[&str]| {
        let ran = run(ktax().args(words).arg("--store").arg(store));
        assert!([0, 4].contains(&ran.status), "{words:?}: {}", ran.stderr);
        ran.stdout
    };
    let measured = run(ktax().args(["report", "--json"]).arg(dir)).stdout;
    let listed: serde_json::Value = serde_json::from_str(&measured).unwrap();
    let kernels = &listed["result"]["comparison"]["method"]["counts"]["kernels"];
    let kernel = kernels["base"]["sha256"].as_str().unwrap();
    let [base, change] = lines.map(|line| format!("{}@{line}", &kernel[..12]));
    let words: Vec<&str> = ["diff", &base, &change, "--json"].into_iter().chain(ROWS).collect();
    assert_eq!(stdout(&words), measured);
    let listed: Vec<serde_json::Value> = serde_json::from_str(&stdout(&["log", "--json"])).unwrap();
    assert_eq!(listed.len(), 1);
    let id = listed[0]["id"].as_str().unwrap();
    assert_eq!(stdout(&["show", id, "--json"]), measured);
}

/// Measurements of another version are made again and kept; the others are taken.
fn assert_newer_is_passed_over(out: &Path, store: &Path, change: &str, first: &Ran) {
    let planted = ktax::store::Store::new(store.to_owned());
    let objects = planted.objects().unwrap();
    let was: Vec<_> = objects.iter().map(|path| planted.read(path).unwrap()).collect();
    let of_base =
        was.iter().position(|measurement| measurement.measurand.boot_line == QUICK_BOOT).unwrap();
    let mut newer = was[of_base].clone();
    newer.format += 1;
    std::fs::remove_file(&objects[of_base]).unwrap();
    planted.put(&newer).unwrap();
    let ran = compare(out, store, change, &[]);
    ran.says("3 of 4 measurements are from the store");
    assert_eq!(ran.stderr.matches("use the ktax that wrote it").count(), 1, "{}", ran.stderr);
    assert_eq!(booted(out), ["base", "base"]);
    assert!(ran.stdout == first.stdout);
    std::fs::remove_file(&objects[of_base]).unwrap();
    planted.put(&was[of_base]).unwrap();
}

#[test]
fn verified_rows_are_measured_again_and_differences_fail() {
    let dir = scratch();
    let (store, path_of) = (dir.path().join("store"), |name: &str| dir.path().join(name));
    let change = quick(SLOWER);
    let first = compare(&path_of("first"), &store, &change, &[]);
    let verified = compare(&path_of("verified"), &store, &change, &["--verify-store", "100"]);
    assert_eq!(verified.status, first.status, "{}", verified.stderr);
    assert_eq!(booted(&path_of("verified")).len(), 4);
    // Somebody kept another count.
    let planted = ktax::store::Store::new(store.clone());
    let object = planted.objects().unwrap().remove(0);
    let mut measurement = planted.read(&object).unwrap();
    measurement.layouts[1].sample.tsc += 1;
    std::fs::remove_file(&object).unwrap();
    planted.put(&measurement).unwrap();
    let failed = compare(&path_of("failed"), &store, &change, &["--verify-store", "100"]).exits(1);
    let failed_dir = path_of("failed");
    for named in [object.to_str().unwrap(), "/quarantine/1-", failed_dir.to_str().unwrap()] {
        assert!(failed.stderr.contains(named), "{named}: {}", failed.stderr);
    }
    assert!(!object.exists());
}

#[test]
fn a_store_that_cannot_be_written_costs_no_result() {
    let dir = scratch();
    let store = dir.path().join("file");
    std::fs::write(&store, "").unwrap();
    let change = quick(SLOWER);
    let ran = compare(&dir.path().join("out"), &store, &change, &[]).exits(4);
    assert_eq!(ran.stderr.matches("--no-store").count(), 1, "{}", ran.stderr);
    assert!(ran.stdout.contains("getppid"), "{}", ran.stdout);
}
