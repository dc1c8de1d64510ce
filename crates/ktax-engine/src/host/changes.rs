//! Changes of the running machine's settings for a Side, and the journal of them. It is on disk
//! before a setting changes, so that the next ktax can restore what a killed one left.

use std::collections::{BTreeMap, btree_map};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::{fmt, io};

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::{Running, Setting, Written, became_other, is_plain, is_same, refused};
use ktax_host::disk::{Lock, read_up_to, remove_unfinished, write_atomically};
use ktax_host::text::escape_bytes;
use ktax_model::{Error, ErrorKind, Result, TimedSubject};

/// The journal's format: a newer ktax restores what an older one has changed.
const FORMAT: u32 = 1;

const JOURNAL: &str = "journal.json";
const LOCK: &str = "lock";

/// The largest journal. The values of all sysctls together are smaller.
const LARGEST_BYTES: u64 = 4 << 20;

/// The content of `journal.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Journal {
    format: u32,
    /// The boot ID of the kernel that has the settings. A reboot resets them.
    boot_id: String,
    settings: Vec<Entry>,
}

/// One setting that ktax changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    setting: Setting,
    /// The value to restore.
    before: String,
    /// The values that ktax may have written. Any other value is somebody else's.
    written: Vec<String>,
}

impl Journal {
    /// Checks a journal that was read from a file, which can come from anywhere.
    fn check(&self) -> Result<(), String> {
        if self.format != FORMAT {
            return Err(format!("it is of format {}", self.format));
        }
        for entry in &self.settings {
            entry.setting.path().map_err(|error| error.to_string())?;
            if !std::iter::once(&entry.before).chain(&entry.written).all(|value| is_plain(value)) {
                return Err(format!("a value of {} has control characters", entry.setting));
            }
        }
        Ok(())
    }

    /// Restores settings. The owner restores every setting; another process restores only those
    /// that still have a value that ktax wrote. The second list has the settings that could not be
    /// restored.
    fn put_back(&self, running: &Running, is_owner: bool) -> (Replayed, Vec<Error>) {
        let (mut done, mut failed) = (Replayed::default(), Vec::new());
        let is_rebooted = self.boot_id != running.boot_id();
        for Entry { setting, before, written } in self.settings.iter().rev() {
            let name = setting.to_string();
            let (now, why) = match running.read(setting) {
                Ok(now) if is_same(&now, before) => continue,
                Ok(now) if is_owner => (now, None),
                Ok(now) if is_rebooted => (now, Some("the machine was rebooted since")),
                Ok(now) if !written.iter().any(|value| is_same(value, &now)) => {
                    (now, Some("somebody else has changed it since"))
                }
                Ok(now) => (now, None),
                Err(error) if error.kind == ErrorKind::Absent => {
                    (String::new(), Some("it no longer exists"))
                }
                Err(error) => {
                    failed.push(error);
                    continue;
                }
            };
            if let Some(why) = why {
                done.left.push(LeftSetting { setting: name, now, why });
                continue;
            }
            match running.set(setting, before) {
                Ok(()) => {
                    let to = before.clone();
                    done.put_back.push(RestoredSetting { setting: name, from: now, to });
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
pub fn replay(dir: &Path) -> Result<Replayed> {
    match has_journal(dir)? {
        true => StateDir::lock(dir)?.replay(&Running::default()),
        false => Ok(Replayed::default()),
    }
}

/// The state of a state directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalState {
    /// There is no journal.
    Nothing,
    /// A running ktax has changed settings of this machine.
    InUse,
    /// There is a journal of a killed ktax, or of a ktax of another user, which may still run.
    Left,
}

/// Reads the state, and changes nothing.
pub fn journal_state(dir: &Path) -> Result<JournalState> {
    if !has_journal(dir)? {
        return Ok(JournalState::Nothing);
    }
    let path = dir.join(LOCK);
    match File::open(&path) {
        Ok(lock) => lock_state(&path, lock),
        Err(_) => Ok(JournalState::Left),
    }
}

/// Looks whether a running ktax holds the lock of a journal that exists.
fn lock_state(path: &Path, lock: File) -> Result<JournalState> {
    match Lock::share(lock) {
        Ok(_) => Ok(JournalState::Left),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(JournalState::InUse),
        Err(error) => Err(unusable(path)(error)),
    }
}

/// Takes the lock. Only `WouldBlock` means that another process holds it.
fn take(path: &Path, lock: File) -> Result<Lock> {
    Lock::take(lock).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => {
            let path = path.display();
            let what = "another ktax is changing this machine's settings";
            Error::user(format!("{what} ({path} is locked)")).next("wait until it ends")
        }
        _ => unusable(path)(error),
    })
}

fn has_journal(dir: &Path) -> Result<bool> {
    let path = dir.join(JOURNAL);
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(unusable(&path)(error)),
    }
}

fn unusable(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.display().to_string();
    move |reason| {
        Error::host(format!("cannot use {path}: {reason}"))
            .next("run ktax with `sudo`, or set KTAX_STATE to a directory of your own")
    }
}

/// The lock for changes of this machine, held until dropped.
#[derive(Debug)]
pub(super) struct StateDir {
    dir: PathBuf,
    _lock: Lock,
}

impl StateDir {
    pub(super) fn lock(dir: &Path) -> Result<StateDir> {
        DirBuilder::new().recursive(true).mode(0o755).create(dir).map_err(unusable(dir))?;
        let about = dir.symlink_metadata().map_err(unusable(dir))?;
        let is_own = about.uid() == geteuid().as_raw() && about.mode() & 0o022 == 0;
        if !about.is_dir() || !is_own {
            let path = dir.display();
            let what = format!("other users can write to {path}, and ktax restores the kernel's");
            return Err(Error::host(format!("{what} settings from it"))
                .next("set KTAX_STATE to a directory that only this user can write"));
        }
        let path = dir.join(LOCK);
        let mut options = OpenOptions::new();
        // No other user may open it, because whoever can open it can lock it.
        options.write(true).create(true).truncate(false).mode(0o600);
        let lock = options.custom_flags(libc::O_NOFOLLOW).open(&path).map_err(unusable(&path))?;
        let lock = take(&path, lock)?;
        remove_unfinished(dir).map_err(unusable(dir))?;
        Ok(StateDir { dir: dir.to_owned(), _lock: lock })
    }

    fn path(&self) -> PathBuf {
        self.dir.join(JOURNAL)
    }

    /// Writes the journal. It is on disk when this returns.
    fn write(&self, journal: &Journal) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(journal).expect("plain data serialises");
        text.push(b'\n');
        write_atomically(&self.path(), &text).map_err(unusable(&self.path()))
    }

    fn read(&self) -> Result<Option<Journal>> {
        let path = self.path();
        let garbled = |reason: String| {
            let reason = escape_bytes(reason.as_bytes());
            Error::host(format!("cannot use the journal {}: {reason}", path.display()))
                .next("restore the settings that it names by hand, then remove it")
        };
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(&path);
        let mut file = match file {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(unusable(&path))?,
        };
        let about = file.metadata().map_err(unusable(&path))?;
        if !about.is_file() || about.uid() != geteuid().as_raw() {
            return Err(garbled("it is not a file of this user".into()));
        }
        let text = match read_up_to(&mut file, LARGEST_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                return Err(garbled(error.to_string()));
            }
            read => read.map_err(unusable(&path))?,
        };
        let journal: Journal =
            serde_json::from_slice(&text).map_err(|error| garbled(error.to_string()))?;
        journal.check().map_err(garbled)?;
        Ok(Some(journal))
    }

    /// Restores the settings that a killed ktax left changed, then removes the journal.
    pub(super) fn replay(&self, running: &Running) -> Result<Replayed> {
        let Some(journal) = self.read()? else {
            return Ok(Replayed::default());
        };
        let (done, failed) = journal.put_back(running, false);
        self.finish(&failed)?;
        Ok(done)
    }

    /// Removes the journal if every setting was restored.
    fn finish(&self, failed: &[Error]) -> Result<()> {
        let path = self.path();
        if failed.is_empty() {
            return fs::remove_file(&path).map_err(unusable(&path));
        }
        let reasons: Vec<String> = failed.iter().map(Error::to_string).collect();
        let next = "make the named files writable, then type `sudo ktax doctor --restore`";
        Err(Error::host(format!("cannot restore all settings: {}", reasons.join("; ")))
            .next(format!("{next} ({})", path.display())))
    }
}

/// Which settings of a killed ktax were restored, and which were not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Replayed {
    /// Settings that have their old value again.
    pub put_back: Vec<RestoredSetting>,
    /// Settings that somebody else has changed since; they stay as they are.
    pub left: Vec<LeftSetting>,
}

/// A setting that was restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RestoredSetting {
    pub setting: String,
    pub from: String,
    pub to: String,
}

/// A setting that was left as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftSetting {
    pub setting: String,
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
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |value: &str| escape_bytes(value.as_bytes());
        let back = self.put_back.iter().map(|done| {
            format!("restored {} to {} (was {})", done.setting, value(&done.to), value(&done.from))
        });
        let left = self.left.iter().map(|left| match left.now.as_str() {
            "" => format!("did not restore {}: {}", left.setting, left.why),
            now => format!("left {} at {}: {}", left.setting, value(now), left.why),
        });
        let sentences: Vec<String> = back.chain(left).collect();
        match sentences.as_slice() {
            [] => f.write_str("no setting was left changed"),
            sentences => f.write_str(&sentences.join("; ")),
        }
    }
}

/// Pairs of sysctls. Writing one sets the other to 0, and 0 cannot be written back.
const EITHER_OR: [[&str; 2]; 3] = [
    ["vm.dirty_ratio", "vm.dirty_bytes"],
    ["vm.dirty_background_ratio", "vm.dirty_background_bytes"],
    ["vm.overcommit_ratio", "vm.overcommit_kbytes"],
];

/// Sysctls that cannot be restored by writing their old value, and why. `*` is any one part of the
/// name. If a value is given, only that value cannot be undone.
const ONE_WAY: [(&str, Option<&str>, &str); 13] = [
    ("kernel.kexec_load_disabled", Some("1"), "1 cannot be undone"),
    ("kernel.kexec_load_limit_panic", None, "the kernel only accepts a lower value"),
    ("kernel.kexec_load_limit_reboot", None, "the kernel only accepts a lower value"),
    ("kernel.modules_disabled", Some("1"), "1 cannot be undone"),
    ("kernel.tainted", None, "the kernel only adds to it"),
    ("kernel.unprivileged_bpf_disabled", Some("1"), "1 cannot be undone"),
    ("kernel.yama.ptrace_scope", Some("3"), "3 cannot be undone"),
    ("net.ipv4.ip_forward", None, "it also sets every interface, accept_redirects too"),
    ("net.*.conf.all.*", None, "it also sets every interface"),
    ("net.*.conf.default.*", None, "it also sets every interface"),
    // net/ipv4/devinet.c and net/ipv6/addrconf.c
    ("net.ipv4.conf.*.forwarding", None, "1 turns off the interface's large receive offload"),
    ("net.ipv6.conf.*.forwarding", None, "1 drops the default routes that routers announced"),
    ("net.ipv6.conf.*.disable_ipv6", None, "1 drops the interface's addresses"),
];

fn is_named(pattern: &str, name: &str) -> bool {
    let mut parts = name.split('.');
    pattern.split('.').all(|wanted| parts.next().is_some_and(|part| ["*", part].contains(&wanted)))
        && parts.next().is_none()
}

fn no_way_back(setting: &Setting, why: &str) -> Error {
    let what = format!("cannot change {setting}, because ktax could not restore it after the run");
    Error::user(format!("{what}: {why}")).next("remove it")
}

/// Returns whether the kernel reads `value` as this number. It reads `01` and `0x1` as 1, and of
/// several numbers the first.
fn is_number(number: &str, value: &str) -> bool {
    let first = value.split_whitespace().next().unwrap_or_default();
    first.trim_start_matches(['0', 'x', 'X']) == number
}

/// Changes settings of the running machine. Only one process can, and it keeps a journal.
/// [`Changer::restore`] restores all settings; otherwise the drop does; after a kill, the next ktax
/// that finds the journal does.
pub struct Changer<'a> {
    running: Running,
    /// `None` if neither Side sets anything.
    state: Option<StateDir>,
    journal: Journal,
    is_restored: bool,
    note: Box<dyn Fn(&str) + 'a>,
}

impl<'a> Changer<'a> {
    /// Restores what an earlier ktax left changed, writes the present value of both Sides' settings
    /// into the journal, and checks that each can be restored. `note` gets a line for the user,
    /// here and when the drop cannot restore a setting.
    pub fn new(
        dir: &Path,
        sides: [&TimedSubject; 2],
        note: impl Fn(&str) + 'a,
    ) -> Result<Changer<'a>> {
        Changer::with_running(Running::default(), dir, sides, note)
    }

    pub(super) fn with_running(
        running: Running,
        dir: &Path,
        sides: [&TimedSubject; 2],
        note: impl Fn(&str) + 'a,
    ) -> Result<Changer<'a>> {
        let wanted = [running.wanted(sides[0])?, running.wanted(sides[1])?];
        let journal = Journal { format: FORMAT, boot_id: running.boot_id(), settings: Vec::new() };
        let note = Box::new(note);
        let mut changer = Changer { running, state: None, journal, is_restored: true, note };
        let is_idle = wanted.iter().all(BTreeMap::is_empty);
        if is_idle && !has_journal(dir)? {
            return Ok(changer);
        }
        let state = StateDir::lock(dir)?;
        let replayed = state.replay(&changer.running)?;
        if !replayed.is_empty() {
            (changer.note)(&format!("a killed ktax left settings changed: {replayed}"));
        }
        if is_idle {
            return Ok(changer);
        }
        changer.journal.settings = changer.entries(&wanted)?;
        state.write(&changer.journal)?;
        changer.state = Some(state);
        changer.is_restored = false;
        changer.rehearse()?;
        Ok(changer)
    }

    /// Makes the journal's entries: the values to restore, and those that may be written.
    fn entries(&self, wanted: &[BTreeMap<Setting, String>; 2]) -> Result<Vec<Entry>> {
        let mut entries: BTreeMap<&Setting, Entry> = BTreeMap::new();
        for (setting, value) in wanted.iter().flatten() {
            self.check_way_back(setting, value)?;
            let entry = match entries.entry(setting) {
                btree_map::Entry::Occupied(entry) => entry.into_mut(),
                btree_map::Entry::Vacant(entry) => {
                    let before = self.running.read(setting)?;
                    entry.insert(Entry { setting: setting.clone(), before, written: Vec::new() })
                }
            };
            if !entry.written.contains(value) {
                entry.written.push(value.clone());
            }
        }
        Ok(entries.into_values().collect())
    }

    /// Refuses a setting whose old value cannot be restored.
    fn check_way_back(&self, setting: &Setting, value: &str) -> Result<()> {
        let Setting::Sysctl(name) = setting else { return Ok(()) };
        let mut one_way = ONE_WAY.iter();
        if let Some((.., why)) = one_way.find(|(pattern, last, _)| {
            is_named(pattern, name) && last.is_none_or(|last| is_number(last, value))
        }) {
            return Err(no_way_back(setting, why));
        }
        for [first, other] in EITHER_OR {
            let other = match name.as_str() {
                name if name == first => other,
                name if name == other => first,
                _ => continue,
            };
            let now = self.running.read(&Setting::sysctl(other)?)?;
            if now != "0" {
                let why = format!("{other} is {now}, and the kernel uses only one of the two");
                return Err(no_way_back(setting, &why));
            }
        }
        Ok(())
    }

    /// Writes each present value once more: a value that cannot be written now cannot be restored.
    fn rehearse(&self) -> Result<()> {
        for Entry { setting, before, .. } in &self.journal.settings {
            if !is_plain(before) {
                return Err(no_way_back(setting, "its value has more than one line"));
            }
            let why = match self.running.try_set(setting, before)? {
                Written::AsAsked => continue,
                Written::Refused(reason) => {
                    format!("the kernel shows {before:?} and refuses to set it ({reason})")
                }
                Written::Became(became) => format!("after writing {before:?} it reads {became:?}"),
            };
            return Err(no_way_back(setting, &why));
        }
        Ok(())
    }

    /// Applies the settings of this Side, and restores those that only the other Side has. All are
    /// in the journal.
    pub fn apply(&mut self, subject: &TimedSubject) -> Result<()> {
        let wanted = self.running.wanted(subject)?;
        let is_planned = |setting: &Setting, value: &String| {
            let mut settings = self.journal.settings.iter();
            settings.any(|entry| entry.setting == *setting && entry.written.contains(value))
        };
        if let Some((setting, _)) = wanted.iter().find(|(key, value)| !is_planned(key, value)) {
            return Err(Error::user(format!("{setting} is not in the plan")).next("plan again"));
        }
        for index in 0..self.journal.settings.len() {
            let entry = &self.journal.settings[index];
            let value = wanted.get(&entry.setting).unwrap_or(&entry.before);
            if is_same(&self.running.read(&entry.setting)?, value) {
                continue;
            }
            match self.running.try_set(&entry.setting, value)? {
                Written::AsAsked => {}
                Written::Refused(reason) => return Err(refused(&entry.setting, value, &reason)),
                Written::Became(became) => {
                    let error = became_other(&entry.setting, value, &became);
                    // If ktax is killed now, the next one must know that ktax wrote this value.
                    self.journal.settings[index].written.push(became);
                    if let Some(state) = &self.state {
                        state.write(&self.journal)?;
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Restores all settings and removes the journal. What cannot be restored stays in the journal.
    pub fn restore(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_restored, true) {
            return Ok(());
        }
        let (_, failed) = self.journal.put_back(&self.running, true);
        // Nothing may be set after this, because no journal would record it.
        self.journal.settings.clear();
        self.state.take().map_or(Ok(()), |state| state.finish(&failed))
    }
}

impl Drop for Changer<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.restore() {
            (self.note)(&error.to_string());
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
        assert!(again.unwrap_err().to_string().ends_with("wait until it ends"));
        assert_eq!(lock_state(&path, File::open(&path).unwrap()).unwrap(), JournalState::InUse);
        drop(held);
        // The kernel refuses to lock a file that is open as a path only.
        let as_path = || File::options().read(true).custom_flags(libc::O_PATH).open(&path).unwrap();
        let errors =
            [take(&path, as_path()).unwrap_err(), lock_state(&path, as_path()).unwrap_err()];
        for error in errors {
            assert!(error.to_string().contains("lock: Bad file descriptor"), "{error}");
        }
    }
}
