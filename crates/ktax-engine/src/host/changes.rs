//! Changes of the running kernel's settings for a Side, and the journal of these changes. The
//! journal is on disk before a setting changes, so that the next ktax can restore the settings that
//! a killed ktax left changed.

use std::collections::{BTreeMap, btree_map};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::{fmt, io};

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::{
    RunningKernel, Setting, WriteOutcome, adjusted_error, is_same_value, is_single_line,
    refused_error,
};
use ktax_host::disk::{Lock, read_up_to, remove_unfinished, write_atomically};
use ktax_host::text::escape_bytes;
use ktax_model::{Error, ErrorKind, Result, TimedSubject};

/// Version of the journal's format. It stays as it is as long as possible, so that a newer ktax can
/// restore the settings that an older ktax has changed.
const FORMAT: u32 = 1;

const JOURNAL: &str = "journal.json";
const LOCK: &str = "lock";

/// The largest journal, in bytes. The values of all sysctls together are smaller.
const MAX_JOURNAL_BYTES: u64 = 4 << 20;

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
    /// The values that ktax may have written. Somebody else has written any other value.
    written: Vec<String>,
}

impl Journal {
    /// Checks a journal from a file, which is untrusted.
    fn check(&self) -> Result<(), String> {
        if self.format != FORMAT {
            return Err(format!("it is of format {}", self.format));
        }
        for entry in &self.settings {
            entry.setting.path().map_err(|error| error.to_string())?;
            if !std::iter::once(&entry.before)
                .chain(&entry.written)
                .all(|value| is_single_line(value))
            {
                return Err(format!(
                    "a value of {} is too long or has control characters",
                    entry.setting
                ));
            }
        }
        Ok(())
    }

    /// Restores settings. The process that owns the journal restores every setting; another process
    /// restores only settings that still have a value that ktax wrote. The errors are those of the
    /// settings that could not be restored.
    fn restore(&self, kernel: &RunningKernel, is_owner: bool) -> (JournalReplay, Vec<Error>) {
        let (mut replay, mut errors) = (JournalReplay::default(), Vec::new());
        let is_rebooted = self.boot_id != kernel.boot_id();
        for Entry { setting, before, written } in self.settings.iter().rev() {
            let name = setting.to_string();
            let (now, why) = match kernel.read(setting) {
                Ok(now) if is_same_value(&now, before) => continue,
                Ok(now) if is_owner => (now, None),
                Ok(now) if is_rebooted => (now, Some("the machine was rebooted since")),
                Ok(now) if !written.iter().any(|value| is_same_value(value, &now)) => {
                    (now, Some("somebody else has changed it since"))
                }
                Ok(now) => (now, None),
                Err(error) if error.kind == ErrorKind::Absent => {
                    (String::new(), Some("it no longer exists"))
                }
                Err(error) => {
                    errors.push(error);
                    continue;
                }
            };
            if let Some(why) = why {
                replay.skipped.push(SkippedSetting { setting: name, now, why });
                continue;
            }
            match kernel.set(setting, before) {
                Ok(()) => {
                    let to = before.clone();
                    replay.restored.push(RestoredSetting { setting: name, from: now, to });
                }
                Err(error) => errors.push(error),
            }
        }
        (replay, errors)
    }
}

/// Returns the directory of the journal: `$KTAX_STATE`, or `/var/lib/ktax`.
pub fn state_dir() -> PathBuf {
    let named = std::env::var_os("KTAX_STATE").filter(|named| !named.is_empty());
    named.map_or_else(|| "/var/lib/ktax".into(), PathBuf::from)
}

/// Restores the settings that a killed ktax left changed. Without a journal, this does nothing and
/// needs no permission.
pub fn replay(dir: &Path) -> Result<JournalReplay> {
    match has_journal(dir)? {
        true => StateDir::lock(dir)?.replay(&RunningKernel::default()),
        false => Ok(JournalReplay::default()),
    }
}

/// Whether a state directory has a journal, and whether a running ktax uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalState {
    /// There is no journal.
    Absent,
    /// A running ktax has changed settings of this machine.
    InUse,
    /// There is a journal of a killed ktax, or of another user's ktax, which may still run.
    LeftOver,
}

/// Returns the state of a state directory, and changes nothing.
pub fn journal_state(dir: &Path) -> Result<JournalState> {
    if !has_journal(dir)? {
        return Ok(JournalState::Absent);
    }
    let path = dir.join(LOCK);
    match File::open(&path) {
        Ok(lock) => lock_state(&path, lock),
        Err(_) => Ok(JournalState::LeftOver),
    }
}

/// Returns the state of a journal that exists: in use if a running ktax holds its lock.
fn lock_state(path: &Path, lock: File) -> Result<JournalState> {
    match Lock::share(lock) {
        Ok(_) => Ok(JournalState::LeftOver),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(JournalState::InUse),
        Err(error) => Err(state_dir_error(path)(error)),
    }
}

/// Takes the lock for this process. An error tells whether another ktax holds it.
fn take_lock(path: &Path, lock: File) -> Result<Lock> {
    Lock::take(lock).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => {
            let path = path.display();
            let problem = "another ktax is changing this machine's settings";
            Error::user(format!("{problem} ({path} is locked)")).next("wait until it ends")
        }
        _ => state_dir_error(path)(error),
    })
}

fn has_journal(dir: &Path) -> Result<bool> {
    let path = dir.join(JOURNAL);
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(state_dir_error(&path)(error)),
    }
}

fn state_dir_error(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.display().to_string();
    move |reason| {
        Error::host(format!("cannot use {path}: {reason}"))
            .next("run ktax with `sudo`, or set KTAX_STATE to a directory of your own")
    }
}

/// A state directory, with the lock for changes of this machine's settings until it is dropped.
#[derive(Debug)]
pub(super) struct StateDir {
    dir: PathBuf,
    _lock: Lock,
}

impl StateDir {
    pub(super) fn lock(dir: &Path) -> Result<StateDir> {
        DirBuilder::new().recursive(true).mode(0o755).create(dir).map_err(state_dir_error(dir))?;
        let metadata = dir.symlink_metadata().map_err(state_dir_error(dir))?;
        let is_own = metadata.uid() == geteuid().as_raw() && metadata.mode() & 0o022 == 0;
        let path = dir.display();
        let problem = if !metadata.is_dir() {
            Some(format!("{path} is not a directory"))
        } else if !is_own {
            let writable = format!("other users can write to {path}");
            Some(format!("{writable}, and ktax restores the kernel's settings from it"))
        } else {
            None
        };
        if let Some(problem) = problem {
            let next = "set KTAX_STATE to a directory that only this user can write";
            return Err(Error::host(problem).next(next));
        }
        let path = dir.join(LOCK);
        let mut options = OpenOptions::new();
        // Only this user may open the file, because whoever can open a file can lock it.
        options.write(true).create(true).truncate(false).mode(0o600);
        let lock =
            options.custom_flags(libc::O_NOFOLLOW).open(&path).map_err(state_dir_error(&path))?;
        let lock = take_lock(&path, lock)?;
        remove_unfinished(dir).map_err(state_dir_error(dir))?;
        Ok(StateDir { dir: dir.to_owned(), _lock: lock })
    }

    /// Returns the path of the journal.
    fn path(&self) -> PathBuf {
        self.dir.join(JOURNAL)
    }

    /// Writes the journal, which is on disk when this returns.
    fn write(&self, journal: &Journal) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(journal).expect("plain data serialises");
        text.push(b'\n');
        write_atomically(&self.path(), &text).map_err(state_dir_error(&self.path()))
    }

    /// Reads and checks the journal; `None` if there is none.
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
            opened => opened.map_err(state_dir_error(&path))?,
        };
        let metadata = file.metadata().map_err(state_dir_error(&path))?;
        if !metadata.is_file() || metadata.uid() != geteuid().as_raw() {
            return Err(garbled("it is not a file of this user".into()));
        }
        let text = match read_up_to(&mut file, MAX_JOURNAL_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                return Err(garbled(error.to_string()));
            }
            read => read.map_err(state_dir_error(&path))?,
        };
        let journal: Journal =
            serde_json::from_slice(&text).map_err(|error| garbled(error.to_string()))?;
        journal.check().map_err(garbled)?;
        Ok(Some(journal))
    }

    /// Restores the settings that a killed ktax left changed, then removes the journal.
    pub(super) fn replay(&self, kernel: &RunningKernel) -> Result<JournalReplay> {
        let Some(journal) = self.read()? else {
            return Ok(JournalReplay::default());
        };
        let (replay, errors) = journal.restore(kernel, false);
        self.finish(&errors)?;
        Ok(replay)
    }

    /// Removes the journal if there were no errors. Otherwise joins the errors to one.
    fn finish(&self, errors: &[Error]) -> Result<()> {
        let path = self.path();
        if errors.is_empty() {
            return fs::remove_file(&path).map_err(state_dir_error(&path));
        }
        let reasons: Vec<String> = errors.iter().map(Error::to_string).collect();
        let command = restore_command();
        let next = format!("make the named files writable, then type `{command}`");
        Err(Error::host(format!("cannot restore all settings: {}", reasons.join("; ")))
            .next(format!("{next}; the journal is {}", path.display())))
    }
}

/// Command that restores what a killed ktax left changed. sudo drops environment variables by
/// default.
pub fn restore_command() -> &'static str {
    match std::env::var_os("KTAX_STATE") {
        None => "sudo ktax doctor --restore",
        Some(_) => "sudo --preserve-env=KTAX_STATE ktax doctor --restore",
    }
}

/// Outcome of replaying the journal of a killed ktax.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct JournalReplay {
    /// Settings that have their old value again.
    #[serde(rename = "put_back")]
    pub restored: Vec<RestoredSetting>,
    /// Settings that stay as they are, each with the reason.
    #[serde(rename = "left")]
    pub skipped: Vec<SkippedSetting>,
}

/// A setting that was restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RestoredSetting {
    pub setting: String,
    pub from: String,
    pub to: String,
}

/// A setting that was not restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkippedSetting {
    pub setting: String,
    pub now: String,
    pub why: &'static str,
}

impl JournalReplay {
    /// Returns whether every setting of the journal had its old value already.
    pub fn is_empty(&self) -> bool {
        self.restored.is_empty() && self.skipped.is_empty()
    }
}

impl fmt::Display for JournalReplay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |value: &str| escape_bytes(value.as_bytes());
        let restored = self.restored.iter().map(|RestoredSetting { setting, from, to }| {
            format!("restored {setting} to {} (was {})", value(to), value(from))
        });
        let skipped =
            self.skipped.iter().map(|SkippedSetting { setting, now, why }| match now.as_str() {
                "" => format!("did not restore {setting}: {why}"),
                now => format!("left {setting} at {}: {why}", value(now)),
            });
        let sentences: Vec<String> = restored.chain(skipped).collect();
        match sentences.as_slice() {
            [] => f.write_str("no setting was left changed"),
            sentences => f.write_str(&sentences.join("; ")),
        }
    }
}

/// Pairs of sysctls of which only one is in use. A write to one sets the other to 0, and 0 cannot
/// be written back.
const EXCLUSIVE_PAIRS: [[&str; 2]; 3] = [
    ["vm.dirty_ratio", "vm.dirty_bytes"],
    ["vm.dirty_background_ratio", "vm.dirty_background_bytes"],
    ["vm.overcommit_ratio", "vm.overcommit_kbytes"],
];

/// Sysctls that a write of their old value does not restore, with the reason. `*` stands for one
/// part of a name. A value in the second column is the only value that cannot be undone.
const IRREVERSIBLE: [(&str, Option<&str>, &str); 13] = [
    ("kernel.kexec_load_disabled", Some("1"), "1 cannot be undone"),
    ("kernel.kexec_load_limit_panic", None, "the kernel only accepts a lower value"),
    ("kernel.kexec_load_limit_reboot", None, "the kernel only accepts a lower value"),
    ("kernel.modules_disabled", Some("1"), "1 cannot be undone"),
    ("kernel.tainted", None, "the kernel only adds to it"),
    ("kernel.unprivileged_bpf_disabled", Some("1"), "1 cannot be undone"),
    ("kernel.yama.ptrace_scope", Some("3"), "3 cannot be undone"),
    (
        "net.ipv4.ip_forward",
        None,
        "it also sets forwarding and accept_redirects of every interface",
    ),
    ("net.*.conf.all.*", None, "it also sets every interface"),
    ("net.*.conf.default.*", None, "it also sets every interface"),
    // net/ipv4/devinet.c and net/ipv6/addrconf.c
    ("net.ipv4.conf.*.forwarding", None, "1 turns off the interface's large receive offload"),
    ("net.ipv6.conf.*.forwarding", None, "1 drops the default routes that routers announced"),
    ("net.ipv6.conf.*.disable_ipv6", None, "1 drops the interface's addresses"),
];

/// Returns whether a name matches a pattern of [`IRREVERSIBLE`].
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let mut parts = name.split('.');
    let mut patterns = pattern.split('.');
    patterns.all(|pattern| parts.next().is_some_and(|part| ["*", part].contains(&pattern)))
        && parts.next().is_none()
}

fn irreversible_error(setting: &Setting, why: &str) -> Error {
    let problem =
        format!("cannot change {setting}, because ktax could not restore it after the run");
    Error::user(format!("{problem}: {why}")).next(format!("remove {setting}"))
}

/// Returns whether the kernel reads `value` as this number: it reads `01` and `0x1` as 1, and takes
/// the first of several numbers.
fn is_number(number: &str, value: &str) -> bool {
    let first = value.split_whitespace().next().unwrap_or_default();
    first.trim_start_matches(['0', 'x', 'X']) == number
}

/// Changes settings of the running kernel, with a journal. Only one process at a time can do this.
/// [`Changer::restore`] or the drop restores all settings; after a kill, the next ktax that finds
/// the journal restores them.
pub struct Changer<'a> {
    kernel: RunningKernel,
    /// `None` if neither Side has settings, and after the settings were restored.
    state: Option<StateDir>,
    journal: Journal,
    is_restored: bool,
    note: Box<dyn Fn(&str) + 'a>,
}

impl<'a> Changer<'a> {
    /// Restores the settings that a killed ktax left changed, writes the present values of both
    /// Sides' settings into the journal, and checks that each setting can be restored. `note`
    /// prints a line for the user, also if the drop cannot restore a setting.
    pub fn new(
        dir: &Path,
        sides: [&TimedSubject; 2],
        note: impl Fn(&str) + 'a,
    ) -> Result<Changer<'a>> {
        Changer::for_kernel(RunningKernel::default(), dir, sides, note)
    }

    pub(super) fn for_kernel(
        kernel: RunningKernel,
        dir: &Path,
        sides: [&TimedSubject; 2],
        note: impl Fn(&str) + 'a,
    ) -> Result<Changer<'a>> {
        let settings = [kernel.settings_of(sides[0])?, kernel.settings_of(sides[1])?];
        let journal = Journal { format: FORMAT, boot_id: kernel.boot_id(), settings: Vec::new() };
        let note = Box::new(note);
        let mut changer = Changer { kernel, state: None, journal, is_restored: true, note };
        let has_settings = !settings.iter().all(BTreeMap::is_empty);
        if !has_settings && !has_journal(dir)? {
            return Ok(changer);
        }
        let state = StateDir::lock(dir)?;
        let replay = state.replay(&changer.kernel)?;
        if !replay.is_empty() {
            (changer.note)(&format!("a killed ktax left settings changed: {replay}"));
        }
        if !has_settings {
            return Ok(changer);
        }
        changer.journal.settings = changer.journal_entries(&settings)?;
        state.write(&changer.journal)?;
        changer.state = Some(state);
        changer.is_restored = false;
        changer.check_rewritable()?;
        Ok(changer)
    }

    /// Returns the journal's entries: for each setting the value to restore, and the values that
    /// ktax may write.
    fn journal_entries(&self, settings: &[BTreeMap<Setting, String>; 2]) -> Result<Vec<Entry>> {
        let mut entries: BTreeMap<&Setting, Entry> = BTreeMap::new();
        for (setting, value) in settings.iter().flatten() {
            self.check_reversible(setting, value)?;
            let entry = match entries.entry(setting) {
                btree_map::Entry::Occupied(entry) => entry.into_mut(),
                btree_map::Entry::Vacant(entry) => {
                    let before = self.kernel.read(setting)?;
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
    fn check_reversible(&self, setting: &Setting, value: &str) -> Result<()> {
        let Setting::Sysctl(name) = setting else { return Ok(()) };
        let mut irreversible = IRREVERSIBLE.iter();
        if let Some((.., why)) = irreversible.find(|(pattern, number, _)| {
            matches_pattern(pattern, name) && number.is_none_or(|number| is_number(number, value))
        }) {
            return Err(irreversible_error(setting, why));
        }
        for [first, other] in EXCLUSIVE_PAIRS {
            let other = match name.as_str() {
                name if name == first => other,
                name if name == other => first,
                _ => continue,
            };
            let now = self.kernel.read(&Setting::sysctl(other)?)?;
            if now != "0" {
                let why = format!("{other} is {now}, and the kernel uses only one of the two");
                return Err(irreversible_error(setting, &why));
            }
        }
        Ok(())
    }

    /// Writes each present value back, to check that the value can be restored later.
    fn check_rewritable(&self) -> Result<()> {
        for Entry { setting, before, .. } in &self.journal.settings {
            if !is_single_line(before) {
                return Err(irreversible_error(setting, "its value has more than one line"));
            }
            let why = match self.kernel.try_set(setting, before)? {
                WriteOutcome::Accepted => continue,
                WriteOutcome::Refused(reason) => {
                    format!("the kernel shows {before:?} and refuses to set it ({reason})")
                }
                WriteOutcome::Adjusted(now) => {
                    format!("after writing {before:?} it reads {now:?}")
                }
            };
            return Err(irreversible_error(setting, &why));
        }
        Ok(())
    }

    /// Applies the settings of this Side, and restores those that only the other Side has. The
    /// journal must have all of them.
    pub fn apply(&mut self, subject: &TimedSubject) -> Result<()> {
        let settings = self.kernel.settings_of(subject)?;
        let is_planned = |setting: &Setting, value: &String| {
            let mut entries = self.journal.settings.iter();
            entries.any(|entry| entry.setting == *setting && entry.written.contains(value))
        };
        let mut unplanned = settings.iter().filter(|(setting, value)| !is_planned(setting, value));
        if let Some((setting, _)) = unplanned.next() {
            return Err(Error::user(format!("{setting} is not in the plan")).next("plan again"));
        }
        for index in 0..self.journal.settings.len() {
            let entry = &self.journal.settings[index];
            let value = settings.get(&entry.setting).unwrap_or(&entry.before);
            if is_same_value(&self.kernel.read(&entry.setting)?, value) {
                continue;
            }
            match self.kernel.try_set(&entry.setting, value)? {
                WriteOutcome::Accepted => {}
                WriteOutcome::Refused(reason) => {
                    return Err(refused_error(&entry.setting, value, &reason));
                }
                WriteOutcome::Adjusted(now) => {
                    let error = adjusted_error(&entry.setting, value, &now);
                    // If ktax is killed now, the next ktax must know that ktax wrote this value.
                    self.journal.settings[index].written.push(now);
                    if let Some(state) = &self.state {
                        state.write(&self.journal)?;
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Restores all settings and removes the journal. If a setting cannot be restored, the journal
    /// stays.
    pub fn restore(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_restored, true) {
            return Ok(());
        }
        let (_, errors) = self.journal.restore(&self.kernel, true);
        // Without entries, `apply` refuses all settings: no journal would record a change.
        self.journal.settings.clear();
        self.state.take().map_or(Ok(()), |state| state.finish(&errors))
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
    fn only_a_held_lock_is_reported_as_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(LOCK);
        let held = take_lock(&path, File::create(&path).unwrap()).unwrap();
        let again = take_lock(&path, File::create(&path).unwrap());
        assert!(again.unwrap_err().to_string().ends_with("wait until it ends"));
        assert_eq!(lock_state(&path, File::open(&path).unwrap()).unwrap(), JournalState::InUse);
        drop(held);
        // The kernel refuses to lock a file that is open as a path only.
        let as_path = || File::options().read(true).custom_flags(libc::O_PATH).open(&path).unwrap();
        let errors =
            [take_lock(&path, as_path()).unwrap_err(), lock_state(&path, as_path()).unwrap_err()];
        for error in errors {
            assert!(error.to_string().contains("lock: Bad file descriptor"), "{error}");
        }
    }
}
