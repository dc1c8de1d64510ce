//! From a workload file to rows.

use std::collections::BTreeMap;

use super::definitions::{Definition, Variant};
use super::param::{Param, ParamValue};
use super::quantity::Quantity;
use crate::error::PlanError;
use ktax_model::{Signature, Workload};

impl Definition {
    /// The rows that it makes by default.
    pub fn rows(&self) -> Result<Vec<Workload>, PlanError> {
        self.variants().iter().map(|variant| self.row(&variant.params, variant.ops)).collect()
    }

    /// The same rows with the operations of a native run.
    pub fn native_rows(&self) -> Result<Vec<Workload>, PlanError> {
        let row = |variant: &Variant| {
            if self.native_params.is_empty() {
                return self.native_row(&variant.params);
            }
            let mut params = variant.params.clone();
            params.extend(self.native_params.clone());
            self.row(&params, variant.native_ops.or(self.native_ops))
        };
        self.variants().iter().map(row).collect()
    }

    /// The row with these parameters and the operations of a native run: those of the variant that
    /// they make, where there is one.
    pub fn native_row(&self, params: &BTreeMap<String, ParamValue>) -> Result<Workload, PlanError> {
        let variant = self.variants().iter().find(|variant| variant.params == *params);
        let of_variant = |variant: &Variant| variant.native_ops.or(self.native_ops).or(variant.ops);
        self.row(params, variant.map_or(self.native_ops, of_variant))
    }

    fn variants(&self) -> &[Variant] {
        const NONE: &[Variant] = &[Variant::NONE];
        if self.variant.is_empty() { NONE } else { &self.variant }
    }

    /// The row with these parameters; `params` names what is unlike the defaults.
    pub fn row(
        &self,
        params: &BTreeMap<String, ParamValue>,
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
            region: self.region,
            memory_bytes: match &self.memory {
                Some(memory) => self.evaluate("memory", memory, ops, &all)?,
                None => 0,
            },
            signature: self.expected(ops, &all)?,
            numbers: BTreeMap::new(),
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

    fn evaluate(
        &self,
        name: &str,
        quantity: &Quantity,
        ops: u64,
        params: &BTreeMap<String, u64>,
    ) -> Result<u64, PlanError> {
        quantity.value(ops, params).ok_or_else(|| PlanError::TooMuch {
            workload: self.name.clone(),
            quantity: format!("{name} = {quantity}"),
        })
    }

    fn expected(&self, ops: u64, params: &BTreeMap<String, u64>) -> Result<Signature, PlanError> {
        let mut expected = Signature::new();
        for (name, quantity) in &self.signature {
            expected.insert(name.clone(), self.evaluate(name, quantity, ops, params)?);
        }
        let defaults = self.defaults()?;
        for variant in self.variants() {
            let mut of_variant = defaults.clone();
            for (name, value) in &variant.params {
                of_variant.insert(name.clone(), self.param(name)?.number(&self.name, name, value)?);
            }
            if of_variant != *params {
                continue;
            }
            for (name, quantity) in self.golden.iter().chain(&variant.golden) {
                expected.insert(name.clone(), self.evaluate(name, quantity, ops, params)?);
            }
            if variant.ops.unwrap_or(self.ops) == ops {
                expected.extend(self.golden_at_ops.clone());
                expected.extend(variant.golden_at_ops.clone());
            }
        }
        Ok(expected)
    }
}

#[cfg(test)]
mod tests {
    use super::super::definitions::{definitions, parse};
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
        golden = { answer = "ops*4" }
        golden-at-ops = { hash = 7 }
    "#;

    fn row(params: &[(&str, ParamValue)], ops: Option<u64>) -> Result<Workload, PlanError> {
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
                    !row.signature.is_empty() || definition.hidden || row.is_users(),
                    "{} proves nothing",
                    row.row
                );
            }
        }
    }

    #[test]
    fn a_row_without_operations_is_refused() {
        for ops in ["ops = 0", "ops = 10\nnative-ops = 0"] {
            let refused = parse(&FORK.replace("ops = 10", ops), "fork.toml").unwrap_err();
            assert!(refused.to_string().contains("needs ops of at least 1"), "{refused}");
        }
    }

    #[test]
    fn a_group_is_a_directory() {
        for (path, text) in super::super::definitions::BUILT_IN {
            let definition = parse(text, path).unwrap();
            let wanted = format!("workloads/{}/{}.toml", definition.group, definition.name);
            assert_eq!(*path, wanted);
        }
    }

    #[test]
    fn a_signature_follows_the_parameters() {
        let fork = row(&[("pages", ParamValue::Number(3))], Some(5)).unwrap();
        assert_eq!(fork.row, "fork:pages=3");
        assert_eq!(fork.params, [("kind".to_owned(), 0), ("pages".to_owned(), 3)].into());
        let wanted = [("children", 5), ("failed", 0), ("pages", 15)];
        assert_eq!(fork.signature, wanted.map(|(name, n)| (name.to_owned(), n)).into());
    }

    #[test]
    fn golden_values_belong_to_the_rows_of_the_file() {
        assert_eq!(row(&[], None).unwrap().signature.get("hash"), Some(&7));
        let other = row(&[], Some(11)).unwrap().signature;
        assert_eq!((other.get("hash"), other.get("answer")), (None, Some(&44)));
        let thp = row(&[("kind", ParamValue::Word("thp".into()))], None).unwrap();
        assert_eq!((thp.row.as_str(), thp.params["kind"]), ("fork:kind=thp", 1));
        assert_eq!(thp.signature.get("hash"), None);
    }

    #[test]
    fn what_a_parameter_cannot_be_is_refused() {
        for (name, value) in
            [("pages", ParamValue::Number(65)), ("kind", ParamValue::Word("huge".into()))]
        {
            let error = row(&[(name, value)], None).unwrap_err();
            assert!(matches!(error, PlanError::ParameterValue { .. }), "{error}");
        }
        let error = row(&[("page", ParamValue::Number(1))], None).unwrap_err();
        assert!(matches!(error, PlanError::UnknownParameter { .. }), "{error}");
        let error = row(&[("pages", ParamValue::Number(64))], Some(u64::MAX)).unwrap_err();
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
