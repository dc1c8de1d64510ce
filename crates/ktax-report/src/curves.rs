//! Costs over a parameter, of rows that differ in nothing else.

use std::collections::BTreeMap;

use super::view::{Curves, Picture, Section, SideCurve};
use ktax_model::{Crossing, Row, Side, family};

/// What rows have in common, and the parameter in which they differ.
type Family = (String, String);

/// One picture for each family of at least three rows, in the order of its rows.
pub fn curves(rows: &[Row], unit: &str, crossings: &[Crossing]) -> Vec<Section> {
    families(rows)
        .into_iter()
        .map(|((family, parameter), members)| {
            let curve = |side: Side| {
                let point =
                    |row: &&Row| Some((*row.params.get(&parameter)? as f64, row.cost(side)?));
                let mut points: Vec<(f64, f64)> = members.iter().filter_map(point).collect();
                points.sort_by(|one, other| one.0.total_cmp(&other.0));
                SideCurve { name: side.name(), points }
            };
            let crossed =
                crossings.iter().filter(|it| it.family == family && it.parameter == parameter);
            Section::Picture {
                title: format!("{family}: {unit} per operation over {parameter}"),
                picture: Picture::Curves(Curves {
                    cost: unit.to_owned(),
                    curves: Side::BOTH.map(curve).to_vec(),
                    crossings: crossed.map(|it| it.at).collect(),
                    parameter,
                }),
                how: "Both axes are logarithmic: a straight line is a power of the parameter."
                    .to_owned(),
            }
        })
        .filter(|section| !section.is_empty())
        .collect()
}

fn families(rows: &[Row]) -> Vec<(Family, Vec<&Row>)> {
    let mut found: BTreeMap<Family, Vec<(usize, &Row)>> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        for parameter in row.params.keys() {
            let key = (family(&row.row, parameter), parameter.clone());
            found.entry(key).or_default().push((at, row));
        }
    }
    let mut found: Vec<_> = found.into_iter().filter(|(_, rows)| rows.len() > 2).collect();
    found.sort_by_key(|(_, rows)| rows[0].0);
    found
        .into_iter()
        .map(|(key, rows)| (key, rows.into_iter().map(|(_, row)| row).collect()))
        .collect()
}
