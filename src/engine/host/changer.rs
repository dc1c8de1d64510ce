//! Changes the running machine for a Side, and puts all back.

use std::collections::BTreeMap;
use std::path::Path;

use super::error::SettingError;
use super::journal::{Entry, Journal, State, is_there};
use super::setting::Setting;
use super::settings::{Running, is_plain, is_same};
use crate::model::{FORMAT, TimedSubject};

type Result<T> = std::result::Result<T, SettingError>;

/// Where one of them is written, the kernel sets the other to 0, and 0 cannot be written back.
const EITHER_OR: [[&str; 2]; 3] = [
    ["vm.dirty_ratio", "vm.dirty_bytes"],
    ["vm.dirty_background_ratio", "vm.dirty_background_bytes"],
    ["vm.overcommit_ratio", "vm.overcommit_kbytes"],
];

/// What writing the value from before does not undo, and why. `*` is any one part of the name;
/// where a value is given it is only that one.
const ONE_WAY: [(&str, Option<&str>, &str); 13] = [
    ("kernel.kexec_load_disabled", Some("1"), "1 is for good"),
    ("kernel.kexec_load_limit_panic", None, "the kernel only takes less than there is"),
    ("kernel.kexec_load_limit_reboot", None, "the kernel only takes less than there is"),
    ("kernel.modules_disabled", Some("1"), "1 is for good"),
    ("kernel.tainted", None, "the kernel only adds to it"),
    ("kernel.unprivileged_bpf_disabled", Some("1"), "1 is for good"),
    ("kernel.yama.ptrace_scope", Some("3"), "3 is for good"),
    ("net.ipv4.ip_forward", None, "it sets values of every interface, accept_redirects too"),
    ("net.*.conf.all.*", None, "it sets values of every interface"),
    ("net.*.conf.default.*", None, "it sets values of every interface"),
    // net/ipv4/devinet.c and net/ipv6/addrconf.c
    ("net.ipv4.conf.*.forwarding", None, "1 ends the interface's large receive offload"),
    ("net.ipv6.conf.*.forwarding", None, "1 drops the default routes that routers announced"),
    ("net.ipv6.conf.*.disable_ipv6", None, "1 drops the interface's addresses"),
];

fn is_named(pattern: &str, name: &str) -> bool {
    let mut parts = name.split('.');
    pattern.split('.').all(|wanted| parts.next().is_some_and(|part| ["*", part].contains(&wanted)))
        && parts.next().is_none()
}

/// Whether the kernel reads this number: it takes `01` and `0x1` for 1, and the first of several.
fn is_number(number: &str, value: &str) -> bool {
    let first = value.split_whitespace().next().unwrap_or_default();
    first.trim_start_matches(['0', 'x', 'X']) == number
}

/// Whoever may change the running machine: one at a time, with a journal. All is put back by
/// [`Changer::restore`], else when this is dropped, else by whoever finds the journal.
pub struct Changer {
    running: Running,
    /// None where neither Side sets anything.
    state: Option<State>,
    journal: Journal,
    is_restored: bool,
    note: fn(&str),
}

impl Changer {
    /// Puts back what an earlier ktax has left, writes down what the settings of both Sides are
    /// now, and makes sure that they can be put back. `note` gets a line for the user, here and
    /// where a drop cannot put back.
    pub fn new(dir: &Path, sides: [&TimedSubject; 2], note: fn(&str)) -> Result<Changer> {
        Changer::of(Running::default(), dir, sides, note)
    }

    pub(super) fn of(
        running: Running,
        dir: &Path,
        sides: [&TimedSubject; 2],
        note: fn(&str),
    ) -> Result<Changer> {
        let wanted = [running.wanted(sides[0])?, running.wanted(sides[1])?];
        let journal = Journal { format: FORMAT, boot_id: running.boot_id(), settings: Vec::new() };
        let mut changer = Changer { running, state: None, journal, is_restored: true, note };
        let is_idle = wanted.iter().all(BTreeMap::is_empty);
        if is_idle && !is_there(dir)? {
            return Ok(changer);
        }
        let state = State::lock(dir)?;
        let replayed = state.replay(&changer.running)?;
        if !replayed.is_empty() {
            note(&format!("a ktax that was killed has left settings changed: {replayed}"));
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

    /// What is to be put back, and what may be written.
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

    /// What the kernel does not take back is not begun.
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
                return no_way(format!("{other} is {now} and the kernel takes one of the two"));
            }
        }
        Ok(())
    }

    /// Writes each value that is there once more: what cannot be written now cannot be put back.
    fn rehearse(&self) -> Result<()> {
        for Entry { setting, before, .. } in &self.journal.settings {
            let no_way = |why: String| SettingError::NoWayBack { setting: setting.clone(), why };
            if !is_plain(before) {
                return Err(no_way("its value is more than one line".into()));
            }
            self.running.set(setting, before).map_err(|error| match error {
                SettingError::Refused { value, reason, .. } => {
                    no_way(format!("the kernel shows {value:?} and does not take it ({reason})"))
                }
                SettingError::Became { value, became, .. } => {
                    no_way(format!("writing {value:?} makes it {became:?}"))
                }
                other => other,
            })?;
        }
        Ok(())
    }

    /// Sets what this Side names, and puts back what only the other one does.
    pub fn apply(&mut self, subject: &TimedSubject) -> Result<()> {
        let wanted = self.running.wanted(subject)?;
        let is_planned = |setting: &Setting, value: &String| {
            let mut settings = self.journal.settings.iter();
            settings.any(|entry| entry.setting == *setting && entry.written.contains(value))
        };
        if let Some((setting, _)) = wanted.iter().find(|(key, value)| !is_planned(key, value)) {
            return Err(SettingError::Unplanned { setting: setting.clone() });
        }
        for at in 0..self.journal.settings.len() {
            let entry = &self.journal.settings[at];
            let value = wanted.get(&entry.setting).unwrap_or(&entry.before);
            if is_same(&self.running.read(&entry.setting)?, value) {
                continue;
            }
            let set = self.running.set(&entry.setting, value);
            if let Err(SettingError::Became { became, .. }) = &set {
                // That is ktax's as well, should this be killed now.
                self.journal.settings[at].written.push(became.clone());
                if let Some(state) = &self.state {
                    state.write(&self.journal)?;
                }
            }
            set?;
        }
        Ok(())
    }

    /// Puts all back and removes the journal. What cannot be put back stays in it.
    pub fn restore(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_restored, true) {
            return Ok(());
        }
        let (_, failed) = self.journal.put_back(&self.running, true);
        // From here on nothing may be set: no journal would tell of it.
        self.journal.settings.clear();
        self.state.take().map_or(Ok(()), |state| state.finish(&failed))
    }
}

impl Drop for Changer {
    fn drop(&mut self) {
        if let Err(error) = self.restore() {
            (self.note)(&error.to_string());
        }
    }
}
