use serde::Deserialize;

use super::{GuestExperiment, RawWork, wrong};
use crate::model::{Subject, Workload};
use crate::plan::{PlanError, definitions, select};

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
    Raw(RawWork),
    /// One program, from its start to its end.
    Program(Workload),
}

fn one() -> u8 {
    1
}

fn quarter() -> u32 {
    256
}

const KINDS: [&str; 4] = ["out", "mmio", "cpuid", "hlt"];

/// Refuses what no guest can be.
pub(super) fn check(
    experiment: &GuestExperiment<GuestSubject>,
    path: &str,
) -> Result<(), PlanError> {
    for subject in experiment.subjects() {
        let texts = [&subject.boot_line].into_iter().chain(&subject.without);
        if !texts.clone().all(|text| text.bytes().all(|byte| (0x20..0x7f).contains(&byte))) {
            return Err(PlanError::Unprintable { what: "a boot line or feature" });
        }
        if !(1..=16).contains(&subject.cpus) || !(64..=3072).contains(&subject.memory_mib) {
            return Err(wrong(path, "a guest has 1 to 16 cpus and 64 to 3072 MiB".into()));
        }
    }
    Ok(())
}

impl GuestExperiment<GuestSubject> {
    /// What the guests do, by its name, in the order of the file.
    pub fn works(&self) -> Result<Vec<(String, GuestWork)>, PlanError> {
        let all = definitions()?;
        let mut works = Vec::new();
        for name in &self.workloads {
            match name.strip_prefix("raw:") {
                _ if name == "boot" => works.push((name.clone(), GuestWork::Boot)),
                Some(raw) => {
                    let raw = RawWork::of(name, raw, &KINDS)?;
                    works.push((name.clone(), GuestWork::Raw(raw)));
                }
                None => {
                    let rows = select(&all, Some(std::slice::from_ref(name)))?;
                    works.extend(rows.into_iter().map(|w| (w.row.clone(), GuestWork::Program(w))));
                }
            }
        }
        if works.is_empty() { Err(PlanError::NoWorkload) } else { Ok(works) }
    }
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
    use super::super::GuestFile;
    use super::*;

    const FILE: &str = r#"
title = "Clocks"
host = "kvm"
workloads = ["boot", "raw:out=2000", "getppid"]
base = { kernel = "debian:cloud-amd64" }
change = { kernel = "debian:cloud-amd64", without = ["kvmclock"], cpus = 2 }
"#;

    fn read(text: &str) -> Result<GuestExperiment<GuestSubject>, PlanError> {
        match GuestFile::parse(text, "x.toml")? {
            GuestFile::Kvm(experiment) => Ok(*experiment),
            GuestFile::E500v2(experiment) => panic!("{experiment:?}"),
        }
    }

    #[test]
    fn a_file_is_read() {
        assert!(GuestFile::is_one(FILE));
        let experiment = read(FILE).unwrap();
        assert_eq!(experiment.host_subject(), Subject::of("debian:cloud-amd64", ""));
        assert_eq!(experiment.subjects().map(|subject| subject.cpus).collect::<Vec<_>>(), [1, 2]);
        let works = experiment.works().unwrap();
        assert_eq!(works[0].1, GuestWork::Boot);
        assert_eq!(works[1].1, GuestWork::Raw(RawWork { kind: "out".into(), count: 2000 }));
        assert!(matches!(&works[2].1, GuestWork::Program(workload) if workload.row == "getppid"));
    }

    #[test]
    fn mistakes_are_named() {
        for (from, to, said) in [
            ("\"kvm\"", "\"xen\"", "unknown variant `xen`"),
            ("cpus = 2", "cpus = 17", "1 to 16 cpus"),
            ("without", "with", "unknown field `with`"),
        ] {
            let error = read(&FILE.replace(from, to)).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
        let raw = FILE.replace("out=2000", "rdtsc=1");
        assert!(read(&raw).unwrap().works().is_err());
        assert!(!GuestFile::is_one("title = \"x\""));
    }
}
