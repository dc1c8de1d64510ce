//! Files that are not kernels are refused; a damaged kernel fails as a row.

use std::fs;
use std::path::Path;

use crate::common::{self, KERNEL, Ran, assert_no_orphans, ktax, own_cache, run, scratch};

/// Runs `ktax plan` with this kernel.
fn plan_with(kernel: &Path) -> Ran {
    run(ktax().args(["plan", "--same", "-w", "getppid", "--kernel"]).arg(kernel))
}

/// The image of the kernel that the tests boot.
fn image() -> Vec<u8> {
    let dir = scratch();
    let out = dir.path().join("plan");
    run(ktax().args(["plan", "--same", "-w", "getppid", "--kernel", KERNEL, "--out"]).arg(&out))
        .exits(0);
    let text = fs::read_to_string(out.join("plan.json")).unwrap();
    let plan: serde_json::Value = serde_json::from_str(&text).unwrap();
    let sha256 = plan["method"]["counts"]["kernels"]["base"]["sha256"].as_str().unwrap();
    fs::read(common::cache().join("kernels").join(sha256).join("image")).unwrap()
}

#[test]
fn a_file_that_is_not_a_kernel_is_refused_before_anything_boots() {
    let dir = scratch();
    let good = image();
    let mut arm64 = vec![0u8; 4096];
    arm64[56..60].copy_from_slice(b"ARM\x64");
    for (name, content, word) in [
        ("truncated", good[..good.len() / 2].to_vec(), "copy the kernel again"),
        ("empty", Vec::new(), "build or copy the kernel again"),
        ("text", b"this is not a kernel\n".to_vec(), "give the path of a bzImage"),
        ("arm64", arm64, "give an x86_64 bzImage"),
    ] {
        let path = dir.path().join(name);
        fs::write(&path, content).unwrap();
        let ran = plan_with(&path);
        assert_eq!(ran.status, 2, "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains(word), "{name}: {}", ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    }
    assert_eq!(plan_with(dir.path()).status, 2);
    assert_eq!(plan_with(&dir.path().join("missing")).status, 2);
}

#[test]
fn a_damaged_apt_index_is_replaced() {
    let dir = scratch();
    let cache = own_cache(dir.path());
    let index = cache.join("kernels/tmp/apt.bin");
    let plan = || {
        let ran =
            run(ktax().env("KTAX_CACHE", &cache).args(["plan", "--same", "--kernel", KERNEL]));
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        fs::metadata(&index).unwrap().len()
    };
    let size = plan();
    fs::File::options().write(true).open(&index).unwrap().set_len(size / 2).unwrap();
    assert_eq!(plan(), size);
    fs::write(&index, "no index").unwrap();
    assert_eq!(plan(), size);
}

#[test]
fn a_damaged_kernel_that_still_looks_whole_fails_as_a_row() {
    let dir = scratch();
    let mut image = image();
    let middle = image.len() / 2;
    image[middle..middle + 65536].fill(0xff);
    let path = dir.path().join("damaged");
    fs::write(&path, image).unwrap();
    let ran = run(ktax()
        .args([
            "compare",
            "--same",
            "-w",
            "getppid",
            "--layouts",
            "1",
            "--time-limit",
            "5",
            "--kernel",
        ])
        .arg(&path)
        .arg("--out")
        .arg(dir.path().join("out")))
    .exits(69);
    // The console is empty, so there is nothing to be read in it.
    let says = "the kernel stopped before it printed anything: no result within";
    assert!(ran.stdout.contains(says), "{}", ran.stdout);
    assert!(!ran.stdout.contains("read serial.log"), "{}", ran.stdout);
    assert_no_orphans(dir.path());
}
