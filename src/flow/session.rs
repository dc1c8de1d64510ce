//! What a command may use, and who is told what is going on: QEMU, the cache, kernels.

use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::error::{Error, OrHost, StalePlanError};
use super::remaining::{Part, Rates, Work};
use super::store::UsedStore;
use crate::analyse::Progress;
use crate::cache::{Budget, CacheKind, CacheSurvey, Cleaned, Holders, clean, survey};
use crate::engine::{Cancel, Limits};
use crate::kernel::{self, Kernel, KernelError, KernelSpec, KernelTask, Talk, Target};
use crate::model::{Identity, Subject};
use crate::plan::ExperimentMethod;
use crate::run::{Event, Timing};
use crate::text::{binary_size, escape_path};

/// Is told what is going on. Every method does nothing unless it is overridden.
pub trait Observer: Sync {
    /// A line that is worth keeping.
    fn note(&self, _text: &str) {}
    /// What goes on now; the next one replaces it, and an empty one ends it.
    fn status(&self, _text: &str) {}
    /// How far a download, an unpacking or a build is.
    fn task(&self, _task: &KernelTask) {}
    /// The run that begins next is this one of several.
    fn part(&self, _part: Part) {}
    /// This work begins.
    fn begin(&self, _work: &Work) {}
    /// One of them, as it goes on.
    fn event(&self, _event: &Event<'_>) {}
    /// All of them ended.
    fn end(&self, _timing: &Timing) {}
    /// This is how long it took: estimates of later runs may rest on it.
    fn learned(&self, _rates: &Rates) {}
    /// Nothing is measured just now: a clock may move.
    fn tick(&self) {}
    /// So many pairs are done. If the user peeks, also what is known of each row so far: its name,
    /// and change over base.
    fn pairs(&self, _done: &Progress, _estimates: Option<&[(String, f64)]>) {}
}

/// An [`Observer`] that says nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {}

/// What may be used, and who is told what is going on.
pub struct Session<'a> {
    /// QEMU to run; the one on the PATH where absent.
    pub qemu: Option<PathBuf>,
    /// VMs at a time.
    pub jobs: usize,
    /// Kernels, snapshots and symbols are kept here.
    pub cache: PathBuf,
    /// What of them this session uses; nobody removes it.
    pub holders: Holders,
    /// Measurements are taken from here and kept here; nothing where absent.
    pub store: Option<UsedStore>,
    /// What no guest may exceed.
    pub limits: Limits,
    /// Stops everything once it is raised.
    pub cancel: Cancel,
    /// Is told what is going on.
    pub observer: &'a dyn Observer,
}

impl<'a> Session<'a> {
    /// One VM for each CPU, and the usual limits and cache.
    ///
    /// # Errors
    /// There is no place for the cache: neither `KTAX_CACHE`, `XDG_CACHE_HOME` nor `HOME` is set.
    pub fn new(observer: &'a dyn Observer) -> Result<Session<'a>, Error> {
        Ok(Session {
            qemu: qemu_program(None),
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
            cache: cache_directory(None)?,
            holders: Holders::default(),
            store: None,
            limits: Limits::default(),
            cancel: Cancel::default(),
            observer,
        })
    }

    /// The same with another store.
    pub(super) fn with_store(&self, store: UsedStore) -> Session<'a> {
        Session {
            qemu: self.qemu.clone(),
            jobs: self.jobs,
            cache: self.cache.clone(),
            holders: Holders::default(),
            store: Some(store),
            limits: self.limits.clone(),
            cancel: self.cancel.clone(),
            observer: self.observer,
        }
    }

    /// Whether the user has asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// A failure while everything is being stopped may be the stopping's own.
    pub fn unless_cancelled<T>(&self, result: Result<T, impl Into<Error>>) -> Result<T, Error> {
        result.map_err(|error| match self.is_cancelled() {
            true => Error::Cancelled,
            false => error.into(),
        })
    }
}

/// The QEMU to run: as named, else that of `KTAX_QEMU`. `None` is the one on the PATH.
pub fn qemu_program(named: Option<&Path>) -> Option<PathBuf> {
    named.map(Path::to_owned).or_else(|| path_of("KTAX_QEMU"))
}

/// The cache's directory: as named, else that of `KTAX_CACHE`, else below that of the user.
///
/// # Errors
/// It is not named, and the user has no directory.
pub fn cache_directory(named: Option<&Path>) -> Result<PathBuf, Error> {
    let from = |name: &str| path_of(name).filter(|path| path.is_absolute());
    let next = "give --cache the absolute path of a directory";
    let named = named.map(Path::to_owned).or_else(|| path_of("KTAX_CACHE"));
    let named = named.map(std::path::absolute).transpose().context("cannot use the cache", next)?;
    named
        .or_else(|| from("XDG_CACHE_HOME").map(|dir| dir.join("ktax")))
        .or_else(|| from("HOME").map(|dir| dir.join(".cache/ktax")))
        .ok_or(Error::NoCache)
}

/// The path in a variable of the environment, unless it is empty.
fn path_of(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// What goes on while commands or rows run several times, for whoever wants to show it.
#[derive(Debug, Clone, Copy)]
pub enum Moment<'a> {
    /// This one runs.
    Runs(&'a str),
    /// One of its runs ended.
    Done,
}

/// Why a Kernel cannot be built, if its source or its options are to blame; any other error is no
/// verdict on them.
pub fn why_unbuilt(error: Error) -> Result<String, Error> {
    match &error {
        Error::Kernel(kernel) => kernel.why_unbuilt().ok_or(error),
        _ => Err(error),
    }
}

impl Session<'_> {
    /// Gets the Kernel of a Subject.
    pub fn obtain(&self, subject: &Subject) -> Result<Kernel, Error> {
        self.obtain_for(&Target::X86_64, subject)
    }

    /// Gets the Kernel of a Subject for another machine.
    pub fn obtain_for(&self, target: &Target, subject: &Subject) -> Result<Kernel, Error> {
        loop {
            let obtain = |talk: &Talk| kernel::obtain_for(target, subject, &self.cache, talk);
            let kernel = self.talking(obtain)?;
            // Another ktax may have removed it meanwhile.
            if self.holds(&kernel.image)? {
                return Ok(kernel);
            }
        }
    }

    /// Keeps an image in the cache until the session ends. Whether it is there.
    pub(super) fn holds(&self, image: &Path) -> Result<bool, Error> {
        let what = || format!("cannot use {}", escape_path(image));
        let entry = image.parent().unwrap_or(image);
        let is_held = self.holders.hold(entry).context(what(), "make it readable")?;
        Ok(is_held && image.exists())
    }

    /// Checks the names of all kernels, options and patches of an Experiment; downloads nothing.
    pub fn check_names(&self, experiment: &ExperimentMethod) -> Result<(), Error> {
        experiment.built_subjects().into_iter().try_for_each(|subject| {
            self.talking(|talk| kernel::check_names(subject, &self.cache, talk))
        })
    }

    /// Works with the user being told what is going on.
    pub fn talking<T>(
        &self,
        work: impl FnOnce(&Talk) -> Result<T, KernelError>,
    ) -> Result<T, Error> {
        let note = |note: &str| self.observer.note(note);
        let status = |status: &str| self.observer.status(status);
        let task = |task: &KernelTask| self.observer.task(task);
        let is_cancelled = || self.is_cancelled();
        let (note, status, task) = (&note, &status, &task);
        let done = work(&Talk { note, status, task, is_cancelled: &is_cancelled });
        self.observer.status("");
        self.unless_cancelled(done)
    }

    /// The image of a planned Kernel: from the cache by its hash, or fetched again.
    pub(super) fn image(&self, planned: &Identity, subject: &Subject) -> Result<PathBuf, Error> {
        self.image_for(&Target::X86_64, planned, subject)
    }

    /// Like [`Session::image`], for another machine.
    pub(super) fn image_for(
        &self,
        target: &Target,
        planned: &Identity,
        subject: &Subject,
    ) -> Result<PathBuf, Error> {
        // Before it is read: nobody removes it in between.
        if self.holds(&kernel::place(&planned.sha256, &self.cache))? {
            if let Some(cached) = kernel::cached(&planned.sha256, &self.cache) {
                return Ok(cached);
            }
        }
        // A newer package may have come since; the plan has the version.
        let named = match subject.is_built() || KernelSpec::from_str(&subject.kernel)?.is_source() {
            true => subject.clone(),
            false => Subject::of(&planned.source, ""),
        };
        let kernel = self.obtain_for(target, &named)?;
        if kernel.identity.sha256 != planned.sha256 {
            return Err(StalePlanError::other_kernel(planned).into());
        }
        Ok(kernel.image)
    }
}

const OTHER: &str = "make it writable, or name another directory with --cache DIR";

/// What the cache has.
pub fn cache_contents(cache: &Path) -> CacheSurvey {
    survey(cache)
}

/// Removes what was not used for longest until the cache fits its budget, and never what is in
/// use. Waits while another ktax does that.
///
/// # Errors
/// Something could not be removed, or the cache cannot be read.
pub fn clean_cache(cache: &Path, budget: Budget) -> Result<Cleaned, Error> {
    let what = || format!("cannot clean {}", escape_path(cache));
    let cleaned = clean(cache, budget, true).context(what(), OTHER)?.unwrap_or_default();
    match cleaned.failed.first() {
        Some(failed) => Err(Error::Host(unremoved(failed))),
        None => Ok(cleaned),
    }
}

/// The same at the end of a session, which uses nothing of the cache any more. What fails is said,
/// and costs no result.
pub fn keep_cache_small(session: &Session<'_>, budget: Budget) {
    session.holders.release();
    let cache = &session.cache;
    let note = |text: &str| session.observer.note(text);
    match clean(cache, budget, false) {
        Err(error) => note(&format!("cannot clean {}: {error}; {OTHER}", escape_path(cache))),
        Ok(cleaned) => {
            let cleaned = cleaned.unwrap_or_default();
            cleaned.failed.first().into_iter().for_each(|failed| note(&unremoved(failed)));
            if !cleaned.removed.is_empty() {
                note(&format!(
                    "the cache was larger than {budget}: removed {}, which were not used for \
                     longest; --cache-size changes the limit",
                    removed(&cleaned)
                ));
            }
        }
    }
}

fn unremoved((path, error): &(PathBuf, io::Error)) -> String {
    format!("cannot remove {}: {error}; remove it yourself, or make it writable", escape_path(path))
}

/// `2 snapshots and 1 build lane, 1.2 GiB`
pub fn removed(cleaned: &Cleaned) -> String {
    let counted = CacheKind::ALL.into_iter().filter_map(|kind| {
        let count = cleaned.removed.iter().filter(|entry| entry.kind == kind).count();
        (count > 0).then(|| kind.counted(count))
    });
    let kinds: Vec<String> = counted.collect();
    let kinds = match kinds.split_last() {
        None => "nothing".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    };
    format!("{kinds} ({})", binary_size(cleaned.freed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_stays_in_the_cache_until_the_session_ends() {
        let dir = tempfile::tempdir().unwrap();
        let session = Session { cache: dir.path().into(), ..Session::new(&Silent).unwrap() };
        let image = kernel::place(&"ab".repeat(32), &session.cache);
        assert!(!session.holds(&image).unwrap());
        std::fs::create_dir_all(image.parent().unwrap()).unwrap();
        std::fs::write(&image, "image").unwrap();
        assert!(session.holds(&image).unwrap());
        let clean = || clean(&session.cache, Budget::Bytes(0), true).unwrap().unwrap();
        assert!(clean().removed.is_empty() && image.exists());
        session.holders.release();
        assert!(clean().removed.len() == 1 && !image.exists());
    }
}
