//! Workload definitions: the keys of workload files, and the rows that they define.

mod rows;
mod touched;

pub use rows::{
    check_for_guest, check_for_times, check_memory, find_definition, native_names, native_rows,
    select_rows, unique_rows,
};
pub use touched::{TouchedTable, TouchingRow};

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::OnceLock;

use crate::experiment::{Error, definition_error};
use crate::program::{ProgramKeys, checked_program, is_name};
use ktax_host::text::{escape, escape_lines};
use ktax_model::{RUNNER, Region};
use serde::{Deserialize, Serialize};

/// Path and text of every workload file, listed by the build script.
const BUILT_IN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/workloads.rs"));

/// A workload file: a guest program, its parameters, and its default rows.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Definition {
    /// Name of the row, or the part of the names of all rows before the parameters.
    pub name: String,
    /// Group of the workload: `@GROUP` selects all workloads of a group.
    pub group: String,
    /// Title in one line.
    pub title: String,
    /// Purpose of the row, and the discussions that need it.
    pub why: String,
    /// Original program or description.
    #[serde(default)]
    pub modelled_on: Option<String>,
    /// Output line of the original program, if it prints a result.
    #[serde(default)]
    pub original: Option<String>,
    /// Documents whose tables have this row.
    #[serde(default)]
    pub asked_by: Vec<Document>,
    /// Guest program; by default the program that runs `run`.
    #[serde(default = "runner")]
    pub program: String,
    /// Program of the machine that the guest runs.
    #[serde(default)]
    pub run: Option<ProgramKeys>,
    pub operation: String,
    /// True if one operation is one KiB, so that the result of a native run is a bandwidth.
    #[serde(default)]
    pub bandwidth: bool,
    /// Region; by default the code between the markers of the program.
    #[serde(default)]
    pub region: Region,
    /// Operations in the Region.
    pub ops: u64,
    /// Operations of a native run, if `ops` operations are too short to be timed.
    #[serde(default)]
    pub native_ops: Option<u64>,
    /// Default parameters of the rows of a native run.
    #[serde(default)]
    pub native_params: BTreeMap<String, ParamValue>,
    /// Columns of a native run, by their names in `analyse::native`; by default one time or
    /// bandwidth.
    #[serde(default)]
    pub columns: Vec<String>,
    /// Requirements that not every machine or guest meets. Without them the Workload refuses to
    /// run.
    #[serde(default)]
    pub needs: Option<String>,
    /// True for workloads that only test ktax.
    #[serde(default)]
    pub hidden: bool,
    /// True if the workload only runs if the user names it or its group: it takes long, or is
    /// rarely needed.
    #[serde(default)]
    pub only_named: bool,
    /// Bytes of memory that a Run needs at least, if the amount depends on the parameters.
    #[serde(default)]
    pub memory: Option<Quantity>,
    #[serde(default)]
    pub params: BTreeMap<String, Param>,
    /// Entries that the work signature must have.
    #[serde(default)]
    pub signature: BTreeMap<String, Quantity>,
    /// Further entries of rows whose parameters are those of a variant.
    #[serde(default)]
    pub golden: BTreeMap<String, Quantity>,
    /// Further entries of rows whose operations, too, are those of the variant.
    #[serde(default)]
    pub golden_at_ops: BTreeMap<String, u64>,
    #[serde(default)]
    pub variant: Vec<Variant>,
}

/// A row of a Definition that has several.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Parameters that differ from the defaults.
    #[serde(default)]
    pub params: BTreeMap<String, ParamValue>,
    /// Operations in the Region; by default those of the definition.
    pub ops: Option<u64>,
    /// Operations of a native run; by default those of the definition.
    #[serde(rename = "native-ops")]
    pub native_ops: Option<u64>,
    /// Further entries that the work signature must have.
    #[serde(default)]
    pub golden: BTreeMap<String, Quantity>,
    /// Further entries of rows that have the operations of this variant.
    #[serde(default, rename = "golden-at-ops")]
    pub golden_at_ops: BTreeMap<String, u64>,
}

fn runner() -> String {
    RUNNER.to_owned()
}

impl Variant {
    /// The only variant of a file without variants.
    const NONE: Variant = Variant {
        params: BTreeMap::new(),
        ops: None,
        native_ops: None,
        golden: BTreeMap::new(),
        golden_at_ops: BTreeMap::new(),
    };
}

/// All built-in Definitions, by name.
pub fn definitions() -> Result<Vec<Definition>, Error> {
    // Parse once, because a ledger needs the definitions for each addition.
    static PARSED: OnceLock<Vec<Definition>> = OnceLock::new();
    if let Some(parsed) = PARSED.get() {
        return Ok(parsed.clone());
    }
    let parsed: Vec<_> = BUILT_IN
        .iter()
        .map(|(path, text)| parse_definition(text, path))
        .collect::<Result<_, _>>()?;
    Ok(PARSED.get_or_init(|| parsed).clone())
}

/// Built-in Definitions and those of the user; an error if two share a name.
pub fn with_definitions(user_definitions: &[Definition]) -> Result<Vec<Definition>, Error> {
    let definitions = [definitions()?, user_definitions.to_vec()].concat();
    let is_duplicate = |index: usize| {
        definitions[..index].iter().any(|other| other.name == definitions[index].name)
    };
    match (0..definitions.len()).find(|index| is_duplicate(*index)) {
        Some(index) => {
            let name = &definitions[index].name;
            Err(Error::user(format!("the workload {name} is defined twice, or ktax has one"))
                .next("give yours another name"))
        }
        None => Ok(definitions),
    }
}

/// Parses a workload file of the user; `path` is for messages. Fails if the file defines no row
/// that could run.
pub fn parse_user_definition(text: &str, path: &str) -> Result<Definition, Error> {
    let definition = parse_definition(text, path)?;
    for name in [&definition.name, &definition.group, &definition.program] {
        if !is_name(name) {
            let reason = format!("{:?} must consist of at most 32 of a-z, 0-9 and -", escape(name));
            return Err(definition_error(path, &reason));
        }
    }
    Ok(definition)
}

/// Names of all listed workloads and of their groups: `pipe`, `@lmbench`.
pub fn workload_names() -> &'static [&'static str] {
    static NAMES: OnceLock<Vec<&'static str>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let listed =
            definitions().unwrap_or_default().into_iter().filter(|definition| !definition.hidden);
        let all = listed.flat_map(|definition| [format!("@{}", definition.group), definition.name]);
        // The names live as long as the process, so leaking them once is harmless.
        all.collect::<BTreeSet<_>>().into_iter().map(|name| &*name.leak()).collect()
    })
}

fn parse_definition(text: &str, path: &str) -> Result<Definition, Error> {
    let refuse = |reason: String| definition_error(path, &reason);
    let definition: Definition =
        toml::from_str(text).map_err(|error| refuse(escape_lines(error.to_string().trim_end())))?;
    for quantity in definition.signature.values().chain(&definition.memory) {
        if let Some(name) = quantity.unknown_name(|name| definition.params.contains_key(name)) {
            return Err(refuse(format!("{name:?} is not a parameter")));
        }
    }
    if definition.run.is_some() != (definition.program == RUNNER) {
        return Err(refuse("it needs a program of the guest, or `run`".into()));
    }
    if let Some(run) = &definition.run {
        let has_no_params = definition.params.is_empty() && definition.variant.is_empty();
        if !has_no_params || run.name.is_some() || run.ops.is_some() {
            return Err(refuse("`run` has no parameters, and neither name nor ops".into()));
        }
        checked_program(&ProgramKeys { name: Some(definition.name.clone()), ..run.clone() })
            .map_err(|error| refuse(error.to_string()))?;
    }
    for (name, param) in &definition.params {
        param.check(name).map_err(refuse)?;
    }
    let rows = definition.rows().and_then(|rows| Ok([rows, definition.native_rows()?].concat()));
    let rows = rows.map_err(|error| refuse(error.to_string()))?;
    match rows.iter().find(|row| row.ops == 0) {
        Some(row) => Err(refuse(format!("{} needs ops of at least 1", row.row))),
        None => Ok(definition),
    }
}

/// Documents whose measurements ktax repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub enum Document {
    /// Ingo Molnar on the cost of CONFIG_PARAVIRT.
    #[serde(rename = "paravirt-2009")]
    Paravirt,
    /// The exit timings of KVM on embedded PowerPC.
    #[serde(rename = "exit-timing-2008")]
    ExitTiming,
    /// The cost of the Linux Security Modules framework.
    #[serde(rename = "lsm-2002")]
    Lsm,
    /// The discussion of queued spinlocks for guests.
    #[serde(rename = "qspinlock-2015")]
    Qspinlock,
    /// Shared page tables, with contest.
    #[serde(rename = "page-tables-2002")]
    PageTables,
}

impl Document {
    /// Name in workload files: `lsm-2002`.
    pub fn name(self) -> &'static str {
        match self {
            Document::Paravirt => "paravirt-2009",
            Document::ExitTiming => "exit-timing-2008",
            Document::Lsm => "lsm-2002",
            Document::Qspinlock => "qspinlock-2015",
            Document::PageTables => "page-tables-2002",
        }
    }
}

/// A parameter of a Workload: a number within bounds, or one of some words.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Param {
    pub default: ParamValue,
    pub about: String,
    #[serde(default)]
    pub unit: String,
    /// Minimum of a number.
    #[serde(default)]
    pub min: u64,
    /// Maximum of a number.
    #[serde(default)]
    pub max: u64,
    /// True if only powers of two are valid.
    #[serde(default, rename = "power-of-two", skip_serializing_if = "is_false")]
    pub power_of_two: bool,
    /// Valid decimal digits of a number; empty if all digits are valid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digits: String,
    /// True if guests only support the default.
    #[serde(default, rename = "native-only", skip_serializing_if = "is_false")]
    pub native_only: bool,
    /// Valid words. A guest gets the index of the word, from 0.
    #[serde(default)]
    pub choices: Vec<String>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Value of a parameter in a file or on the command line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(untagged)]
pub enum ParamValue {
    Number(u64),
    Word(String),
}

impl fmt::Display for ParamValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParamValue::Number(number) => write!(f, "{number}"),
            ParamValue::Word(word) => write!(f, "{word}"),
        }
    }
}

impl ParamValue {
    /// Parses a value of the command line.
    pub fn parse(text: &str) -> ParamValue {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(number) if digits => ParamValue::Number(number),
            _ => ParamValue::Word(text.to_owned()),
        }
    }
}

impl Param {
    /// Number that a guest gets for this value.
    pub fn number(&self, workload: &str, name: &str, value: &ParamValue) -> Result<u64, Error> {
        let number = match value {
            ParamValue::Number(number) if self.choices.is_empty() => {
                self.is_valid(*number).then_some(*number)
            }
            // A word may consist of digits.
            _ => {
                let word = value.to_string();
                self.choices
                    .iter()
                    .zip(0..)
                    .find(|(choice, _)| **choice == word)
                    .map(|(_, index)| index)
            }
        };
        number.ok_or_else(|| {
            Error::user(format!("{name} of {workload} cannot be {:?}", value.to_string()))
                .next(format!("it takes {}", self.range()))
        })
    }

    fn is_valid(&self, number: u64) -> bool {
        let has_digit = |digit: char| self.digits.is_empty() || self.digits.contains(digit);
        (self.min..=self.max).contains(&number)
            && (!self.power_of_two || number.is_power_of_two())
            && number.to_string().chars().all(has_digit)
    }

    /// Describes the valid values: `16 to 32768 pages`, or the words.
    pub fn range(&self) -> String {
        if !self.choices.is_empty() {
            return self.choices.join(", ");
        }
        let range = format!("{} to {} {}", self.min, self.max, self.unit);
        let power = if self.power_of_two { ", a power of two" } else { "" };
        let digits = match self.digits.as_str() {
            "" => String::new(),
            digits => format!(", of the digits {digits}"),
        };
        format!("{}{power}{digits}", range.trim_end())
    }

    /// Checks a parameter of a workload file; the error is the reason.
    pub fn check(&self, name: &str) -> Result<(), String> {
        let is_number = self.choices.is_empty();
        if is_number && self.min > self.max {
            return Err(format!("parameter {name:?} needs `min` and `max`, or `choices`"));
        }
        if !is_number && (self.min != 0 || self.max != 0) {
            return Err(format!("parameter {name:?} has choices and bounds"));
        }
        if is_number && !matches!(self.default, ParamValue::Number(number) if self.is_valid(number))
        {
            return Err(format!("parameter {name:?} does not take its own default"));
        }
        if self.about.is_empty() {
            return Err(format!("parameter {name:?} needs a description in `about`"));
        }
        Ok(())
    }
}

/// A number that may depend on the Run: `0`, `"ops"`, `"groups*400*loops"`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "QuantityKey")]
pub struct Quantity(Vec<Factor>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Factor {
    Number(u64),
    Name(String),
}

#[derive(Deserialize)]
#[serde(untagged)]
/// Quantity as a workload file writes it.
enum QuantityKey {
    Number(u64),
    Product(String),
}

impl From<QuantityKey> for Quantity {
    fn from(key: QuantityKey) -> Quantity {
        match key {
            QuantityKey::Number(number) => Quantity(vec![Factor::Number(number)]),
            QuantityKey::Product(text) => {
                let factor = |word: &str| match word.trim().parse() {
                    Ok(number) => Factor::Number(number),
                    Err(_) => Factor::Name(word.trim().to_owned()),
                };
                Quantity(text.split('*').map(factor).collect())
            }
        }
    }
}

impl Quantity {
    /// Value of the product; `None` if the value has more than 63 bits, which files cannot hold, or
    /// if a name is not in `params`.
    pub fn value(&self, ops: u64, params: &BTreeMap<String, u64>) -> Option<u64> {
        let product = self.0.iter().try_fold(1u64, |product, factor| {
            product.checked_mul(match factor {
                Factor::Number(number) => *number,
                Factor::Name(name) if name == "ops" => ops,
                Factor::Name(name) => *params.get(name)?,
            })
        })?;
        i64::try_from(product).is_ok().then_some(product)
    }

    /// The first name that is neither `ops` nor known.
    pub fn unknown_name(&self, is_known: impl Fn(&str) -> bool) -> Option<&str> {
        self.0.iter().find_map(|factor| match factor {
            Factor::Name(name) if name != "ops" && !is_known(name) => Some(name.as_str()),
            _ => None,
        })
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, factor) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { " × " };
            match factor {
                Factor::Number(number) => write!(f, "{separator}{number}")?,
                Factor::Name(name) => write!(f, "{separator}{name}")?,
            }
        }
        Ok(())
    }
}
