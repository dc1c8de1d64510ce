use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde::Deserialize;

use super::document::Document;
use super::param::{Param, ParamValue};
use super::quantity::Quantity;
use crate::error::PlanError;
use crate::program::{ProgramKeys, is_name, program};
use ktax_host::text::{escape, escape_lines};
use ktax_model::{RUNNER, Region};

/// Path and text of every workload file, put in by the build.
pub(super) const BUILT_IN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/workloads.rs"));

/// A workload file: a guest program, its parameters, and the rows that it makes by default.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Definition {
    /// The row's name, or the first part of it.
    pub name: String,
    /// What it belongs to: `@GROUP` asks for all of a group.
    pub group: String,
    /// One line for people.
    pub title: String,
    /// What the row tells and who argued about it.
    pub why: String,
    /// The program or description that it is modelled on.
    #[serde(default)]
    pub modelled_on: Option<String>,
    /// The words in which the original prints its result, where it does.
    #[serde(default)]
    pub original: Option<String>,
    /// The documents whose tables have this row.
    #[serde(default)]
    pub asked_by: Vec<Document>,
    /// The guest program's name; where absent, that of what runs the program below.
    #[serde(default = "runner")]
    pub program: String,
    /// A program of the machine that the guest runs.
    #[serde(default)]
    pub run: Option<ProgramKeys>,
    /// What one operation is.
    pub operation: String,
    /// Whether one operation is one KiB, so that natively the result is a bandwidth.
    #[serde(default)]
    pub bandwidth: bool,
    /// Where the Region is, if not between the program's markers.
    #[serde(default)]
    pub region: Region,
    /// Operations in the Region.
    pub ops: u64,
    /// Operations natively, where the exact engine's would be over too soon to be timed.
    #[serde(default)]
    pub native_ops: Option<u64>,
    /// What the rows of a native run have besides their parameters, unless some are given.
    #[serde(default)]
    pub native_params: BTreeMap<String, ParamValue>,
    /// What a native run prints, by the names of `analyse::native`; one time or bandwidth where
    /// nothing is said.
    #[serde(default)]
    pub columns: Vec<String>,
    /// What of a machine or a guest it needs that not all have; without it the Workload refuses.
    #[serde(default)]
    pub needs: Option<String>,
    /// Whether it is a control or a trap of the tests.
    #[serde(default)]
    pub hidden: bool,
    /// Whether it runs only when it or its group is named: it takes long, or is asked for rarely.
    #[serde(default)]
    pub only_named: bool,
    /// Bytes of memory that a Run needs at least, where that depends on its parameters.
    #[serde(default)]
    pub memory: Option<Quantity>,
    /// Parameters by name.
    #[serde(default)]
    pub params: BTreeMap<String, Param>,
    /// What the work signature must contain.
    #[serde(default)]
    pub signature: BTreeMap<String, Quantity>,
    /// What it must contain besides where the parameters are those of a row below.
    #[serde(default)]
    pub golden: BTreeMap<String, Quantity>,
    /// And where the operations are that row's, too.
    #[serde(default)]
    pub golden_at_ops: BTreeMap<String, u64>,
    /// The rows, where there are several.
    #[serde(default)]
    pub variant: Vec<Variant>,
}

/// One of several rows of a Definition.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// What differs from the defaults.
    #[serde(default)]
    pub params: BTreeMap<String, ParamValue>,
    /// Operations in the Region, where they differ.
    pub ops: Option<u64>,
    /// Operations natively, where they differ.
    #[serde(rename = "native-ops")]
    pub native_ops: Option<u64>,
    /// What the work signature must contain besides.
    #[serde(default)]
    pub golden: BTreeMap<String, Quantity>,
    /// And where the operations are these.
    #[serde(default, rename = "golden-at-ops")]
    pub golden_at_ops: BTreeMap<String, u64>,
}

fn runner() -> String {
    RUNNER.to_owned()
}

impl Variant {
    /// What a file without variants has.
    pub(super) const NONE: Variant = Variant {
        params: BTreeMap::new(),
        ops: None,
        native_ops: None,
        golden: BTreeMap::new(),
        golden_at_ops: BTreeMap::new(),
    };
}

/// Every Definition that is built in, by name.
pub fn definitions() -> Result<Vec<Definition>, PlanError> {
    // A ledger asks for them with each addition.
    static PARSED: OnceLock<Vec<Definition>> = OnceLock::new();
    if let Some(parsed) = PARSED.get() {
        return Ok(parsed.clone());
    }
    let parsed: Vec<_> =
        BUILT_IN.iter().map(|(path, text)| parse(text, path)).collect::<Result<_, _>>()?;
    Ok(PARSED.get_or_init(|| parsed).clone())
}

/// The same with those of the user's.
///
/// # Errors
/// Two have one name.
pub fn with_definitions(own: &[Definition]) -> Result<Vec<Definition>, PlanError> {
    let all = [definitions()?, own.to_vec()].concat();
    let is_known = |at: usize| all[..at].iter().any(|before| before.name == all[at].name);
    match (0..all.len()).find(|at| is_known(*at)) {
        Some(at) => Err(PlanError::DefinedTwice { name: all[at].name.clone() }),
        None => Ok(all),
    }
}

/// A Definition of the user's; `path` is for messages.
///
/// # Errors
/// It is not TOML, or makes no row that could be run.
pub fn definition(text: &str, path: &str) -> Result<Definition, PlanError> {
    let definition = parse(text, path)?;
    for name in [&definition.name, &definition.group, &definition.program] {
        if !is_name(name) {
            let reason = format!("{:?} must be of a-z, 0-9 and -, at most 32", escape(name));
            return Err(PlanError::Definition { path: path.to_owned(), reason });
        }
    }
    Ok(definition)
}

/// The names of all workloads that are listed, and of their groups: `pipe`, `@lmbench`.
pub fn names() -> &'static [&'static str] {
    static NAMES: OnceLock<Vec<&'static str>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let all = definitions().unwrap_or_default().into_iter().filter(|it| !it.hidden);
        let each = all.flat_map(|it| [format!("@{}", it.group), it.name]);
        // Once for each process.
        each.collect::<BTreeSet<_>>().into_iter().map(|name| &*name.leak()).collect()
    })
}

pub(super) fn parse(text: &str, path: &str) -> Result<Definition, PlanError> {
    let refuse = |reason: String| PlanError::Definition { path: path.to_owned(), reason };
    let definition: Definition =
        toml::from_str(text).map_err(|error| refuse(escape_lines(error.to_string().trim_end())))?;
    for quantity in definition.signature.values().chain(&definition.memory) {
        if let Some(name) = quantity.unknown(|name| definition.params.contains_key(name)) {
            return Err(refuse(format!("{name:?} is no parameter")));
        }
    }
    if definition.run.is_some() != (definition.program == RUNNER) {
        return Err(refuse("it needs a program of the guest, or `run`".into()));
    }
    if let Some(run) = &definition.run {
        let is_alone = definition.params.is_empty() && definition.variant.is_empty();
        if !is_alone || run.name.is_some() || run.ops.is_some() {
            return Err(refuse("`run` has no parameters, and neither name nor ops".into()));
        }
        program(&ProgramKeys { name: Some(definition.name.clone()), ..run.clone() })
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
