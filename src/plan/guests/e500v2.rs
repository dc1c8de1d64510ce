use serde::Deserialize;

use super::{GuestExperiment, RawWork};
use crate::plan::PlanError;

/// A guest without a kernel.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawSubject {
    /// Features of KVM that the guest does not use.
    #[serde(default)]
    pub without: Vec<Feature>,
}

/// What KVM for e500v2 has for its guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Feature {
    /// The page with the guest's registers, which it reads and writes instead of trapping.
    MagicPage,
}

/// What an e500v2's guest may not do, and all of that together.
const KINDS: [&str; 7] = ["all", "mfmsr", "mtspr", "mfspr", "mmio", "wrtee", "rfi"];

impl GuestExperiment<RawSubject> {
    /// What the guests do, by its name, in the order of the file.
    pub fn works(&self) -> Result<Vec<(String, RawWork)>, PlanError> {
        let work = |name: &String| {
            let raw = name.strip_prefix("raw:").unwrap_or_default();
            Ok((name.clone(), RawWork::of(name, raw, &KINDS)?))
        };
        let works = self.workloads.iter().map(work).collect::<Result<Vec<_>, PlanError>>()?;
        if works.is_empty() { Err(PlanError::NoWorkload) } else { Ok(works) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::GuestFile;
    use super::*;

    const FILE: &str = r#"
title = "The page"
host = "kvm-e500v2"
host_patches = ["a.patch"]
workloads = ["raw:all=2000"]
base = { without = ["magic-page"] }
change = {}
"#;

    fn read(text: &str) -> Result<GuestExperiment<RawSubject>, PlanError> {
        match GuestFile::parse(text, "x.toml")? {
            GuestFile::E500v2(experiment) => Ok(*experiment),
            GuestFile::Kvm(experiment) => panic!("{experiment:?}"),
        }
    }

    #[test]
    fn a_file_is_read() {
        let experiment = read(FILE).unwrap();
        let without: Vec<_> = experiment.subjects().map(|subject| &subject.without[..]).collect();
        assert_eq!(without, [&[Feature::MagicPage][..], &[]]);
        let work = RawWork { kind: "all".into(), count: 2000 };
        assert_eq!(experiment.works().unwrap(), [("raw:all=2000".to_owned(), work)]);
        let host = experiment.host_subject();
        assert_eq!(
            (host.kernel.as_str(), host.patches),
            ("debian-src:6.12", vec!["a.patch".into()])
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (from, to, said) in [
            ("magic-page", "kvmclock", "unknown variant `kvmclock`, expected `magic-page`"),
            ("change = {}", "change = { kernel = \"x\" }", "unknown field `kernel`"),
            ("a.patch", "a\\u001b.patch", "the host's options and patches must be one printable"),
        ] {
            let error = read(&FILE.replace(from, to)).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
        for name in ["boot", "getppid", "raw:out=3", "raw:all", "raw:all=-1"] {
            let error = read(&FILE.replace("raw:all=2000", name)).unwrap().works().unwrap_err();
            let said = error.to_string();
            assert!(said.starts_with(&format!("{name:?} is no work")), "{said}");
            assert!(said.ends_with("one of all, mfmsr, mtspr, mfspr, mmio, wrtee, rfi"), "{said}");
        }
    }
}
