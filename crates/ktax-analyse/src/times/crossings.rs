//! Where the curves of two Sides cross along a parameter.

use std::collections::BTreeMap;

use ktax_model::{Crossing, Ratio, Row, TimesPlan, Workload, family};

/// All crossings between neighbouring values of the swept parameters.
pub(super) fn crossings(plan: &TimesPlan, rows: &[Row]) -> Vec<Crossing> {
    let mut found = Vec::new();
    for parameter in &plan.swept {
        let mut curves: BTreeMap<String, Vec<(u64, Ratio)>> = BTreeMap::new();
        for (workload, row) in plan.headline.iter().zip(rows) {
            if let Some(point) = point(workload, row, parameter) {
                curves.entry(family(&workload.row, parameter)).or_default().push(point);
            }
        }
        for (family, mut points) in curves {
            points.sort_by_key(|(value, _)| *value);
            let crossed = points.windows(2).filter_map(|pair| crossing(&pair[0], &pair[1]));
            found.extend(crossed.map(|(between, at, ratios)| Crossing {
                family: family.clone(),
                parameter: parameter.clone(),
                between,
                at,
                certain: differs(&ratios.0) && differs(&ratios.1),
                ratios,
            }));
        }
    }
    found
}

fn point(workload: &Workload, row: &Row, parameter: &str) -> Option<(u64, Ratio)> {
    // A point at exactly 1 is on neither side of the crossing, and what has no answer is no point.
    let ratio =
        row.times()?.ratio.filter(|ratio| row.verdict.is_answer() && ratio.estimate != 1.0)?;
    Some((*workload.params.get(parameter)?, ratio))
}

type Between = ((u64, u64), f64, (Ratio, Ratio));

fn crossing(left: &(u64, Ratio), right: &(u64, Ratio)) -> Option<Between> {
    let [from, to] = [left, right].map(|(_, ratio)| ratio.estimate.ln());
    // A parameter may be 0, which has no logarithm.
    let [start, end] = [left, right].map(|(value, _)| (*value as f64).ln_1p());
    if from * to >= 0.0 {
        return None;
    }
    let at = (start + (end - start) * from / (from - to)).exp_m1();
    Some(((left.0, right.0), at, (left.1, right.1)))
}

fn differs(ratio: &Ratio) -> bool {
    ratio.low > 1.0 || ratio.high.is_some_and(|high| high < 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(estimate: f64, half: f64) -> Ratio {
        Ratio { estimate, low: estimate - half, high: Some(estimate + half) }
    }

    #[test]
    fn a_curve_that_goes_through_one_crosses_between() {
        let (between, at, _) =
            crossing(&(99, ratio(0.9, 0.01)), &(399, ratio(1.0 / 0.9, 0.01))).unwrap();
        // Halfway between the logarithms of 100 and 400.
        assert_eq!(between, (99, 399));
        assert!((at - 199.0).abs() < 1e-9, "{at}");
        assert!(crossing(&(1, ratio(1.1, 0.01)), &(2, ratio(1.2, 0.01))).is_none());
        assert!(crossing(&(1, ratio(1.0, 0.01)), &(2, ratio(1.2, 0.01))).is_none());
        assert!(differs(&ratio(1.02, 0.01)) && !differs(&ratio(1.02, 0.03)));
    }
}
