//! Searches for the jumps of a function of `0..=n` with few evaluations. The function's value at a
//! position is the cost with so many elements of a chain (commits, options), and a jump is the cost
//! of the element at the jump.
//!
//! The search bisects the stretch with the largest difference. Both ends of a stretch are known, so
//! the jumps add up to the total even if elements interact.

use std::collections::BTreeMap;

/// State of a search.
#[derive(Debug, Clone, Copy)]
pub struct JumpSearch<'a> {
    /// Value at each evaluated position; `None` if it could not be evaluated. Both ends have
    /// values.
    pub known: &'a BTreeMap<usize, Option<f64>>,
    /// Numbers of elements, from 1, that are likely jumps and are tried first.
    pub likely: &'a [usize],
    /// Largest difference of a stretch that is not searched.
    pub negligible: f64,
}

/// Difference between the values at two positions, without a value in between.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Jump {
    /// Last position before the jump.
    pub last_before: usize,
    /// First position after the jump: `last_before + 1`, or more if positions in between could not
    /// be evaluated.
    pub first_after: usize,
    pub size: f64,
}

impl Jump {
    fn is_larger_than(&self, negligible: f64) -> bool {
        self.size.abs() > negligible
    }
}

impl JumpSearch<'_> {
    /// Position to evaluate next; `None` if all jumps are found.
    pub fn next_position(&self) -> Option<usize> {
        self.jumps().iter().find_map(|stretch| self.position_within(stretch))
    }

    /// Jumps that are larger than negligible, the largest first.
    pub fn jumps(&self) -> Vec<Jump> {
        let mut jumps = self.stretches();
        jumps.retain(|jump| jump.is_larger_than(self.negligible));
        jumps.sort_by(|a, b| b.size.abs().total_cmp(&a.size.abs()));
        jumps
    }

    /// Differences between neighbouring positions with values.
    fn stretches(&self) -> Vec<Jump> {
        let values = self.known.iter().filter_map(|(position, value)| Some((*position, (*value)?)));
        let values: Vec<(usize, f64)> = values.collect();
        let stretch = |pair: &[(usize, f64)]| Jump {
            last_before: pair[0].0,
            first_after: pair[1].0,
            size: pair[1].1 - pair[0].1,
        };
        values.windows(2).map(stretch).collect()
    }

    /// Best position inside a stretch: after a likely element, else the middle. `None` if all
    /// positions inside were evaluated.
    fn position_within(&self, stretch: &Jump) -> Option<usize> {
        let (before, after) = (stretch.last_before, stretch.first_after);
        let free = || (before + 1..after).filter(|position| !self.known.contains_key(position));
        let nearest = |wanted: usize| free().min_by_key(|position| position.abs_diff(wanted));
        let likely = free().filter(|position| self.likely.contains(position));
        // If a position could not be evaluated, its neighbours probably cannot either, so try
        // positions far from it.
        let skipped =
            (before + 1..after).filter(|position| matches!(self.known.get(position), Some(None)));
        let middle = before + ((after - before) as f64 * fraction(skipped.count())) as usize;
        match likely.min_by_key(|position| position.abs_diff(middle)) {
            Some(position) => Some(position),
            // The position before a likely element at the end of the stretch confirms the element.
            None if self.likely.contains(&after) => nearest(after - 1),
            None => nearest(middle),
        }
    }
}

/// Element of the van der Corput sequence 1/2, 1/4, 3/4, 1/8, 5/8, …, in which each element is far
/// from all previous ones. The first element has number 0.
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

    /// Runs a search to its end, and returns the number of evaluations and the jumps.
    fn search(values: &[Option<f64>], likely: &[usize], negligible: f64) -> (usize, Vec<Jump>) {
        let last = values.len() - 1;
        let mut known = BTreeMap::from([(0, values[0]), (last, values[last])]);
        while let Some(next) = (JumpSearch { known: &known, likely, negligible }).next_position() {
            assert!(known.insert(next, values[next]).is_none(), "{next} twice");
        }
        let jumps = JumpSearch { known: &known, likely, negligible }.jumps();
        (known.len() - 2, jumps)
    }

    fn steps(n: usize, jumps: &[(usize, f64)]) -> Vec<Option<f64>> {
        let value =
            |end| jumps.iter().filter(|(place, _)| *place <= end).map(|(_, size)| size).sum();
        (0..=n).map(|place| Some(value(place))).collect()
    }

    #[test]
    fn a_likely_jump_takes_fewer_evaluations() {
        for place in 1..=16 {
            let values = steps(16, &[(place, 7.0)]);
            let found = vec![Jump { last_before: place - 1, first_after: place, size: 7.0 }];
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
    fn two_jumps_among_forty_take_at_most_twelve_evaluations() {
        for first in 1..=40 {
            for second in first + 1..=40 {
                let values = steps(40, &[(first, 10.0), (second, 3.0)]);
                let (evaluations, jumps) = search(&values, &[], 0.13);
                let places: Vec<usize> = jumps.iter().map(|jump| jump.first_after).collect();
                assert_eq!(places, [first, second]);
                assert!(evaluations <= 12, "{first} {second}: {evaluations}");
            }
        }
    }

    #[test]
    fn positions_without_a_value_are_skipped() {
        let mut values = steps(16, &[(9, 1.0)]);
        values[8] = None;
        values[12] = None;
        let (_, jumps) = search(&values, &[], 0.1);
        // The jump spans both elements around the missing value.
        assert_eq!(jumps, [Jump { last_before: 7, first_after: 9, size: 1.0 }]);
        values[8] = Some(0.0);
        assert_eq!(
            search(&values, &[], 0.1).1,
            [Jump { last_before: 8, first_after: 9, size: 1.0 }]
        );
    }

    #[test]
    fn a_stretch_without_values_costs_few_evaluations() {
        let mut values = steps(1000, &[(900, 1.0)]);
        values[400..600].fill(None);
        let (evaluations, jumps) = search(&values, &[], 0.1);
        assert_eq!(jumps, [Jump { last_before: 899, first_after: 900, size: 1.0 }]);
        assert!(evaluations <= 14, "{evaluations}");
    }

    proptest! {
        /// For any function, the found jumps are jumps of the function and add up to the total.
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
                let Jump { last_before, first_after, size } = jump;
                prop_assert!(values[last_before + 1..first_after].iter().all(Option::is_none));
                let actual: f64 = sizes[last_before..first_after].iter().sum();
                prop_assert!((actual - size).abs() < 1e-9);
            }
        }
    }
}
