use std::collections::{BTreeMap, BTreeSet};

use super::definitions::Definition;
use super::param::ParamValue;
use crate::error::PlanError;
use ktax_host::text::nearest;
use ktax_model::Workload;

/// The rows that `names` asks for, in the order asked: `NAME` for all rows of a workload, `@GROUP`
/// for those of a group, `NAME:PARAM=VALUE,…` for one row, where PARAM may also be `ops`. `None`
/// asks for everything that is neither hidden nor to be named.
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
                rows.extend(named(definitions, name)?);
            }
        }
    }
    each_once(rows)
}

/// The rows, if no two have one name.
pub fn each_once(rows: Vec<Workload>) -> Result<Vec<Workload>, PlanError> {
    let mut seen = BTreeSet::new();
    match rows.iter().find(|workload: &&Workload| !seen.insert(&workload.row)) {
        Some(twice) => Err(PlanError::Twice { row: twice.row.clone() }),
        None => Ok(rows),
    }
}

/// The Definition of that name.
pub fn find<'a>(definitions: &'a [Definition], name: &str) -> Result<&'a Definition, PlanError> {
    definitions.iter().find(|definition| definition.name == name).ok_or_else(|| {
        let known = definitions.iter().map(|definition| definition.name.as_str());
        let near = nearest(name, known).map(str::to_owned);
        PlanError::UnknownWorkload { name: name.to_owned(), near }
    })
}

fn named(definitions: &[Definition], text: &str) -> Result<Vec<Workload>, PlanError> {
    if let Some(group) = text.strip_prefix('@') {
        return of_group(definitions, group);
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
            "ops" => ops.replace(operations(definition, &value)?).map(ParamValue::Number),
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

fn of_group(definitions: &[Definition], group: &str) -> Result<Vec<Workload>, PlanError> {
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
    let value = ParamValue::of(value);
    if name != "ops" {
        definition.param(name)?.number(workload, name, &value)?;
    }
    Ok((name, value))
}

/// What `ops` may be.
pub(super) fn operations(definition: &Definition, value: &ParamValue) -> Result<u64, PlanError> {
    match value {
        ParamValue::Number(ops @ 1..) => Ok(*ops),
        other => Err(PlanError::Operations {
            workload: definition.name.clone(),
            value: other.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::definitions::definitions;
    use super::*;

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
}
