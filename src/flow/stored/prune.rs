//! Removes measurements and results from a store.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Names, Stored, only_object};
use crate::engine::payload::guest_sha256;
use crate::flow::{Error, ErrorContext};
use crate::index::{Instrument, KeptMeasurement, StoredResult};
use crate::store::TaggedSubject;

/// Conditions for removal, which must all hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PruneOrder {
    /// Results and measurements by the first digits of their names.
    pub ids: Vec<String>,
    /// Measurements of this subject, by any of its names.
    pub subject: Option<String>,
    /// Measurements by guest programs whose SHA-256 begins with this.
    pub guest: Option<String>,
    /// Measurements by guest programs of other builds of ktax.
    pub other_guests: bool,
    /// Files older than this number of days; results too, unless another condition is given.
    pub older_than_days: Option<u64>,
    /// True if measurements of tagged subjects go, too.
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

/// Files to remove, and what depends on them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prune {
    pub files: Vec<Prunable>,
    /// Number of measurements that stay because of each tag.
    pub kept: BTreeMap<String, usize>,
    /// Tags whose subjects have no measurements afterwards.
    pub tags: Vec<String>,
    /// Results that were made of these measurements. They stay, but cannot be made again.
    pub results: Vec<String>,
}

impl Prune {
    /// Size of all files, in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

impl PruneOrder {
    /// Returns true if there is no condition.
    pub fn is_empty(&self) -> bool {
        let PruneOrder { ids, subject, guest, other_guests, older_than_days, .. } = self;
        let has_condition = subject.is_some() || guest.is_some() || older_than_days.is_some();
        ids.is_empty() && !has_condition && !other_guests
    }

    /// Returns true if measurements are named one by one, so that a tag is a reason to refuse.
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
    /// Guest programs and QEMUs that measured the store's contents, the newest first; and whether
    /// the programs belong to this ktax.
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

    /// Lists the files that an order would remove.
    pub fn prunable(&self, order: &PruneOrder) -> Result<Prune, Error> {
        let names = Names::read(self)?;
        let stored = self.index.kept()?;
        let (measurements, results) = self.selected(order, &names, &stored)?;
        let mut prune = Prune::default();
        let (mut going, mut kernels) = (BTreeSet::new(), BTreeSet::new());
        for measurement in measurements {
            let tags = names.tags(&measurement.kernel_sha256, &measurement.boot_line);
            if let (false, Some(tag)) = (order.tagged, tags.first()) {
                *prune.kept.entry(tag.clone()).or_default() += 1;
                continue;
            }
            going.insert(measurement.object.as_str());
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
        if let (true, Some((tag, _))) = (order.is_explicit(), prune.kept.first_key_value()) {
            let message = format!("the tag {tag} is of a subject that would lose measurements");
            return Err(Error::user(message)
                .next(format!("take it away with `ktax tag --delete {tag}`, or give --tagged")));
        }
        prune.tags = tags_without(&self.store.tags()?, &stored, &going);
        let gone: BTreeSet<&str> = results.iter().map(|result| result.object.as_str()).collect();
        prune.results = self.index.results_of(&kernels)?;
        prune.results.retain(|result| !gone.contains(result.as_str()));
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

    /// Measurements and results that an order selects.
    fn selected<'a>(
        &self,
        order: &PruneOrder,
        names: &Names,
        stored: &'a [KeptMeasurement],
    ) -> Result<(Vec<&'a KeptMeasurement>, Vec<StoredResult>), Error> {
        let mut results = self.index.results()?;
        if !order.ids.is_empty() {
            let mut objects = BTreeSet::new();
            for id in &order.ids {
                let known = stored.iter().map(|measurement| measurement.object.as_str());
                let known = known.chain(results.iter().map(|result| result.object.as_str()));
                objects.insert(only_object(id, known, || nothing_kept(id))?.to_owned());
            }
            let measurements =
                stored.iter().filter(|measurement| objects.contains(&measurement.object)).collect();
            results.retain(|result| objects.contains(&result.object));
            return Ok((measurements, results));
        }
        let subject = order.subject.as_ref().map(|name| names.find(name)).transpose()?;
        let own_guest = guest_sha256();
        let is_one = |measurement: &&KeptMeasurement| {
            subject.is_none_or(|subject| {
                measurement.kernel_sha256 == subject.kernel_sha256
                    && measurement.boot_line == subject.boot_line
            }) && order.guest.as_ref().is_none_or(|guest| measurement.guest.starts_with(guest))
                && (!order.other_guests || measurement.guest != own_guest)
                && order.is_old(measurement.kept_at)
        };
        let only_measurements = subject.is_some() || order.guest.is_some() || order.other_guests;
        results.retain(|result| !only_measurements && order.is_old(result.kept_at));
        Ok((stored.iter().filter(is_one).collect(), results))
    }

    /// Removes files, and returns those that existed. Files that another ktax adds meanwhile stay.
    pub fn remove(&self, files: Vec<Prunable>) -> Result<Vec<Prunable>, Error> {
        let mut removed = Vec::new();
        for file in files {
            match fs::remove_file(&file.path) {
                Ok(()) => removed.push(file),
                // Another ktax has removed it.
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

fn nothing_kept(id: &str) -> Error {
    Error::user(format!("no result and no measurement begins with {id:?}")).next(
        "`ktax log` lists results, and `ktax store prune --dry-run --subject NAME` the \
         measurements of a subject",
    )
}

/// Tags whose subjects have measurements now, and none without these.
fn tags_without(
    tags: &[(String, TaggedSubject)],
    stored: &[KeptMeasurement],
    going: &BTreeSet<&str>,
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
                .all(|measurement| going.contains(measurement.object.as_str()))
    };
    tags.iter().filter(is_lost).map(|(name, _)| name.clone()).collect()
}
