//! Queries of the store, without measuring: results and subjects, names and tags of subjects,
//! histories, differences, and pages.

mod diff;
mod history;
mod prune;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::{Error, ErrorContext};
use crate::disk::{
    Lock, is_unfinished, read_own_text, remove_unfinished, sha256, sha256_of_file, write_atomically,
};
use crate::index::{Index, StoredResult, StoredSubject};
use crate::model::{ErrorKind, History, HistoryLine, Measurement, Saved};
use crate::report::{Document, HTML, PageEntry, SITE_MARK, TextOptions, site_index, sparkline};
use crate::store::{Store, StoreError, TaggedSubject};
use crate::text::{
    counted, did_you_mean_quoted, escape, nearest, shell_line, shell_word, short_hashes,
};

pub(super) use diff::compare;

#[cfg(test)]
pub(crate) use diff::stored_plan;
pub use history::HistoryRequest;
pub use prune::{Prunable, PrunePlan, PruneRequest, short_guest};

/// Store with its index.
pub struct Stored {
    store: Store,
    index: Index,
}

impl Stored {
    /// Opens a store, and updates its index in the cache. `note` receives messages about unreadable
    /// files and about a long update.
    pub fn open(root: &Path, cache: &Path, note: &dyn Fn(&str)) -> Result<Stored, Error> {
        let store = Store::new(root.to_owned());
        let (index, unreadable) = Index::open(cache, &store, note)?;
        if let Some(first) = unreadable.first() {
            let files = counted(unreadable.len(), "file");
            note(&format!("{files} of the store cannot be read: {first}"));
        }
        Ok(Stored { store, index })
    }

    /// File of the index, for other programs; `None` if the index is in memory.
    pub fn index_path(&self) -> Option<&Path> {
        self.index.path()
    }

    fn measurement(&self, object: &str) -> Result<Measurement, StoreError> {
        self.store.read(&self.store.object_path(object))
    }
}

fn did_you_mean(near: Option<&str>) -> String {
    did_you_mean_quoted(near.map(escape).as_deref())
}

/// Error for a name with several meanings. Each choice is a name and its description, which may be
/// empty.
fn ambiguous(name: &str, choices: impl Iterator<Item = (String, String)>) -> Error {
    let choice = |(name, description): (String, String)| match description.as_str() {
        "" => shell_word(&name),
        description => format!("{} ({})", shell_word(&name), escape(description)),
    };
    let choices = choices.take(MAX_CHOICES).map(choice).collect::<Vec<String>>().join(" or ");
    Error::user(format!("{name:?} is {choices}"))
        .next("give one of these")
        .kind(ErrorKind::Ambiguous)
}

/// The only name that begins with `id`, in upper or lower case. `unknown` is the error without such
/// a name.
fn only_object<'a>(
    id: &str,
    names: impl Iterator<Item = &'a str>,
    unknown: impl FnOnce() -> Error,
) -> Result<&'a str, Error> {
    let wanted = id.to_ascii_lowercase();
    let found: Vec<&str> = names.filter(|name| name.starts_with(&wanted)).collect();
    match found.as_slice() {
        [name] if !id.is_empty() => Ok(name),
        [] | [_] => Err(unknown()),
        several => {
            Err(ambiguous(id, several.iter().map(|name| (short_hashes(name), String::new()))))
        }
    }
}

/// Error for a store without measurements.
fn empty_store() -> Error {
    Error::user("the store has no measurement yet")
        .next("`ktax compare lsm` makes some")
        .kind(ErrorKind::EmptyStore)
}

/// Subject with its name and tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedSubject {
    /// Name that every command accepts.
    pub name: String,
    pub tags: Vec<String>,
    pub subject: StoredSubject,
}

impl Stored {
    /// Results, the newest first.
    pub fn results(&self) -> Result<Vec<StoredResult>, Error> {
        self.index.results()
    }

    /// Subjects, sorted by their kernels' versions.
    pub fn subjects(&self) -> Result<Vec<ListedSubject>, Error> {
        let names = SubjectNames::read(self)?;
        let shown = |subject: &StoredSubject| ListedSubject {
            name: names.name(subject),
            tags: names.tags(&subject.kernel_sha256, &subject.boot_line),
            subject: subject.clone(),
        };
        let mut subjects: Vec<ListedSubject> = names.subjects().iter().map(shown).collect();
        alphanumeric_sort::sort_slice_by_str_key(&mut subjects, |shown| shown.name.as_str());
        // Ambiguous kernels are named by hashes, so sort by the kernel's own name.
        subjects
            .sort_by(|a, b| alphanumeric_sort::compare_str(&a.subject.kernel, &b.subject.kernel));
        Ok(subjects)
    }

    /// Result whose name begins with `id`.
    pub fn result(&self, id: &str) -> Result<Saved, Error> {
        let results = self.index.results()?;
        let id = id.to_ascii_lowercase();
        let object = only_object(&id, results.iter().map(|result| result.object.as_str()), || {
            Error::user(format!("no result begins with {id:?}")).next("`ktax log` lists them")
        })?;
        Ok(self.store.read_result(&self.store.result_path(object))?)
    }
}

/// Returns true if a row is the wanted one. The name of a workload selects all its rows.
pub fn is_row(row: &str, wanted: &str) -> bool {
    row == wanted || row.strip_prefix(wanted).is_some_and(|rest| rest.starts_with(':'))
}

impl Stored {
    /// Tags a subject. Returns the name of the subject, and of the other subject that had the tag
    /// before.
    pub fn tag(&self, name: &str, subject: &str) -> Result<(String, Option<String>), Error> {
        let names = SubjectNames::read(self)?;
        let found = names.find(subject)?;
        // A tag with the name of a kernel would change the meaning of printed commands.
        let other_meaning = match names.find_untagged(name) {
            Ok(other) => Some(names.name(other)),
            Err(error) if error.kind == ErrorKind::Ambiguous => Some("several subjects".into()),
            Err(error) if error.kind == ErrorKind::Unknown => None,
            Err(error) => return Err(error),
        };
        if let Some(subject) = other_meaning {
            return Err(Error::user(format!("{name:?} is already a name of {subject}"))
                .next("choose another tag"));
        }
        let before =
            self.tags()?.into_iter().find(|(tag, _)| tag == name).map(|(_, subject)| subject);
        let (kernel_sha256, boot_line) = (found.kernel_sha256.clone(), found.boot_line.clone());
        self.store.tag(name, &TaggedSubject { kernel_sha256, boot_line })?;
        let now = names.name(found);
        let before = before.filter(|before| *before != now);
        Ok((now, before))
    }

    /// Removes a tag. Returns whether the tag existed.
    pub fn untag(&self, name: &str) -> Result<bool, Error> {
        Ok(self.store.untag(name)?)
    }

    /// All tags with the names of their subjects.
    pub fn tags(&self) -> Result<Vec<(String, String)>, Error> {
        let names = SubjectNames::read(self)?;
        let tags = self.store.tags()?.into_iter();
        let named = |(tag, tagged): (String, TaggedSubject)| {
            let name = names.subject(&tagged.kernel_sha256, &tagged.boot_line);
            let unnamed = || format!("{} (no measurement)", short_hashes(&tagged.kernel_sha256));
            (tag, name.map_or_else(unnamed, |subject| names.name(subject)))
        };
        Ok(tags.map(named).collect())
    }
}

/// Number of choices that a message lists.
const MAX_CHOICES: usize = 5;

/// Minimum length of a hash prefix.
const MIN_DIGITS: usize = 4;

/// Names of a store's subjects, with the user's tags.
pub(super) struct SubjectNames {
    subjects: Vec<StoredSubject>,
    /// Indexes of subjects by image and boot line.
    indexes: HashMap<String, BTreeMap<String, usize>>,
    /// Kernel names that several images have.
    ambiguous: BTreeSet<String>,
    tags: Vec<(String, TaggedSubject)>,
    /// Path of the store, for messages.
    store: String,
}

impl SubjectNames {
    pub fn read(stored: &Stored) -> Result<SubjectNames, Error> {
        let subjects = stored.index.subjects()?;
        let (mut indexes, mut images) = (HashMap::new(), HashMap::new());
        let mut ambiguous = BTreeSet::new();
        for (index, StoredSubject { kernel_sha256, kernel, boot_line, .. }) in
            subjects.iter().enumerate()
        {
            let indexes_of_image: &mut BTreeMap<_, _> =
                indexes.entry(kernel_sha256.clone()).or_default();
            indexes_of_image.insert(boot_line.clone(), index);
            if images.insert(kernel, kernel_sha256).is_some_and(|other| other != kernel_sha256) {
                ambiguous.insert(kernel.clone());
            }
        }
        Ok(SubjectNames {
            indexes,
            ambiguous,
            subjects,
            tags: stored.store.tags()?,
            store: stored.store.root().display().to_string(),
        })
    }

    pub fn subjects(&self) -> &[StoredSubject] {
        &self.subjects
    }

    /// Tags of a subject.
    pub fn tags(&self, kernel_sha256: &str, boot_line: &str) -> Vec<String> {
        let is_of = |tagged: &TaggedSubject| {
            tagged.kernel_sha256 == kernel_sha256 && tagged.boot_line == boot_line
        };
        self.tags.iter().filter(|(_, tagged)| is_of(tagged)).map(|(name, _)| name.clone()).collect()
    }

    /// Returns true if another image has the same kernel name.
    pub fn is_ambiguous(&self, subject: &StoredSubject) -> bool {
        self.ambiguous.contains(&subject.kernel)
    }

    /// Name that [`SubjectNames::find`] accepts: the kernel's name and the boot line. The first
    /// digits of the image's hash replace an ambiguous kernel name.
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
        Some(&self.subjects[*self.indexes.get(kernel_sha256)?.get(boot_line)?])
    }

    /// Subject of a name: a tag, a release, a package, a version, a commit, the first digits of an
    /// image's hash, or a file. `NAME@BOOT LINE` selects one of several boot lines.
    pub fn find(&self, name: &str) -> Result<&StoredSubject, Error> {
        if let Some((_, tagged)) = self.tags.iter().find(|(tag, _)| tag == name) {
            let is_tagged = |subject: &&StoredSubject| {
                subject.kernel_sha256 == tagged.kernel_sha256
                    && subject.boot_line == tagged.boot_line
            };
            return self.only_one(name, self.subjects.iter().filter(is_tagged).collect());
        }
        match self.find_untagged(name) {
            // A name such as `6.1.0-55` may be the beginning of only one kernel's release.
            Err(error) if error.kind == ErrorKind::Unknown => {
                self.matching(name, begins_kernel_name)
            }
            found => found,
        }
    }

    /// Subject of a complete name that is not a tag.
    pub fn find_untagged(&self, name: &str) -> Result<&StoredSubject, Error> {
        self.matching(name, is_kernel_name)
    }

    /// Subject whose kernel matches the name, and whose boot line is that of the name, if it has
    /// one.
    fn matching(
        &self,
        name: &str,
        is_match: impl Fn(&StoredSubject, &str) -> bool,
    ) -> Result<&StoredSubject, Error> {
        let (kernel, boot_line) = split_name(name);
        let tagged = self.tags.iter().find(|(tag, _)| tag == kernel && boot_line.is_some());
        let mut found: Vec<&StoredSubject> = match tagged {
            Some((_, tagged)) => self.with_image(&tagged.kernel_sha256),
            None => self.subjects.iter().filter(|subject| is_match(subject, kernel)).collect(),
        };
        // Try files last, so that a file in the current directory does not hide a kernel.
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
                // The measurements of a tag may have been removed.
                let known = known.map(String::as_str).filter(|known| *known != name);
                let near = did_you_mean(nearest(name, known));
                let command = shell_line(compare_command_for_one(name));
                Err(Error::user(format!("the store in {} has no {name:?}{near}", self.store))
                    .next(unknown_subject_step(&command))
                    .kind(ErrorKind::Unknown))
            }
            several => {
                let choice =
                    |subject: &&StoredSubject| (self.name(subject), subject.sources.join(", "));
                Err(ambiguous(name, several.iter().map(choice)))
            }
        }
    }
}

/// Next step for a subject that the store does not have; `command` measures it.
fn unknown_subject_step(command: &str) -> String {
    format!("`ktax log --subjects` lists what it has, and `{command}` measures it")
}

/// Splits `KERNEL@BOOT LINE`; the boot line is optional.
pub(super) fn split_name(name: &str) -> (&str, Option<&str>) {
    match name.split_once('@') {
        Some((kernel, boot_line)) => (kernel, Some(boot_line)),
        None => (name, None),
    }
}

/// Words of the command that measures the subject of a name that the user typed.
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

/// Returns true if a name is the beginning of the kernel's name.
fn begins_kernel_name(subject: &StoredSubject, name: &str) -> bool {
    let rest = subject.kernel.strip_prefix(name);
    !name.is_empty() && rest.is_some_and(|rest| rest.starts_with(['-', '.', '+', '~']))
}

/// Returns true if this is one of the kernel's names.
fn is_kernel_name(subject: &StoredSubject, name: &str) -> bool {
    let StoredSubject { kernel_sha256, kernel, sources, requested_names, .. } = subject;
    let is_digits =
        |text: &str| text.len() >= MIN_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
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
        || sources.iter().chain(requested_names).any(|source| source == name)
        || sources.iter().any(is_package)
        || requested_names.iter().any(is_revision)
        || is_digits(name) && kernel_sha256.starts_with(name)
}

/// File name of the first page.
const INDEX: &str = "index.html";

/// Size limit of the first page, in bytes.
const INDEX_MAX: u64 = 64 << 20;

/// Length limit of a row's name in a file name. File systems allow 255 bytes.
const MAX_NAME_CHARS: usize = 100;

/// Directory of the pages of results.
const RESULTS: &str = "results";
/// Directory of the pages of histories.
const HISTORY: &str = "history";

impl Stored {
    /// Writes the pages into a directory, and returns their number. The same store gives the same
    /// pages. Pages of removed results are removed.
    pub fn site(&self, dir: &Path) -> Result<usize, Error> {
        let earlier_pages = earlier_pages(dir)?;
        let _lock = lock_directory(dir)?;
        // Mark the directory as a site before anything can fail.
        write_page(dir, INDEX, &site_index(&[], &[]))?;
        let (mut results, mut histories) = (Vec::new(), Vec::new());
        for stored in self.results()? {
            let saved = self.store.read_result(&self.store.result_path(&stored.object))?;
            let file = format!("{RESULTS}/{}.html", short_hashes(&stored.object));
            let page = [Document::with_name(&saved.name, &saved)];
            write_page(dir, &file, &(HTML.write)(&page, TextOptions::default())?)?;
            let title = page[0].view().title.clone();
            let (answer, detail) = (stored.headline, stored.kept_on);
            results.push(PageEntry { file, title, answer, detail });
        }
        for history in self.histories()? {
            let file = format!("{HISTORY}/{}.html", file_name(&history.lines[0].row));
            let page = [Document::with_name("", &history)];
            write_page(dir, &file, &(HTML.write)(&page, TextOptions::default())?)?;
            let longest = history.lines.iter().max_by_key(|line| line.points.len());
            let detail = longest.map(sparkline).unwrap_or_default();
            let (title, answer) = (history.lines[0].row.clone(), page[0].view().headline.clone());
            histories.push(PageEntry { file, title, answer, detail });
        }
        write_page(dir, INDEX, &site_index(&results, &histories))?;
        let written = results.iter().chain(&histories).map(|page| dir.join(&page.file)).collect();
        earlier_pages.difference(&written).try_for_each(|page| remove_page(page))?;
        Ok(results.len() + histories.len() + 1)
    }

    /// Histories of the rows that were measured on two kernels or more.
    fn histories(&self) -> Result<Vec<History>, Error> {
        let history = match self.history(&HistoryRequest::all()) {
            Err(error) if error.kind == ErrorKind::EmptyStore => return Ok(Vec::new()),
            history => history?,
        };
        let History { metric, function, threshold_percent, lines } = history;
        let is_row = |line: &HistoryLine, other: &HistoryLine| line.row == other.row;
        let history_of = |lines: &[HistoryLine]| History {
            metric: metric.clone(),
            function: function.clone(),
            threshold_percent,
            lines: lines.to_vec(),
        };
        let has_two = |history: &History| history.lines.iter().any(|line| line.points.len() > 1);
        Ok(lines.chunk_by(is_row).map(history_of).filter(has_two).collect())
    }
}

/// Locks the directory itself, so that the site needs no lock file, and removes unfinished files of
/// killed processes. `None` if the file system has no locks; then no files are removed.
fn lock_directory(dir: &Path) -> Result<Option<Lock>, Error> {
    let next = "give the path of a directory that you may write";
    let what = || format!("cannot write {}", dir.display());
    fs::create_dir_all(dir).or_host(what(), next)?;
    let lock = match Lock::take(fs::File::open(dir).or_host(what(), next)?) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            return Err(Error::user(format!("another ktax writes {}", dir.display()))
                .next("wait for it to end"));
        }
        Err(_) => return Ok(None),
        Ok(lock) => lock,
    };
    for folder in [dir.to_owned(), dir.join(RESULTS), dir.join(HISTORY)] {
        match remove_unfinished(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).or_host(what(), next)?;
            }
            _ => {}
        }
    }
    Ok(Some(lock))
}

/// Pages of an earlier site in a directory; none if the directory is empty. Other directories are
/// refused.
fn earlier_pages(dir: &Path) -> Result<BTreeSet<PathBuf>, Error> {
    let mut names =
        fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let is_empty = names.all(|name| is_unfinished(&name));
    let index = read_own_text(&dir.join(INDEX), INDEX_MAX).unwrap_or_default();
    if !is_empty && !index.contains(SITE_MARK) {
        let message = format!("{} is not empty, and not a site of ktax", dir.display());
        return Err(Error::user(message).next("give an empty directory"));
    }
    let links = index.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let is_page = |link: &&str| {
        let (folder, file) = link.split_once('/').unwrap_or_default();
        [RESULTS, HISTORY].contains(&folder) && file.ends_with(".html") && !file.contains('/')
    };
    Ok(links.filter(is_page).map(|link| dir.join(link)).collect())
}

fn write_page(dir: &Path, file: &str, text: &str) -> Result<(), Error> {
    let path = dir.join(file);
    let next = "give the path of a directory that you may write";
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| write_atomically(&path, text.as_bytes()))
        .or_host(format!("cannot write {}", path.display()), next)
}

/// Removes a page that no longer belongs to the site.
fn remove_page(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let what = format!("cannot remove {}", path.display());
            Err(error).or_host(what, "remove it yourself")
        }
        _ => Ok(()),
    }
}

/// File name of a row. Unsafe characters become `_`, and long names are cut; a hash then keeps the
/// names of different rows apart.
fn file_name(row: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "._-=,".contains(c) { c } else { '_' };
    let name: String = row.chars().map(safe).take(MAX_NAME_CHARS).collect();
    // The only unsafe character in built-in rows is the colon.
    match name == row.replace(':', "_") && !row.contains('_') {
        true => name,
        false => format!("{name}-{}", short_hashes(&sha256(row))),
    }
}
