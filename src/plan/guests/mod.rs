//! Experiments whose Subjects are guests of a KVM host: where their time goes, exit by exit.

mod e500v2;
mod linux;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::PlanError;
use crate::model::Subject;
use crate::text::escape_lines;

pub use e500v2::{Feature, RawSubject};
pub use linux::{GuestSubject, GuestWork};

/// An experiment file that names a host, by what its guests are.
#[derive(Debug, Clone, PartialEq)]
pub enum GuestFile {
    /// `host = "kvm"`
    Kvm(Box<GuestExperiment<GuestSubject>>),
    /// `host = "kvm-e500v2"`
    E500v2(Box<GuestExperiment<RawSubject>>),
}

/// What such a file says.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestExperiment<Guest> {
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
    /// The host's kernel, unless it is the usual one of its kind.
    #[serde(default)]
    host_kernel: Option<String>,
    /// Of a host's kernel from source: options beyond those that it must have.
    #[serde(default)]
    host_config: Vec<String>,
    /// The same, paths of patches.
    #[serde(default)]
    host_patches: Vec<String>,
    /// `raw:KIND=N` of the host's kinds; on x86 also `boot`, and rows by name.
    pub workloads: Vec<String>,
    /// What the change is measured against.
    pub base: Guest,
    /// What is measured; without it the base's tables alone are printed.
    pub change: Option<Guest>,
}

/// A kind of host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum HostKind {
    /// A Linux kernel with KVM, within QEMU.
    #[serde(rename = "kvm")]
    Kvm,
    /// The same on a PowerPC of 2008, which has no virtualization, in QEMU's ppce500.
    #[serde(rename = "kvm-e500v2")]
    E500v2,
}

/// What a guest leaves for, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawWork {
    pub kind: String,
    pub count: u32,
}

impl RawWork {
    /// Of a name without its `raw:`.
    fn of(name: &str, text: &str, kinds: &[&str]) -> Result<RawWork, PlanError> {
        let parsed = text.split_once('=').filter(|(kind, _)| kinds.contains(kind));
        let parsed = parsed.and_then(|(kind, count)| Some((kind.to_owned(), count.parse().ok()?)));
        let no_work = || PlanError::NoWork { text: name.to_owned(), kinds: kinds.join(", ") };
        parsed.map(|(kind, count)| RawWork { kind, count }).ok_or_else(no_work)
    }
}

impl GuestFile {
    /// Whether a file is one: it names a host.
    pub fn is_one(text: &str) -> bool {
        host(text).is_some()
    }

    /// Parses an experiment file; `path` is for messages.
    pub fn parse(text: &str, path: &str) -> Result<GuestFile, PlanError> {
        if host(text).as_ref().and_then(toml::Value::as_str) == Some("kvm-e500v2") {
            return Ok(GuestFile::E500v2(Box::new(parse(text, path)?)));
        }
        let experiment: GuestExperiment<GuestSubject> = parse(text, path)?;
        linux::check(&experiment, path)?;
        Ok(GuestFile::Kvm(Box::new(experiment)))
    }

    /// What the guests do, as the file names it.
    pub fn workloads(&mut self) -> &mut Vec<String> {
        match self {
            GuestFile::Kvm(experiment) => &mut experiment.workloads,
            GuestFile::E500v2(experiment) => &mut experiment.workloads,
        }
    }
}

fn host(text: &str) -> Option<toml::Value> {
    toml::from_str::<toml::Table>(text).ok()?.remove("host")
}

fn wrong(path: &str, reason: String) -> PlanError {
    PlanError::Experiment { path: path.to_owned(), reason }
}

fn parse<Guest: DeserializeOwned>(
    text: &str,
    path: &str,
) -> Result<GuestExperiment<Guest>, PlanError> {
    let parsed = toml::from_str::<GuestExperiment<Guest>>(text);
    let experiment =
        parsed.map_err(|error| wrong(path, escape_lines(error.to_string().trim_end())))?;
    let host = experiment.host_subject().beside_kernel();
    if !host.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return Err(PlanError::Unprintable { what: "the host's options and patches" });
    }
    match experiment.engine == "exact" {
        true => Ok(experiment),
        false => Err(PlanError::Engine { engine: experiment.engine }),
    }
}

impl<Guest> GuestExperiment<Guest> {
    /// Base, and change where there is one.
    pub fn subjects(&self) -> impl Iterator<Item = &Guest> {
        std::iter::once(&self.base).chain(&self.change)
    }

    /// The host's own kernel.
    pub fn host_subject(&self) -> Subject {
        let usual = match self.host {
            HostKind::Kvm => "debian:cloud-amd64",
            HostKind::E500v2 => "debian-src:6.12",
        };
        let mut subject = Subject::of(self.host_kernel.as_deref().unwrap_or(usual), "");
        subject.config.clone_from(&self.host_config);
        subject.patches.clone_from(&self.host_patches);
        subject
    }
}
