use serde::Deserialize;

use super::experiment::printable;
use super::{PlanError, definitions, select};
use crate::model::{Subject, Workload};

/// An experiment file whose Subjects are guests of a KVM host: where their time goes, exit by exit.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestExperiment {
    /// One line for people.
    pub title: String,
    /// Why it is worth asking.
    #[serde(default)]
    pub why: String,
    /// How the host runs; only `exact` there is.
    #[serde(default = "super::experiment::exact")]
    pub engine: String,
    /// What the guests run on.
    pub host: HostKind,
    /// The host's kernel.
    #[serde(default = "cloud")]
    pub host_kernel: String,
    /// `boot`, `raw:KIND=N` with one of out, mmio, cpuid and hlt, or rows by name.
    pub workloads: Vec<String>,
    /// What the change is measured against.
    pub base: GuestSubject,
    /// What is measured; without it the base's tables alone are printed.
    pub change: Option<GuestSubject>,
}

/// A kind of host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostKind {
    /// A Linux kernel with KVM, within QEMU.
    Kvm,
}

/// A guest.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestSubject {
    /// As in every experiment.
    pub kernel: String,
    #[serde(default)]
    pub boot_line: String,
    #[serde(default)]
    pub config: Vec<String>,
    #[serde(default)]
    pub patches: Vec<String>,
    /// Features of KVM that the guest does not see: `kvmclock`, `kvm-pv-unhalt`, …
    #[serde(default)]
    pub without: Vec<String>,
    /// vCPUs.
    #[serde(default = "one")]
    pub cpus: u8,
    #[serde(default = "quarter")]
    pub memory_mib: u32,
}

/// What a guest does while it is recorded.
#[derive(Debug, Clone, PartialEq)]
pub enum GuestWork {
    /// It boots, and goes off.
    Boot,
    /// It has no kernel, and leaves for one reason, so often.
    Raw { kind: String, count: u32 },
    /// One program, from its start to its end.
    Program(Workload),
}

fn cloud() -> String {
    "debian:cloud-amd64".into()
}

fn one() -> u8 {
    1
}

fn quarter() -> u32 {
    256
}

const KINDS: [&str; 4] = ["out", "mmio", "cpuid", "hlt"];

impl GuestExperiment {
    /// Whether a file is one: it names a host.
    pub fn is_one(text: &str) -> bool {
        toml::from_str::<toml::Table>(text).is_ok_and(|table| table.contains_key("host"))
    }

    /// Parses an experiment file; `path` is for messages.
    pub fn parse(text: &str, path: &str) -> Result<GuestExperiment, PlanError> {
        let wrong = |reason: String| PlanError::Experiment { path: path.to_owned(), reason };
        let experiment: GuestExperiment =
            toml::from_str(text).map_err(|error| wrong(printable(error.to_string().trim_end())))?;
        if experiment.engine != "exact" {
            return Err(PlanError::Engine { engine: experiment.engine });
        }
        for subject in experiment.subjects() {
            let texts = [&subject.boot_line].into_iter().chain(&subject.without);
            if !texts.clone().all(|text| text.bytes().all(|byte| (0x20..0x7f).contains(&byte))) {
                return Err(PlanError::Unprintable { what: "a boot line or feature" });
            }
            if !(1..=16).contains(&subject.cpus) || !(64..=3072).contains(&subject.memory_mib) {
                return Err(wrong("a guest has 1 to 16 cpus and 64 to 3072 MiB".into()));
            }
        }
        Ok(experiment)
    }

    /// Base, and change where there is one.
    pub fn subjects(&self) -> impl Iterator<Item = &GuestSubject> {
        std::iter::once(&self.base).chain(&self.change)
    }

    /// What the guests do, by its name, in the order of the file.
    pub fn works(&self) -> Result<Vec<(String, GuestWork)>, PlanError> {
        let all = definitions()?;
        let mut works = Vec::new();
        for name in &self.workloads {
            match name.strip_prefix("raw:") {
                _ if name == "boot" => works.push((name.clone(), GuestWork::Boot)),
                Some(raw) => works.push((name.clone(), raw_work(name, raw)?)),
                None => {
                    let rows = select(&all, Some(std::slice::from_ref(name)))?;
                    works.extend(rows.into_iter().map(|w| (w.row.clone(), GuestWork::Program(w))));
                }
            }
        }
        if works.is_empty() { Err(PlanError::NoWorkload) } else { Ok(works) }
    }
}

fn raw_work(name: &str, text: &str) -> Result<GuestWork, PlanError> {
    let parsed = text.split_once('=').filter(|(kind, _)| KINDS.contains(kind));
    let parsed = parsed.and_then(|(kind, count)| Some((kind.to_owned(), count.parse().ok()?)));
    let bad = || PlanError::BadParameter { workload: "raw".into(), text: name.to_owned() };
    let (kind, count) = parsed.ok_or_else(bad)?;
    Ok(GuestWork::Raw { kind, count })
}

impl GuestSubject {
    /// Its kernel, as every Subject's.
    pub fn subject(&self) -> Subject {
        let mut subject = Subject::of(&self.kernel, &self.boot_line);
        subject.config.clone_from(&self.config);
        subject.patches.clone_from(&self.patches);
        subject
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
title = "Clocks"
host = "kvm"
workloads = ["boot", "raw:out=2000", "getppid"]
base = { kernel = "debian:cloud-amd64" }
change = { kernel = "debian:cloud-amd64", without = ["kvmclock"], cpus = 2 }
"#;

    #[test]
    fn a_file_is_read() {
        assert!(GuestExperiment::is_one(FILE));
        let experiment = GuestExperiment::parse(FILE, "x.toml").unwrap();
        assert_eq!(experiment.subjects().map(|subject| subject.cpus).collect::<Vec<_>>(), [1, 2]);
        let works = experiment.works().unwrap();
        assert_eq!(works[0].1, GuestWork::Boot);
        assert_eq!(works[1].1, GuestWork::Raw { kind: "out".into(), count: 2000 });
        assert!(matches!(&works[2].1, GuestWork::Program(workload) if workload.row == "getppid"));
    }

    #[test]
    fn mistakes_are_named() {
        for (from, to, said) in [
            ("\"kvm\"", "\"xen\"", "unknown variant `xen`"),
            ("cpus = 2", "cpus = 17", "1 to 16 cpus"),
            ("without", "with", "unknown field `with`"),
        ] {
            let error = GuestExperiment::parse(&FILE.replace(from, to), "x").unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
        let raw = FILE.replace("out=2000", "rdtsc=1");
        assert!(GuestExperiment::parse(&raw, "x").unwrap().works().is_err());
        assert!(!GuestExperiment::is_one("title = \"x\""));
    }
}
