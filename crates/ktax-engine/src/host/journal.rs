//! The journal of changed settings. It is on disk before a setting changes, so that the next ktax
//! can restore what a killed one left.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::{fmt, io};

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::settings::{Running, Setting, SettingError, is_plain, is_same};
use ktax_host::disk::{Lock, read_up_to, remove_unfinished, write_atomically};
use ktax_host::text::escape_bytes;

/// The journal's format: a newer ktax restores what an older one has changed.
pub(super) const FORMAT: u32 = 1;

const JOURNAL: &str = "journal.json";
const LOCK: &str = "lock";

/// The largest journal. The values of all sysctls together are smaller.
const LARGEST_BYTES: u64 = 4 << 20;

type Result<T> = std::result::Result<T, SettingError>;

/// The content of `journal.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Journal {
    pub format: u32,
    /// The boot ID of the kernel that has the settings. A reboot resets them.
    pub boot_id: String,
    pub settings: Vec<Entry>,
}

/// One setting that ktax changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub setting: Setting,
    /// The value to restore.
    pub before: String,
    /// The values that ktax may have written. Any other value is somebody else's.
    pub written: Vec<String>,
}

impl Journal {
    /// Checks a journal that was read from a file, which can come from anywhere.
    fn check(&self) -> std::result::Result<(), String> {
        if self.format != FORMAT {
            return Err(format!("it is of format {}", self.format));
        }
        for entry in &self.settings {
            entry.setting.check().map_err(|error| error.to_string())?;
            if !std::iter::once(&entry.before).chain(&entry.written).all(|value| is_plain(value)) {
                return Err(format!("a value of {} has control characters", entry.setting));
            }
        }
        Ok(())
    }

    /// Restores settings. The owner restores every setting; another process restores only those
    /// that still have a value that ktax wrote. The second list has the settings that could not be
    /// restored.
    pub fn put_back(&self, running: &Running, is_owner: bool) -> (Replayed, Vec<SettingError>) {
        let (mut done, mut failed) = (Replayed::default(), Vec::new());
        let is_rebooted = self.boot_id != running.boot_id();
        for entry in self.settings.iter().rev() {
            let name = entry.setting.to_string();
            let now = match running.read(&entry.setting) {
                Ok(now) if is_same(&now, &entry.before) => continue,
                Ok(now) => now,
                Err(SettingError::Absent { .. }) => {
                    let why = "it no longer exists";
                    done.left.push(Left { setting: name, now: String::new(), why });
                    continue;
                }
                Err(error) => {
                    failed.push(error);
                    continue;
                }
            };
            let is_ours = entry.written.iter().any(|written| is_same(written, &now));
            if !is_owner && (is_rebooted || !is_ours) {
                let why = match is_rebooted {
                    true => "the machine was rebooted since",
                    false => "somebody else has changed it since",
                };
                done.left.push(Left { setting: name, now, why });
                continue;
            }
            match running.set(&entry.setting, &entry.before) {
                Ok(()) => {
                    let to = entry.before.clone();
                    done.put_back.push(PutBack { setting: name, from: now, to });
                }
                Err(error) => failed.push(error),
            }
        }
        (done, failed)
    }
}

/// Returns the directory of the journal: `$KTAX_STATE`, or `/var/lib/ktax`.
pub fn state_dir() -> PathBuf {
    let named = std::env::var_os("KTAX_STATE").filter(|named| !named.is_empty());
    named.map_or_else(|| "/var/lib/ktax".into(), PathBuf::from)
}

/// Restores the settings that a killed ktax left changed. Without a journal it does nothing, and
/// needs no permission.
///
/// # Errors
///
/// Another ktax holds the lock, or a setting cannot be restored.
pub fn replay(dir: &Path) -> Result<Replayed> {
    match is_there(dir)? {
        true => StateDir::lock(dir)?.replay(&Running::default()),
        false => Ok(Replayed::default()),
    }
}

/// The state of a state directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// There is no journal.
    Nothing,
    /// A running ktax has changed settings of this machine.
    InUse,
    /// There is a journal of a killed ktax, or of a ktax of another user, which may still run.
    Left,
}

/// Reads the state, and changes nothing.
///
/// # Errors
///
/// The directory cannot be read.
pub fn look(dir: &Path) -> Result<Look> {
    if !is_there(dir)? {
        return Ok(Look::Nothing);
    }
    let path = dir.join(LOCK);
    match File::open(&path) {
        Ok(lock) => look_at_lock(&path, lock),
        Err(_) => Ok(Look::Left),
    }
}

/// Looks whether a running ktax holds the lock of a journal that exists.
fn look_at_lock(path: &Path, lock: File) -> Result<Look> {
    match Lock::share(lock).map_err(refused(path)) {
        Ok(_) => Ok(Look::Left),
        Err(SettingError::Busy { .. }) => Ok(Look::InUse),
        Err(error) => Err(error),
    }
}

fn take(path: &Path, lock: File) -> Result<Lock> {
    Lock::take(lock).map_err(refused(path))
}

/// Makes an error of taking the lock. Only `WouldBlock` means that another process holds it.
fn refused(path: &Path) -> impl FnOnce(io::Error) -> SettingError {
    move |error| match error.kind() {
        io::ErrorKind::WouldBlock => SettingError::Busy { path: path.display().to_string() },
        _ => SettingError::state(path)(error),
    }
}

/// Returns whether a journal exists.
pub(super) fn is_there(dir: &Path) -> Result<bool> {
    let path = dir.join(JOURNAL);
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(SettingError::state(&path)(error)),
    }
}

/// The lock for changes of this machine, held until dropped.
#[derive(Debug)]
pub(super) struct StateDir {
    dir: PathBuf,
    _lock: Lock,
}

impl StateDir {
    /// Takes the lock.
    pub fn lock(dir: &Path) -> Result<StateDir> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(dir)
            .map_err(SettingError::state(dir))?;
        let about = dir.symlink_metadata().map_err(SettingError::state(dir))?;
        let is_own = about.uid() == geteuid().as_raw() && about.mode() & 0o022 == 0;
        if !about.is_dir() || !is_own {
            return Err(SettingError::Shared { path: dir.display().to_string() });
        }
        let path = dir.join(LOCK);
        let mut options = OpenOptions::new();
        // No other user may open it, because whoever can open it can lock it.
        options.write(true).create(true).truncate(false).mode(0o600);
        let lock = options.custom_flags(libc::O_NOFOLLOW).open(&path);
        let lock = lock.map_err(SettingError::state(&path))?;
        let lock = take(&path, lock)?;
        remove_unfinished(dir).map_err(SettingError::state(dir))?;
        Ok(StateDir { dir: dir.to_owned(), _lock: lock })
    }

    fn path(&self) -> PathBuf {
        self.dir.join(JOURNAL)
    }

    /// Writes the journal. It is on disk when this returns.
    pub fn write(&self, journal: &Journal) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(journal).expect("plain data serialises");
        text.push(b'\n');
        write_atomically(&self.path(), &text).map_err(SettingError::state(&self.path()))
    }

    fn read(&self) -> Result<Option<Journal>> {
        let path = self.path();
        let garbled = |reason: String| SettingError::Garbled {
            path: path.display().to_string(),
            reason: escape_bytes(reason.as_bytes()),
        };
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(&path);
        let mut file = match file {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(SettingError::state(&path))?,
        };
        let about = file.metadata().map_err(SettingError::state(&path))?;
        if !about.is_file() || about.uid() != geteuid().as_raw() {
            return Err(garbled("it is not a file of this user".into()));
        }
        let text = match read_up_to(&mut file, LARGEST_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                return Err(garbled(error.to_string()));
            }
            read => read.map_err(SettingError::state(&path))?,
        };
        let journal: Journal =
            serde_json::from_slice(&text).map_err(|error| garbled(error.to_string()))?;
        journal.check().map_err(garbled)?;
        Ok(Some(journal))
    }

    /// Restores the settings that a killed ktax left changed, then removes the journal.
    pub fn replay(&self, running: &Running) -> Result<Replayed> {
        let Some(journal) = self.read()? else {
            return Ok(Replayed::default());
        };
        let (done, failed) = journal.put_back(running, false);
        self.finish(&failed)?;
        Ok(done)
    }

    /// Removes the journal if every setting was restored.
    pub fn finish(&self, failed: &[SettingError]) -> Result<()> {
        let path = self.path();
        if failed.is_empty() {
            return fs::remove_file(&path).map_err(SettingError::state(&path));
        }
        let reasons: Vec<String> = failed.iter().map(SettingError::to_string).collect();
        let (path, reasons) = (path.display().to_string(), reasons.join("; "));
        Err(SettingError::NotBack { path, reasons })
    }
}

/// Which settings of a killed ktax were restored, and which were not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Replayed {
    /// Settings that have their old value again.
    pub put_back: Vec<PutBack>,
    /// Settings that somebody else has changed since; they stay as they are.
    pub left: Vec<Left>,
}

/// A setting that was restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PutBack {
    pub setting: String,
    pub from: String,
    pub to: String,
}

/// A setting that was left as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Left {
    pub setting: String,
    /// The present value.
    pub now: String,
    pub why: &'static str,
}

impl Replayed {
    /// Returns whether the journal had no setting that differs.
    pub fn is_empty(&self) -> bool {
        self.put_back.is_empty() && self.left.is_empty()
    }
}

impl fmt::Display for Replayed {
    /// Writes one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |value: &str| escape_bytes(value.as_bytes());
        let back = self.put_back.iter().map(|done| {
            format!("restored {} to {} (was {})", done.setting, value(&done.to), value(&done.from))
        });
        let left = self.left.iter().map(|left| match left.now.as_str() {
            "" => format!("did not restore {}: {}", left.setting, left.why),
            now => format!("left {} at {}: {}", left.setting, value(now), left.why),
        });
        let all: Vec<String> = back.chain(left).collect();
        match all.as_slice() {
            [] => f.write_str("no setting was left changed"),
            all => f.write_str(&all.join("; ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lock_that_somebody_holds_is_busy() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(LOCK);
        let held = take(&path, File::create(&path).unwrap()).unwrap();
        let again = take(&path, File::create(&path).unwrap());
        assert!(matches!(again, Err(SettingError::Busy { .. })), "{again:?}");
        assert_eq!(look_at_lock(&path, File::open(&path).unwrap()).unwrap(), Look::InUse);
        drop(held);
        // The kernel refuses to lock a file that is open as a path only.
        let as_path = || File::options().read(true).custom_flags(libc::O_PATH).open(&path).unwrap();
        let errors =
            [take(&path, as_path()).unwrap_err(), look_at_lock(&path, as_path()).unwrap_err()];
        for error in errors {
            assert!(matches!(error, SettingError::State { .. }), "{error}");
            assert!(error.to_string().contains("lock: Bad file descriptor"), "{error}");
        }
    }
}
