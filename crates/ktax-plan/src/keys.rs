//! Keys of experiments, each described once in [`KEYS`]: its flag, meaning, methods, bounds and
//! default, and how it is printed to be measured again. Checks, messages, `--help`, the table in
//! `docs/compare.md` and [`again`](crate::again()) follow from the table.

mod table;

use std::fmt::Write as _;
use std::ops::RangeInclusive;

pub use table::{KEYS, MachineKeys, THRESHOLD_PERCENT, TIMED_THRESHOLD_PERCENT};

use crate::again::{Asked, AskedSide};
use crate::experiment::Error;
use ktax_model::{Method, Side, UserProgram};

/// Most characters of a boot line: the kernel takes 2047 (COMMAND_LINE_SIZE of arch/x86), and some
/// are ktax's own.
pub const LONGEST_BOOT_LINE: usize = 1800;

/// A key of experiment files and the command line.
pub struct ExperimentKey {
    /// Name in a file. `SIDE.boot_line` stands for `base.boot_line` and `change.boot_line`,
    /// `program.files` for `files` of a `[[program]]`.
    pub name: &'static str,
    /// Flags of the base and of the change; equal if the key has no Side, and empty if only a file
    /// sets it.
    pub flags: [&'static str; 2],
    /// Lines of help of both flags, without the default. The bounds follow a colon.
    help: [&'static str; 2],
    /// Methods that it applies to.
    pub methods: &'static [Method],
    /// Bounds of a number: of a guest that is counted, and of one that is timed.
    bounds: Option<[RangeInclusive<u32>; 2]>,
    usual: Usual,
    /// Flag that is made from this table.
    pub flag: Option<MachineFlag>,
    pub(super) scope: Scope,
}

/// Default of a key.
enum Usual {
    /// Words for people; empty without a default.
    Words(&'static str),
    Number(u32),
    /// Words made of other constants.
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

/// Values of a flag, one for each time that it is given.
pub(super) type Values = Vec<String>;

/// Value of a flag without one.
pub(super) const SWITCH: &str = "\0";

/// Table of a key, with its values unless they are the default.
pub(super) enum Scope {
    File(fn(&Asked<'_>) -> Values),
    Side(Group, fn(AskedSide<'_>) -> Values),
    Program(fn(&UserProgram, &[u64]) -> Values),
}

/// Keys of a Side that are printed together, those of the base first.
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
        let usual = Usual::Words("");
        ExperimentKey { name, flags, help, methods, bounds: None, usual, flag: None, scope }
    }

    const fn usual(self, words: &'static str) -> ExperimentKey {
        ExperimentKey { usual: Usual::Words(words), ..self }
    }

    const fn usual_number(self, number: u32) -> ExperimentKey {
        ExperimentKey { usual: Usual::Number(number), ..self }
    }

    const fn usual_text(self, text: fn() -> String) -> ExperimentKey {
        ExperimentKey { usual: Usual::Text(text), ..self }
    }

    const fn bounds(self, bounds: RangeInclusive<u32>) -> ExperimentKey {
        let (least, most) = (*bounds.start(), *bounds.end());
        ExperimentKey { bounds: Some([bounds, least..=most]), ..self }
    }

    /// Sets other bounds in timed guests.
    const fn timed_bounds(self, timed: RangeInclusive<u32>) -> ExperimentKey {
        let Some([counted, _]) = self.bounds else { panic!("bounds come first") };
        ExperimentKey { bounds: Some([counted, timed]), ..self }
    }

    const fn flag(self, flag: MachineFlag) -> ExperimentKey {
        ExperimentKey { flag: Some(flag), ..self }
    }

    /// Bounds of its number, if it is one: `1 to 32, or 1 to 255 with --engine kvm`.
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

    /// Refuses a text that is no number within its bounds; any text if it has none.
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
        match &self.usual {
            Usual::Words("") => {}
            Usual::Words(words) => help += &format!(" [default: {words}]"),
            Usual::Number(number) => help += &format!(" [default: {number}]"),
            Usual::Text(text) => help += &format!(" [default: {}]", text()),
        }
        help
    }
}

/// The key of this name, and the index of its flag; `None` for unknown keys.
fn find(name: &str) -> Option<(&'static ExperimentKey, usize)> {
    let side_keys = |(index, side): (usize, Side)| {
        let key = name.strip_prefix(side.name())?.strip_prefix('.')?;
        let is_key = |known: &&ExperimentKey| known.name.strip_prefix("SIDE.") == Some(key);
        Some((KEYS.iter().find(is_key)?, index))
    };
    let is_key = |known: &&ExperimentKey| {
        known.name == name || known.name.strip_prefix("program.") == Some(name)
    };
    let sides = Side::BOTH.into_iter().enumerate();
    let side_key = sides.filter_map(side_keys).next();
    side_key.or_else(|| KEYS.iter().find(is_key).map(|key| (key, 0)))
}

/// Line of help of the flag of a key, such as `base.modules`. Panics if there is no such key.
pub fn help(name: &str) -> String {
    let (key, index) = find(name).expect("the command line sets keys of KEYS");
    key.help(index)
}

/// Bounds of a key's number. Panics if it has none.
pub fn bounds(name: &str, method: Method) -> RangeInclusive<u32> {
    let (key, _) = find(name).expect("a key of KEYS");
    let [counted, timed] = key.bounds.as_ref().expect("a number");
    if method == Method::Times { timed.clone() } else { counted.clone() }
}

/// Bounds of a key's number in words, of all methods. Panics if it has none.
pub(super) fn bounds_text(name: &str) -> String {
    find(name).and_then(|(key, _)| key.bounds_text()).expect("a number")
}

/// Default of a key's number. Panics if it has none.
pub(super) fn usual(name: &str) -> u32 {
    match find(name).map(|(key, _)| &key.usual) {
        Some(Usual::Number(number)) => *number,
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
            let (key, least, most) = (with_flag(name), bounds.start(), bounds.end());
            Err(Error::user(format!("{key} must be {least} to {most}, not {value}"))
                .next("remove it to use the default"))
        }
    }
}

/// Name of a key in messages: after the flag that sets it, if there is one.
pub(super) fn with_flag(name: &str) -> String {
    match find(name).map(|(key, index)| key.flags[index]) {
        Some(flag) if !flag.is_empty() => format!("{flag} ({name})"),
        _ => name.to_owned(),
    }
}

/// The keys as a table of Markdown.
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
