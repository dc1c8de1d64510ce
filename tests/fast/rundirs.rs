//! A run directory of each method is what its Plan says, and of this format.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ktax::flow::{self, Session, SilentObserver};
use ktax::model::{
    Blame, Boot, ErrorKind, FORMAT, GuestsPlan, Identity, Key, Plan, PlanMethod, Side, Step,
};
use ktax::plan::{Experiment, ExperimentMethod};
use ktax::rundir::{AnyRunDir, RunDir};
use ktax::text::shell_path;

use crate::common::{ktax, open_times, run, scratch, scratch_path};
use crate::fake::{scene, timed};

/// A plan of guests, of kernels that are nowhere.
pub fn guests_plan() -> Plan {
    let text = "title = \"x\"\nhost = \"kvm\"\nworkloads = [\"boot\", \"raw:out=9\", \"getppid\"]\n\
                base = { kernel = \"x\" }\nchange = { kernel = \"x\", without = [\"kvmclock\"] }\n";
    let experiment = Experiment::parse(text, "x.toml").unwrap();
    let ExperimentMethod::Guests(mut guests) = experiment.method.clone() else { panic!() };
    let counted = scene::plan(&["pipe"]).method;
    let (kernel, key): (Identity, Key) = (counted.kernels.base, counted.key);
    guests.asked.sides_mut().for_each(|side| side.kernel = Some(kernel.clone()));
    experiment.with_method(guests).plan(kernel, key).map_method(Into::into)
}

/// A Plan of each method, by its name in the file.
pub fn plans() -> [(&'static str, Plan); 3] {
    [
        ("counts", scene::plan(&["pipe"]).map_method(Into::into)),
        ("times", timed::plan().map_method(Into::into)),
        ("guests", guests_plan()),
    ]
}

fn session(dir: &Path) -> Session<'static> {
    Session {
        qemu: None,
        jobs: 1,
        cache: dir.join("cache"),
        holders: Default::default(),
        store: None,
        limits: flow::Limits::default(),
        cancel: flow::Cancel::default(),
        observer: &SilentObserver,
    }
}

fn method(dir: &AnyRunDir) -> &'static str {
    match dir {
        AnyRunDir::Counts(_) => "counts",
        AnyRunDir::Times(_) => "times",
        AnyRunDir::Guests(_) => "guests",
    }
}

fn write_plan(root: &Path, value: &serde_json::Value) {
    fs::write(root.join("plan.json"), serde_json::to_vec(value).unwrap()).unwrap();
}

fn read_plan(root: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(root.join("plan.json")).unwrap()).unwrap()
}

#[test]
fn a_plan_of_each_method_is_read_as_it_was_written() {
    let dir = scratch();
    for (name, plan) in plans() {
        let root = dir.path().join(name);
        let made = AnyRunDir::create(&root, plan.clone()).unwrap();
        let opened = AnyRunDir::open(&root).unwrap();
        assert_eq!((method(&made), method(&opened)), (name, name));
        assert_eq!((made.plan(), opened.plan()), (plan.clone(), plan.clone()));
        assert!(opened.comparison().unwrap().is_none());
        let again = AnyRunDir::create(&root, plan).unwrap_err();
        assert_eq!(again.kind, ErrorKind::InUse, "{again}");
    }
}

#[test]
fn a_directory_has_the_method_of_its_plan_and_no_other() {
    let dir = scratch();
    for (name, plan) in plans() {
        let root = dir.path().join(name);
        AnyRunDir::create(&root, plan).unwrap();
        let good = read_plan(&root);
        let of_method = good["method"][name].clone();
        assert!(of_method.is_object(), "{good}");
        // Keys of one method make no plan of another, and a plan has one method.
        for other in ["counts", "times", "guests", "magic"] {
            let mut bad = good.clone();
            bad["method"] = serde_json::json!({ other: of_method });
            write_plan(&root, &bad);
            let opened = AnyRunDir::open(&root);
            match opened {
                Ok(opened) => assert_eq!((method(&opened), other), (name, name)),
                Err(error) => {
                    assert!(error.message().contains(" is damaged or "), "{error}");
                    assert_ne!(other, name);
                }
            }
        }
        let mut two = good.clone();
        two["method"]["magic"] = of_method;
        write_plan(&root, &two);
        let error = AnyRunDir::open(&root).unwrap_err();
        assert!(error.message().contains(" is damaged or "), "{error}");
    }
}

#[test]
fn a_directory_of_another_format_is_refused_with_what_to_do() {
    let dir = scratch();
    for (name, plan) in plans() {
        let root = dir.path().join(name);
        AnyRunDir::create(&root, plan).unwrap();
        let good = read_plan(&root);
        for format in [1, FORMAT + 1] {
            let mut other = good.clone();
            other["format"] = format.into();
            write_plan(&root, &other);
            let message = format!(
                "{} has format {format}, and this ktax reads format {FORMAT}; plan again with this \
                 version of ktax, in a new directory",
                root.join("plan.json").display()
            );
            assert_eq!(AnyRunDir::open(&root).unwrap_err().to_string(), message);
            for command in ["run", "analyse", "report"] {
                let ran = run(ktax().arg(command).arg(&root));
                assert_eq!(ran.status, 2, "{command} {name}: {}", ran.stderr);
                assert_eq!(ran.stderr, format!("ktax: {message}\n"), "{command} {name}");
            }
        }
        write_plan(&root, &good);
        assert_eq!(method(&AnyRunDir::open(&root).unwrap()), name);
        // A comparison of an earlier ktax's, beside a plan of this one.
        fs::write(root.join("comparison.json"), "{\"format\": 1, \"rows\": []}").unwrap();
        let ran = run(ktax().arg("report").arg(&root));
        assert_eq!(ran.status, 2, "{name}: {}", ran.stderr);
        let message = format!(
            "ktax: cannot read {}: it has format 1, and this ktax reads format {FORMAT}; make it \
             again with `ktax analyse {}`\n",
            root.join("comparison.json").display(),
            root.display()
        );
        assert_eq!(ran.stderr, message, "{name}");
    }
}

#[test]
fn a_plan_as_an_earlier_ktax_wrote_it_is_refused_with_what_to_do() {
    let dir = scratch();
    // Plans of counts and of times: a format was not always the first thing that differed.
    for text in [
        "{\"format\": 1, \"title\": \"t\", \"key\": {}, \"seed\": 1, \"workloads\": []}",
        "{\"format\": 1, \"engine\": \"host\", \"title\": \"t\", \"headline\": []}",
    ] {
        fs::write(dir.path().join("plan.json"), text).unwrap();
        let ran = run(ktax().arg("run").arg(dir.path())).exits(2);
        let message = format!("has format 1, and this ktax reads format {FORMAT}; plan again with");
        ran.says(&message);
    }
}

#[test]
fn a_plan_for_another_qemu_is_not_resumed() {
    let (dir, qemu) = scratch_path("qemu");
    fs::write(&qemu, "#!/bin/sh\necho 'QEMU emulator version 99.1'\n").unwrap();
    fs::set_permissions(&qemu, PermissionsExt::from_mode(0o755)).unwrap();
    for (name, plan) in [&plans()[0], &plans()[2]] {
        let root = dir.path().join(name);
        AnyRunDir::create(&root, plan.clone()).unwrap();
        let ran = run(ktax().arg("run").arg(&root).arg("--qemu").arg(&qemu));
        let message = format!(
            "ktax: {} was planned for QEMU 7.2 and the ktax of that time, and this is QEMU 99.1: \
             counts would not compare; plan again in a new directory\n",
            root.display()
        );
        assert_eq!((ran.status, ran.stderr), (2, message), "{name}");
    }
}

#[test]
fn a_directory_of_another_plan_is_refused() {
    let dir = scratch();
    let [_, (_, other), (_, there)] = plans();
    AnyRunDir::create(dir.path(), there).unwrap();
    let error = flow::compare(dir.path(), other, &session(dir.path())).unwrap_err();
    let path = dir.path().display();
    assert_eq!(error.to_string(), format!("{path} has another plan; give --out a new name"));
}

#[test]
fn a_side_is_only_for_kernels_that_the_user_boots() {
    let dir = scratch();
    for (name, plan) in plans() {
        let root = dir.path().join(name);
        let there = AnyRunDir::create(&root, plan).unwrap();
        let error = flow::run_block(&there, Side::Base, &session(dir.path())).unwrap_err();
        let why = match name {
            "times" => "does not apply, because both sides run on this kernel",
            _ => "only applies to timed runs whose kernels you boot",
        };
        let path = shell_path(&root);
        assert_eq!(error.to_string(), format!("--side {why}; type `ktax run {path}`"));
        assert_eq!(error.blame, Blame::User);
    }
}

#[test]
fn a_directory_of_each_method_has_one_writer() {
    let dir = scratch();
    for (name, plan) in plans() {
        let root = dir.path().join(name);
        let first = AnyRunDir::create(&root, plan).unwrap();
        let lock = first.lock().unwrap();
        let second = AnyRunDir::open(&root).unwrap().lock().unwrap_err();
        assert_eq!(second.kind, ErrorKind::InUse, "{name}: {second}");
        for command in ["run", "analyse"] {
            let ran = run(ktax().arg(command).arg(&root));
            assert_eq!(ran.status, 2, "{command} {name}: {}", ran.stderr);
            ran.says("is in use by another ktax");
        }
        drop(lock);
        assert!(first.lock().is_ok(), "{name}");
    }
}

#[test]
fn unfinished_files_of_pairs_are_removed() {
    let dir = scratch();
    let times = RunDir::create(&dir.path().join("run"), timed::plan()).unwrap();
    let _lock = times.lock().unwrap();
    times.prepare_pairs().unwrap();
    let left = ["", "pairs", "blocks"].map(|folder| times.root().join(folder).join(".new-left"));
    left.iter().for_each(|path| fs::write(path, "half").unwrap());
    drop(_lock);
    let again = open_times(times.root()).unwrap();
    let _lock = again.lock().unwrap();
    again.prepare_pairs().unwrap();
    assert!(!left.iter().any(|path| path.exists()));
}

#[test]
fn a_plan_of_guests_that_points_outside_itself_is_refused() {
    let (_dir, root) = scratch_path("run");
    AnyRunDir::create(&root, guests_plan()).unwrap();
    let good = read_plan(&root);
    let planted = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut bad = good.clone();
        change(&mut bad["method"]["guests"]);
        assert_ne!(bad, good);
        write_plan(&root, &bad);
        let error = AnyRunDir::open(&root).unwrap_err();
        assert!(error.message().contains(" is damaged or "), "{error}");
        assert!(!error.to_string().contains(char::is_control), "{error:?}");
    };
    planted(&|plan| plan["rows"][0]["row"] = "../x".into());
    planted(&|plan| plan["rows"][0]["row"] = plan["rows"][1]["row"].clone());
    planted(&|plan| plan["rows"] = serde_json::json!([]));
    planted(&|plan| plan["host_kernel"]["sha256"] = "../../x".into());
    planted(&|plan| plan["host_kernel"]["source"] = "\u{1b}[31m".into());
    planted(&|plan| plan["base"]["kernel"]["sha256"] = "".into());
    planted(&|plan| plan["base"]["kernel"]["source"] = "\u{1b}[31m".into());
    // Values that an experiment may not ask for: 64 GiB, no CPU, no operation, an unknown host.
    for mib in [63, 3073, 65_536, 4_000_000] {
        planted(&|plan| plan["change"]["subject"]["memory_mib"] = mib.into());
    }
    for cpus in [0, 17, 255] {
        planted(&|plan| plan["change"]["subject"]["cpus"] = cpus.into());
    }
    planted(&|plan| plan["rows"][2]["work"]["program"]["ops"] = 0.into());
    planted(&|plan| plan["host"] = "kvm-e500v2".into());
    planted(&|plan| plan["change"]["subject"]["without"][0] = "\u{1b}[31m".into());
    planted(&|plan| plan["host_subject"]["kernel"] = "\u{7}".into());
    planted(&|plan| plan["steps"][1] = plan["steps"][0].clone());
    planted(&|plan| plan["steps"][1]["layout"] = 99.into());
    planted(&|plan| plan["layouts"][0]["padding"] = 4_000_000.into());
    planted(&|plan| plan["key"]["qemu"] = "\u{1b}[31m".into());
    let Plan { method: PlanMethod::Guests(guests), .. } = guests_plan() else { panic!() };
    assert!(guests.steps.len() == 10 && guests.asked.rows.len() == 3);
}

// A base that was measured once is not measured again.

/// Whether a new directory with `plan` has the base's boot of one with `guests_plan`.
fn adopts(plan: Plan) -> bool {
    let dir = scratch();
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    let first = AnyRunDir::create(&first, guests_plan()).unwrap();
    let AnyRunDir::Guests(guests) = &first else { panic!() };
    let steps = guests.plan().method.steps.clone();
    for step in &steps {
        guests.prepare(step).unwrap();
        guests.write_boot_file(step, "runs/boot.json", b"{}\n").unwrap();
        guests.write_boot(step, &Boot::default()).unwrap();
    }
    let second = AnyRunDir::create(&second, plan).unwrap();
    second.adopt_base(&first).unwrap();
    let has = |step: &&Step| {
        let boot = second.root().join("boots").join(step.name());
        boot.join("boot.json").exists() && boot.join("runs/boot.json").exists()
    };
    let adopted: Vec<Side> = steps.iter().filter(has).map(|step| step.side).collect();
    assert!(adopted.iter().all(|side| *side == Side::Base), "{adopted:?}");
    !adopted.is_empty()
}

#[test]
fn only_boots_of_the_same_base_are_adopted() {
    let with = |edit: fn(&mut GuestsPlan)| {
        let mut plan = guests_plan();
        let PlanMethod::Guests(guests) = &mut plan.method else { panic!() };
        edit(guests);
        plan
    };
    assert!(adopts(with(|plan| plan.asked.change.as_mut().unwrap().subject.cpus = 4)));
    assert!(!adopts(with(|plan| plan.asked.base.subject.cpus = 4)));
    assert!(!adopts(with(|plan| plan.key.guest = "8".repeat(64))));
    assert!(!adopts(with(|plan| drop(plan.asked.rows.pop()))));
    assert!(!adopts(scene::plan(&["pipe"]).map_method(Into::into)));
}
