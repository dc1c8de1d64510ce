use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::PlanError;
use super::param::{Param, Value};
use super::quantity::Quantity;
use crate::model::{Signature, Workload};

/// Path and text of every workload file, put in by the build.
const BUILT_IN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/workloads.rs"));

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
    /// The guest program's name.
    pub program: String,
    /// What one operation is.
    pub operation: String,
    /// Whether one operation is one KiB, so that natively the result is a bandwidth.
    #[serde(default)]
    pub bandwidth: bool,
    /// Operations in the Region.
    pub ops: u64,
    /// Operations natively, where the exact engine's would be over too soon to be timed.
    #[serde(default)]
    pub native_ops: Option<u64>,
    /// Whether it is a control or a trap of the tests.
    #[serde(default)]
    pub hidden: bool,
    /// Whether it runs only when it or its group is named: it takes long, or is asked for rarely.
    #[serde(default)]
    pub only_named: bool,
    /// Parameters by name.
    #[serde(default)]
    pub params: BTreeMap<String, Param>,
    /// What the work signature must contain.
    #[serde(default)]
    pub signature: BTreeMap<String, Quantity>,
    /// What it must contain besides where operations and parameters are those of a row below.
    #[serde(default)]
    pub golden: BTreeMap<String, u64>,
    /// The rows, where there are several.
    #[serde(default)]
    pub variant: Vec<Variant>,
}

/// One of several rows of a Definition.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// What differs from the defaults.
    #[serde(default)]
    pub params: BTreeMap<String, Value>,
    /// Operations in the Region, where they differ.
    pub ops: Option<u64>,
    /// What the work signature must contain besides.
    #[serde(default)]
    pub golden: BTreeMap<String, u64>,
}

/// The documents that ktax grew from.
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
    /// As it is written in workload files: `lsm-2002`.
    pub fn name(self) -> String {
        match self {
            Document::Paravirt => "paravirt-2009",
            Document::ExitTiming => "exit-timing-2008",
            Document::Lsm => "lsm-2002",
            Document::Qspinlock => "qspinlock-2015",
            Document::PageTables => "page-tables-2002",
        }
        .to_owned()
    }
}

impl Definition {
    /// The rows that it makes by default.
    pub fn rows(&self) -> Result<Vec<Workload>, PlanError> {
        if self.variant.is_empty() {
            return Ok(vec![self.row(&BTreeMap::new(), None)?]);
        }
        self.variant.iter().map(|variant| self.row(&variant.params, variant.ops)).collect()
    }

    /// The row with these parameters; `params` names what is unlike the defaults.
    pub fn row(
        &self,
        params: &BTreeMap<String, Value>,
        ops: Option<u64>,
    ) -> Result<Workload, PlanError> {
        let mut all = self.defaults()?;
        for (name, value) in params {
            all.insert(name.clone(), self.param(name)?.number(&self.name, name, value)?);
        }
        let suffix: Vec<String> = params.iter().map(|(name, v)| format!("{name}={v}")).collect();
        let (row, title) = match suffix.as_slice() {
            [] => (self.name.clone(), self.title.clone()),
            _ => {
                let suffix = suffix.join(",");
                (format!("{}:{suffix}", self.name), format!("{}, {suffix}", self.title))
            }
        };
        let ops = ops.unwrap_or(self.ops);
        Ok(Workload {
            row,
            title,
            operation: self.operation.clone(),
            program: self.program.clone(),
            ops,
            signature: self.expected(ops, &all)?,
            params: all,
        })
    }

    /// The parameter of that name.
    pub fn param(&self, name: &str) -> Result<&Param, PlanError> {
        self.params.get(name).ok_or_else(|| PlanError::UnknownParameter {
            workload: self.name.clone(),
            name: name.to_owned(),
            known: [self.params.keys().map(String::as_str).collect(), vec!["ops"]]
                .concat()
                .join(", "),
        })
    }

    fn defaults(&self) -> Result<BTreeMap<String, u64>, PlanError> {
        let number = |(name, param): (&String, &Param)| {
            Ok((name.clone(), param.number(&self.name, name, &param.default)?))
        };
        self.params.iter().map(number).collect()
    }

    fn expected(&self, ops: u64, params: &BTreeMap<String, u64>) -> Result<Signature, PlanError> {
        let mut expected = Signature::new();
        for (name, quantity) in &self.signature {
            let value = quantity.value(ops, params).ok_or_else(|| PlanError::TooMuch {
                workload: self.name.clone(),
                quantity: format!("{name} = {quantity}"),
            })?;
            expected.insert(name.clone(), value);
        }
        let defaults = self.defaults()?;
        let own = Variant::default();
        let variants =
            if self.variant.is_empty() { std::slice::from_ref(&own) } else { &self.variant };
        for variant in variants {
            let mut of_variant = defaults.clone();
            for (name, value) in &variant.params {
                of_variant.insert(name.clone(), self.param(name)?.number(&self.name, name, value)?);
            }
            if of_variant == *params && variant.ops.unwrap_or(self.ops) == ops {
                expected.extend(self.golden.clone());
                expected.extend(variant.golden.clone());
            }
        }
        Ok(expected)
    }
}

/// Every Definition that is built in, by name.
pub fn definitions() -> Result<Vec<Definition>, PlanError> {
    BUILT_IN.iter().map(|(path, text)| parse(text, path)).collect()
}

fn parse(text: &str, path: &str) -> Result<Definition, PlanError> {
    let refuse = |reason: String| PlanError::Definition { path: path.to_owned(), reason };
    let definition: Definition = toml::from_str(text).map_err(|error| refuse(error.to_string()))?;
    for quantity in definition.signature.values() {
        if let Some(name) = quantity.unknown(|name| definition.params.contains_key(name)) {
            return Err(refuse(format!("the signature names {name:?}, which is no parameter")));
        }
    }
    for (name, param) in &definition.params {
        param.check(name).map_err(refuse)?;
    }
    definition.rows().map_err(|error| refuse(error.to_string()))?;
    Ok(definition)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORK: &str = r#"
        name = "fork"
        group = "processes"
        title = "fork"
        why = "for the tests"
        program = "fork"
        operation = "one fork"
        ops = 10
        params.pages = { default = 16, max = 64, about = "extra pages", unit = "pages" }
        params.kind = { default = "anonymous", choices = ["anonymous", "thp"], about = "of what" }
        signature = { children = "ops", pages = "ops*pages", failed = 0 }
        golden = { hash = 7 }
    "#;

    fn row(params: &[(&str, Value)], ops: Option<u64>) -> Result<Workload, PlanError> {
        let params = params.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        parse(FORK, "fork.toml").unwrap().row(&params.collect(), ops)
    }

    #[test]
    fn every_built_in_definition_is_valid() {
        let definitions = definitions().unwrap();
        assert!(definitions.len() > 15, "{}", definitions.len());
        for definition in definitions {
            for row in definition.rows().unwrap() {
                assert!(row.ops > 0, "{}", row.row);
                assert!(!row.operation.is_empty() && !definition.why.is_empty(), "{}", row.row);
                assert!(
                    !row.signature.is_empty() || definition.hidden,
                    "{} proves nothing",
                    row.row
                );
            }
        }
    }

    #[test]
    fn a_signature_follows_the_parameters() {
        let fork = row(&[("pages", Value::Number(3))], Some(5)).unwrap();
        assert_eq!(fork.row, "fork:pages=3");
        assert_eq!(fork.params, [("kind".to_owned(), 0), ("pages".to_owned(), 3)].into());
        let wanted = [("children", 5), ("failed", 0), ("pages", 15)];
        assert_eq!(fork.signature, wanted.map(|(name, n)| (name.to_owned(), n)).into());
    }

    #[test]
    fn golden_values_belong_to_the_rows_of_the_file() {
        assert_eq!(row(&[], None).unwrap().signature.get("hash"), Some(&7));
        assert_eq!(row(&[], Some(11)).unwrap().signature.get("hash"), None);
        let thp = row(&[("kind", Value::Word("thp".into()))], None).unwrap();
        assert_eq!((thp.row.as_str(), thp.params["kind"]), ("fork:kind=thp", 1));
        assert_eq!(thp.signature.get("hash"), None);
    }

    #[test]
    fn what_a_parameter_cannot_be_is_refused() {
        for (name, value) in [("pages", Value::Number(65)), ("kind", Value::Word("huge".into()))] {
            let error = row(&[(name, value)], None).unwrap_err();
            assert!(matches!(error, PlanError::ParameterValue { .. }), "{error}");
        }
        let error = row(&[("page", Value::Number(1))], None).unwrap_err();
        assert!(matches!(error, PlanError::UnknownParameter { .. }), "{error}");
        let error = row(&[("pages", Value::Number(64))], Some(u64::MAX)).unwrap_err();
        assert!(matches!(error, PlanError::TooMuch { .. }), "{error}");
    }

    #[test]
    fn a_definition_that_contradicts_itself_is_refused() {
        for (from, to) in [
            ("\"ops*pages\"", "\"ops*page\""),
            ("default = 16", "default = 65"),
            ("default = \"anonymous\"", "default = \"huge\""),
        ] {
            let text = FORK.replace(from, to);
            assert!(parse(&text, "fork.toml").is_err(), "{to}");
        }
    }
}
