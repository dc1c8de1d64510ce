//! Rows of workload files: selection by name, parameters, and whether they fit.

use std::collections::{BTreeMap, BTreeSet};

use super::{Definition, Param, ParamValue, Quantity, Variant};
use crate::error::PlanError;
use ktax_host::text::nearest;
use ktax_model::{Signature, Workload};

/// Rows that `names` asks for, in that order: `NAME` for all rows of a workload, `@GROUP` for those
/// of a group, `NAME:PARAM=VALUE,…` for one row, where PARAM may also be `ops`. `None` asks for all
/// rows that are neither hidden nor run only when named.
pub fn select(
    definitions: &[Definition],
    names: Option<&[String]>,
) -> Result<Vec<Workload>, PlanError> {
    let mut rows = Vec::new();
    match names {
        None => {
            for definition in definitions.iter().filter(|d| !d.hidden && !d.only_named) {
                rows.extend(definition.rows()?);
            }
        }
        Some([]) => return Err(PlanError::NoWorkload),
        Some(names) => {
            for name in names {
                rows.extend(rows_by_name(definitions, name)?);
            }
        }
    }
    each_once(rows)
}

/// Refuses rows with equal names.
pub fn each_once(rows: Vec<Workload>) -> Result<Vec<Workload>, PlanError> {
    let mut seen = BTreeSet::new();
    match rows.iter().find(|workload: &&Workload| !seen.insert(&workload.row)) {
        Some(twice) => Err(PlanError::Twice { row: twice.row.clone() }),
        None => Ok(rows),
    }
}

/// The Definition of this name.
pub fn find<'a>(definitions: &'a [Definition], name: &str) -> Result<&'a Definition, PlanError> {
    definitions.iter().find(|definition| definition.name == name).ok_or_else(|| {
        let known = definitions.iter().map(|definition| definition.name.as_str());
        let near = nearest(name, known).map(str::to_owned);
        PlanError::UnknownWorkload { name: name.to_owned(), near }
    })
}

fn rows_by_name(definitions: &[Definition], text: &str) -> Result<Vec<Workload>, PlanError> {
    if let Some(group) = text.strip_prefix('@') {
        return rows_of_group(definitions, group);
    }
    let (name, params) = text.split_once(':').unwrap_or((text, ""));
    let definition = find(definitions, name)?;
    let rows = definition.rows()?;
    if let Some(row) = rows.iter().find(|workload| workload.row == text) {
        return Ok(vec![row.clone()]);
    }
    if params.is_empty() {
        return Ok(rows);
    }
    let mut given = BTreeMap::new();
    let mut ops = None;
    for param in params.split(',') {
        let (param, value) = parse_param(definition, param)?;
        let before = match param {
            "ops" => ops.replace(parse_ops(definition, &value)?).map(ParamValue::Number),
            _ => given.insert(param.to_owned(), value),
        };
        if before.is_some() {
            let workload = definition.name.clone();
            return Err(PlanError::ParameterTwice { workload, name: param.to_owned() });
        }
    }
    let mut row = definition.row(&given, ops)?;
    row.row = text.to_owned();
    Ok(vec![row])
}

fn rows_of_group(definitions: &[Definition], group: &str) -> Result<Vec<Workload>, PlanError> {
    let shown: Vec<&Definition> = definitions.iter().filter(|d| !d.hidden).collect();
    let rows = shown.iter().filter(|d| d.group == group).map(|definition| definition.rows());
    let rows = rows.collect::<Result<Vec<_>, _>>()?.concat();
    if rows.is_empty() {
        let known: BTreeSet<&str> = shown.iter().map(|d| d.group.as_str()).collect();
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        return Err(PlanError::UnknownGroup { group: group.to_owned(), known });
    }
    Ok(rows)
}

fn parse_param<'a>(
    definition: &Definition,
    text: &'a str,
) -> Result<(&'a str, ParamValue), PlanError> {
    let workload = &definition.name;
    let bad = || PlanError::BadParameter { workload: workload.clone(), text: text.to_owned() };
    let (name, value) = text.split_once('=').ok_or_else(bad)?;
    let value = ParamValue::parse(value);
    if name != "ops" {
        definition.param(name)?.number(workload, name, &value)?;
    }
    Ok((name, value))
}

/// Parses a value of `ops`: a number of at least 1.
pub(super) fn parse_ops(definition: &Definition, value: &ParamValue) -> Result<u64, PlanError> {
    match value {
        ParamValue::Number(ops @ 1..) => Ok(*ops),
        other => Err(PlanError::Operations {
            workload: definition.name.clone(),
            value: other.to_string(),
        }),
    }
}

impl Definition {
    /// The default rows.
    pub fn rows(&self) -> Result<Vec<Workload>, PlanError> {
        self.variants().iter().map(|variant| self.row(&variant.params, variant.ops)).collect()
    }

    /// These rows with the operations of a native run.
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

    /// The row with these parameters and the operations of a native run: those of the variant with
    /// these parameters, if there is one.
    pub fn native_row(&self, params: &BTreeMap<String, ParamValue>) -> Result<Workload, PlanError> {
        let variant = self.variants().iter().find(|variant| variant.params == *params);
        let ops_of_variant =
            |variant: &Variant| variant.native_ops.or(self.native_ops).or(variant.ops);
        self.row(params, variant.map_or(self.native_ops, ops_of_variant))
    }

    fn variants(&self) -> &[Variant] {
        const NONE: &[Variant] = &[Variant::NONE];
        if self.variant.is_empty() { NONE } else { &self.variant }
    }

    /// The row with these parameters; `params` has those that differ from the defaults.
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

    /// The parameter of this name.
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

/// Refuses rows that do not fit: a quarter of the memory is left for the kernel and everything
/// else.
pub fn check_memory(workloads: &[Workload], there_bytes: u64) -> Result<(), PlanError> {
    let fits = |workload: &&Workload| workload.memory_bytes <= there_bytes / 4 * 3;
    match workloads.iter().find(|workload| !fits(workload)) {
        None => Ok(()),
        Some(workload) => Err(PlanError::TooLarge {
            row: workload.row.clone(),
            needed_mib: workload.memory_bytes >> 20,
            there_mib: there_bytes >> 20,
        }),
    }
}

/// Refuses parameters that no guest understands.
pub fn check_for_guest(definitions: &[Definition], workload: &Workload) -> Result<(), PlanError> {
    let name = workload.row.split(':').next().unwrap_or_default();
    let definition = find(definitions, name)?;
    for (name, param) in definition.params.iter().filter(|(_, param)| param.native_only) {
        let default = param.number(&definition.name, name, &param.default)?;
        if workload.params.get(name) != Some(&default) {
            return Err(PlanError::NativeOnly { row: workload.row.clone(), name: name.clone() });
        }
    }
    Ok(())
}

/// Refuses programs, which only the exact engine runs.
pub fn check_for_times(definition: &Definition) -> Result<(), PlanError> {
    match definition.run {
        None => Ok(()),
        Some(_) => Err(PlanError::OnlyCounted { workload: definition.name.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::{definitions, parse_definition};

    fn rows(names: &[&str]) -> Result<Vec<String>, PlanError> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let selected = select(&definitions().unwrap(), Some(&names))?;
        Ok(selected.into_iter().map(|workload| workload.row).collect())
    }

    #[test]
    fn a_name_asks_for_all_its_rows() {
        let all = rows(&["fork-pages"]).unwrap();
        assert_eq!(all.len(), 13, "{all:?}");
        assert_eq!(all[..2], ["fork-pages:pages=0", "fork-pages:pages=16"]);
    }

    #[test]
    fn a_group_asks_for_all_its_workloads() {
        let all = rows(&["@lmbench"]).unwrap();
        assert!(all.contains(&"pipe".into()) && all.contains(&"getppid".into()), "{all:?}");
        assert!(matches!(rows(&["@lm"]), Err(PlanError::UnknownGroup { .. })));
    }

    #[test]
    fn parameters_make_a_row_of_their_own() {
        assert_eq!(rows(&["fork-pages:pages=100,ops=3"]).unwrap(), ["fork-pages:pages=100,ops=3"]);
        let names = ["getppid:ops=7".to_owned()];
        let selected = select(&definitions().unwrap(), Some(&names)).unwrap();
        assert_eq!(selected[0].ops, 7);
    }

    #[test]
    fn what_does_not_exist_is_refused_with_a_hint() {
        let near = Some("getppid".to_owned());
        assert_eq!(
            rows(&["getpid"]),
            Err(PlanError::UnknownWorkload { name: "getpid".into(), near })
        );
        assert!(matches!(rows(&["pipe:x=1"]), Err(PlanError::UnknownParameter { .. })));
        assert!(matches!(rows(&["fork-pages:pages"]), Err(PlanError::BadParameter { .. })));
        for bad in ["pipe:ops=0", "pipe:ops=a", "pipe:ops=-1"] {
            assert!(matches!(rows(&[bad]), Err(PlanError::Operations { .. })), "{bad}");
        }
        let twice = rows(&["locks:lock=ticket,lock=mcs"]);
        assert!(matches!(twice, Err(PlanError::ParameterTwice { .. })), "{twice:?}");
        for bad in ["", "-1", "1000000000", "many"] {
            let row = format!("fork-pages:pages={bad}");
            assert!(matches!(rows(&[&row]), Err(PlanError::ParameterValue { .. })), "{bad}");
        }
        assert!(matches!(rows(&["pipe", "pipe"]), Err(PlanError::Twice { .. })));
        assert_eq!(rows(&[]), Err(PlanError::NoWorkload));
    }

    #[test]
    fn hidden_workloads_run_only_when_named() {
        let all = select(&definitions().unwrap(), None).unwrap();
        assert!(all.iter().all(|workload| !workload.row.starts_with("control-")));
        assert_eq!(rows(&["control-rep"]).unwrap(), ["control-rep"]);
    }

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
        parse_definition(FORK, "fork.toml").unwrap().row(&params.collect(), ops)
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
            let refused =
                parse_definition(&FORK.replace("ops = 10", ops), "fork.toml").unwrap_err();
            assert!(refused.to_string().contains("needs ops of at least 1"), "{refused}");
        }
    }

    #[test]
    fn a_group_is_a_directory() {
        for (path, text) in super::super::BUILT_IN {
            let definition = parse_definition(text, path).unwrap();
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
            assert!(parse_definition(&text, "fork.toml").is_err(), "{to}");
        }
    }
}
