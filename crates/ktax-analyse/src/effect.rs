//! Numbers of rows: one Metric between the Sides over Layouts, whether the Sides did the same work,
//! and how costs grow with the number of pages.

use ktax_model::{
    Effect, Failure, Growth, GrowthPower, Side, Sides, Signature, Verdict, Workload, family,
};
use ktax_stats::exact::{Decision, judge};
use ktax_stats::growth::{Curve, Fit, GrowthClass, NEGLIGIBLE, fit};
use ktax_stats::tables::checked_percent_change;

/// Values of one Metric by Layout; those of a pair have equal indices.
pub(super) struct EffectValues<'a> {
    pub metric: &'a str,
    /// Raw counts.
    pub samples: Sides<Vec<u64>>,
    /// Layout of each pair.
    pub layouts: Vec<usize>,
    /// Operations that a raw count covers.
    pub ops: u64,
}

/// The Effect; `None` without pairs. `relevant` is the smallest difference of raw counts that
/// matters, if the median is that pair's.
///
/// The rule sees raw counts, so that ties are ties; stored values are per operation. Base, change
/// and delta are from the one Layout with the median delta, so that they, and that Layout's
/// functions, add up: a median of each Side by itself would not.
pub(super) fn effect(values: EffectValues<'_>, relevant: impl Fn(usize) -> f64) -> Option<Effect> {
    let EffectValues { metric, samples, layouts, ops } = values;
    let found = judge(&floats(&samples.base), &floats(&samples.change), relevant)?;
    let per_op = |value: f64| value / ops as f64;
    let base = samples.base[found.median] as f64;
    let change = samples.change[found.median] as f64;
    Some(Effect {
        metric: metric.to_owned(),
        base: per_op(base),
        change: per_op(change),
        delta: per_op(change - base),
        percent: checked_percent_change(base, change),
        layout: layouts[found.median],
        delta_range: (per_op(found.smallest_delta), per_op(found.largest_delta)),
        spread: per_op(found.noise),
        detectable: found.detectable().map(per_op),
        samples,
        verdict: verdict_of_decision(found.decision),
        functions: Vec::new(),
        paths: Vec::new(),
    })
}

/// Verdict that readers see for a decision.
pub(super) fn verdict_of_decision(decision: Decision) -> Verdict {
    match decision {
        Decision::Slower => Verdict::Slower,
        Decision::Faster => Verdict::Faster,
        Decision::Small => Verdict::BelowThreshold,
        Decision::Same | Decision::Undetected => Verdict::NoDetectedChange,
        Decision::TooFew => Verdict::TooFewBoots,
    }
}

fn floats(counts: &[u64]) -> Vec<f64> {
    counts.iter().map(|count| *count as f64).collect()
}

/// Differences of the work signatures, Layout by Layout: `faults 400 in base, 401 in change`. Every
/// entry counts, because none may legitimately differ. Equal differences in several Layouts are
/// given once.
pub(super) fn signature_differences<'a>(
    pairs: impl Iterator<Item = [&'a Signature; 2]>,
) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for [base, change] in pairs {
        for text in differing_entries(base, change) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
    }
    texts
}

fn differing_entries(base: &Signature, change: &Signature) -> Vec<String> {
    let only_in_change = change.keys().filter(|name| !base.contains_key(*name));
    let say = |value: Option<&u64>| value.map_or("missing".to_owned(), u64::to_string);
    base.keys()
        .chain(only_in_change)
        .map(|name| (name, base.get(name), change.get(name)))
        .filter(|(_, base, change)| base != change)
        .map(|(name, base, change)| {
            format!("{name} {} in base, {} in change", say(base), say(change))
        })
        .collect()
}

/// Failure of a Sample whose number of operations is not the planned one, by which it is divided.
pub(super) fn wrong_ops(found: u64, planned: u64) -> Failure {
    Failure::WrongWork { deviations: format!("operations {found}, expected {planned}") }
}

/// The parameter that growth is fitted to.
const PARAMETER: &str = "pages";

/// Cost of one operation of a row.
pub(super) struct RowCost<'a> {
    pub workload: &'a Workload,
    /// Cost in the Layout that is shown.
    pub shown: f64,
    /// Cost under each Layout; empty if there are none.
    pub layouts: Vec<f64>,
}

/// Growth of every family of rows that differ only in [`PARAMETER`] and have a row with 0. A family
/// with too few rows, or with too narrow a span, has none.
pub(super) fn growth_of_families(costs: &[RowCost<'_>], side: Option<Side>) -> Vec<Growth> {
    let mut families: Vec<(String, Vec<(u64, &RowCost<'_>)>)> = Vec::new();
    for cost in costs {
        let Some(size) = cost.workload.params.get(PARAMETER) else { continue };
        let family = family(&cost.workload.row, PARAMETER);
        match families.iter_mut().find(|(name, _)| *name == family) {
            Some((_, rows)) => rows.push((*size, cost)),
            None => families.push((family, vec![(*size, cost)])),
        }
    }
    families.iter().filter_map(|(name, rows)| growth_of_family(name, rows, side)).collect()
}

fn growth_of_family(
    family: &str,
    rows: &[(u64, &RowCost<'_>)],
    side: Option<Side>,
) -> Option<Growth> {
    let shown = curve(rows, |cost| cost.shown)?;
    let layouts = rows.iter().map(|(_, cost)| cost.layouts.len()).min()?;
    let under = |layout: usize| curve(rows, |cost| cost.layouts[layout]);
    let fit = fit(&shown, &(0..layouts).map(under).collect::<Option<Vec<Curve>>>()?)?;
    Some(Growth {
        family: family.to_owned(),
        parameter: PARAMETER.to_owned(),
        side,
        order: fit.order(PARAMETER),
        power: fit.power.map(|power| GrowthPower {
            exponent: power.exponent,
            interval: (power.low, power.high),
        }),
        beyond_percent: (fit.distance_range.0 * 100.0, fit.distance_range.1 * 100.0),
        because: because(&fit),
        from: fit.smallest_size,
        points: fit.points,
        layouts,
    })
}

/// Costs by size; `None` without a row of size 0.
fn curve(rows: &[(u64, &RowCost<'_>)], value: impl Fn(&RowCost<'_>) -> f64) -> Option<Curve> {
    let base = value(rows.iter().find(|(size, _)| *size == 0)?.1);
    let sized = rows.iter().filter(|(size, _)| *size > 0);
    Some(Curve { base, points: sized.map(|(size, cost)| (*size as f64, value(cost))).collect() })
}

fn because(fit: &Fit) -> String {
    let negligible = NEGLIGIBLE * 100.0;
    match (fit.growth, fit.power) {
        (GrowthClass::Negligible, _) => {
            format!(
                "This cost is at most {negligible} % of that of 0 {PARAMETER}, which counts as \
                 constant."
            )
        }
        (GrowthClass::Constant, _) => {
            "This cost stays within a factor of two, which counts as constant.".to_owned()
        }
        (GrowthClass::Linear, _) => format!(
            "This cost divided by {PARAMETER} stays within a factor of two, which counts as linear."
        ),
        (GrowthClass::Other, _) => {
            format!(
                "Neither this cost nor this cost divided by {PARAMETER} stays within a factor of \
                 two."
            )
        }
        (GrowthClass::Unclear, Some(_)) => "The interval allows more than one order.".to_owned(),
        (GrowthClass::Unclear, None) => "Only costs above that have a power.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use ktax_model::Region;

    #[test]
    fn a_missing_entry_is_a_difference() {
        let signature = |entries: &[(&str, u64)]| -> Signature {
            entries.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
        };
        let base = signature(&[("calls", 5), ("faults", 400), ("same", 1)]);
        let change = signature(&[("bytes", 9), ("faults", 401), ("same", 1)]);
        assert_eq!(
            differing_entries(&base, &change),
            [
                "calls 5 in base, missing in change",
                "faults 400 in base, 401 in change",
                "bytes missing in base, 9 in change",
            ]
        );
        assert!(differing_entries(&base, &base).is_empty());
    }

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
            numbers: BTreeMap::new(),
        }
    }

    fn rows(cost: fn(f64) -> f64) -> Vec<Growth> {
        let sizes = [0, 16, 64, 256, 1024, 4096, 16384];
        let rows: Vec<Workload> =
            sizes.map(|n| workload(&format!("fork-pages:backing=thp,pages={n},ops=3"), n)).into();
        let cost = |workload: &Workload, by: f64| by * cost(workload.params["pages"] as f64);
        let row_cost = |workload| RowCost {
            workload,
            shown: cost(workload, 1.0),
            layouts: vec![cost(workload, 1.0), cost(workload, 1.01)],
        };
        growth_of_families(
            &rows.iter().map(row_cost).collect::<Vec<RowCost<'_>>>(),
            Some(Side::Base),
        )
    }

    #[test]
    fn a_family_of_rows_says_how_it_grows_and_why_it_says_so() {
        let linear = &rows(|pages| 100_000.0 + 70.0 * pages)[0];
        assert_eq!(
            (linear.family.as_str(), linear.order.as_str(), linear.layouts),
            ("fork-pages:backing=thp", "O(pages)", 2)
        );
        assert!((linear.power.unwrap().exponent - 1.0).abs() < 1e-9, "{linear:?}");
        assert!(linear.because.contains("a factor of two"), "{linear:?}");
        // At most 0.8 % of the base; the power is fitted all the same.
        let small = &rows(|pages| 100_000.0 + pages / 20.0)[0];
        assert_eq!(small.order, "O(1)");
        assert!((small.power.unwrap().exponent - 1.0).abs() < 1e-6, "{small:?}");
        assert!(small.because.contains("at most 5 % of that of 0 pages"), "{small:?}");
        let below = &rows(|pages| 100_000.0 - pages / 20.0)[0];
        assert_eq!((below.order.as_str(), below.power), ("O(1)", None));
    }

    #[test]
    fn without_the_row_of_none_nothing_is_said() {
        let row = workload("fork-pages:pages=16", 16);
        let cost = RowCost { workload: &row, shown: 1.0, layouts: vec![1.0] };
        assert_eq!(growth_of_families(&[cost], None), []);
    }
}
