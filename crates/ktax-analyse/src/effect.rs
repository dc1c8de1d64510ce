//! Effects of rows: the difference of one Metric between the Sides over Layouts, differences of
//! their work signatures, and the growth of costs with the number of pages.

use ktax_model::{
    Effect, Failure, Growth, GrowthPower, Side, Sides, Signature, Verdict, Workload, family,
};
use ktax_stats::exact::{Decision, judge};
use ktax_stats::growth::{Curve, Fit, GrowthClass, NEGLIGIBLE, fit};
use ktax_stats::tables::checked_percent_change;

/// Values of one Metric by Layout; the two values of a pair have the same index.
pub(super) struct EffectValues<'a> {
    pub metric: &'a str,
    /// Raw counts.
    pub samples: Sides<Vec<u64>>,
    /// Layout of each pair.
    pub layouts: Vec<usize>,
    /// Operations that a raw count covers.
    pub ops: u64,
}

/// Judges one Metric; `None` without pairs. `relevant` returns the threshold in raw counts for the
/// pair with the median delta.
///
/// The rule gets raw counts, because division could make equal deltas differ; stored values are per
/// operation. Base, change and delta are from the one Layout with the median delta, so that they
/// and the functions of that Layout add up. Separate medians of the two Sides would not.
pub(super) fn effect(values: EffectValues<'_>, relevant: impl Fn(usize) -> f64) -> Option<Effect> {
    let EffectValues { metric, samples, layouts, ops } = values;
    let judged = judge(&floats(&samples.base), &floats(&samples.change), relevant)?;
    let per_op = |value: f64| value / ops as f64;
    let base = samples.base[judged.median] as f64;
    let change = samples.change[judged.median] as f64;
    Some(Effect {
        metric: metric.to_owned(),
        base: per_op(base),
        change: per_op(change),
        delta: per_op(change - base),
        percent: checked_percent_change(base, change),
        layout: layouts[judged.median],
        delta_range: (per_op(judged.smallest_delta), per_op(judged.largest_delta)),
        spread: per_op(judged.noise),
        detectable: judged.detectable().map(per_op),
        samples,
        verdict: verdict_of_decision(judged.decision),
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

/// Differences between the work signatures of all Layouts, such as `faults 400 in base, 401 in
/// change`, each once. There is no tolerance: every differing entry is listed.
pub(super) fn signature_differences<'a>(
    pairs: impl Iterator<Item = [&'a Signature; 2]>,
) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for [base, change] in pairs {
        for text in differing_entries(base, change, "change") {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
    }
    texts
}

/// Differences between two work signatures, the entries of the first before the additional ones of
/// the second. `second_name` names the second in the text.
pub(super) fn differing_entries<'a>(
    base: &'a Signature,
    second: &'a Signature,
    second_name: &'a str,
) -> impl Iterator<Item = String> + 'a {
    let additional = second.keys().filter(move |name| !base.contains_key(*name));
    let text = |value: Option<&u64>| value.map_or("missing".to_owned(), u64::to_string);
    base.keys()
        .chain(additional)
        .map(move |name| (name, base.get(name), second.get(name)))
        .filter(|(_, base, second)| base != second)
        .map(move |(name, base, second)| {
            format!("{name} {} in base, {} in {second_name}", text(base), text(second))
        })
}

/// Failure of a Sample whose number of operations is not the planned one.
pub(super) fn wrong_ops(measured: u64, planned: u64) -> Failure {
    Failure::WrongWork { deviations: format!("operations {measured}, expected {planned}") }
}

/// Parameter of the rows over which growth is fitted.
const PARAMETER: &str = "pages";

/// Cost of one operation of a row.
pub(super) struct RowCost<'a> {
    pub workload: &'a Workload,
    /// Cost in the Layout that is shown.
    pub shown: f64,
    /// Cost under each Layout; empty for native runs, which have no Layouts.
    pub layouts: Vec<f64>,
}

/// Growth of each family: rows that differ only in [`PARAMETER`], one of them with 0. A
/// family with too few rows or too narrow a span is left out.
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
    let layout_curve = |layout: usize| curve(rows, |cost| cost.layouts[layout]);
    let fit = fit(&shown, &(0..layouts).map(layout_curve).collect::<Option<Vec<Curve>>>()?)?;
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
        because: class_reason(&fit),
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

/// Sentence why a fit has its growth class.
fn class_reason(fit: &Fit) -> String {
    let negligible = NEGLIGIBLE * 100.0;
    match (fit.growth, fit.power) {
        (GrowthClass::Negligible, _) => {
            format!(
                "The added cost is at most {negligible} % of the cost at 0 {PARAMETER}, so it \
                 counts as constant."
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
        (GrowthClass::Unclear, None) => {
            format!("A power is fitted only to costs above that of 0 {PARAMETER}.")
        }
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
            differing_entries(&base, &change, "change").collect::<Vec<_>>(),
            [
                "calls 5 in base, missing in change",
                "faults 400 in base, 401 in change",
                "bytes missing in base, 9 in change",
            ]
        );
        assert_eq!(differing_entries(&base, &base, "change").next(), None);
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
        let cost =
            |workload: &Workload, factor: f64| factor * cost(workload.params["pages"] as f64);
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
    fn growth_of_a_family_has_an_order_a_power_and_a_reason() {
        let linear = &rows(|pages| 100_000.0 + 70.0 * pages)[0];
        assert_eq!(
            (linear.family.as_str(), linear.order.as_str(), linear.layouts),
            ("fork-pages:backing=thp", "O(pages)", 2)
        );
        assert!((linear.power.unwrap().exponent - 1.0).abs() < 1e-9, "{linear:?}");
        assert!(linear.because.contains("a factor of two"), "{linear:?}");
        // The growth is at most 0.8 % of the base; the power is fitted nevertheless.
        let small = &rows(|pages| 100_000.0 + pages / 20.0)[0];
        assert_eq!(small.order, "O(1)");
        assert!((small.power.unwrap().exponent - 1.0).abs() < 1e-6, "{small:?}");
        assert!(small.because.contains("at most 5 % of the cost at 0 pages"), "{small:?}");
        let below = &rows(|pages| 100_000.0 - pages / 20.0)[0];
        assert_eq!((below.order.as_str(), below.power), ("O(1)", None));
    }

    #[test]
    fn a_family_without_a_row_of_size_0_has_no_growth() {
        let row = workload("fork-pages:pages=16", 16);
        let cost = RowCost { workload: &row, shown: 1.0, layouts: vec![1.0] };
        assert_eq!(growth_of_families(&[cost], None), []);
    }
}
