use super::*;
use crate::error::PlanError;
use crate::experiment::{Experiment, ExperimentMethod};
use ktax_model::{GuestWork, Subject};

const FILE: &str = r#"
title = "Clocks"
host = "kvm"
workloads = ["boot", "raw:out=2000", "getppid"]
base = { kernel = "debian:cloud-amd64" }
change = { kernel = "debian:cloud-amd64", without = ["kvmclock"], cpus = 2 }
"#;

const OF_E500V2: &str = r#"
title = "The page"
host = "kvm-e500v2"
host_patches = ["a.patch"]
workloads = ["raw:all=2000"]
base = { without = ["magic-page"] }
change = {}
"#;

fn read(text: &str) -> Result<GuestsExperiment, PlanError> {
    match Experiment::parse(text, "x.toml")?.method {
        ExperimentMethod::Guests(guests) => Ok(guests),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_is_read() {
    let experiment = read(FILE).unwrap();
    assert_eq!(experiment.host_subject, Subject::of("debian:cloud-amd64", ""));
    assert_eq!(experiment.subjects().map(|subject| subject.cpus).collect::<Vec<_>>(), [1, 2]);
    let works: Vec<_> = experiment.rows.iter().map(|row| &row.work).collect();
    assert_eq!(works[0], &GuestWork::Boot);
    assert_eq!(works[1], &GuestWork::Raw { kind: "out".into(), count: 2000 });
    assert!(matches!(works[2], GuestWork::Program(workload) if workload.row == "getppid"));
}

#[test]
fn a_file_of_e500v2_is_read() {
    let experiment = read(OF_E500V2).unwrap();
    let without: Vec<_> = experiment.subjects().map(|subject| subject.without.len()).collect();
    assert_eq!(without, [1, 0]);
    let work = GuestWork::Raw { kind: "all".into(), count: 2000 };
    assert_eq!(experiment.rows[0].work, work);
    let host = experiment.host_subject;
    assert_eq!((host.kernel.as_str(), host.patches), ("debian-src:6.12", vec!["a.patch".into()]));
}

#[test]
fn a_sweep_of_cpus_makes_runs() {
    let text = format!("{}[sweep]\ncpus = [2, 16]\n", FILE.replace(", cpus = 2", ""));
    let experiment = Experiment::parse(&text, "x.toml").unwrap();
    let ExperimentMethod::Guests(guests) = &experiment.method else { panic!("{experiment:?}") };
    let runs = experiment.with(guests.clone()).of_settings();
    let cpus = |of: &GuestsExperiment| of.subjects().map(|it| it.cpus).collect::<Vec<_>>();
    let runs: Vec<_> = runs.iter().map(|(name, run)| (&**name, cpus(&run.method))).collect();
    assert_eq!(runs, [("cpus=2", vec![2, 2]), ("cpus=16", vec![16, 16])]);
}

#[test]
fn what_cannot_be_swept_is_refused() {
    let plain = FILE.replace(", cpus = 2", "");
    let raw = plain.replace("\"boot\", ", "").replace(", \"getppid\"", "");
    for (file, sweep, said) in [
        (FILE, "cpus = [2, 4]", "a side has cpus, too"),
        (&*plain, "cpus = []", "a value is missing"),
        (&plain, "cpus = [2, 2]", "a value is given twice"),
        (&plain, "cpus = [2, 17]", "cpus must be 1 to 16, not 17"),
        (&plain, "cpus = [\"two\"]", "cpus must be 1 to 16, not 0"),
        (&plain, "memory_mib = [256, 512]", "only cpus can be swept"),
        (&raw, "cpus = [2, 4]", "raw guests have CPUs of their own"),
        (OF_E500V2, "cpus = [2, 4]", "only guests of host = \"kvm\" can have several"),
    ] {
        let error = read(&format!("{file}[sweep]\n{sweep}\n")).unwrap_err().to_string();
        assert!(error.contains(said), "{sweep}: {error}");
    }
}

#[test]
fn a_kernel_of_a_boards_side_is_that_of_its_host() {
    const OF_ARM64: &str = r#"
title = "Exits"
host = "kvm-arm64"
workloads = ["raw:hvc=20"]
base = {}
"#;
    let alone = read(OF_ARM64).unwrap();
    assert_eq!(
        (alone.host_subject, alone.base.kernel),
        (Subject::of("debian:cloud-arm64", ""), None)
    );
    let named = read(&OF_ARM64.replace("{}", "{ kernel = \"Image\" }")).unwrap();
    assert_eq!(named.host_subject, Subject::of("Image", ""));
    // The Side that names no kernel has the usual one.
    let two = read(&format!("{OF_ARM64}change = {{ boot_line = \"x\" }}")).unwrap();
    let kernels: Vec<_> = two.subjects().map(|subject| subject.kernel.clone().unwrap()).collect();
    assert_eq!(kernels, ["", "x"].map(|line| Subject::of("debian:cloud-arm64", line)));
    assert_eq!(two.host_subject, kernels[0]);
    let both = OF_ARM64.replace("{}", "{ kernel = \"x\" }\nhost_kernel = \"y\"");
    let error = read(&both).unwrap_err().to_string();
    let said = "kernel only applies to an experiment without host_kernel";
    assert!(error.starts_with(said), "{error}");
    let page = read(&OF_ARM64.replace("{}", "{ without = [\"magic-page\"] }")).unwrap_err();
    assert!(page.to_string().contains("no feature \"magic-page\""), "{page}");
}

#[test]
fn mistakes_are_named() {
    for (file, from, to, said) in [
        (FILE, "\"kvm\"", "\"xen\"", "unknown variant `xen`"),
        (FILE, "cpus = 2", "cpus = 17", "cpus must be 1 to 16, not 17"),
        (FILE, "without", "with", "unknown field `with`"),
        (FILE, "out=2000", "rdtsc=1", "one of cpuid, rdmsr, wrmsr, fault, pic, interrupt, wake, "),
        (FILE, "out=2000", "hlt=1,wake=1", "write raw:hlt=N with N from 1 to 4294967295"),
        (FILE, "out=2000", "ipi=0", "write raw:ipi=N with N from 1 to 4294967295"),
        (FILE, "out=2000", "fault=196097", "write raw:fault=N with N from 1 to 196096"),
        (FILE, "base = { kernel = \"debian:cloud-amd64\" }", "base = {}", "kernel is missing"),
        (FILE, "\"getppid\"", "\"boot\"", "boot is named twice"),
        (FILE, "title", "pairs = 10\ntitle", "--pairs (pairs) only applies to timed engines"),
        (FILE, "title", "engine = \"kvm\"\ntitle", "--engine (engine) only applies to"),
        (
            FILE,
            "[\"kvmclock\"], cpus = 2",
            "[\"kvm-pv-eoi\"]",
            "differ only in kvm-pv-eoi, which no",
        ),
        (OF_E500V2, "\"magic-page\"", "\"kvmclock\"", "KVM has no feature \"kvmclock\"; it has"),
        (OF_E500V2, "magic-page", "magic-pag", "(did you mean \"magic-page\"?); it has magic-page"),
        (OF_E500V2, "change = {}", "change = { kernel = \"x\" }", "kernel only applies to"),
        (OF_E500V2, "a.patch", "a\\u001b.patch", "the host's options and patches must be one"),
        (OF_E500V2, "all=2000", "all=-1", "write raw:all=N with N from 1 to 4294967295"),
        (OF_E500V2, "raw:all=2000", "getppid", "one of all, mfmsr, mtspr, mfspr, mmio, wrtee, rfi"),
    ] {
        let error = read(&file.replace(from, to)).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
}
