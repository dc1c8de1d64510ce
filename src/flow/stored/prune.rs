//! Removes measurements and results from a store.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Stored, SubjectNames, only_object};
use crate::engine::payload::guest_sha256;
use crate::flow::{Error, ErrorContext};
use crate::index::{Instrument, KeptMeasurement, StoredResult};
use crate::store::TaggedSubject;

/// Conditions for removal; a file is removed if all of them hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PruneRequest {
    /// Names of results and measurements; the first digits are enough.
    pub ids: Vec<String>,
    /// Any name of a subject: only its measurements.
    pub subject: Option<String>,
    /// First digits of the SHA-256 of guest programs: only their measurements.
    pub guest: Option<String>,
    /// True: only measurements by guest programs of other builds of ktax.
    pub other_guests: bool,
    /// Only files older than this number of days. Without another condition, results are removed,
    /// too.
    pub older_than_days: Option<u64>,
    /// True if measurements of tagged subjects are removed, too.
    pub tagged: bool,
}

/// File to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prunable {
    pub path: PathBuf,
    /// Name of the object.
    pub object: String,
    /// `measurement` or `result`.
    pub kind: &'static str,
    /// Description for people.
    pub what: String,
    /// Size in bytes.
    pub bytes: u64,
}

/// Files to remove, and the tags and results that depend on them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrunePlan {
    pub files: Vec<Prunable>,
    /// Number of measurements that stay because of each tag.
    pub kept: BTreeMap<String, usize>,
    /// Tags whose subjects have no measurements after the removal.
    pub tags: Vec<String>,
    /// Results that were computed from the removed measurements. They stay, but cannot be computed
    /// again.
    pub results: Vec<String>,
}

impl PrunePlan {
    /// Size of all files, in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

impl PruneRequest {
    /// Returns true if there is no condition.
    pub fn is_empty(&self) -> bool {
        let PruneRequest { ids, subject, guest, other_guests, older_than_days, .. } = self;
        let has_condition = subject.is_some() || guest.is_some() || older_than_days.is_some();
        ids.is_empty() && !has_condition && !other_guests
    }

    /// Returns true if the user named the measurements. Tagged ones among them are then an error;
    /// else they stay.
    fn is_explicit(&self) -> bool {
        !self.ids.is_empty() || self.subject.is_some()
    }

    fn is_old(&self, kept_at: i64) -> bool {
        let Some(days) = self.older_than_days else { return true };
        let age = Duration::from_secs(days.saturating_mul(24 * 60 * 60));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let oldest = now
            .checked_sub(age)
            .map_or(i64::MIN, |oldest| i64::try_from(oldest.as_secs()).unwrap_or(0));
        kept_at <= oldest
    }
}

impl Stored {
    /// Guest programs and QEMUs that measured the store's contents, the newest first, each with
    /// whether its guest program belongs to this ktax.
    pub fn instruments(&self) -> Result<Vec<(Instrument, bool)>, Error> {
        let own_guest = guest_sha256();
        let mut instruments = self.index.instruments()?;
        for instrument in &mut instruments {
            instrument.bytes = instrument.objects.iter().map(|name| self.size(name)).sum();
        }
        Ok(instruments
            .into_iter()
            .map(|instrument| {
                let is_own = instrument.guest == own_guest;
                (instrument, is_own)
            })
            .collect())
    }

    fn size(&self, object: &str) -> u64 {
        fs::symlink_metadata(self.store.object_path(object)).map_or(0, |found| found.len())
    }

    /// Lists the files that a request would remove.
    pub fn prunable(&self, request: &PruneRequest) -> Result<PrunePlan, Error> {
        let names = SubjectNames::read(self)?;
        let stored = self.index.kept()?;
        let (measurements, results) = self.selected(request, &names, &stored)?;
        let mut prune = PrunePlan::default();
        let (mut removed, mut kernels) = (BTreeSet::new(), BTreeSet::new());
        for measurement in measurements {
            let tags = names.tags(&measurement.kernel_sha256, &measurement.boot_line);
            if let (false, Some(tag)) = (request.tagged, tags.first()) {
                *prune.kept.entry(tag.clone()).or_default() += 1;
                continue;
            }
            removed.insert(measurement.object.as_str());
            kernels.insert((measurement.kernel_sha256.clone(), measurement.row.clone()));
            let subject = format!("{} {}", measurement.kernel, measurement.boot_line);
            let by = short_guest(&measurement.guest);
            prune.files.push(Prunable {
                path: self.store.object_path(&measurement.object),
                object: measurement.object.clone(),
                kind: "measurement",
                what: format!("{} of {}, guest {by}", measurement.row, subject.trim_end()),
                bytes: self.size(&measurement.object),
            });
        }
        if let (true, Some((tag, _))) = (request.is_explicit(), prune.kept.first_key_value()) {
            let message = format!("measurements of the tagged subject {tag} would be removed");
            return Err(Error::user(message)
                .next(format!("remove the tag with `ktax tag --delete {tag}`, or give --tagged")));
        }
        prune.tags = tags_without(&self.store.tags()?, &stored, &removed);
        let removed_results: BTreeSet<&str> =
            results.iter().map(|result| result.object.as_str()).collect();
        prune.results = self.index.results_of(&kernels)?;
        prune.results.retain(|result| !removed_results.contains(result.as_str()));
        prune.files.extend(results.iter().map(|result| self.prunable_result(result)));
        Ok(prune)
    }

    fn prunable_result(&self, result: &StoredResult) -> Prunable {
        let path = self.store.result_path(&result.object);
        let bytes = fs::symlink_metadata(&path).map_or(0, |found| found.len());
        let what = [&result.title, &result.headline].map(String::as_str).join(": ");
        let what = what.trim_matches([':', ' ']).to_owned();
        Prunable { path, object: result.object.clone(), kind: "result", what, bytes }
    }

    /// Measurements and results that a request selects.
    fn selected<'a>(
        &self,
        request: &PruneRequest,
        names: &SubjectNames,
        stored: &'a [KeptMeasurement],
    ) -> Result<(Vec<&'a KeptMeasurement>, Vec<StoredResult>), Error> {
        let mut results = self.index.results()?;
        if !request.ids.is_empty() {
            let mut objects = BTreeSet::new();
            for id in &request.ids {
                let known = stored.iter().map(|measurement| measurement.object.as_str());
                let known = known.chain(results.iter().map(|result| result.object.as_str()));
                objects.insert(only_object(id, known, || unknown_object(id))?.to_owned());
            }
            let measurements =
                stored.iter().filter(|measurement| objects.contains(&measurement.object)).collect();
            results.retain(|result| objects.contains(&result.object));
            return Ok((measurements, results));
        }
        let subject = request.subject.as_ref().map(|name| names.find(name)).transpose()?;
        let own_guest = guest_sha256();
        let is_selected = |measurement: &&KeptMeasurement| {
            subject.is_none_or(|subject| {
                measurement.kernel_sha256 == subject.kernel_sha256
                    && measurement.boot_line == subject.boot_line
            }) && request.guest.as_ref().is_none_or(|guest| measurement.guest.starts_with(guest))
                && (!request.other_guests || measurement.guest != own_guest)
                && request.is_old(measurement.kept_at)
        };
        let only_measurements =
            subject.is_some() || request.guest.is_some() || request.other_guests;
        results.retain(|result| !only_measurements && request.is_old(result.kept_at));
        Ok((stored.iter().filter(is_selected).collect(), results))
    }

    /// Removes files, and returns those that existed.
    pub fn remove(&self, files: Vec<Prunable>) -> Result<Vec<Prunable>, Error> {
        let mut removed = Vec::new();
        for file in files {
            match fs::remove_file(&file.path) {
                Ok(()) => removed.push(file),
                // Another ktax has removed the file.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    let next = "make the store writable, or remove the file yourself";
                    let what = format!("cannot remove {}", file.path.display());
                    Err(error).or_host(what, next)?;
                }
            }
        }
        Ok(removed)
    }
}

/// Short form of a guest's hash.
pub fn short_guest(sha256: &str) -> &str {
    sha256.get(..12).unwrap_or(sha256)
}

fn unknown_object(id: &str) -> Error {
    Error::user(format!("no result and no measurement begins with {id:?}")).next(
        "`ktax log` lists results, and `ktax store prune --dry-run --subject NAME` the \
         measurements of a subject",
    )
}

/// Tags whose subjects lose all their measurements if these are removed.
fn tags_without(
    tags: &[(String, TaggedSubject)],
    stored: &[KeptMeasurement],
    removed: &BTreeSet<&str>,
) -> Vec<String> {
    let measurements_of = |tagged: &TaggedSubject| {
        let (sha256, line) = (tagged.kernel_sha256.clone(), tagged.boot_line.clone());
        stored.iter().filter(move |measurement| {
            measurement.kernel_sha256 == sha256 && measurement.boot_line == line
        })
    };
    let is_lost = |(_, tagged): &&(String, TaggedSubject)| {
        let is_known = measurements_of(tagged).next().is_some();
        is_known
            && measurements_of(tagged)
                .all(|measurement| removed.contains(measurement.object.as_str()))
    };
    tags.iter().filter(is_lost).map(|(name, _)| name.clone()).collect()
}
