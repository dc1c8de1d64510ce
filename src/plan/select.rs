use std::collections::{BTreeMap, BTreeSet};

use super::{Definition, PlanError};
use crate::model::Workload;

/// The rows that `names` asks for, in the order asked: `NAME` for all rows of a workload,
/// `NAME:PARAM=NUMBER,…` for one row, where PARAM may also be `ops`. `None` asks for everything
/// that is neither hidden nor slow.
pub fn select(
    definitions: &[Definition],
    names: Option<&[String]>,
) -> Result<Vec<Workload>, PlanError> {
    let rows = match names {
        None => {
            let usual = definitions.iter().filter(|d| !d.hidden && !d.slow);
            usual.flat_map(Definition::rows).collect()
        }
        Some([]) => return Err(PlanError::NoWorkload),
        Some(names) => {
            let mut rows = Vec::new();
            for name in names {
                rows.extend(named(definitions, name)?);
            }
            rows
        }
    };
    let mut seen = BTreeSet::new();
    match rows.iter().find(|workload: &&Workload| !seen.insert(&workload.row)) {
        Some(twice) => Err(PlanError::Twice { row: twice.row.clone() }),
        None => Ok(rows),
    }
}

fn named(definitions: &[Definition], text: &str) -> Result<Vec<Workload>, PlanError> {
    let (name, params) = text.split_once(':').unwrap_or((text, ""));
    let Some(definition) = definitions.iter().find(|definition| definition.name == name) else {
        let near = nearest(definitions, name);
        return Err(PlanError::UnknownWorkload { name: name.to_owned(), near });
    };
    if let Some(row) = definition.rows().into_iter().find(|workload| workload.row == text) {
        return Ok(vec![row]);
    }
    if params.is_empty() {
        return Ok(definition.rows());
    }
    let mut given = BTreeMap::new();
    let mut ops = None;
    for param in params.split(',') {
        let (param, value) = parse_param(definition, param)?;
        match param {
            "ops" => ops = Some(value),
            _ => drop(given.insert(param.to_owned(), value)),
        }
    }
    let mut row = definition.row(&given, ops);
    row.row = text.to_owned();
    Ok(vec![row])
}

fn parse_param<'a>(definition: &Definition, text: &'a str) -> Result<(&'a str, u64), PlanError> {
    let workload = &definition.name;
    let bad = || PlanError::BadParameter { workload: workload.clone(), text: text.to_owned() };
    let (name, value) = text.split_once('=').ok_or_else(bad)?;
    if name != "ops" && !definition.params.contains_key(name) {
        let known: Vec<&str> =
            definition.params.keys().map(String::as_str).chain(["ops"]).collect();
        return Err(PlanError::UnknownParameter {
            workload: workload.clone(),
            name: name.to_owned(),
            known: known.join(", "),
        });
    }
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let value = value.parse().ok().filter(|value| digits && (name != "ops" || *value > 0));
    Ok((name, value.ok_or_else(bad)?))
}

/// The name that shares the longest beginning, if it is half of what was typed.
fn nearest(definitions: &[Definition], name: &str) -> Option<String> {
    let shared = |other: &str| {
        name.bytes().zip(other.bytes()).take_while(|(left, right)| left == right).count()
    };
    definitions
        .iter()
        .map(|definition| (shared(&definition.name), &definition.name))
        .filter(|(length, _)| *length * 2 >= name.len().max(2))
        .max_by_key(|(length, _)| *length)
        .map(|(_, name)| name.clone())
}

#[cfg(test)]
mod tests {
    use super::super::definitions;
    use super::*;

    fn rows(names: &[&str]) -> Result<Vec<String>, PlanError> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let selected = select(&definitions().unwrap(), Some(&names))?;
        Ok(selected.into_iter().map(|workload| workload.row).collect())
    }

    #[test]
    fn a_name_asks_for_all_its_rows() {
        let all = rows(&["fork-pages"]).unwrap();
        assert_eq!(all.len(), 12, "{all:?}");
        assert_eq!(all[0], "fork-pages:pages=16");
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
        for bad in ["fork-pages:pages", "fork-pages:pages=", "fork-pages:pages=-1", "pipe:ops=0"] {
            assert!(matches!(rows(&[bad]), Err(PlanError::BadParameter { .. })), "{bad}");
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
