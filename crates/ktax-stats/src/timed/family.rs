//! Multiple tests: p-values, adjusted so that each can be compared with the level of all.
//!
//! [`holm`] (Scandinavian Journal of Statistics 6, 1979) keeps the probability of one or more false
//! findings below the level, however the tests depend on each other. It is for headline rows.
//! [`benjamini_hochberg`] (JRSS B 57, 1995) keeps the share of false findings among all findings
//! below the level, if tests are independent or positively dependent. It is for secondary rows.

/// Adjusted p-values, in the order given.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut adjusted = vec![0.0; p.len()];
    let mut largest: f64 = 0.0;
    for (place, index) in ascending(p).into_iter().enumerate() {
        largest = largest.max(p[index] * (p.len() - place) as f64).min(1.0);
        adjusted[index] = largest;
    }
    adjusted
}

/// Adjusted p-values, in the order given.
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let mut adjusted = vec![0.0; p.len()];
    let mut least: f64 = 1.0;
    for (place, index) in ascending(p).into_iter().enumerate().rev() {
        least = least.min(p[index] * p.len() as f64 / (place + 1) as f64);
        adjusted[index] = least;
    }
    adjusted
}

fn ascending(p: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|one, other| p[*one].total_cmp(&p[*other]));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: [f64; 7] = [0.01, 0.04, 0.03, 0.005, 0.55, 0.04, 0.2];

    fn are_near(some: &[f64], others: &[f64]) -> bool {
        some.len() == others.len()
            && some.iter().zip(others).all(|(one, other)| (one - other).abs() < 1e-12)
    }

    #[test]
    fn adjusted_p_values_are_those_of_statsmodels_and_scipy() {
        // tests/statistics/reference.py: multipletests and false_discovery_control.
        assert!(are_near(&holm(&P), &[0.06, 0.16, 0.15, 0.035, 0.55, 0.16, 0.4]));
        let wanted = [0.035, 0.056, 0.056, 0.035, 0.55, 0.056, 0.23333333333333336];
        assert!(are_near(&benjamini_hochberg(&P), &wanted));
    }

    #[test]
    fn a_family_of_one_and_of_none() {
        assert_eq!((holm(&[0.03]), benjamini_hochberg(&[0.03])), (vec![0.03], vec![0.03]));
        assert!(holm(&[]).is_empty() && benjamini_hochberg(&[]).is_empty());
        assert_eq!(holm(&[1.0, 0.9]), [1.0, 1.0]);
    }
}
