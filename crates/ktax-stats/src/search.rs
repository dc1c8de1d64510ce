//! Searches for the jumps of a function of a whole number with few evaluations: the value at
//! `0..=n` is the cost after that many elements of a chain (commits, options), and an element costs
//! its jump.
//!
//! Plain bisection of the stretch that hides most. The two ends of each stretch are known, so the
//! jumps add up to the total even if elements interact.

use std::collections::BTreeMap;

/// State of a search.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// Value at each evaluated place; `None` if it has none. Both ends have one.
    pub known: &'a BTreeMap<usize, Option<f64>>,
    /// Elements, from 1, that are likely jumps and tried first.
    pub likely: &'a [usize],
    /// Largest difference in a stretch that is not looked into.
    pub negligible: f64,
}

/// One jump: from the value at `after` to that at `at`, without a value in between.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Jump {
    /// Last place before it.
    pub after: usize,
    /// First place behind it: `after + 1`, or more if there is no value in between.
    pub at: usize,
    pub size: f64,
}

impl Jump {
    fn is_more_than(&self, negligible: f64) -> bool {
        self.size.abs() > negligible
    }
}

impl Known<'_> {
    /// Place to evaluate next; `None` if all jumps are found.
    pub fn next(&self) -> Option<usize> {
        self.jumps().iter().find_map(|stretch| self.within(stretch))
    }

    /// Jumps that are more than negligible, the highest first.
    pub fn jumps(&self) -> Vec<Jump> {
        let mut jumps = self.stretches();
        jumps.retain(|jump| jump.is_more_than(self.negligible));
        jumps.sort_by(|a, b| b.size.abs().total_cmp(&a.size.abs()));
        jumps
    }

    /// Differences between neighbouring places that have a value.
    fn stretches(&self) -> Vec<Jump> {
        let values = self.known.iter().filter_map(|(place, value)| Some((*place, (*value)?)));
        let values: Vec<(usize, f64)> = values.collect();
        let stretch = |pair: &[(usize, f64)]| Jump {
            after: pair[0].0,
            at: pair[1].0,
            size: pair[1].1 - pair[0].1,
        };
        values.windows(2).map(stretch).collect()
    }

    /// Best place inside a stretch: behind a likely element, else the middle.
    fn within(&self, stretch: &Jump) -> Option<usize> {
        let (after, at) = (stretch.after, stretch.at);
        let free = || (after + 1..at).filter(|place| !self.known.contains_key(place));
        let nearest = |wanted: usize| free().min_by_key(|place| place.abs_diff(wanted));
        let likely = free().filter(|place| self.likely.contains(place));
        // Others around a place without a value may have none either, so go away from it.
        let skipped = (after + 1..at).filter(|place| matches!(self.known.get(place), Some(None)));
        let middle = after + ((at - after) as f64 * fraction(skipped.count())) as usize;
        match likely.min_by_key(|place| place.abs_diff(middle)) {
            Some(place) => Some(place),
            // A likely element at the end of the stretch is confirmed by the place before it.
            None if self.likely.contains(&at) => nearest(at - 1),
            None => nearest(middle),
        }
    }
}

/// 1/2, 1/4, 3/4, 1/8, 5/8, …: each as far from those before as possible (van der Corput).
fn fraction(number: usize) -> f64 {
    let (mut rest, mut unit, mut sum) = (number + 1, 0.5, 0.0);
    while rest > 0 {
        sum += unit * (rest % 2) as f64;
        rest /= 2;
        unit /= 2.0;
    }
    sum
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Evaluates until nothing is left; returns the number of evaluations, and the jumps.
    fn search(values: &[Option<f64>], likely: &[usize], negligible: f64) -> (usize, Vec<Jump>) {
        let last = values.len() - 1;
        let mut known = BTreeMap::from([(0, values[0]), (last, values[last])]);
        while let Some(next) = (Known { known: &known, likely, negligible }).next() {
            assert!(known.insert(next, values[next]).is_none(), "{next} twice");
        }
        let jumps = Known { known: &known, likely, negligible }.jumps();
        (known.len() - 2, jumps)
    }

    fn steps(n: usize, jumps: &[(usize, f64)]) -> Vec<Option<f64>> {
        let value =
            |end| jumps.iter().filter(|(place, _)| *place <= end).map(|(_, size)| size).sum();
        (0..=n).map(|place| Some(value(place))).collect()
    }

    #[test]
    fn one_jump_among_sixteen_takes_four_evaluations_and_a_likely_one_two() {
        for place in 1..=16 {
            let values = steps(16, &[(place, 7.0)]);
            let found = vec![Jump { after: place - 1, at: place, size: 7.0 }];
            assert_eq!(search(&values, &[], 0.1), (4, found.clone()));
            let (evaluations, jumps) = search(&values, &[place], 0.1);
            assert!(evaluations <= 2 && jumps == found, "{evaluations} {jumps:?}");
            let decoy = 1 + place % 16;
            let (evaluations, jumps) = search(&values, &[place, decoy], 0.1);
            assert!(evaluations <= 3 && jumps == found, "{evaluations} {jumps:?}");
            let wrong = 1 + place % 16;
            let (evaluations, jumps) = search(&values, &[wrong], 0.1);
            assert!(evaluations <= 6 && jumps == found, "{evaluations} {jumps:?}");
        }
    }

    #[test]
    fn two_among_forty_are_both_found_in_twelve_evaluations_at_most() {
        for first in 1..=40 {
            for second in first + 1..=40 {
                let values = steps(40, &[(first, 10.0), (second, 3.0)]);
                let (evaluations, jumps) = search(&values, &[], 0.13);
                let places: Vec<usize> = jumps.iter().map(|jump| jump.at).collect();
                assert_eq!(places, [first, second]);
                assert!(evaluations <= 12, "{first} {second}: {evaluations}");
            }
        }
    }

    #[test]
    fn what_has_no_value_is_passed_by_and_not_blamed() {
        let mut values = steps(16, &[(9, 1.0)]);
        values[8] = None;
        values[12] = None;
        let (_, jumps) = search(&values, &[], 0.1);
        // Two elements that cannot be told apart are both named.
        assert_eq!(jumps, [Jump { after: 7, at: 9, size: 1.0 }]);
        values[8] = Some(0.0);
        assert_eq!(search(&values, &[], 0.1).1, [Jump { after: 8, at: 9, size: 1.0 }]);
    }

    #[test]
    fn a_stretch_of_places_without_a_value_is_left_quickly() {
        let mut values = steps(1000, &[(900, 1.0)]);
        values[400..600].fill(None);
        let (evaluations, jumps) = search(&values, &[], 0.1);
        assert_eq!(jumps, [Jump { after: 899, at: 900, size: 1.0 }]);
        assert!(evaluations <= 14, "{evaluations}");
    }

    proptest! {
        /// For any function: found jumps are real, and the ends tell the rest.
        #[test]
        fn jumps_are_those_of_the_function(
            sizes in vec(prop_oneof![3 => Just(0.0), 1 => 1.0..9.0f64], 1..60),
            broken in vec(0usize..60, 0..5),
            likely in vec(0usize..60, 0..3),
        ) {
            let jumps: Vec<_> = sizes.iter().enumerate().map(|(i, size)| (i + 1, *size)).collect();
            let mut values = steps(sizes.len(), &jumps);
            for place in broken.into_iter().filter(|place| (1..sizes.len()).contains(place)) {
                values[place] = None;
            }
            let (_, found) = search(&values, &likely, 0.5);
            let total: f64 = found.iter().map(|jump| jump.size).sum();
            prop_assert!((total - sizes.iter().sum::<f64>()).abs() < 1e-9);
            for jump in found {
                prop_assert!(values[jump.after + 1..jump.at].iter().all(Option::is_none));
                let real: f64 = sizes[jump.after..jump.at].iter().sum();
                prop_assert!((real - jump.size).abs() < 1e-9);
            }
        }
    }
}
