use std::path::{Path, PathBuf};

use super::context::OrHost;
use super::error::Error;
use super::remaining::{Part, Rates, Work};
use super::used_store::UsedStore;
use crate::analyse::Progress;
use crate::cache::Holders;
use crate::engine::{Cancel, Limits};
use crate::kernel::KernelTask;
use crate::run::{Event, Timing};

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
