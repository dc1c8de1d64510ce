use std::collections::BTreeMap;

use serde::Deserialize;

use super::PlanError;
use crate::model::{Expected, Workload};

/// Path and text of every workload file, put in by the build.
const BUILT_IN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/workloads.rs"));

/// A workload file: a guest program, its parameters, and the rows that it makes by default.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The row's name, or the first part of it.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// What the row tells and who argued about it.
    pub why: String,
    /// The guest program's name.
    pub program: String,
    /// What one operation is.
    pub operation: String,
    /// Operations in the Region.
    pub ops: u64,
    /// Whether it runs only when named: the controls.
    #[serde(default)]
    pub hidden: bool,
    /// Whether it takes minutes, so that it runs only when named too.
    #[serde(default)]
    pub slow: bool,
    /// Parameters with their defaults.
    #[serde(default)]
    pub params: BTreeMap<String, u64>,
    /// What the work signature must contain.
    #[serde(default)]
    pub signature: BTreeMap<String, Expected>,
    /// The rows, where there are several.
    #[serde(default)]
    pub variant: Vec<Variant>,
}

/// One of several rows of a Definition.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// What differs from the defaults.
    pub params: BTreeMap<String, u64>,
    /// Operations in the Region, where they differ.
    pub ops: Option<u64>,
}

impl Definition {
    /// The rows that it makes by default.
    pub fn rows(&self) -> Vec<Workload> {
        if self.variant.is_empty() {
            return vec![self.row(&BTreeMap::new(), None)];
        }
        self.variant.iter().map(|variant| self.row(&variant.params, variant.ops)).collect()
    }

    /// The row with these parameters; `params` names what is unlike the defaults.
    pub fn row(&self, params: &BTreeMap<String, u64>, ops: Option<u64>) -> Workload {
        let suffix: Vec<String> = params.iter().map(|(name, n)| format!("{name}={n}")).collect();
        let (row, title) = match suffix.as_slice() {
            [] => (self.name.clone(), self.title.clone()),
            _ => {
                let suffix = suffix.join(",");
                (format!("{}:{suffix}", self.name), format!("{}, {suffix}", self.title))
            }
        };
        let mut all = self.params.clone();
        all.extend(params.iter().map(|(name, value)| (name.clone(), *value)));
        Workload {
            row,
            title,
            operation: self.operation.clone(),
            program: self.program.clone(),
            ops: ops.unwrap_or(self.ops),
            params: all,
            signature: self.signature.clone(),
        }
    }
}

/// Every Definition that is built in, by name.
pub fn definitions() -> Result<Vec<Definition>, PlanError> {
    BUILT_IN.iter().map(|(path, text)| parse(text, path)).collect()
}

fn parse(text: &str, path: &str) -> Result<Definition, PlanError> {
    let refuse = |reason: String| PlanError::Definition { path: path.to_owned(), reason };
    let definition: Definition = toml::from_str(text).map_err(|error| refuse(error.to_string()))?;
    for expected in definition.signature.values() {
        if matches!(expected, Expected::Name(name) if name != "ops") {
            return Err(refuse("a signature value is a number or \"ops\"".into()));
        }
    }
    for name in definition.variant.iter().flat_map(|variant| variant.params.keys()) {
        if !definition.params.contains_key(name) {
            return Err(refuse(format!("variant parameter {name:?} is not in [params]")));
        }
    }
    Ok(definition)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_definition_is_valid() {
        let definitions = definitions().unwrap();
        assert!(definitions.len() > 15, "{}", definitions.len());
        for definition in definitions {
            for row in definition.rows() {
                assert!(row.ops > 0, "{}", row.row);
                assert!(!row.operation.is_empty() && !definition.why.is_empty(), "{}", row.row);
            }
        }
    }
}
