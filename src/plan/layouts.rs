use crate::model::{Layout, Side};

/// The longest delay before a Region, in loop iterations of two instructions: 10 ms of virtual
/// time, the longest period of a timer tick (HZ=100).
const LONGEST_PHASE: u64 = 5_000_000;

/// The longest padding of the boot line, in characters.
const LONGEST_PADDING: u64 = 64;

/// Draws Layouts, and for each the Side that boots first.
pub fn draw(seed: u64, count: u32) -> (Vec<Layout>, Vec<Side>) {
    let mut state = seed;
    (0..count)
        .map(|_| {
            let layout = Layout {
                seed: u32::try_from(splitmix64(&mut state) >> 33).expect("31 bits fit"),
                padding: u32::try_from(splitmix64(&mut state) % LONGEST_PADDING)
                    .expect("6 bits fit"),
                phase: splitmix64(&mut state) % LONGEST_PHASE,
            };
            let first = Side::BOTH[(splitmix64(&mut state) >> 63) as usize];
            (layout, first)
        })
        .unzip()
}

/// Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators (2014).
fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_splitmix64() {
        let mut state = 1_234_567;
        // From the reference implementation's published test vector.
        assert_eq!(splitmix64(&mut state), 6_457_827_717_110_365_317);
        assert_eq!(splitmix64(&mut state), 3_203_168_211_198_807_973);
    }

    #[test]
    fn fewer_layouts_are_a_prefix_of_more() {
        let (three, _) = draw(1, 3);
        let (nine, _) = draw(1, 9);
        assert_eq!(three, nine[..3]);
        assert_ne!(draw(2, 3).0, three);
    }

    #[test]
    fn all_three_perturbations_vary() {
        let (layouts, firsts) = draw(1, 5);
        for pair in layouts.windows(2) {
            assert_ne!(pair[0].seed, pair[1].seed);
            assert_ne!(pair[0].padding, pair[1].padding);
            assert_ne!(pair[0].phase, pair[1].phase);
        }
        assert!(firsts.contains(&Side::Base) && firsts.contains(&Side::Change));
    }
}
