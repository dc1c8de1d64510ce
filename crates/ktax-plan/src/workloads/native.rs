//! Rows of one Workload for the running kernel: every combination of the requested values.

use std::collections::{BTreeMap, BTreeSet};

use super::Definition;
use super::ParamValue;
use super::rows::check_for_times;
use super::rows::{each_once, find, parse_ops, select};
use crate::error::Error;
use crate::workloads::rows::{bad_parameter, parameter_twice};
use ktax_model::Workload;

/// The workloads and rows of these names; those of a group stand where the group does.
pub fn native_names(definitions: &[Definition], names: &[String]) -> Result<Vec<String>, Error> {
    let mut expanded = Vec::new();
    for name in names {
        match name.starts_with('@') {
            false => expanded.push(name.clone()),
            true => {
                let rows = select(definitions, Some(std::slice::from_ref(name)))?;
                let names = rows.iter().map(|row| row.row.split(':').next().unwrap_or_default());
                expanded.extend(names.collect::<BTreeSet<_>>().into_iter().map(str::to_owned));
            }
        }
    }
    Ok(expanded)
}

/// Rows for each combination of values, the last parameter changing fastest. `name` may be that of
/// a row. Each of `params` is `NAME=VALUE[,VALUE…]`, where NAME may also be `ops`. Without
/// `params`, the rows of the workload's file.
pub fn native_rows<'a>(
    definitions: &'a [Definition],
    name: &str,
    params: &[String],
) -> Result<(&'a Definition, Vec<Workload>), Error> {
    let (name, row_params) = name.split_once(':').unwrap_or((name, ""));
    let definition = find(definitions, name)?;
    check_for_times(definition)?;
    let row_params = row_params.split(',').filter(|param| !param.is_empty()).map(str::to_owned);
    let params: Vec<String> = row_params.chain(params.iter().cloned()).collect();
    let rows = match params.as_slice() {
        [] => definition.native_rows()?,
        params => combinations(definition, params)?,
    };
    Ok((definition, each_once(rows)?))
}

fn combinations(definition: &Definition, params: &[String]) -> Result<Vec<Workload>, Error> {
    let mut ops = vec![None];
    let mut points: Vec<BTreeMap<String, ParamValue>> = vec![BTreeMap::new()];
    let mut names = BTreeSet::new();
    for param in params {
        let (name, values) = parse_values(definition, param)?;
        if !names.insert(name) {
            return Err(parameter_twice(definition, name));
        }
        if name == "ops" {
            let numbers = values.iter().map(|value| parse_ops(definition, value).map(Some));
            ops = numbers.collect::<Result<_, _>>()?;
            continue;
        }
        let with = |before: &BTreeMap<String, ParamValue>, value: &ParamValue| {
            let mut after = before.clone();
            after.insert(name.to_owned(), value.clone());
            after
        };
        points =
            points.iter().flat_map(|b| values.iter().map(move |value| with(b, value))).collect();
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
    let before = if params.is_empty() { ':' } else { ',' };
    row.row = format!("{}{before}ops={ops}", row.row);
    Ok(row)
}

fn parse_values<'a>(
    definition: &Definition,
    param: &'a str,
) -> Result<(&'a str, Vec<ParamValue>), Error> {
    let (name, values) = param
        .split_once('=')
        .filter(|(_, values)| !values.is_empty())
        .ok_or_else(|| bad_parameter(definition, param))?;
    if name != "ops" {
        definition.param(name)?;
    }
    Ok((name, values.split(',').map(ParamValue::parse).collect()))
}

#[cfg(test)]
mod tests {
    use super::super::definitions;
    use super::*;

    fn rows(name: &str, params: &[&str]) -> Result<Vec<String>, Error> {
        let params: Vec<String> = params.iter().map(|param| (*param).to_owned()).collect();
        let definitions = definitions()?;
        let (_, rows) = native_rows(&definitions, name, &params)?;
        Ok(rows.into_iter().map(|workload| workload.row).collect())
    }

    #[test]
    fn every_combination_has_a_name_that_asks_for_it_again() {
        let all = rows("fork-pages", &["pages=0,16", "ops=5,6"]).unwrap();
        let wanted = ["pages=0,ops=5", "pages=0,ops=6", "pages=16,ops=5", "pages=16,ops=6"];
        assert_eq!(all, wanted.map(|params| format!("fork-pages:{params}")));
        for row in &all {
            assert_eq!(rows(row, &[]).unwrap(), [row.as_str()]);
        }
        assert_eq!(rows("getppid", &["ops=1,2"]).unwrap(), ["getppid:ops=1", "getppid:ops=2"]);
    }

    #[test]
    fn what_is_said_twice_is_refused() {
        let twice = rows("fork-pages", &["pages=1", "pages=2"]);
        assert!(twice.unwrap_err().to_string().contains("is given twice"));
        let twice = rows("fork-pages:pages=1", &["pages=2"]);
        assert!(twice.unwrap_err().to_string().contains("is given twice"));
        let twice = rows("fork-pages", &["pages=1,1"]).unwrap_err().to_string();
        assert!(twice.contains("is named twice"), "{twice}");
    }

    #[test]
    fn answers_are_checked_whatever_the_operations() {
        let definitions = definitions().unwrap();
        for (name, answer) in
            [("connect4", "nodes"), ("buildlike", "read-bytes"), ("under-load", "load-moved")]
        {
            let (_, rows) = native_rows(&definitions, name, &[]).unwrap();
            assert!(rows.iter().all(|row| row.signature.contains_key(answer)), "{name}");
        }
    }
}
