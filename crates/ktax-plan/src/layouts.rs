use super::bounds::LAYOUTS;
use super::error::Error;
use super::keys::with_flag;
use ktax_model::{Layout, Side, Step};
use ktax_stats::random::Random;

/// Longest delay before a Region, in loop iterations of two instructions: 10 ms of virtual time,
/// the longest period of a timer tick (HZ=100).
const LONGEST_PHASE: u64 = 5_000_000;

/// The longest padding of the boot line, in characters.
const LONGEST_PADDING: u64 = 64;

/// Default number of Layouts per Side.
pub const DEFAULT_LAYOUTS: u32 = 5;

/// Refuses a number of Layouts that ktax does not plan.
pub fn check_layouts(layouts: u32) -> Result<(), Error> {
    match LAYOUTS.contains(&layouts) {
        true => Ok(()),
        false => {
            let (key, least, most) = (with_flag("layouts"), LAYOUTS.start(), LAYOUTS.end());
            Err(Error::user(format!("{key} must be {least} to {most}, not {layouts}"))
                .next("remove it to use the default of 5"))
        }
    }
}

/// Draws Layouts, and the Steps in their order: two adjacent ones for each Layout, the first Side
/// of which is random.
pub fn draw_steps(seed: u64, count: u32) -> (Vec<Layout>, Vec<Step>) {
    let (layouts, firsts) = draw_layouts(seed, count);
    let pairs = firsts.iter().enumerate().flat_map(|(layout, first)| match first {
        Side::Base => [(layout, Side::Base), (layout, Side::Change)],
        Side::Change => [(layout, Side::Change), (layout, Side::Base)],
    });
    let steps = (0..).zip(pairs).map(|(index, (layout, side))| Step { index, side, layout });
    (layouts, steps.collect())
}

/// Draws `count` Layouts from this seed.
pub fn layouts_of(seed: u64, count: u32) -> Vec<Layout> {
    draw_layouts(seed, count).0
}

/// The Steps of `count` Layouts that were drawn from this seed.
pub fn steps_of(seed: u64, count: u32) -> Vec<Step> {
    draw_steps(seed, count).1
}

/// Draws Layouts, and for each the Side that boots first.
fn draw_layouts(seed: u64, count: u32) -> (Vec<Layout>, Vec<Side>) {
    let mut random = Random::new(seed);
    (0..count)
        .map(|_| {
            let layout = Layout {
                seed: u32::try_from(random.bits() >> 33).expect("31 bits fit"),
                padding: u32::try_from(random.below(LONGEST_PADDING)).expect("6 bits fit"),
                phase: random.below(LONGEST_PHASE),
            };
            let first = Side::BOTH[usize::from(random.coin())];
            (layout, first)
        })
        .unzip()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_layouts_are_a_prefix_of_more() {
        let (three, _) = draw_layouts(1, 3);
        let (nine, _) = draw_layouts(1, 9);
        assert_eq!(three, nine[..3]);
        assert_ne!(draw_layouts(2, 3).0, three);
    }

    #[test]
    fn all_three_perturbations_vary() {
        let (layouts, firsts) = draw_layouts(1, 5);
        for pair in layouts.windows(2) {
            assert_ne!(pair[0].seed, pair[1].seed);
            assert_ne!(pair[0].padding, pair[1].padding);
            assert_ne!(pair[0].phase, pair[1].phase);
        }
        assert!(firsts.contains(&Side::Base) && firsts.contains(&Side::Change));
    }
}
