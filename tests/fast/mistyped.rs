//! Messages about mistyped arguments name the mistake.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::require::named;
use crate::common::{Need, assert_has, ktax, run, scratch, scratch_path};

/// The one line that ktax prints about these arguments.
#[track_caller]
fn refusal(args: &[&str]) -> String {
    let ran = run(ktax().args(args)).exits(2);
    ran.stderr
}

#[test]
fn a_number_out_of_bounds_is_refused_with_the_bounds_of_its_option() {
    let compare: &[(&str, &str)] = &[
        ("--layouts", "from 1 to 99"),
        ("--pairs", "from 10 to 10000"),
        ("--most-pairs", "from 20 to 10000"),
        ("--loops", "from 1 to 1000"),
        ("--cpus", "1 to 32, or 1 to 255 with --engine kvm"),
        ("--cores", "from 1 to 1023"),
        ("--memory", "from 128 to 65536"),
        ("--seed", "from 0 to 18446744073709551615"),
        ("--jobs", "from 1 to 4096"),
        ("--time-limit", "from 1\n"),
    ];
    let others: [(&[&str], &str, &str); 7] = [
        (&["ledger", "l.toml"], "--layouts", "from 1 to 99"),
        (&["bisect", "start", "--kernel", "k"], "--layouts", "from 1 to 99"),
        (&["stat", "true"], "--runs", "from 1 to 10000"),
        (&["stat", "--vs", "true", "true"], "--seed", "from 0 to 18446744073709551615"),
        (&["workloads", "run", "pipe"], "--samples", "from 1 to 10000"),
        (&["workloads", "run", "pipe"], "--time-limit", "from 1\n"),
        (&["exits", "record"], "--pid", "from 1 to 4194304"),
    ];
    let of_compare = compare.iter().map(|(option, bounds)| {
        let words: &[&str] = &["compare", "--kernel", "k"];
        (words, *option, *bounds)
    });
    for (words, option, bounds) in of_compare.chain(others) {
        for value in ["-1", "18446744073709551616"] {
            // Arguments after a command of stat belong to the command.
            let mut args = words.to_vec();
            let position = if words[0] == "stat" { 1 } else { words.len() };
            args.splice(position..position, [option, value]);
            let message = refusal(&args);
            let about = format!("invalid value '{value}' for '{option} ");
            assert!(message.contains(&about) && message.contains(bounds), "{args:?}: {message}");
            assert!(!message.contains("EXPERIMENT"), "{message}");
        }
    }
}

/// The bounds of flags are those of keys: what is just outside is refused, and just inside is not.
#[test]
fn a_number_at_its_bound_is_taken() {
    let refused = |option, value| {
        let args = ["plan", "--engine", "host", "-w", "getppid", "--kernel", "k", option, value];
        refusal(&args).contains("invalid value")
    };
    for (option, least, most) in [
        ("--layouts", ["0", "1"], ["99", "100"]),
        ("--pairs", ["9", "10"], ["10000", "10001"]),
        ("--most-pairs", ["19", "20"], ["10000", "10001"]),
        ("--loops", ["0", "1"], ["1000", "1001"]),
        ("--memory", ["127", "128"], ["65536", "65537"]),
        ("--jobs", ["0", "1"], ["4096", "4097"]),
    ] {
        let ([below, least], [most, above]) = (least, most);
        assert!(refused(option, below) && refused(option, above), "{option}");
        assert!(!refused(option, least) && !refused(option, most), "{option}");
    }
}

/// Whichever of its bounds is passed, the option has the same ones.
#[test]
fn the_bounds_of_cpus_are_the_same_in_every_message() {
    for number in ["0", "33", "64", "255", "256", "-1", "four"] {
        let text =
            refusal(&["compare", "--same", "--kernel", "k", "-w", "getppid", "--cpus", number]);
        assert!(text.contains("1 to 32, or 1 to 255 with --engine kvm"), "{number}: {text}");
    }
}

#[test]
fn a_threshold_is_a_number_with_or_without_a_sign() {
    let file = scratch();
    let absent = file.path().join("absent").display().to_string();
    let (compare, diff) = (["compare", &absent, "--threshold"], ["diff", "a", "b", "--threshold"]);
    for words in [&compare[..], &diff[..], &["history", "--threshold"]] {
        for good in ["5", "5%", "5 %", "0.5", " 5 ", "0", "100"] {
            let ran = run(ktax().args(words).arg(good).env("KTAX_STORE", file.path()));
            assert!(!ran.stderr.contains("invalid value"), "{good}: {}", ran.stderr);
        }
        for bad in ["", "%", "5%%", "%5", "five", "0,5", "nan", "inf", "-1", "100.1", "5%x"] {
            let text = refusal(&[words, &[bad]].concat());
            let bounds = "it takes a number from 0 to 100, such as 0.5 or 5%";
            assert!(text.contains(bounds), "{bad}: {text}");
        }
    }
}

#[test]
fn a_missing_side_is_explained() {
    let text = refusal(&["compare", "--base", "my kernel", "-w", "getppid"]);
    let missing = "--base 'my kernel' names one side alone; name the other with --change KERNEL";
    assert!(text.contains(missing), "{text}");
    let text = refusal(&["compare", "--change", "k", "-w", "getppid"]);
    assert!(text.contains("--change k names one side alone; name the other with --base"), "{text}");
    // Both sides of one kernel are the same still.
    let text = refusal(&["compare", "--kernel", "k", "-w", "getppid"]);
    assert!(text.contains("base and change are the same"), "{text}");
}

/// A boot is executed by one CPU before there are others.
#[test]
fn a_boot_on_several_cpus_is_refused_before_anything_is_fetched() {
    let sides = ["compare", "--same", "--kernel", "k", "--cpus", "4"];
    for rows in [&["-w", "kernel-boot"][..], &["-w", "getppid", "-w", "kernel-boot"]] {
        let text = refusal(&[&sides, rows].concat());
        assert!(text.contains("kernel-boot is a whole boot") && text.contains("--cpus"), "{text}");
    }
}

/// Nothing is downloaded, unpacked or built before the names were looked at.
#[test]
fn a_patch_is_looked_at_before_a_kernel_is_fetched() {
    let (dir, notes) = scratch_path("notes.txt");
    fs::write(&notes, "no diff\n").unwrap();
    for (patch, about) in [
        ("no-such.patch", "cannot read no-such.patch: No such file or directory"),
        (notes.to_str().unwrap(), "notes.txt: it contains no diff; give a file that"),
        (dir.path().to_str().unwrap(), "Is a directory"),
    ] {
        for command in ["compare", "plan"] {
            let cache = dir.path().join("cache");
            let args = [command, "--kernel", "debian-src:6.12", "--patch", patch, "-w", "getppid"];
            let ran = run(ktax().args(args).arg("--cache").arg(&cache)).exits(2);
            assert!(
                ran.stderr.contains(about) && ran.stderr.lines().count() == 1,
                "{}",
                ran.stderr
            );
            assert!(!cache.join("builds").exists(), "{command} {patch}");
        }
    }
}

#[test]
fn a_patch_of_a_package_is_refused_with_the_source_of_that_package() {
    let patch = "tests/data/patches/plain.diff";
    for (kernel, next) in [
        (
            "debian:6.1.0-50-cloud-amd64",
            "write `debian-src:6.1`, the source of that package, in the place of `debian:6.1.0-50-",
        ),
        ("./bzImage", "give the source that it was built from, such as `src:DIR`"),
    ] {
        let message = refusal(&["compare", "--kernel", kernel, "--patch", patch, "-w", "getppid"]);
        assert!(message.contains("is a prebuilt kernel") && message.contains(next), "{message}");
    }
}

/// A QEMU that lists its models and would note that it was started for anything else.
#[test]
fn a_cpu_model_that_qemu_does_not_have_is_refused_before_anything_is_fetched() {
    let (_dir, qemu) = scratch_path("my qemu");
    let models = "Available CPUs:\\nx86 max  all\\nx86 kvm64  old\\n\\nx86 no\\n";
    let script = format!(
        "#!/bin/sh\ncase $1 in\n--version) echo 'QEMU emulator version 7.2.22' ;;\n\
         -cpu) printf '{models}' ;;\nesac\n"
    );
    fs::write(&qemu, script).unwrap();
    fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755)).unwrap();
    let plan = |cpu: &str| {
        let mut ktax = ktax();
        ktax.args(["plan", "--same", "-w", "getppid", "--kernel", "/nonexistent/kernel"]);
        run(ktax.args(["--cpu", cpu, "--qemu"]).arg(&qemu))
    };
    let refused = plan("kvm46,-rdrand").exits(2);
    let about = "is \"kvm46\", and QEMU has no such CPU model (did you mean \"kvm64\"?); `'";
    refused.says(about).says("my qemu' -cpu help` lists");
    for cpu in ["max", "kvm64,-rdrand", "max-x86_64-cpu"] {
        plan(cpu).says("/nonexistent/kernel");
    }
}

#[test]
fn a_boot_line_of_two_lines_is_at_fault_and_not_the_title() {
    for option in ["--base-boot-line", "--change-boot-line"] {
        let message = refusal(&["plan", "--kernel", "k", "-w", "getppid", option, "quiet\npti=on"]);
        assert!(message.contains(option) && !message.contains("title"), "{message}");
    }
}

#[test]
fn a_directory_without_a_plan_cannot_be_resumed() {
    let dir = scratch();
    fs::write(dir.path().join("notes"), "mine").unwrap();
    let out = dir.path().to_str().unwrap();
    let args = ["compare", "--same", "--kernel", "k", "-w", "getppid", "--out", out];
    assert_has(refusal(&args), "is not a run directory; give --out a new name");
    fs::write(dir.path().join("plan.json"), "{}").unwrap();
    assert_has(refusal(&args), "resume with `ktax run");
}

#[test]
fn a_feature_of_kvm_has_its_nearest_name() {
    let (dir, kernel) = (scratch(), "kernel = \"debian:cloud-amd64\"");
    let file = dir.path().join("clock.toml").display().to_string();
    let (guest, hidden) = ("host = \"kvm\"\nworkloads = [\"boot\"]", "without = [\"kvmclok\"]");
    let text = format!("title = \"Clock\"\n{guest}\n[base]\n{kernel}\n{hidden}\n");
    fs::write(&file, text).unwrap();
    assert_has(refusal(&["plan", &file]), "no feature \"kvmclok\" (did you mean \"kvmclock\"?)");
}

/// Values of the environment were not typed, and need not be.
#[test]
fn the_usage_line_has_no_option_that_the_environment_gives() {
    for args in [&["log", "--zzzzz"][..], &["compare", "--zzzzz"], &["cache", "du", "--zzzzz"]] {
        let mut command = ktax();
        command.args(args).env("KTAX_CACHE", "/nonexistent").env("KTAX_QEMU", "/nonexistent/qemu");
        let message = run(&mut command).stderr;
        let usage = message.lines().find(|line| line.starts_with("Usage: ")).unwrap();
        // A program of the user's stands behind a `--` of its own.
        let usage = usage.replace(" [-- <CMD ARG…>...]", "");
        assert!(usage.contains("[OPTIONS]") && !usage.contains("--"), "{message}");
    }
}

#[test]
fn a_full_disk_under_the_output_is_reported() {
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = ktax().arg("experiments").stdout(full).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("cannot print: ") && text.contains("free disk space"), "{text}");
}

// A misspelled need of a test would be ignored.

#[test]
fn every_word_of_ktax_require_is_a_need() {
    let required = std::env::var("KTAX_REQUIRE").unwrap_or_default();
    named(&required).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(named("root, kvm,"), Ok(vec![Need::Root, Need::Kvm]));
    assert!(named("root,qemu").unwrap_err().contains("\"qemu\""));
}
