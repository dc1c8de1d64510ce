use ktax_model::fact::PARTS;
use ktax_model::{Side, TimedBoot, TimedPair};

/// All Boots in the order in which they were made, with the pair and the Side that they are of: an
/// A/A pair's are both of the base. Boots of which nothing is known are left out.
pub fn boots(pairs: &[TimedPair]) -> impl Iterator<Item = (&TimedPair, Side, &TimedBoot)> {
    let both = pairs.iter().flat_map(|pair| {
        let change = if pair.is_control { Side::Base } else { Side::Change };
        let mut both = [(pair, Side::Base, &pair.boots.base), (pair, change, &pair.boots.change)];
        if pair.change_first {
            both.reverse();
        }
        both
    });
    both.filter(|(_, _, boot)| !boot.facts.is_empty())
}

/// Of two values the parts that the other has not; an empty one is nothing.
pub fn only_what_differs(one: &str, other: &str) -> [String; 2] {
    let without = |one: &str, other: &str| {
        let parts = one.split(PARTS).filter(|part| !other.split(PARTS).any(|o| o == *part));
        parts.collect::<Vec<_>>().join(PARTS)
    };
    match [without(one, other), without(other, one)] {
        // The same parts in another order.
        [a, b] if a.is_empty() && b.is_empty() => [one.to_owned(), other.to_owned()],
        different => different,
    }
}
