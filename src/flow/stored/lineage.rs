//! The order of kernels, and which of them belong together.

use std::collections::BTreeMap;

use super::error::StoredError;
use super::names::Names;
use crate::flow::error::Error;
use crate::index::{StoredPoint, StoredSubject};

/// A subject: SHA-256 of the Kernel's image, and the boot line.
type Key = (String, String);

/// Where each subject is, and in which lineage.
pub(super) struct Lineage {
    places: BTreeMap<Key, (String, usize)>,
}

impl Lineage {
    /// The order that is asked for, else one lineage for each flavour and boot line by version.
    pub fn of(wanted: &[String], names: &Names) -> Result<Lineage, Error> {
        if !wanted.is_empty() {
            let mut places = BTreeMap::new();
            for (at, subject) in along(wanted, names)?.into_iter().enumerate() {
                places.insert(key(subject), (String::new(), at));
            }
            return Ok(Lineage { places });
        }
        let mut subjects: Vec<&StoredSubject> = names.subjects().iter().collect();
        subjects.sort_by(|one, other| alphanumeric_sort::compare_str(version(one), version(other)));
        // The newest kernel of a flavour names it.
        let mut flavours: BTreeMap<(String, &str), (String, usize)> = BTreeMap::new();
        let mut found = Vec::new();
        for subject in subjects {
            let (alike, label) = flavour(&subject.kernel);
            let lineage = flavours.entry((alike.clone(), &subject.boot_line)).or_default();
            lineage.0 = label;
            found.push((subject, (alike, subject.boot_line.as_str()), lineage.1));
            lineage.1 += 1;
        }
        let places = found.into_iter().map(|(subject, lineage, place)| {
            let label = &flavours[&lineage].0;
            let words = [label.as_str(), &subject.boot_line].into_iter();
            let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
            (key(subject), (words.join(" "), place))
        });
        Ok(Lineage { places: places.collect() })
    }

    /// The lineage of a measurement's subject, and its place there.
    pub fn place(&self, point: &StoredPoint) -> Option<(String, usize)> {
        self.places.get(&(point.kernel_sha256.clone(), point.boot_line.clone())).cloned()
    }
}

fn key(of: &StoredSubject) -> Key {
    (of.kernel_sha256.clone(), of.boot_line.clone())
}

/// Names with commas between them; a name may have commas itself, in its boot line.
fn along<'a>(wanted: &[String], names: &'a Names) -> Result<Vec<&'a StoredSubject>, Error> {
    let mut all = Vec::new();
    for text in wanted {
        match names.find(text) {
            Err(Error::Stored(StoredError::Unknown { .. })) if text.contains(',') => {
                for name in text.split(',') {
                    all.push(names.find(name)?);
                }
            }
            found => all.push(found?),
        }
    }
    Ok(all)
}

/// What kernels are ordered by: a candidate comes before its release, and a package's version tells
/// two kernels of one release apart.
fn version(subject: &StoredSubject) -> String {
    let mut version = String::new();
    let mut rest = subject.kernel.as_str();
    while let Some(at) = rest.find("-rc") {
        let is_candidate = rest[at + 3..].starts_with(|c: char| c.is_ascii_digit());
        version += &rest[..at];
        version += if is_candidate { "\u{1}rc" } else { "-rc" };
        rest = &rest[at + 3..];
    }
    version += rest;
    format!("{version} {}", subject.sources.join(" ")).replace('~', "\u{1}")
}

/// What two releases have alike if only their versions differ, and the flavour as people say it:
/// `cloud-amd64` of `6.1.0-56-cloud-amd64`. Numbers, candidates and commits are versions.
fn flavour(release: &str) -> (String, String) {
    let is_version = |c: char| c.is_ascii_digit() || c == '.' || c == '+';
    let is_commit = |word: &str| {
        let digits = word.strip_prefix('g').unwrap_or_default();
        digits.len() >= 7 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    };
    let is_candidate = |word: &str| {
        let number = word.strip_prefix("rc").unwrap_or_default();
        !number.is_empty() && number.chars().all(is_version)
    };
    // Debian's `6.12.57+deb13`: what follows a version is of its build.
    let without_build = |word| match str::starts_with(word, |c: char| c.is_ascii_digit()) {
        true => word.split('+').next().unwrap_or_default(),
        false => word,
    };
    let words = release.split('-').map(without_build);
    // The size of a page, `64k`, is no version.
    let is_page_size = |word: &str| {
        let number = word.strip_suffix('k').unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let words = words.map(|word| match is_page_size(word) {
        true => word,
        false => word.trim_start_matches(is_version),
    });
    let words: Vec<&str> =
        words.filter(|it| !it.is_empty() && !is_commit(it) && !is_candidate(it)).collect();
    let label = words.join("-");
    // A build-id is no release.
    if label.len() >= 20 && label.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Default::default();
    }
    let alike = words.iter().map(|word| match is_page_size(word) {
        true => (*word).to_owned(),
        false => word.replace(|c: char| c.is_ascii_digit(), ""),
    });
    (alike.collect::<Vec<_>>().join("-"), label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_differ_within_a_flavour() {
        for (one, other) in [
            ("6.1.0-55-cloud-amd64", "6.12.57+deb13-cloud-amd64"),
            ("6.12.0-rc7", "6.12.1"),
            ("6.12.0-next-20240901", "6.12.0-next-20240902"),
            ("6.12.0-gadc218676eef", "6.12.0-g0123456789ab"),
            ("6.8.5-301.fc40.x86_64", "6.9.1-200.fc41.x86_64"),
        ] {
            assert_eq!(flavour(one).0, flavour(other).0, "{one} {other}");
        }
        for (one, other) in [
            ("6.1.0-56-cloud-amd64", "6.1.0-56-amd64"),
            ("6.1.0-56-rt-amd64", "6.1.0-56-amd64"),
            ("6.12.0-rcu-fix", "6.12.0-u-fix"),
            ("6.12.1-generic-64k", "6.12.2-generic-16k"),
            ("6.12.1-generic-64k", "6.12.2-generic"),
        ] {
            assert_ne!(flavour(one).0, flavour(other).0, "{one} {other}");
        }
        assert_eq!(flavour("6.1.0-56-cloud-amd64").1, "cloud-amd64");
        assert_eq!(flavour(&"0123456789abcdef".repeat(3)).1, "");
    }
}
