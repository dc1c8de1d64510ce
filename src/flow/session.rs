//! Resources of a command (QEMU, the cache, kernels), and the observer of its progress.

use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::remaining::{Part, Rates, Work};
use super::store::UsedStore;
use super::{Error, ErrorContext};
use crate::analyse::Progress;
use crate::cache::{Budget, CacheKind, Cleaned, Holders, clean};
use crate::engine::{Cancel, Limits};
use crate::kernel::{self, Kernel, KernelSpec, KernelTask, Talk, Target};
use crate::model::{Identity, Subject};
use crate::plan::{ExperimentMethod, built_subjects};
use crate::run::{Event, Timing};
use crate::text::{binary_size, escape_path};

/// Receives progress. Every method does nothing unless it is overridden.
pub trait Observer: Sync {
    /// Shows a line that stays visible.
    fn note(&self, _text: &str) {}
    /// Shows the current activity until the next call; an empty text shows none.
    fn status(&self, _text: &str) {}
    /// Shows the progress of a download, an unpacking or a build.
    fn task(&self, _task: &KernelTask) {}
    /// Announces the next run as one of several.
    fn part(&self, _part: Part) {}
    /// Announces the work of a run.
    fn begin(&self, _work: &Work) {}
    /// Receives an event of a boot.
    fn event(&self, _event: &Event<'_>) {}
    /// Called when a run has ended.
    fn end(&self, _timing: &Timing) {}
    /// Receives rates that later estimates may use.
    fn rates_measured(&self, _rates: &Rates) {}
    /// Called between measurements, when a shown clock may be redrawn.
    fn tick(&self) {}
    /// Shows the number of finished pairs. If the user peeks, `estimates` has each row's name and
    /// its ratio of change to base.
    fn pairs(&self, _done: &Progress, _estimates: Option<&[(String, f64)]>) {}
}

/// [`Observer`] that shows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct SilentObserver;

impl Observer for SilentObserver {}

/// Resources of a command, and its observer.
pub struct Session<'a> {
    /// QEMU to run; `None` is the one on the PATH.
    pub qemu: Option<PathBuf>,
    /// Number of VMs at a time.
    pub jobs: usize,
    /// Directory of kernels, snapshots and symbols.
    pub cache: PathBuf,
    /// Entries of the cache that this session uses, which no process removes meanwhile.
    pub holders: Holders,
    /// Store to take measurements from and to keep them in, if any.
    pub store: Option<UsedStore>,
    /// Limits of guests.
    pub limits: Limits,
    /// Stops all work of the session when it is raised.
    pub cancel: Cancel,
    pub observer: &'a dyn Observer,
}

impl<'a> Session<'a> {
    /// Session with one VM for each CPU, and the usual limits and cache.
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

    /// Session with another store, and the same resources otherwise.
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

    /// Returns true if the user has asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Replaces an error by `Cancelled` if the user has stopped the session, which may be its
    /// cause.
    pub fn unless_cancelled<T>(&self, result: Result<T, impl Into<Error>>) -> Result<T, Error> {
        result.map_err(|error| match self.is_cancelled() {
            true => Error::cancelled(),
            false => error.into(),
        })
    }
}

/// QEMU to run: `named`, else `KTAX_QEMU`. `None` is the one on the PATH.
pub fn qemu_program(named: Option<&Path>) -> Option<PathBuf> {
    named.map(Path::to_owned).or_else(|| path_in_env("KTAX_QEMU"))
}

/// Directory of the cache: `named`, else `KTAX_CACHE`, else `ktax` in the user's cache directory.
pub fn cache_directory(named: Option<&Path>) -> Result<PathBuf, Error> {
    let next = "give --cache the absolute path of a directory";
    let named = named.map(Path::to_owned).or_else(|| path_in_env("KTAX_CACHE"));
    let named = named.map(std::path::absolute).transpose().or_host("cannot use the cache", next)?;
    named.or_else(|| user_directory("XDG_CACHE_HOME", ".cache")).ok_or_else(|| {
        Error::user("neither HOME nor XDG_CACHE_HOME says where the cache is")
            .next("set HOME or give --cache DIR")
    })
}

/// Directory `ktax` in the directory that an XDG variable names, else in `below_home` of HOME.
pub(super) fn user_directory(variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |name: &str| path_in_env(name).filter(|path| path.is_absolute());
    let dir = absolute(variable).or_else(|| absolute("HOME").map(|home| home.join(below_home)));
    dir.map(|dir| dir.join("ktax"))
}

/// Path in an environment variable; `None` if the variable is empty or not set.
fn path_in_env(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Progress of commands or rows that run several times.
#[derive(Debug, Clone, Copy)]
pub enum RunEvent<'a> {
    /// A command or row with this name runs.
    Started(&'a str),
    Ended,
}

/// Reason why a Kernel cannot be built, if the cause is its source or its options; else the error.
pub fn why_unbuilt(error: Error) -> Result<String, Error> {
    kernel::why_unbuilt(&error).ok_or(error)
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
            let kernel = self.with_talk(obtain)?;
            // Another ktax may have removed the kernel before it was held.
            if self.hold_image(&kernel.image)? {
                return Ok(kernel);
            }
        }
    }

    /// Holds an image in the cache until the session ends. Returns whether the image exists.
    pub(super) fn hold_image(&self, image: &Path) -> Result<bool, Error> {
        let what = || format!("cannot use {}", escape_path(image));
        let entry = image.parent().unwrap_or(image);
        let is_held = self.holders.hold(entry).or_host(what(), "make it readable")?;
        Ok(is_held && image.exists())
    }

    /// Checks the names of all kernels, options and patches of an Experiment; downloads nothing.
    pub fn check_names(&self, experiment: &ExperimentMethod) -> Result<(), Error> {
        built_subjects(experiment).into_iter().try_for_each(|subject| {
            self.with_talk(|talk| kernel::check_names(subject, &self.cache, talk))
        })
    }

    /// Calls `work` with a [`Talk`] that passes progress to the observer.
    pub fn with_talk<T>(&self, work: impl FnOnce(&Talk) -> Result<T, Error>) -> Result<T, Error> {
        let note = |note: &str| self.observer.note(note);
        let status = |status: &str| self.observer.status(status);
        let task = |task: &KernelTask| self.observer.task(task);
        let is_cancelled = || self.is_cancelled();
        let (note, status, task) = (&note, &status, &task);
        let done = work(&Talk { note, status, task, is_cancelled: &is_cancelled });
        self.observer.status("");
        self.unless_cancelled(done)
    }

    /// Image of a planned Kernel: from the cache by its hash, else fetched or built again.
    pub(super) fn image(&self, planned: &Identity, subject: &Subject) -> Result<PathBuf, Error> {
        self.image_for(&Target::X86_64, planned, subject)
    }

    /// Image of a planned Kernel for another machine: see [`Session::image`].
    pub(super) fn image_for(
        &self,
        target: &Target,
        planned: &Identity,
        subject: &Subject,
    ) -> Result<PathBuf, Error> {
        // Hold the image first, so that no process removes it before it is read.
        if self.hold_image(&kernel::image_path(&planned.sha256, &self.cache))? {
            if let Some(cached) = kernel::cached_image(&planned.sha256, &self.cache) {
                return Ok(cached);
            }
        }
        // A newer package may have been published since; the plan has the version.
        let named = match subject.is_built_from_source()
            || KernelSpec::from_str(&subject.kernel)?.is_source()
        {
            true => subject.clone(),
            false => Subject::new(&planned.source, ""),
        };
        let kernel = self.obtain_for(target, &named)?;
        if kernel.identity.sha256 != planned.sha256 {
            return Err(super::other_kernel(planned));
        }
        Ok(kernel.image)
    }
}

/// Next step if the cache cannot be cleaned.
const FIX_CACHE: &str = "make it writable, or name another directory with --cache DIR";

/// Removes the least recently used entries until the cache fits its budget; entries in use stay.
/// Waits while another ktax cleans the cache.
pub fn clean_cache(cache: &Path, budget: Budget) -> Result<Cleaned, Error> {
    let what = || format!("cannot clean {}", escape_path(cache));
    let cleaned = clean(cache, budget, true).or_host(what(), FIX_CACHE)?.unwrap_or_default();
    match cleaned.failed.first() {
        Some(failed) => Err(Error::host(unremoved(failed))),
        None => Ok(cleaned),
    }
}

/// Releases and cleans the cache at the end of a session. Failures are only noted, because the
/// results are complete.
pub fn keep_cache_small(session: &Session<'_>, budget: Budget) {
    session.holders.release();
    let cache = &session.cache;
    let note = |text: &str| session.observer.note(text);
    match clean(cache, budget, false) {
        Err(error) => note(&format!("cannot clean {}: {error}; {FIX_CACHE}", escape_path(cache))),
        Ok(cleaned) => {
            let cleaned = cleaned.unwrap_or_default();
            cleaned.failed.first().into_iter().for_each(|failed| note(&unremoved(failed)));
            if !cleaned.removed.is_empty() {
                note(&format!(
                    "the cache was larger than {budget}: removed {}, which were not used for \
                     longest; --cache-size changes the limit",
                    describe_cleaned(&cleaned)
                ));
            }
        }
    }
}

fn unremoved((path, error): &(PathBuf, io::Error)) -> String {
    format!("cannot remove {}: {error}; remove it yourself, or make it writable", escape_path(path))
}

/// Describes removed entries: `2 snapshots and 1 build lane, 1.2 GiB`.
pub fn describe_cleaned(cleaned: &Cleaned) -> String {
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
        let session =
            Session { cache: dir.path().into(), ..Session::new(&SilentObserver).unwrap() };
        let image = kernel::image_path(&"ab".repeat(32), &session.cache);
        assert!(!session.hold_image(&image).unwrap());
        std::fs::create_dir_all(image.parent().unwrap()).unwrap();
        std::fs::write(&image, "image").unwrap();
        assert!(session.hold_image(&image).unwrap());
        let clean = || clean(&session.cache, Budget::Bytes(0), true).unwrap().unwrap();
        assert!(clean().removed.is_empty() && image.exists());
        session.holders.release();
        assert!(clean().removed.len() == 1 && !image.exists());
    }
}
