//! A disk that is full is said, with what to free.

use std::fs;
use std::path::Path;

use crate::common::mounts::{in_namespace, may_mount};
use crate::common::{self, KERNEL, assert_no_orphans, compare, counts_plan, ktax, run, scratch};

/// The SHA-256 of the kernel that the tests boot.
fn cached_image() -> String {
    let planned = run(ktax().args(["plan", "--same", "-w", "getppid", "--kernel", KERNEL]));
    counts_plan(&planned.stdout).kernels.base.sha256
}

#[test]
fn a_full_disk_is_a_failure_with_the_next_step() {
    if !may_mount() {
        return;
    }
    let dir = scratch();
    let image = cached_image();
    let (ktax, small) = (env!("CARGO_BIN_EXE_ktax"), dir.path().join("small"));
    fs::create_dir(&small).unwrap();
    // A mount of our own, gone with the process. The kernels fit, a snapshot does not.
    let run_in = |size: &str, ktax_args: &str| {
        let script = format!(
            "mount -t tmpfs -o size={size} none \"$2\" && mkdir \"$2/kernels\" && \
             cp -a \"$3/{image}\" \"$3/by-package\" \"$2/kernels\" && \
             \"$1\" {ktax_args} --same --kernel debian:cloud-amd64 -w getppid \
             --cache \"$2\" --out \"$4\""
        );
        let kernels = common::cache().join("kernels");
        in_namespace(&script, &[Path::new(ktax), &small, &kernels, &dir.path().join(size)])
    };
    let ran = run_in("80m", "compare --layouts 1");
    assert_eq!(ran.status, 1, "{}\n{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("too full"), "{}", ran.stdout);
    assert!(ran.stdout.contains("free 2 GiB"), "{}", ran.stdout);
    let again = format!("again with `ktax run {}`", dir.path().join("80m").display());
    assert!(ran.stderr.contains(&again), "{}", ran.stderr);
    // Where not even apt's index fits, it does without one.
    let ran = run_in("40m", "plan");
    assert_eq!(ran.status, 0, "{}\n{}", ran.stdout, ran.stderr);
}

#[test]
fn a_kernel_that_does_not_fit_is_no_trouble_of_the_network() {
    if !may_mount() {
        return;
    }
    let dir = scratch();
    let (ktax, small) = (env!("CARGO_BIN_EXE_ktax"), dir.path().join("small"));
    let tools = dir.path().join("tools");
    fs::create_dir(&small).unwrap();
    fs::create_dir(&tools).unwrap();
    let stanza = "Package: linux-image-x\nVersion: 1\nArchitecture: amd64\n";
    // apt quotes the C library as dd does.
    let download = "case \"$*\" in *print-uris*) exit 0;; esac\n\
         dd if=/dev/zero of=x.deb bs=1M count=8 || exit 100";
    for (name, does) in [("apt-cache", format!("printf '{stanza}'")), ("apt-get", download.into())]
    {
        fs::write(tools.join(name), format!("#!/bin/sh\n{does}\n")).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(tools.join(name), executable).unwrap();
    }
    let image = common::cache().join("kernels").join(cached_image()).join("image");
    let image = image.display().to_string();
    for kernel in ["debian:linux-image-x", &image] {
        let script = "mount -t tmpfs -o size=1m none \"$2\" && PATH=\"$3:$PATH\" \
             \"$1\" plan --same -w getppid --kernel \"$4\" --cache \"$2\"";
        let ran = in_namespace(script, &[Path::new(ktax), &small, &tools, Path::new(kernel)]);
        assert_eq!(ran.status, 1, "{}", ran.stderr);
        let path = small.join("kernels").display().to_string();
        for words in
            [path.as_str(), "No space left on device", "free 2 GiB", "`ktax cache clean --all`"]
        {
            assert!(ran.stderr.contains(words), "{kernel}: {words}: {}", ran.stderr);
        }
        assert!(!ran.stderr.contains("network"), "{}", ran.stderr);
    }
}

#[test]
fn results_that_do_not_fit_end_the_run_with_the_next_step() {
    if !may_mount() {
        return;
    }
    let dir = scratch();
    let (ktax, small) = (env!("CARGO_BIN_EXE_ktax"), dir.path().join("small"));
    fs::create_dir(&small).unwrap();
    compare(&dir.path().join("warm"), ["", ""], &["-w", "getppid", "--layouts", "1"]);
    let script = "mount -t tmpfs -o size=24k none \"$2\" && \
         \"$1\" compare --same --kernel debian:cloud-amd64 \
         -w getppid -w pipe -w fork-exec --layouts 1 --cache \"$3\" --out \"$2/out\"";
    let ran = in_namespace(script, &[Path::new(ktax), &small, &common::cache()]);
    assert_eq!(ran.status, 1, "{}\n{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("space"), "{}", ran.stderr);
    assert_no_orphans(dir.path());
}
