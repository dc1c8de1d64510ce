//! Changes the settings of the running machine for a Side, and restores all of them.

use std::collections::BTreeMap;
use std::path::Path;

use super::journal::{Entry, FORMAT, Journal, StateDir, is_there};
use super::settings::{Running, Setting, SettingError, is_plain, is_same};
use ktax_model::TimedSubject;

type Result<T> = std::result::Result<T, SettingError>;

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
    ///
    /// # Errors
    ///
    /// A setting is wrong, cannot be changed, or cannot be restored; or another ktax holds the
    /// lock.
    pub fn new(
        dir: &Path,
        sides: [&TimedSubject; 2],
        note: impl Fn(&str) + 'a,
    ) -> Result<Changer<'a>> {
        Changer::with_running(Running::default(), dir, sides, note)
    }

    /// Does so for these files of a kernel.
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
        if is_idle && !is_there(dir)? {
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
            if !entries.contains_key(setting) {
                let before = self.running.read(setting)?;
                let (setting_, written) = (setting.clone(), Vec::new());
                entries.insert(setting, Entry { setting: setting_, before, written });
            }
            let entry = entries.get_mut(setting).expect("it is there");
            if !entry.written.contains(value) {
                entry.written.push(value.clone());
            }
        }
        Ok(entries.into_values().collect())
    }

    /// Refuses a setting whose old value cannot be restored.
    fn check_way_back(&self, setting: &Setting, value: &str) -> Result<()> {
        let no_way = |why: String| Err(SettingError::NoWayBack { setting: setting.clone(), why });
        let Setting::Sysctl(name) = setting else { return Ok(()) };
        let mut one_way = ONE_WAY.iter();
        if let Some((.., why)) = one_way.find(|(one, last, _)| {
            is_named(one, name) && last.is_none_or(|last| is_number(last, value))
        }) {
            return no_way((*why).to_owned());
        }
        for [one, other] in EITHER_OR {
            let other = if name == one {
                other
            } else if name == other {
                one
            } else {
                continue;
            };
            let now = self.running.read(&Setting::sysctl(other)?)?;
            if now != "0" {
                return no_way(format!(
                    "{other} is {now}, and the kernel uses only one of the two"
                ));
            }
        }
        Ok(())
    }

    /// Writes each present value once more: a value that cannot be written now cannot be restored.
    fn rehearse(&self) -> Result<()> {
        for Entry { setting, before, .. } in &self.journal.settings {
            let no_way = |why: String| SettingError::NoWayBack { setting: setting.clone(), why };
            if !is_plain(before) {
                return Err(no_way("its value has more than one line".into()));
            }
            self.running.set(setting, before).map_err(|error| match error {
                SettingError::Refused { value, reason, .. } => {
                    no_way(format!("the kernel shows {value:?} and refuses to set it ({reason})"))
                }
                SettingError::Became { value, became, .. } => {
                    no_way(format!("after writing {value:?} it reads {became:?}"))
                }
                other => other,
            })?;
        }
        Ok(())
    }

    /// Applies the settings of this Side, and restores those that only the other Side has.
    ///
    /// # Errors
    ///
    /// The kernel refuses a value, or a setting is not in the journal.
    pub fn apply(&mut self, subject: &TimedSubject) -> Result<()> {
        let wanted = self.running.wanted(subject)?;
        let is_planned = |setting: &Setting, value: &String| {
            let mut settings = self.journal.settings.iter();
            settings.any(|entry| entry.setting == *setting && entry.written.contains(value))
        };
        if let Some((setting, _)) = wanted.iter().find(|(key, value)| !is_planned(key, value)) {
            return Err(SettingError::Unplanned { setting: setting.clone() });
        }
        for index in 0..self.journal.settings.len() {
            let entry = &self.journal.settings[index];
            let value = wanted.get(&entry.setting).unwrap_or(&entry.before);
            if is_same(&self.running.read(&entry.setting)?, value) {
                continue;
            }
            let set = self.running.set(&entry.setting, value);
            if let Err(SettingError::Became { became, .. }) = &set {
                // If ktax is killed now, the next one must know that ktax wrote this value.
                self.journal.settings[index].written.push(became.clone());
                if let Some(state) = &self.state {
                    state.write(&self.journal)?;
                }
            }
            set?;
        }
        Ok(())
    }

    /// Restores all settings and removes the journal. What cannot be restored stays in the journal.
    ///
    /// # Errors
    ///
    /// A setting cannot be restored.
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
