//! One shard of a campaign on this machine: its kernels, its counts or its times.

use std::fs;
use std::io;
use std::path::Path;

use super::{missing_rows, row_failures, take_units};
use crate::disk::{Lock, lock_file, set_aside};
use crate::engine::qemu::Qemu;
use crate::engine::{self, Measures};
use crate::flow::error::{Error, OrHost};
use crate::flow::phases::{self, Options, measure};
use crate::flow::remaining::Part;
use crate::flow::session::Session;
use crate::flow::store::UsedStore;
use crate::kernel;
use crate::model::{CampaignUnit, ErrorKind, Identity, Plan, Shard, Subject};
use crate::run::Ended;
use crate::rundir::{AnyRunDir, CampaignDir};
use crate::text::{counted, shell_path};

/// Result of running a shard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShardEnd {
    /// Whether the user stopped it.
    pub is_stopped: bool,
    /// Failures in a guest, as `row of subject`.
    pub failed: Vec<String>,
}

/// Measures the rows of a shard that the campaign's store does not have.
pub fn run(dir: &CampaignDir, number: usize, session: &Session<'_>) -> Result<ShardEnd, Error> {
    let shards = dir.plan().shards.len();
    let shard = dir.plan().shard(number).ok_or_else(|| no_shard(number, shards))?;
    let _here = share_machine(&shard, &session.cache)?;
    match &shard {
        Shard::Counts(units) => {
            let verify_percent = session.store.as_ref().map_or(0.0, |used| used.verify_percent);
            // With verification everything is measured.
            if let Some(used) = session.store.as_ref().filter(|_| verify_percent == 0.0) {
                take_units(&used.store, dir, units)?;
            }
            if is_done(dir, units)? {
                return Ok(ShardEnd::default());
            }
            check_machine(dir, session)?;
            let store = UsedStore::new(dir.store(), verify_percent);
            run_counts(dir, units, &session.with_store(store))
        }
        Shard::Times(name) => {
            let run_dir = AnyRunDir::open(&dir.timed(name))?;
            let compared = measure(&run_dir, Options::default(), session)?;
            Ok(ShardEnd { is_stopped: compared.is_none(), failed: Vec::new() })
        }
    }
}

fn no_shard(number: usize, shards: usize) -> Error {
    let numbers = match shards {
        0 => "none: all is measured".to_owned(),
        1 => "one, 0".to_owned(),
        _ => format!("0 to {}", shards - 1),
    };
    Error::user(format!("there is no shard {number}")).next(format!("the campaign has {numbers}"))
}

/// Locks this machine: shared for counts, exclusive for times. The lock is named after the machine,
/// because several may share a cache.
fn share_machine(shard: &Shard, cache: &Path) -> Result<Option<Lock>, Error> {
    // Several machines may share a home directory, and so the cache.
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let path = cache.join(format!("machine-{name}.lock"));
    let next = "make the cache writable, or give another with --cache DIR";
    let what = || format!("cannot write {}", path.display());
    fs::create_dir_all(cache).context(what(), next)?;
    let file = lock_file(&path).context(what(), next)?;
    let taken = match shard {
        Shard::Counts(_) => Lock::share(file),
        Shard::Times(_) => Lock::take(file),
    };
    match taken {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(Error::host(
            "other work of a campaign runs on this machine, and times are measured alone; try \
             again when it has ended",
        )),
        // Some file systems have no locks; counts stay exact without them.
        Err(_) => Ok(None),
        Ok(lock) => Ok(Some(lock)),
    }
}

/// Refuses a machine whose counts would not compare, before anything is booted.
fn check_machine(dir: &CampaignDir, session: &Session<'_>) -> Result<(), Error> {
    let planned = &dir.plan().key;
    let engine = engine::named(&planned.engine).map(|engine| engine.measures);
    let qemu = Qemu::find(session.qemu.as_deref())?;
    let found = match engine {
        Some(Measures::Counts { key, .. }) => Some(key(&qemu, &dir.plan().machine)),
        _ => None,
    };
    match found {
        Some(found) if found == *planned => Ok(()),
        found => Err(Error::user(format!(
            "{} was planned for QEMU {} and the ktax of that time, and this machine has QEMU {}: \
             counts would not compare",
            dir.root().display(),
            planned.qemu,
            found.map_or_else(|| "without this engine".to_owned(), |key| key.qemu)
        ))
        .next("nothing was booted. Give it the same package, or run the shard on another machine")),
    }
}

/// Whether the campaign's store has all of these units.
fn is_done(dir: &CampaignDir, units: &[CampaignUnit]) -> Result<bool, Error> {
    for unit in units {
        match dir.kernel(unit.subject)? {
            Some(kernel) if missing_rows(dir, unit, &kernel).is_empty() => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

fn run_counts(
    dir: &CampaignDir,
    units: &[CampaignUnit],
    session: &Session<'_>,
) -> Result<ShardEnd, Error> {
    let mut end = ShardEnd::default();
    for (index, unit) in units.iter().enumerate() {
        session.observer.part(Part { index, count: units.len(), shares_base: false });
        let number = unit.subject;
        let subject = &dir.plan().subjects[number].subject;
        let kernel = dir.kernel(number)?.ok_or_else(|| {
            let (kernel, path) = (&subject.kernel, shell_path(dir.root()));
            Error::user(format!("the kernel of subject {number}, {kernel}, is not built yet"))
                .next(format!("build it with `ktax campaign run {path} --build {number}`"))
        })?;
        if missing_rows(dir, unit, &kernel).is_empty() {
            continue;
        }
        cache_image(dir, &kernel, session)?;
        if run_unit(dir, unit, &kernel, session)? == Ended::Cancelled {
            end.is_stopped = true;
            return Ok(end);
        }
        let left = missing_rows(dir, unit, &kernel);
        let failed = row_failures(dir, unit, &left)?;
        if failed.len() < left.len() {
            // The host failed: another try or another machine may succeed.
            let (rows, path) = (counted(left.len() - failed.len(), "row"), dir.run_of(unit));
            return Err(Error::host(format!("{rows} failed because of this machine"))
                .next(format!("{} says why. Run the shard again", path.display())));
        }
        end.failed.extend(failed.into_iter().map(|(what, _)| what));
    }
    Ok(end)
}

/// Puts an image of the directory into the cache, so that nothing is fetched or built.
fn cache_image(dir: &CampaignDir, kernel: &Identity, session: &Session<'_>) -> Result<(), Error> {
    let image = dir.image(&kernel.sha256);
    if kernel::cached(&kernel.sha256, &session.cache).is_none() && image.exists() {
        session.obtain(&Subject::new(&image.display().to_string(), ""))?;
    }
    Ok(())
}

/// Measures a unit. Its run directory stays if something failed or was stopped.
fn run_unit(
    dir: &CampaignDir,
    unit: &CampaignUnit,
    kernel: &Identity,
    session: &Session<'_>,
) -> Result<Ended, Error> {
    let path = dir.run_of(unit);
    let planned: Plan = dir.plan().plan_of(unit, kernel).with(Into::into);
    let run_dir = match AnyRunDir::open(&path) {
        Err(error) if error.kind == ErrorKind::NoRunDirectory => AnyRunDir::create(&path, planned),
        opened => opened,
    };
    let in_use = || {
        Error::host(format!("{} is measured by another machine", path.display()))
            .next("try again when it has ended")
    };
    let run_dir = run_dir.map_err(|error| match error.kind {
        ErrorKind::InUse => in_use(),
        _ => error,
    })?;
    // Another process may have finished the unit and removed its directory since it was opened.
    let _lock = run_dir.lock().map_err(|error| match error.kind {
        ErrorKind::InUse => in_use(),
        _ if !path.exists() => in_use(),
        _ => error,
    })?;
    let is_done = || missing_rows(dir, unit, kernel).is_empty();
    let ended = match is_done() {
        true => Ended::Complete,
        false => phases::run(&run_dir, Options::default(), session)?,
    };
    if ended == Ended::Complete && is_done() {
        let next = "make the campaign's directory writable";
        remove_run(&path).context(format!("cannot remove {}", path.display()), next)?;
    }
    Ok(ended)
}

/// Removes a run directory. It is moved away first, so that no other process finds a part of it.
fn remove_run(path: &Path) -> io::Result<()> {
    match set_aside(path).and_then(fs::remove_dir_all) {
        // Another process was first.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Builds the kernel of a Subject from source, unless it is built, and leaves it in the directory
/// for every machine.
pub fn build(dir: &CampaignDir, subject: usize, session: &Session<'_>) -> Result<Identity, Error> {
    let Some(planned) = dir.plan().subjects.get(subject).filter(|planned| planned.kernel.is_none())
    else {
        return Err(Error::user(format!("subject {subject} is not built from source"))
            .next("`ktax campaign status` lists the others"));
    };
    if let Some(built) = dir.kernel(subject)? {
        return Ok(built);
    }
    let kernel = session.obtain(&planned.subject)?;
    dir.write_image(&kernel.identity.sha256, &kernel.image)?;
    dir.write_kernel(subject, &kernel.identity)?;
    // If two machines have built it, the first one counts.
    Ok(dir.kernel(subject)?.unwrap_or(kernel.identity))
}
