//! Rows of workload files: selection by name, parameters, and checks of memory and guests.

use std::collections::{BTreeMap, BTreeSet};

use ktax_host::text::{did_you_mean_quoted, nearest};
use ktax_model::{Signature, Workload};

use super::{Definition, Param, ParamValue, Quantity, Variant};
use crate::experiment::{Error, duplicate_row_error, no_workload_error};

/// Selects rows in the order of `names`: `NAME` is all rows of a workload, `@GROUP` all rows of a
/// group, and `NAME:PARAM=VALUE,…` one row, where PARAM may also be `ops`. `None` selects all rows
/// that are neither hidden nor only run if they are named.
pub fn select_rows(
    definitions: &[Definition],
    names: Option<&[String]>,
) -> Result<Vec<Workload>, Error> {
    let mut rows = Vec::new();
    match names {
        None => {
            for definition in definitions.iter().filter(|d| !d.hidden && !d.only_named) {
                rows.extend(definition.rows()?);
            }
        }
        Some([]) => return Err(no_workload_error()),
        Some(names) => {
            for name in names {
                rows.extend(rows_by_name(definitions, name)?);
            }
        }
    }
    unique_rows(rows)
}

/// Returns the rows; fails if two rows have the same name.
pub fn unique_rows(rows: Vec<Workload>) -> Result<Vec<Workload>, Error> {
    let mut seen = BTreeSet::new();
    match rows.iter().find(|workload: &&Workload| !seen.insert(&workload.row)) {
        Some(duplicate) => Err(duplicate_row_error(&duplicate.row)),
        None => Ok(rows),
    }
}

/// Finds the definition of a workload by its name.
pub fn find_definition<'a>(
    definitions: &'a [Definition],
    name: &str,
) -> Result<&'a Definition, Error> {
    definitions.iter().find(|definition| definition.name == name).ok_or_else(|| {
        let names = definitions.iter().map(|definition| definition.name.as_str());
        let suggestion = did_you_mean_quoted(nearest(name, names));
        Error::user(format!("no workload is called {name:?}{suggestion}"))
            .next("`ktax workloads` lists all workloads")
    })
}

fn rows_by_name(definitions: &[Definition], text: &str) -> Result<Vec<Workload>, Error> {
    if let Some(group) = text.strip_prefix('@') {
        return rows_of_group(definitions, group);
    }
    let (name, params) = text.split_once(':').unwrap_or((text, ""));
    let definition = find_definition(definitions, name)?;
    let rows = definition.rows()?;
    if let Some(row) = rows.iter().find(|workload| workload.row == text) {
        return Ok(vec![row.clone()]);
    }
    if params.is_empty() {
        return Ok(rows);
    }
    let mut values = BTreeMap::new();
    let mut ops = None;
    for param in params.split(',') {
        let (param, value) = parse_param(definition, param)?;
        let previous = match param {
            "ops" => ops.replace(parse_ops(definition, &value)?).map(ParamValue::Number),
            _ => values.insert(param.to_owned(), value),
        };
        if previous.is_some() {
            return Err(repeated_parameter_error(definition, param));
        }
    }
    let mut row = definition.row(&values, ops)?;
    row.row = text.to_owned();
    Ok(vec![row])
}

fn rows_of_group(definitions: &[Definition], group: &str) -> Result<Vec<Workload>, Error> {
    let listed: Vec<&Definition> = definitions.iter().filter(|d| !d.hidden).collect();
    let rows = listed.iter().filter(|d| d.group == group).map(|definition| definition.rows());
    let rows = rows.collect::<Result<Vec<_>, _>>()?.concat();
    if rows.is_empty() {
        let groups: BTreeSet<&str> = listed.iter().map(|d| d.group.as_str()).collect();
        let groups = groups.into_iter().collect::<Vec<_>>().join(", ");
        return Err(Error::user(format!("no workload is in the group {group:?}"))
            .next(format!("the groups are {groups}")));
    }
    Ok(rows)
}

fn parse_param<'a>(definition: &Definition, text: &'a str) -> Result<(&'a str, ParamValue), Error> {
    let workload = &definition.name;
    let (name, value) =
        text.split_once('=').ok_or_else(|| parameter_syntax_error(definition, text))?;
    let value = ParamValue::parse(value);
    if name != "ops" {
        definition.param(name)?.number(workload, name, &value)?;
    }
    Ok((name, value))
}

pub(super) fn parameter_syntax_error(definition: &Definition, text: &str) -> Error {
    Error::user(format!("{text:?} is not a parameter of {}", definition.name))
        .next("write NAME=VALUE")
}

pub(super) fn repeated_parameter_error(definition: &Definition, name: &str) -> Error {
    Error::user(format!("{name} of {} is given twice", definition.name)).next("give it once")
}

/// Parses a value of `ops`: a number of at least 1.
pub(super) fn parse_ops(definition: &Definition, value: &ParamValue) -> Result<u64, Error> {
    match value {
        ParamValue::Number(ops @ 1..) => Ok(*ops),
        other => {
            let (workload, value) = (&definition.name, other.to_string());
            Err(Error::user(format!("ops of {workload} cannot be {value:?}"))
                .next("it takes numbers from 1"))
        }
    }
}

impl Definition {
    /// Rows of the exact engine.
    pub fn rows(&self) -> Result<Vec<Workload>, Error> {
        self.variants().iter().map(|variant| self.row(&variant.params, variant.ops)).collect()
    }

    /// Rows with the operations of a native run.
    pub fn native_rows(&self) -> Result<Vec<Workload>, Error> {
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

    /// Row with these parameters and the operations of a native run. If a variant has the same
    /// parameters, the row has the operations of the variant.
    pub fn native_row(&self, params: &BTreeMap<String, ParamValue>) -> Result<Workload, Error> {
        let variant = self.variants().iter().find(|variant| variant.params == *params);
        let ops_of_variant =
            |variant: &Variant| variant.native_ops.or(self.native_ops).or(variant.ops);
        self.row(params, variant.map_or(self.native_ops, ops_of_variant))
    }

    fn variants(&self) -> &[Variant] {
        const NONE: &[Variant] = &[Variant::NONE];
        if self.variant.is_empty() { NONE } else { &self.variant }
    }

    /// Row with these parameters; `params` has only parameters that differ from the defaults.
    pub fn row(
        &self,
        params: &BTreeMap<String, ParamValue>,
        ops: Option<u64>,
    ) -> Result<Workload, Error> {
        let mut numbers = self.defaults()?;
        for (name, value) in params {
            numbers.insert(name.clone(), self.param(name)?.number(&self.name, name, value)?);
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
                Some(memory) => self.evaluate("memory", memory, ops, &numbers)?,
                None => 0,
            },
            signature: self.expected_signature(ops, &numbers)?,
            numbers: BTreeMap::new(),
            params: numbers,
        })
    }

    /// Finds a parameter by its name.
    pub fn param(&self, name: &str) -> Result<&Param, Error> {
        self.params.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.params.keys().map(String::as_str).chain(["ops"]).collect();
            Error::user(format!("{} has no parameter {name:?}", self.name))
                .next(format!("it has {}", names.join(", ")))
        })
    }

    fn defaults(&self) -> Result<BTreeMap<String, u64>, Error> {
        let number = |(name, param): (&String, &Param)| {
            Ok((name.clone(), param.number(&self.name, name, &param.default)?))
        };
        self.params.iter().map(number).collect()
    }

    /// Evaluates a quantity; `name` is for messages.
    fn evaluate(
        &self,
        name: &str,
        quantity: &Quantity,
        ops: u64,
        params: &BTreeMap<String, u64>,
    ) -> Result<u64, Error> {
        quantity.value(ops, params).ok_or_else(|| {
            let workload = &self.name;
            Error::user(format!("{workload}: {name} = {quantity} is more than any machine has"))
                .next("ask for less")
        })
    }

    /// Entries that the work signature of a row must have.
    fn expected_signature(
        &self,
        ops: u64,
        params: &BTreeMap<String, u64>,
    ) -> Result<Signature, Error> {
        let mut expected = Signature::new();
        for (name, quantity) in &self.signature {
            expected.insert(name.clone(), self.evaluate(name, quantity, ops, params)?);
        }
        let defaults = self.defaults()?;
        for variant in self.variants() {
            let mut variant_parameters = defaults.clone();
            for (name, value) in &variant.params {
                variant_parameters
                    .insert(name.clone(), self.param(name)?.number(&self.name, name, value)?);
            }
            if variant_parameters != *params {
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

/// Refuses rows that need more than three quarters of the memory. The kernel and other processes
/// need the rest.
pub fn check_memory(workloads: &[Workload], available_bytes: u64) -> Result<(), Error> {
    let fits = |workload: &&Workload| workload.memory_bytes <= available_bytes / 4 * 3;
    match workloads.iter().find(|workload| !fits(workload)) {
        None => Ok(()),
        Some(Workload { row, memory_bytes, .. }) => {
            let (needed_mib, available_mib) = (memory_bytes >> 20, available_bytes >> 20);
            Err(Error::user(format!(
                "{row} needs {needed_mib} MiB of memory, but a row can use at most {} MiB of the \
                 {available_mib} MiB that are available (three quarters)",
                available_mib / 4 * 3
            ))
            .next("choose a smaller row, or provide more memory"))
        }
    }
}

/// Refuses values of parameters that guests do not support.
pub fn check_for_guest(definitions: &[Definition], workload: &Workload) -> Result<(), Error> {
    let name = workload.row.split(':').next().unwrap_or_default();
    let definition = find_definition(definitions, name)?;
    for (name, param) in definition.params.iter().filter(|(_, param)| param.native_only) {
        let default = param.number(&definition.name, name, &param.default)?;
        if workload.params.get(name) != Some(&default) {
            let row = &workload.row;
            return Err(Error::user(format!("{name} of {row} only applies to the running kernel"))
                .next("use `ktax workloads run`"));
        }
    }
    Ok(())
}

/// Refuses workloads that run a program of this machine, which only the exact engine supports.
pub fn check_for_times(definition: &Definition) -> Result<(), Error> {
    match definition.run {
        None => Ok(()),
        Some(_) => Err(Error::user(format!(
            "{} runs a program of this machine, which only `ktax compare` with the exact engine \
             does",
            definition.name
        ))
        .next("choose another workload, or write the program after --")),
    }
}

/// Replaces groups in `names` by the names of their workloads.
pub fn native_names(definitions: &[Definition], names: &[String]) -> Result<Vec<String>, Error> {
    let mut expanded = Vec::new();
    for name in names {
        match name.starts_with('@') {
            false => expanded.push(name.clone()),
            true => {
                let rows = select_rows(definitions, Some(std::slice::from_ref(name)))?;
                let names = rows.iter().map(|row| row.row.split(':').next().unwrap_or_default());
                expanded.extend(names.collect::<BTreeSet<_>>().into_iter().map(str::to_owned));
            }
        }
    }
    Ok(expanded)
}

/// Definition, and rows for each combination of values; the last parameter changes fastest. `name`
/// is the name of a workload or a row. Each of `params` is `NAME=VALUE[,VALUE…]`, where NAME may
/// also be `ops`. Without `params`, the rows of the workload's file.
pub fn native_rows<'a>(
    definitions: &'a [Definition],
    name: &str,
    params: &[String],
) -> Result<(&'a Definition, Vec<Workload>), Error> {
    let (name, row_params) = name.split_once(':').unwrap_or((name, ""));
    let definition = find_definition(definitions, name)?;
    check_for_times(definition)?;
    let row_params = row_params.split(',').filter(|param| !param.is_empty()).map(str::to_owned);
    let params: Vec<String> = row_params.chain(params.iter().cloned()).collect();
    let rows = match params.as_slice() {
        [] => definition.native_rows()?,
        params => combinations(definition, params)?,
    };
    Ok((definition, unique_rows(rows)?))
}

fn combinations(definition: &Definition, params: &[String]) -> Result<Vec<Workload>, Error> {
    let mut ops = vec![None];
    let mut points: Vec<BTreeMap<String, ParamValue>> = vec![BTreeMap::new()];
    let mut names = BTreeSet::new();
    for param in params {
        let (name, values) = parse_values(definition, param)?;
        if !names.insert(name) {
            return Err(repeated_parameter_error(definition, name));
        }
        if name == "ops" {
            let numbers = values.iter().map(|value| parse_ops(definition, value).map(Some));
            ops = numbers.collect::<Result<_, _>>()?;
            continue;
        }
        let with_value = |point: &BTreeMap<String, ParamValue>, value: &ParamValue| {
            let mut point = point.clone();
            point.insert(name.to_owned(), value.clone());
            point
        };
        points = points
            .iter()
            .flat_map(|p| values.iter().map(move |value| with_value(p, value)))
            .collect();
    }
    let rows = points.iter().flat_map(|params| ops.iter().map(move |ops| (params, ops)));
    rows.map(|(params, ops)| row_with_ops(definition, params, *ops)).collect()
}

fn row_with_ops(
    definition: &Definition,
    params: &BTreeMap<String, ParamValue>,
    ops: Option<u64>,
) -> Result<Workload, Error> {
    let Some(ops) = ops else { return definition.native_row(params) };
    let mut row = definition.row(params, Some(ops))?;
    let separator = if params.is_empty() { ':' } else { ',' };
    row.row = format!("{}{separator}ops={ops}", row.row);
    Ok(row)
}

fn parse_values<'a>(
    definition: &Definition,
    param: &'a str,
) -> Result<(&'a str, Vec<ParamValue>), Error> {
    let (name, values) = param
        .split_once('=')
        .filter(|(_, values)| !values.is_empty())
        .ok_or_else(|| parameter_syntax_error(definition, param))?;
    if name != "ops" {
        definition.param(name)?;
    }
    Ok((name, values.split(',').map(ParamValue::parse).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::{definitions, parse_definition};

    fn rows(names: &[&str]) -> Result<Vec<String>, Error> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let selected = select_rows(&definitions().unwrap(), Some(&names))?;
        Ok(selected.into_iter().map(|workload| workload.row).collect())
    }

    #[test]
    fn a_name_selects_all_rows_of_a_workload() {
        let all = rows(&["fork-pages"]).unwrap();
        assert_eq!(all.len(), 13, "{all:?}");
        assert_eq!(all[..2], ["fork-pages:pages=0", "fork-pages:pages=16"]);
    }

    #[test]
    fn a_group_selects_all_its_workloads() {
        let all = rows(&["@lmbench"]).unwrap();
        assert!(all.contains(&"pipe".into()) && all.contains(&"getppid".into()), "{all:?}");
        let error = rows(&["@lm"]).unwrap_err().to_string();
        assert!(error.contains("no workload is in the group"), "{error}");
    }

    #[test]
    fn parameters_select_one_row() {
        assert_eq!(rows(&["fork-pages:pages=100,ops=3"]).unwrap(), ["fork-pages:pages=100,ops=3"]);
        let names = ["getppid:ops=7".to_owned()];
        let selected = select_rows(&definitions().unwrap(), Some(&names)).unwrap();
        assert_eq!(selected[0].ops, 7);
    }

    #[test]
    fn unknown_names_and_values_are_refused_with_a_hint() {
        let refused = |names: &[&str]| rows(names).unwrap_err().to_string();
        assert!(refused(&["getpid"]).contains("did you mean \"getppid\""));
        for (name, reason) in [
            ("pipe:x=1", "has no parameter"),
            ("fork-pages:pages", "is not a parameter of"),
            ("pipe:ops=0", "ops of pipe cannot be"),
            ("pipe:ops=a", "ops of pipe cannot be"),
            ("pipe:ops=-1", "ops of pipe cannot be"),
            ("locks:lock=ticket,lock=mcs", "is given twice"),
            ("fork-pages:pages=", "pages of fork-pages cannot be"),
            ("fork-pages:pages=-1", "pages of fork-pages cannot be"),
            ("fork-pages:pages=1000000000", "pages of fork-pages cannot be"),
            ("fork-pages:pages=many", "pages of fork-pages cannot be"),
        ] {
            assert!(refused(&[name]).contains(reason), "{name}");
        }
        assert!(refused(&["pipe", "pipe"]).contains("is named twice"));
        assert!(refused(&[]).contains("the list of workloads is empty"));
    }

    #[test]
    fn hidden_workloads_run_only_when_named() {
        let all = select_rows(&definitions().unwrap(), None).unwrap();
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

    fn row(params: &[(&str, ParamValue)], ops: Option<u64>) -> Result<Workload, Error> {
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
                    !row.signature.is_empty() || definition.hidden || row.is_user_program(),
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
            let expected = format!("workloads/{}/{}.toml", definition.group, definition.name);
            assert_eq!(*path, expected);
        }
    }

    #[test]
    fn a_signature_follows_the_parameters() {
        let fork = row(&[("pages", ParamValue::Number(3))], Some(5)).unwrap();
        assert_eq!(fork.row, "fork:pages=3");
        assert_eq!(fork.params, [("kind".to_owned(), 0), ("pages".to_owned(), 3)].into());
        let expected = [("children", 5), ("failed", 0), ("pages", 15)];
        assert_eq!(fork.signature, expected.map(|(name, n)| (name.to_owned(), n)).into());
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
    fn invalid_values_of_parameters_are_refused() {
        for (name, value) in
            [("pages", ParamValue::Number(65)), ("kind", ParamValue::Word("huge".into()))]
        {
            let error = row(&[(name, value)], None).unwrap_err();
            assert!(error.to_string().contains(" cannot be "), "{error}");
        }
        let error = row(&[("page", ParamValue::Number(1))], None).unwrap_err();
        assert!(error.to_string().contains("has no parameter"), "{error}");
        let error = row(&[("pages", ParamValue::Number(64))], Some(u64::MAX)).unwrap_err();
        assert!(error.to_string().contains("more than any machine has"), "{error}");
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

#[cfg(test)]
mod native_tests {
    use super::super::definitions;
    use super::*;

    fn rows(name: &str, params: &[&str]) -> Result<Vec<String>, Error> {
        let params: Vec<String> = params.iter().map(|param| (*param).to_owned()).collect();
        let definitions = definitions()?;
        let (_, rows) = native_rows(&definitions, name, &params)?;
        Ok(rows.into_iter().map(|workload| workload.row).collect())
    }

    #[test]
    fn the_name_of_a_combination_selects_it_again() {
        let all = rows("fork-pages", &["pages=0,16", "ops=5,6"]).unwrap();
        let expected = ["pages=0,ops=5", "pages=0,ops=6", "pages=16,ops=5", "pages=16,ops=6"];
        assert_eq!(all, expected.map(|params| format!("fork-pages:{params}")));
        for row in &all {
            assert_eq!(rows(row, &[]).unwrap(), [row.as_str()]);
        }
        assert_eq!(rows("getppid", &["ops=1,2"]).unwrap(), ["getppid:ops=1", "getppid:ops=2"]);
    }

    #[test]
    fn repeated_parameters_and_rows_are_refused() {
        let twice = rows("fork-pages", &["pages=1", "pages=2"]);
        assert!(twice.unwrap_err().to_string().contains("is given twice"));
        let twice = rows("fork-pages:pages=1", &["pages=2"]);
        assert!(twice.unwrap_err().to_string().contains("is given twice"));
        let twice = rows("fork-pages", &["pages=1,1"]).unwrap_err().to_string();
        assert!(twice.contains("is named twice"), "{twice}");
    }

    #[test]
    fn answers_are_checked_for_any_number_of_operations() {
        let definitions = definitions().unwrap();
        for (name, answer) in
            [("connect4", "nodes"), ("buildlike", "read-bytes"), ("under-load", "load-moved")]
        {
            let (_, rows) = native_rows(&definitions, name, &[]).unwrap();
            assert!(rows.iter().all(|row| row.signature.contains_key(answer)), "{name}");
        }
    }
}
