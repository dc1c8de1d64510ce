//! Which subject a name means.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use super::{Stored, StoredError};
use crate::disk::sha256_of_file;
use crate::flow::error::Error;
use crate::index::StoredSubject;
use crate::store::Tagged;
use crate::text::{nearest, short_hashes};

/// So many choices are listed.
const CHOICES: usize = 5;

/// Fewer hexadecimal digits mean too many.
const LEAST_DIGITS: usize = 4;

/// The subjects of a store with the user's names.
pub(super) struct Names {
    subjects: Vec<StoredSubject>,
    /// Which of them has this image and, below that, this boot line.
    places: HashMap<String, BTreeMap<String, usize>>,
    /// Names that several images have.
    shared: BTreeSet<String>,
    tags: Vec<(String, Tagged)>,
    store: String,
}

impl Names {
    pub fn of(stored: &Stored) -> Result<Names, Error> {
        let subjects = stored.index.subjects()?;
        let (mut places, mut images) = (HashMap::new(), HashMap::new());
        let mut shared = BTreeSet::new();
        for (at, StoredSubject { kernel_sha256, kernel, boot_line, .. }) in
            subjects.iter().enumerate()
        {
            let of_image: &mut BTreeMap<_, _> = places.entry(kernel_sha256.clone()).or_default();
            of_image.insert(boot_line.clone(), at);
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

    /// All subjects.
    pub fn subjects(&self) -> &[StoredSubject] {
        &self.subjects
    }

    /// The tags of a subject.
    pub fn tags(&self, kernel_sha256: &str, boot_line: &str) -> Vec<String> {
        let is_of = |of: &Tagged| of.kernel_sha256 == kernel_sha256 && of.boot_line == boot_line;
        self.tags.iter().filter(|(_, of)| is_of(of)).map(|(name, _)| name.clone()).collect()
    }

    /// Whether another image has the same name.
    pub fn is_ambiguous(&self, of: &StoredSubject) -> bool {
        self.shared.contains(&of.kernel)
    }

    /// A name that [`Names::find`] understands: the kernel's, or the first digits of its hash where
    /// that name is another's too, and the boot line.
    pub fn name(&self, of: &StoredSubject) -> String {
        let kernel = match self.is_ambiguous(of) {
            false => of.kernel.clone(),
            true => short_hashes(&of.kernel_sha256),
        };
        if of.boot_line.is_empty() { kernel } else { format!("{kernel}@{}", of.boot_line) }
    }

    /// The subject of a kernel and a boot line.
    pub fn subject(&self, kernel_sha256: &str, boot_line: &str) -> Option<&StoredSubject> {
        Some(&self.subjects[*self.places.get(kernel_sha256)?.get(boot_line)?])
    }

    /// The subject of a tag, a release, a package, a version, a commit, the first digits of an
    /// image's hash, or a file; `…@boot line` where it is measured with several.
    pub fn find(&self, name: &str) -> Result<&StoredSubject, Error> {
        if let Some((_, tagged)) = self.tags.iter().find(|(tag, _)| tag == name) {
            let is_it = |it: &&StoredSubject| {
                it.kernel_sha256 == tagged.kernel_sha256 && it.boot_line == tagged.boot_line
            };
            return self.one(name, self.subjects.iter().filter(is_it).collect());
        }
        match self.find_untagged(name) {
            // `6.1.0-55` begins the release of the only kernel that has it.
            Err(Error::Stored(StoredError::Unknown { .. })) => self.matching(name, begins),
            found => found,
        }
    }

    /// The subject of a name that is no tag, which is given in full.
    pub fn find_untagged(&self, name: &str) -> Result<&StoredSubject, Error> {
        self.matching(name, is_called)
    }

    fn matching(
        &self,
        name: &str,
        is_one: impl Fn(&StoredSubject, &str) -> bool,
    ) -> Result<&StoredSubject, Error> {
        let (kernel, boot_line) = parts(name);
        let of_tag = self.tags.iter().find(|(tag, _)| tag == kernel && boot_line.is_some());
        let mut all: Vec<&StoredSubject> = match of_tag {
            Some((_, tagged)) => self.of_image(&tagged.kernel_sha256),
            None => self.subjects.iter().filter(|it| is_one(it, kernel)).collect(),
        };
        // A file is asked last, so that none in the current directory hides a kernel.
        if all.is_empty() && Path::new(kernel).is_file() {
            all = self.of_image(&sha256_of_file(Path::new(kernel))?);
        }
        if let Some(boot_line) = boot_line {
            all.retain(|subject| subject.boot_line == boot_line);
        }
        // Without a word of a boot line it is the kernel as it comes, if there is such a one.
        let plain: Vec<&StoredSubject> =
            all.iter().filter(|subject| subject.boot_line.is_empty()).copied().collect();
        self.one(name, if boot_line.is_none() && plain.len() == 1 { plain } else { all })
    }

    fn of_image(&self, sha256: &str) -> Vec<&StoredSubject> {
        self.subjects.iter().filter(|it| it.kernel_sha256 == sha256).collect()
    }

    fn one<'a>(
        &self,
        name: &str,
        found: Vec<&'a StoredSubject>,
    ) -> Result<&'a StoredSubject, Error> {
        match found.as_slice() {
            [one] => Ok(one),
            [] => {
                let known: Vec<String> = self.subjects.iter().map(|it| self.name(it)).collect();
                let known = self.tags.iter().map(|(tag, _)| tag).chain(&known);
                // A tag may be of a subject whose measurements are gone.
                let known = known.map(String::as_str).filter(|known| *known != name);
                let near = nearest(name, known).map(str::to_owned);
                let (store, name) = (self.store.clone(), name.to_owned());
                let command = measuring_alone(&name);
                Err(StoredError::Unknown { store, name, near, command })?
            }
            several => {
                let choice = |it: &&&StoredSubject| (self.name(it), it.sources.join(", "));
                let choices = several.iter().take(CHOICES).map(|it| choice(&it)).collect();
                Err(StoredError::Ambiguous { name: name.to_owned(), choices })?
            }
        }
    }
}

/// The kernel and the boot line of `KERNEL@BOOT LINE`.
pub(super) fn parts(name: &str) -> (&str, Option<&str>) {
    match name.split_once('@') {
        Some((kernel, boot_line)) => (kernel, Some(boot_line)),
        None => (name, None),
    }
}

/// The words of the command that measures one subject, which is named as a user names it.
fn measuring_alone(name: &str) -> Vec<String> {
    let (kernel, boot_line) = parts(name);
    let mut words = ["ktax", "compare", "--same", "--kernel", &specified(kernel, "")]
        .map(str::to_owned)
        .to_vec();
    if let Some(line) = boot_line.filter(|line| !line.is_empty()) {
        words.extend(["--base-boot-line", line, "--change-boot-line", line].map(str::to_owned));
    }
    words
}

/// A kernel as `ktax compare` takes it, of a name that the store does not have: a release is that
/// of a Debian package, of which `like` has the flavour; a version is one of git.
pub(super) fn specified(name: &str, like: &str) -> String {
    let begins_with_digit = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let is_path = name.contains([':', '/']);
    let release = name.strip_prefix("linux-image-").unwrap_or(name);
    if !is_path && begins_with_digit(release) && release.contains('-') {
        let has_flavour = release.split('-').next_back().is_some_and(|it| !begins_with_digit(it));
        let flavour = like.splitn(3, '-').nth(2).filter(|_| !has_flavour);
        let flavour = flavour.map(|flavour| format!("-{flavour}")).unwrap_or_default();
        return format!("debian:{release}{flavour}");
    }
    match !is_path && name.strip_prefix('v').is_some_and(begins_with_digit) {
        true => format!("git:{name}"),
        false => name.to_owned(),
    }
}

/// Whether a name is the first parts of that of the subject's kernel.
fn begins(subject: &StoredSubject, name: &str) -> bool {
    let rest = subject.kernel.strip_prefix(name);
    !name.is_empty() && rest.is_some_and(|rest| rest.starts_with(['-', '.', '+', '~']))
}

/// Whether this is a name of the subject's kernel.
fn is_called(subject: &StoredSubject, name: &str) -> bool {
    let StoredSubject { kernel_sha256, kernel, sources, asked, .. } = subject;
    let is_digits = |text: &str| {
        text.len() >= LEAST_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let is_package = |source: &String| {
        let package = source.strip_prefix("debian:").and_then(|it| it.split_once('='));
        package.is_some_and(|(package, version)| package == name || version == name)
    };
    let is_revision = |asked: &String| {
        let revision = asked.strip_prefix("git:");
        revision.is_some_and(|it| it == name || is_digits(name) && it.starts_with(name))
    };
    kernel == name
        || sources.iter().chain(asked).any(|it| it == name)
        || sources.iter().any(is_package)
        || asked.iter().any(is_revision)
        || is_digits(name) && kernel_sha256.starts_with(name)
}
