//! How costs grow with the number of pages.

use crate::model::{Growth, Side, Workload, family};
use crate::stats::growth::fit;

/// The parameter whose growth is of interest.
const PARAMETER: &str = "pages";

/// One row's cost of one operation.
pub(super) type Cost<'a> = (&'a Workload, f64);

/// The growth of every family of rows that differ in [`PARAMETER`] alone and have a row where it is
/// 0. Families of too few rows, or with too narrow a span, say nothing.
pub(super) fn growth(costs: &[Cost<'_>], side: Option<Side>) -> Vec<Growth> {
    let mut families: Vec<(String, Vec<(u64, f64)>)> = Vec::new();
    for (workload, cost) in costs {
        let Some(size) = workload.params.get(PARAMETER) else { continue };
        let family = family(&workload.row, PARAMETER);
        match families.iter_mut().find(|(name, _)| *name == family) {
            Some((_, points)) => points.push((*size, *cost)),
            None => families.push((family, vec![(*size, *cost)])),
        }
    }
    families.iter().filter_map(|(name, points)| of_family(name, points, side)).collect()
}

fn of_family(family: &str, points: &[(u64, f64)], side: Option<Side>) -> Option<Growth> {
    let base = points.iter().find(|(size, _)| *size == 0)?.1;
    let sized = points.iter().filter(|(size, _)| *size > 0);
    let sized: Vec<(f64, f64)> = sized.map(|(size, cost)| (*size as f64, *cost)).collect();
    let fit = fit(base, &sized)?;
    Some(Growth {
        family: family.to_owned(),
        parameter: PARAMETER.to_owned(),
        side,
        order: fit.order(PARAMETER),
        exponent: fit.exponent,
        interval: (fit.low, fit.high),
        from: fit.from,
        points: fit.points,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::Region;

    fn workload(row: &str, pages: u64) -> Workload {
        Workload {
            row: row.into(),
            title: String::new(),
            operation: String::new(),
            program: "fork-pages".into(),
            ops: 1,
            region: Region::Marked,
            memory_bytes: 0,
            params: [("pages".to_owned(), pages)].into(),
            signature: BTreeMap::new(),
        }
    }

    fn rows(cost: fn(f64) -> f64) -> Vec<Growth> {
        let sizes = [0, 16, 64, 256, 1024, 4096, 16384];
        let rows: Vec<Workload> =
            sizes.map(|n| workload(&format!("fork-pages:backing=thp,pages={n},ops=3"), n)).into();
        let costs: Vec<Cost<'_>> =
            rows.iter().map(|row| (row, cost(row.params["pages"] as f64))).collect();
        growth(&costs, Some(Side::Base))
    }

    #[test]
    fn a_family_of_rows_says_how_it_grows() {
        let linear = &rows(|pages| 100_000.0 + 70.0 * pages)[0];
        assert_eq!(
            (linear.family.as_str(), linear.order.as_str()),
            ("fork-pages:backing=thp", "O(pages)")
        );
        assert!((linear.exponent - 1.0).abs() < 1e-9, "{linear:?}");
        assert_eq!(rows(|pages| 100_000.0 + pages / 1e3)[0].order, "O(1)");
    }

    #[test]
    fn without_the_row_of_none_nothing_is_said() {
        let row = workload("fork-pages:pages=16", 16);
        assert_eq!(growth(&[(&row, 1.0)], None), []);
    }
}
