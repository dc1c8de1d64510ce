//! Counts by counter, and model-specific registers.

mod table;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{AddAssign, Index, IndexMut, SubAssign};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use table::{Basic, COUNTERS, Costly, Counter, CounterRow, Modelled, plugin_header};

impl Costly {
    /// Starts of repeated string instructions.
    pub const STRINGS: [Costly; 4] =
        [Costly::RepStosb, Costly::RepStos, Costly::RepMovsb, Costly::RepMovs];
}

impl Modelled {
    /// True if most instructions count here, so that one count is no more than an instruction.
    pub const fn is_common(self) -> bool {
        matches!(self, Modelled::L1dAccesses | Modelled::Branches)
    }
}

macro_rules! serde_by_name {
    ($($Group:ident)+) => {$(
        impl Serialize for $Group {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl JsonSchema for $Group {
            fn schema_name() -> Cow<'static, str> {
                stringify!($Group).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "enum": $Group::NAMES })
            }
        }

        impl<'de> Deserialize<'de> for $Group {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = String::deserialize(deserializer)?;
                let found = $Group::ALL.into_iter().find(|counter| counter.name() == name);
                found.ok_or_else(|| D::Error::unknown_variant(&name, $Group::NAMES))
            }
        }
    )+};
}

serde_by_name! { Costly Modelled }

/// A count of each counter. JSON has those that are not 0, and always the instructions and REP
/// iterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts([u64; COUNTERS.len()]);

impl Default for Counts {
    fn default() -> Counts {
        Counts([0; COUNTERS.len()])
    }
}

impl<C: Into<Counter>> Index<C> for Counts {
    type Output = u64;

    fn index(&self, counter: C) -> &u64 {
        &self.0[counter.into().index()]
    }
}

impl<C: Into<Counter>> IndexMut<C> for Counts {
    fn index_mut(&mut self, counter: C) -> &mut u64 {
        &mut self.0[counter.into().index()]
    }
}

impl Counts {
    /// Counts with one counter alone.
    pub fn single(counter: impl Into<Counter>, count: u64) -> Counts {
        let mut counts = Counts::default();
        counts[counter] = count;
        counts
    }

    /// Counts with instructions and REP iterations alone.
    pub fn dispatched(instructions: u64, rep_iterations: u64) -> Counts {
        let mut counts = Counts::single(Basic::Instructions, instructions);
        counts[Basic::RepIterations] = rep_iterations;
        counts
    }

    /// Sum of instructions and REP iterations.
    pub fn executed(&self) -> u64 {
        self[Basic::Instructions].saturating_add(self[Basic::RepIterations])
    }

    /// Counters of a group that are not 0, in the order of the table.
    pub fn group(&self, group: &str) -> impl Iterator<Item = (CounterRow, u64)> {
        let rows = COUNTERS.into_iter().filter(move |row| row.counter.group() == group);
        rows.map(|row| (row, self[row.counter])).filter(|(_, count)| *count > 0)
    }

    /// Applies `make` to each count.
    #[must_use]
    pub fn map(&self, make: impl FnMut(u64) -> u64) -> Counts {
        Counts(self.0.map(make))
    }

    /// Applies `make` to each count of both.
    #[must_use]
    pub fn with(&self, other: &Counts, make: impl Fn(u64, u64) -> u64) -> Counts {
        Counts(std::array::from_fn(|index| make(self.0[index], other.0[index])))
    }
}

// In place and by reference: recursions over call paths are a thousand calls deep, and each copy
// would stay on the stack.
impl AddAssign<&Counts> for Counts {
    fn add_assign(&mut self, more: &Counts) {
        self.0
            .iter_mut()
            .zip(more.0.iter())
            .for_each(|(sum, more)| *sum = sum.saturating_add(*more));
    }
}

impl SubAssign<&Counts> for Counts {
    fn sub_assign(&mut self, less: &Counts) {
        self.0
            .iter_mut()
            .zip(less.0.iter())
            .for_each(|(rest, less)| *rest = rest.saturating_sub(*less));
    }
}

/// Groups of counters with an object of their own in JSON.
const GROUPS: [&str; 2] = ["costly", "modelled"];

struct Group<'a>(&'a Counts, &'a str);

impl Serialize for Group<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.group(self.1).map(|(row, count)| (row.name, count)))
    }
}

/// Always in JSON.
const REQUIRED: [Basic; 2] = [Basic::Instructions, Basic::RepIterations];

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for counter in Basic::ALL {
            if self[counter] > 0 || REQUIRED.contains(&counter) {
                map.serialize_entry(counter.name(), &self[counter])?;
            }
        }
        for group in GROUPS {
            if self.group(group).next().is_some() {
                map.serialize_entry(group, &Group(self, group))?;
            }
        }
        map.end()
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Count(u64),
    Group(BTreeMap<String, u64>),
}

impl<'de> Deserialize<'de> for Counts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Counts, D::Error> {
        let mut counts = Counts::default();
        let entries = BTreeMap::<String, Entry>::deserialize(deserializer)?;
        if let Some(missing) = REQUIRED.iter().find(|known| !entries.contains_key(known.name())) {
            return Err(D::Error::missing_field(missing.name()));
        }
        let find = |group: &str, name: &str| {
            let unknown = || D::Error::custom(format!("unknown variant `{}`", name.escape_debug()));
            Counter::named(group, name).ok_or_else(unknown)
        };
        for (name, entry) in entries {
            match entry {
                Entry::Count(count) => counts[find("", &name)?] = count,
                Entry::Group(group) => {
                    for (counter, count) in group {
                        counts[find(&name, &counter)?] = count;
                    }
                }
            }
        }
        Ok(counts)
    }
}

/// Number of a register, written as in the kernel's sources: `0xc0000102`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub struct Msr(pub u32);

impl fmt::Display for Msr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl From<Msr> for String {
    fn from(msr: Msr) -> String {
        msr.to_string()
    }
}

impl TryFrom<String> for Msr {
    type Error = String;

    fn try_from(text: String) -> Result<Msr, String> {
        let number = text.strip_prefix("0x").and_then(|hex| u32::from_str_radix(hex, 16).ok());
        let msr = number.map(Msr).filter(|msr| msr.to_string() == text);
        msr.ok_or_else(|| format!("{text:?} is no number of a register, such as \"0x1b\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_in_the_order_of_their_numbers_and_come_back_by_their_names() {
        for (index, row) in COUNTERS.into_iter().enumerate() {
            assert_eq!(row.counter.index(), index);
            assert_eq!(Counter::named(row.counter.group(), row.name), Some(row.counter));
            assert!(row.counter.group() != "modelled" || row.name.ends_with(row.unit));
        }
        assert_eq!(Counter::named("costly", "none"), None);
        let costly = serde_json::to_value(Costly::Cr3Write).unwrap();
        assert_eq!(serde_json::from_value::<Costly>(costly).unwrap(), Costly::Cr3Write);
    }

    #[test]
    fn only_what_there_is_is_written_and_an_unknown_counter_is_refused() {
        let mut counts = Counts::dispatched(9, 0);
        counts += &Counts::single(Costly::Locked, 7);
        counts += &Counts::single(Costly::Cr3Write, 2);
        let text = serde_json::to_string(&counts).unwrap();
        let expected =
            r#"{"instructions":9,"rep_iterations":0,"costly":{"cr3-write":2,"locked":7}}"#;
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Counts>(&text).unwrap(), counts);
        for (wrong, message) in [
            (r#"{"instructions":1,"rep_iterations":1,"costly":{"a\u001bb":1}}"#, "a\\u{1b}b"),
            (r#"{"instructions":1,"rep_iterations":1,"cycles":1}"#, "unknown variant `cycles`"),
            (r#"{"instructions":1}"#, "missing field `rep_iterations`"),
        ] {
            let error = serde_json::from_str::<Counts>(wrong).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        }
    }

    /// The tables in the documentation are made from the table of counters.
    #[test]
    fn the_documentation_has_a_row_for_each_counter() {
        for (group, title, page) in [
            ("costly", "| Kind | Instructions |", "costly.md"),
            ("modelled", "| Counter | What is counted |", "machine.md"),
        ] {
            let rows = COUNTERS.iter().filter(|row| row.counter.group() == group);
            let rows: String =
                rows.map(|row| format!("| `{}` | {} |\n", row.name, row.meaning)).collect();
            let table = format!("{title}\n|---|---|\n{rows}\n");
            let path = format!("{}/../../docs/{page}", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(path).unwrap();
            assert!(text.contains(&table), "docs/{page} needs this table:\n{table}");
        }
    }

    #[test]
    fn a_number_comes_back_as_it_was_written_and_no_other_way() {
        let text = "\"0xc0000102\"";
        let msr: Msr = serde_json::from_str(text).unwrap();
        assert_eq!((msr, serde_json::to_string(&msr).unwrap().as_str()), (Msr(0xc000_0102), text));
        for other in ["0xC0000102", "c0000102", "0x", "0x+1", "0x01", "0x1c0000102", "\\u001b"] {
            let error = serde_json::from_str::<Msr>(&format!("\"{other}\"")).unwrap_err();
            assert!(error.to_string().contains("is no number of a register"), "{error}");
        }
    }
}
