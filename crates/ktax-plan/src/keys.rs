//! Keys of experiments. [`KEYS`] describes each key once: its flag, meaning, methods, bounds,
//! default, and its values on a printed command line. Checks, messages, `--help`, the table in
//! `docs/compare.md` and [`repeat_command`](crate::repeat_command) use this table.

mod table;

use std::fmt::Write as _;
use std::ops::RangeInclusive;

pub use table::{KEYS, MachineKeys, THRESHOLD_PERCENT, TIMED_THRESHOLD_PERCENT};

use crate::again::{Request, RequestedSide};
use crate::experiment::Error;
use ktax_model::{Method, Side, UserProgram};

/// Maximum length of a boot line: the kernel takes 2047 characters (COMMAND_LINE_SIZE of arch/x86),
/// and ktax adds some parameters.
pub const MAX_BOOT_LINE: usize = 1800;

/// A key of experiment files and the command line.
pub struct ExperimentKey {
    /// Name in a file. `SIDE.boot_line` stands for `base.boot_line` and `change.boot_line`,
    /// `program.files` for `files` of a `[[program]]`.
    pub name: &'static str,
    /// Flags of the base and of the change; equal if the key has no Side, and empty if only a file
    /// sets the key.
    pub flags: [&'static str; 2],
    /// Lines of help of both flags, without the default. The bounds are added after a colon at the
    /// end.
    help: [&'static str; 2],
    /// Methods to which the key applies.
    pub methods: &'static [Method],
    /// Bounds of a number, in counted and in timed experiments.
    bounds: Option<[RangeInclusive<u32>; 2]>,
    default: KeyDefault,
    /// Flag that the command line makes from this table.
    pub flag: Option<MachineFlag>,
    pub(super) scope: Scope,
}

/// Default of a key.
enum KeyDefault {
    /// Description for the help; empty without a default.
    Words(&'static str),
    Number(u32),
    /// Description made of other constants.
    Text(fn() -> String),
}

/// Flag of a key of `[machine]`, from which the command line makes an option.
#[derive(Debug, Clone)]
pub struct MachineFlag {
    /// Name of the value in the help.
    pub value_name: &'static str,
    /// Older name of the flag.
    pub alias: Option<&'static str>,
    /// Values for completions.
    pub suggestions: fn() -> Vec<&'static str>,
    /// Sets the key to a checked text.
    pub set: fn(&mut MachineKeys, &str) -> Result<(), String>,
}

/// Values of a flag, one for each occurrence on the command line.
pub(super) type Values = Vec<String>;

/// Marks a flag that takes no value.
pub(super) const SWITCH: &str = "\0";

/// Table of a key in a file, and a function that returns the values of its flag. The function
/// returns no values if they are the default.
pub(super) enum Scope {
    File(fn(&Request<'_>) -> Values),
    Side(Group, fn(RequestedSide<'_>) -> Values),
    Program(fn(&UserProgram, &[u64]) -> Values),
}

/// Keys of a Side that are printed together: those of the base, then those of the change.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Group {
    Source,
    BootLine,
    Settings,
}

impl ExperimentKey {
    const fn new(
        name: &'static str,
        flags: [&'static str; 2],
        methods: &'static [Method],
        help: [&'static str; 2],
        scope: Scope,
    ) -> ExperimentKey {
        let default = KeyDefault::Words("");
        ExperimentKey { name, flags, help, methods, bounds: None, default, flag: None, scope }
    }

    const fn default(self, words: &'static str) -> ExperimentKey {
        ExperimentKey { default: KeyDefault::Words(words), ..self }
    }

    const fn default_number(self, number: u32) -> ExperimentKey {
        ExperimentKey { default: KeyDefault::Number(number), ..self }
    }

    const fn default_text(self, text: fn() -> String) -> ExperimentKey {
        ExperimentKey { default: KeyDefault::Text(text), ..self }
    }

    const fn bounds(self, bounds: RangeInclusive<u32>) -> ExperimentKey {
        let (min, max) = (*bounds.start(), *bounds.end());
        ExperimentKey { bounds: Some([bounds, min..=max]), ..self }
    }

    /// Sets other bounds for timed experiments.
    const fn timed_bounds(self, timed: RangeInclusive<u32>) -> ExperimentKey {
        let Some([counted, _]) = self.bounds else { panic!("bounds come first") };
        ExperimentKey { bounds: Some([counted, timed]), ..self }
    }

    const fn flag(self, flag: MachineFlag) -> ExperimentKey {
        ExperimentKey { flag: Some(flag), ..self }
    }

    /// Formats the bounds: `1 to 32, or 1 to 255 with --engine kvm`; `None` if the key is not a
    /// number.
    pub fn bounds_text(&self) -> Option<String> {
        let [counted, timed] = self.bounds.as_ref()?;
        let text = |range: &RangeInclusive<u32>| format!("{} to {}", range.start(), range.end());
        Some(match counted == timed {
            true => text(counted),
            false => format!("{}, or {} with --engine kvm", text(counted), text(timed)),
        })
    }

    pub fn is_number(&self) -> bool {
        self.bounds.is_some()
    }

    /// Refuses a text that is not a number within the bounds. Accepts any text if the key has no
    /// bounds.
    pub fn check(&self, text: &str) -> Result<(), String> {
        let Some([counted, timed]) = &self.bounds else { return Ok(()) };
        let is_within = |number: u32| counted.contains(&number) || timed.contains(&number);
        let separator = if counted == timed { " from" } else { "," };
        match text.parse().is_ok_and(is_within) {
            true => Ok(()),
            false => {
                let bounds = self.bounds_text().unwrap_or_default();
                Err(format!("it takes a whole number{separator} {bounds}"))
            }
        }
    }

    /// Line of help with the bounds and the default, for the base or the change.
    pub fn help(&self, index: usize) -> String {
        let mut help = self.help[index].to_owned();
        if let (true, Some(bounds)) = (help.ends_with(':'), self.bounds_text()) {
            help += &format!(" {bounds}");
        }
        match &self.default {
            KeyDefault::Words("") => {}
            KeyDefault::Words(words) => help += &format!(" [default: {words}]"),
            KeyDefault::Number(number) => help += &format!(" [default: {number}]"),
            KeyDefault::Text(text) => help += &format!(" [default: {}]", text()),
        }
        help
    }
}

/// Key with this name, and the index of its flag; `None` for unknown keys.
fn find_key(name: &str) -> Option<(&'static ExperimentKey, usize)> {
    let side_keys = |(index, side): (usize, Side)| {
        let key = name.strip_prefix(side.name())?.strip_prefix('.')?;
        let is_key = |candidate: &&ExperimentKey| candidate.name.strip_prefix("SIDE.") == Some(key);
        Some((KEYS.iter().find(is_key)?, index))
    };
    let is_key = |candidate: &&ExperimentKey| {
        candidate.name == name || candidate.name.strip_prefix("program.") == Some(name)
    };
    let sides = Side::BOTH.into_iter().enumerate();
    let side_key = sides.filter_map(side_keys).next();
    side_key.or_else(|| KEYS.iter().find(is_key).map(|key| (key, 0)))
}

/// Line of help of the flag of a key, such as `base.modules`. Panics if there is no such key.
pub fn help(name: &str) -> String {
    let (key, index) = find_key(name).expect("the command line sets keys of KEYS");
    key.help(index)
}

/// Bounds of a key's number. Panics if the key has no bounds.
pub fn bounds(name: &str, method: Method) -> RangeInclusive<u32> {
    let (key, _) = find_key(name).expect("a key of KEYS");
    let [counted, timed] = key.bounds.as_ref().expect("a number");
    if method == Method::Times { timed.clone() } else { counted.clone() }
}

/// Bounds of a key's number as a text, for all methods. Panics if the key has no bounds.
pub(super) fn bounds_text(name: &str) -> String {
    find_key(name).and_then(|(key, _)| key.bounds_text()).expect("a number")
}

/// Default of a key's number. Panics if the key has no number as its default.
pub(super) fn default_number(name: &str) -> u32 {
    match find_key(name).map(|(key, _)| &key.default) {
        Some(KeyDefault::Number(number)) => *number,
        _ => panic!("{name} has no number as its default"),
    }
}

/// Refuses a number that is out of bounds.
pub(super) fn check_bounds(name: &str, value: u32, method: Method) -> Result<(), Error> {
    check_range(name, value, bounds(name, method))
}

/// Refuses a number that is out of these bounds.
pub(super) fn check_range(
    name: &str,
    value: u32,
    bounds: RangeInclusive<u32>,
) -> Result<(), Error> {
    match bounds.contains(&value) {
        true => Ok(()),
        false => {
            let (key, min, max) = (with_flag(name), bounds.start(), bounds.end());
            Err(Error::user(format!("{key} must be {min} to {max}, not {value}"))
                .next("remove it to use the default"))
        }
    }
}

/// Name of a key in messages, after the flag that sets the key: `--loops (loops)`.
pub(super) fn with_flag(name: &str) -> String {
    match find_key(name).map(|(key, index)| key.flags[index]) {
        Some(flag) if !flag.is_empty() => format!("{flag} ({name})"),
        _ => name.to_owned(),
    }
}

/// Table of the keys in Markdown.
pub fn keys_table() -> String {
    let mut table = "| Key | Flag | Of | Meaning |\n|---|---|---|---|\n".to_owned();
    for key @ ExperimentKey { name, flags, methods, .. } in KEYS {
        let mut flags = flags.to_vec();
        flags.retain(|flag| !flag.is_empty());
        flags.dedup();
        let flags: Vec<String> = flags.iter().map(|flag| format!("`{flag}`")).collect();
        let methods: Vec<&str> = methods.iter().map(|method| method.name()).collect();
        let methods = if methods.len() == 3 { "all".to_owned() } else { methods.join(", ") };
        let meaning = key.help(0).replace('|', "\\|");
        let flags = flags.join(", ");
        writeln!(table, "| `{name}` | {flags} | {methods} | {meaning} |").expect("to a String");
    }
    table
}
