//! The order of a run: pairs of base and change and A/A pairs, and which of the two runs first.
//!
//! A slow drift, or a second Boot that is always faster than the first, must not look like an
//! effect. So the order within each pair is random. A/A pairs run the base on both sides, one of
//! them in the change's place, in random order too.

use std::collections::VecDeque;

use crate::random::Random;

use super::trial::{MIN_CONTROLS, MIN_PAIRS};

/// After the pilot, one of this many pairs is an A/A pair.
const CONTROL_EVERY: usize = 6;

/// One pair of the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Whether this is an A/A pair: base against base, one of them in the change's place.
    pub is_control: bool,
    /// Whether the change, or the base in its place, runs first.
    pub change_first: bool,
}

/// The pairs of a run, an endless iterator. Equal seeds give equal orders, so a run can be resumed.
///
/// The first [`MIN_PAIRS`] + [`MIN_CONTROLS`] pairs are the pilot. Then one of each six is an A/A
/// pair, at a random place.
#[derive(Debug, Clone)]
pub struct Order {
    random: Random,
    block: VecDeque<Slot>,
    is_past_pilot: bool,
}

impl Order {
    /// The order of this seed.
    pub fn new(seed: u64) -> Order {
        Order { random: Random::new(seed), block: VecDeque::new(), is_past_pilot: false }
    }

    fn draw_block(&mut self) {
        let (pairs, controls) =
            if self.is_past_pilot { (CONTROL_EVERY - 1, 1) } else { (MIN_PAIRS, MIN_CONTROLS) };
        self.is_past_pilot = true;
        let mut kinds = vec![false; pairs];
        kinds.resize(pairs + controls, true);
        // Fisher-Yates shuffle.
        for last in (1..kinds.len()).rev() {
            kinds.swap(last, self.random.below(last as u64 + 1) as usize);
        }
        for is_control in kinds {
            self.block.push_back(Slot { is_control, change_first: self.random.coin() });
        }
    }
}

impl Iterator for Order {
    type Item = Slot;

    fn next(&mut self) -> Option<Slot> {
        if self.block.is_empty() {
            self.draw_block();
        }
        self.block.pop_front()
    }
}

/// Most pairs of either kind that are drawn until `pairs` of them are no A/A pairs.
pub fn drawn_for(pairs: usize) -> usize {
    let after_pilot = pairs.saturating_sub(MIN_PAIRS);
    pairs + MIN_CONTROLS + after_pilot.div_ceil(CONTROL_EVERY - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_pairs_are_drawn_than_is_said() {
        for (seed, pairs) in
            (1..20).flat_map(|seed| [1, 10, 12, 50, 200].map(|pairs| (seed, pairs)))
        {
            let mut found = 0;
            let drawn = Order::new(seed).take_while(|slot| {
                let goes_on = found < pairs;
                found += usize::from(!slot.is_control);
                goes_on
            });
            let (drawn, most) = (drawn.count(), drawn_for(pairs));
            assert!(drawn <= most && most <= drawn + MIN_CONTROLS + 1, "{pairs}: {drawn}, {most}");
        }
    }

    #[test]
    fn a_pilot_then_one_control_in_six() {
        let order: Vec<Slot> = Order::new(3).take(18 + 600).collect();
        let controls = |slots: &[Slot]| slots.iter().filter(|slot| slot.is_control).count();
        assert_eq!(controls(&order[..18]), 8);
        assert!(order[18..].chunks(6).all(|block| controls(block) == 1));
        // Which one is first is random: 255 of 510 and 54 of 108 are expected, ± six deviations.
        for (is_control, least, most) in [(false, 190, 320), (true, 25, 85)] {
            let slots = order.iter().filter(|slot| slot.is_control == is_control);
            let first = slots.filter(|slot| slot.change_first).count();
            assert!((least..most).contains(&first), "{first}");
        }
        // The place of the control in its block is random, too.
        let place = |block: &[Slot]| block.iter().position(|slot| slot.is_control);
        let places: std::collections::HashSet<_> = order[18..].chunks(6).map(place).collect();
        assert_eq!(places.len(), 6);
    }

    #[test]
    fn equal_seeds_give_equal_orders() {
        let slots = |seed| Order::new(seed).take(50).collect::<Vec<_>>();
        assert_eq!(slots(1), slots(1));
        assert_ne!(slots(1), slots(2));
    }
}
