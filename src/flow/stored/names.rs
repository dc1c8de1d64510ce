//! Finds the subject that a name means.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use super::{Stored, StoredError};
use crate::disk::sha256_of_file;
use crate::flow::error::Error;
use crate::index::StoredSubject;
use crate::model::ErrorKind;
use crate::store::Tagged;
use crate::text::{nearest, short_hashes};

/// Number of choices that a message lists.
const CHOICES: usize = 5;

/// Minimum length of a hash prefix.
const LEAST_DIGITS: usize = 4;

/// Subjects of a store, with the user's tags.
pub(super) struct Names {
    subjects: Vec<StoredSubject>,
    /// Index of a subject by image and boot line.
    places: HashMap<String, BTreeMap<String, usize>>,
    /// Kernel names that several images have.
    shared: BTreeSet<String>,
    tags: Vec<(String, Tagged)>,
    store: String,
}

impl Names {
    pub fn read(stored: &Stored) -> Result<Names, Error> {
        let subjects = stored.index.subjects()?;
        let (mut places, mut images) = (HashMap::new(), HashMap::new());
        let mut shared = BTreeSet::new();
        for (place, StoredSubject { kernel_sha256, kernel, boot_line, .. }) in
            subjects.iter().enumerate()
        {
            let of_image: &mut BTreeMap<_, _> = places.entry(kernel_sha256.clone()).or_default();
            of_image.insert(boot_line.clone(), place);
            if images.insert(kernel, kernel_sha256).is_some_and(|other| other != kernel_sha256) {
                shared.insert(kernel.clone());
            }
        }
        Ok(Names {
            places,
            shared,
            subjects,
            tags: stored.store.tags()?,
            store: stored.store.root().display().to_string(),
        })
    }

    pub fn subjects(&self) -> &[StoredSubject] {
        &self.subjects
    }

    pub fn tags(&self, kernel_sha256: &str, boot_line: &str) -> Vec<String> {
        let is_of = |tagged: &Tagged| {
            tagged.kernel_sha256 == kernel_sha256 && tagged.boot_line == boot_line
        };
        self.tags.iter().filter(|(_, tagged)| is_of(tagged)).map(|(name, _)| name.clone()).collect()
    }

    /// Whether another image has the same name.
    pub fn is_ambiguous(&self, subject: &StoredSubject) -> bool {
        self.shared.contains(&subject.kernel)
    }

    /// Name that [`Names::find`] accepts: the kernel's, or the first digits of its hash if another
    /// image has that name, and the boot line.
    pub fn name(&self, subject: &StoredSubject) -> String {
        let kernel = match self.is_ambiguous(subject) {
            false => subject.kernel.clone(),
            true => short_hashes(&subject.kernel_sha256),
        };
        if subject.boot_line.is_empty() {
            kernel
        } else {
            format!("{kernel}@{}", subject.boot_line)
        }
    }

    /// Subject of a kernel and a boot line.
    pub fn subject(&self, kernel_sha256: &str, boot_line: &str) -> Option<&StoredSubject> {
        Some(&self.subjects[*self.places.get(kernel_sha256)?.get(boot_line)?])
    }

    /// Subject of a tag, a release, a package, a version, a commit, the first digits of an image's
    /// hash, or a file; `…@boot line` selects among several boot lines.
    pub fn find(&self, name: &str) -> Result<&StoredSubject, Error> {
        if let Some((_, tagged)) = self.tags.iter().find(|(tag, _)| tag == name) {
            let is_tagged = |subject: &&StoredSubject| {
                subject.kernel_sha256 == tagged.kernel_sha256
                    && subject.boot_line == tagged.boot_line
            };
            return self.only_one(name, self.subjects.iter().filter(is_tagged).collect());
        }
        match self.find_untagged(name) {
            // `6.1.0-55` may be the beginning of a single kernel's release.
            Err(error) if error.kind == ErrorKind::Unknown => {
                self.matching(name, begins_kernel_name)
            }
            found => found,
        }
    }

    /// Subject of a complete name that is no tag.
    pub fn find_untagged(&self, name: &str) -> Result<&StoredSubject, Error> {
        self.matching(name, is_kernel_name)
    }

    fn matching(
        &self,
        name: &str,
        is_one: impl Fn(&StoredSubject, &str) -> bool,
    ) -> Result<&StoredSubject, Error> {
        let (kernel, boot_line) = split_name(name);
        let tagged = self.tags.iter().find(|(tag, _)| tag == kernel && boot_line.is_some());
        let mut found: Vec<&StoredSubject> = match tagged {
            Some((_, tagged)) => self.with_image(&tagged.kernel_sha256),
            None => self.subjects.iter().filter(|subject| is_one(subject, kernel)).collect(),
        };
        // Try files last, so that none in the current directory hides a kernel.
        if found.is_empty() && Path::new(kernel).is_file() {
            found = self.with_image(&sha256_of_file(Path::new(kernel))?);
        }
        if let Some(boot_line) = boot_line {
            found.retain(|subject| subject.boot_line == boot_line);
        }
        // Without a boot line, prefer the kernel that was measured without one.
        let plain: Vec<&StoredSubject> =
            found.iter().filter(|subject| subject.boot_line.is_empty()).copied().collect();
        self.only_one(name, if boot_line.is_none() && plain.len() == 1 { plain } else { found })
    }

    fn with_image(&self, sha256: &str) -> Vec<&StoredSubject> {
        self.subjects.iter().filter(|subject| subject.kernel_sha256 == sha256).collect()
    }

    fn only_one<'a>(
        &self,
        name: &str,
        found: Vec<&'a StoredSubject>,
    ) -> Result<&'a StoredSubject, Error> {
        match found.as_slice() {
            [subject] => Ok(subject),
            [] => {
                let known: Vec<String> =
                    self.subjects.iter().map(|subject| self.name(subject)).collect();
                let known = self.tags.iter().map(|(tag, _)| tag).chain(&known);
                // The measurements of a tag may be gone.
                let known = known.map(String::as_str).filter(|known| *known != name);
                let near = nearest(name, known).map(str::to_owned);
                let (store, name) = (self.store.clone(), name.to_owned());
                let command = compare_command_for_one(&name);
                Err(StoredError::Unknown { store, name, near, command })?
            }
            several => {
                let choice =
                    |subject: &&&StoredSubject| (self.name(subject), subject.sources.join(", "));
                let choices =
                    several.iter().take(CHOICES).map(|subject| choice(&subject)).collect();
                Err(StoredError::Ambiguous { name: name.to_owned(), choices })?
            }
        }
    }
}

/// Splits `KERNEL@BOOT LINE`.
pub(super) fn split_name(name: &str) -> (&str, Option<&str>) {
    match name.split_once('@') {
        Some((kernel, boot_line)) => (kernel, Some(boot_line)),
        None => (name, None),
    }
}

/// Words of the command that measures one subject, by the name that the user typed.
fn compare_command_for_one(name: &str) -> Vec<String> {
    let (kernel, boot_line) = split_name(name);
    let mut words = ["ktax", "compare", "--same", "--kernel", &kernel_to_compare(kernel, "")]
        .map(str::to_owned)
        .to_vec();
    if let Some(line) = boot_line.filter(|line| !line.is_empty()) {
        words.extend(["--base-boot-line", line, "--change-boot-line", line].map(str::to_owned));
    }
    words
}

/// Kernel as `ktax compare` accepts it, for a name that the store does not have: a release becomes
/// a Debian package with the flavour of `like`, and a version becomes a revision of git.
pub(super) fn kernel_to_compare(name: &str, like: &str) -> String {
    let begins_with_digit = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let is_path = name.contains([':', '/']);
    let release = name.strip_prefix("linux-image-").unwrap_or(name);
    if !is_path && begins_with_digit(release) && release.contains('-') {
        let has_flavour =
            release.split('-').next_back().is_some_and(|part| !begins_with_digit(part));
        let flavour = like.splitn(3, '-').nth(2).filter(|_| !has_flavour);
        let flavour = flavour.map(|flavour| format!("-{flavour}")).unwrap_or_default();
        return format!("debian:{release}{flavour}");
    }
    match !is_path && name.strip_prefix('v').is_some_and(begins_with_digit) {
        true => format!("git:{name}"),
        false => name.to_owned(),
    }
}

/// Whether a name is the beginning of the kernel's name.
fn begins_kernel_name(subject: &StoredSubject, name: &str) -> bool {
    let rest = subject.kernel.strip_prefix(name);
    !name.is_empty() && rest.is_some_and(|rest| rest.starts_with(['-', '.', '+', '~']))
}

/// Whether this is one of the kernel's names.
fn is_kernel_name(subject: &StoredSubject, name: &str) -> bool {
    let StoredSubject { kernel_sha256, kernel, sources, asked, .. } = subject;
    let is_digits = |text: &str| {
        text.len() >= LEAST_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let is_package = |source: &String| {
        let package = source.strip_prefix("debian:").and_then(|package| package.split_once('='));
        package.is_some_and(|(package, version)| package == name || version == name)
    };
    let is_revision = |asked: &String| {
        let revision = asked.strip_prefix("git:");
        revision.is_some_and(|revision| {
            revision == name || is_digits(name) && revision.starts_with(name)
        })
    };
    kernel == name
        || sources.iter().chain(asked).any(|source| source == name)
        || sources.iter().any(is_package)
        || asked.iter().any(is_revision)
        || is_digits(name) && kernel_sha256.starts_with(name)
}
