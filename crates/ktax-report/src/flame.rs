//! Data of a flame graph: each function below its caller, as wide as the larger side.

use crate::carried::CountKind;
use crate::number;
use crate::view::{Flame, FlameBar};
use ktax_model::{Effect, PathDelta, Row, Sides, callers, kept, own};
use ktax_stats::tables::share_percent;

/// Name of the bar above all paths.
const ALL: &str = "all";

/// Width on both sides, in percent of the row, below which a bar is not drawn, nor anything below
/// it.
const NARROW_PERCENT: u64 = 1;
/// Share of the largest delta, in percent, from which a narrow bar is drawn all the same, if its
/// delta exceeds the spread of the layouts.
const MOVED_PERCENT: f64 = 10.0;

/// Flame graph of a row's Effect; `None` without paths.
pub fn row_flame(row: &Row, effect: &Effect) -> Option<Flame> {
    let by = CountKind::from_effect(effect);
    let whole = effect.counts()?;
    (!effect.paths.is_empty()).then(|| {
        path_flame(&effect.paths, whole, PathScale { by, ops: row.ops, spread: effect.spread })
    })?
}

/// Scale of the numbers of paths.
#[derive(Debug, Clone, Copy)]
pub struct PathScale {
    /// Kind of count.
    pub by: CountKind,
    /// Operations in the Region.
    pub ops: u64,
    /// Spread over the layouts, per operation.
    pub spread: f64,
}

impl PathScale {
    fn per_op(self, count: u64) -> f64 {
        number::per_op(count, self.ops)
    }

    fn delta(self, counts: &Sides<u64>) -> f64 {
        self.per_op(counts.change) - self.per_op(counts.base)
    }

    /// Formats counts: `+40.00 (12.00 → 52.00)`.
    pub fn numbers(self, counts: &Sides<u64>) -> String {
        format!("{} ({})", number::delta(self.delta(counts)), self.both(counts))
    }

    fn both(self, counts: &Sides<u64>) -> String {
        let [base, change] =
            [counts.base, counts.change].map(|count| number::count(self.per_op(count)));
        format!("{base} → {change}")
    }
}

/// Flame graph of these paths below one that is the whole: those that are wide enough to be seen,
/// or that moved much. `None` if only the whole remains.
pub fn path_flame(paths: &[PathDelta], whole: Sides<u64>, scale: PathScale) -> Option<Flame> {
    let all = below_all(paths, whole);
    let kept = drawn_paths(&all, scale);
    let own = own_counts(&all, scale.by);
    let own: Vec<Sides<u64>> = kept.iter().map(|index| own[*index].clone()).collect();
    let paths: Vec<PathDelta> = kept.iter().map(|index| all[*index].clone()).collect();
    // Paths that are not drawn leave their room to the caller.
    let places = places(&callers(&paths), &wider_side(&own_counts(&paths, scale.by)));
    let most = own.iter().map(|own| scale.delta(own).abs()).fold(0.0, f64::max);
    let bar = |index: usize| {
        let (path, place, delta) = (&paths[index], &places[index], scale.delta(&own[index]));
        let counts = scale.by.path_counts(path)?;
        let place_percent = |count: u64| percent(count, place.room).min(100.0);
        // A change within the spread of the layouts says nothing.
        let moved = if delta.abs() <= scale.spread { 0.0 } else { delta / most };
        Some(FlameBar {
            name: path.function.clone(),
            depth: path.depth as usize,
            from: percent(place.from, places[0].room),
            width: percent(place.room, places[0].room),
            sides: Sides { base: place_percent(counts.base), change: place_percent(counts.change) },
            moved,
            numbers: bar_numbers(path, counts, scale),
            own: (moved != 0.0).then(|| scale.numbers(&own[index])),
        })
    };
    let bars: Vec<FlameBar> = (0..paths.len()).filter_map(bar).collect();
    (bars.len() > 1).then_some(Flame { unit: scale.by.unit(), bars })
}

fn percent(part: u64, whole: u64) -> f64 {
    share_percent(part as f64, whole.max(1) as f64)
}

/// Puts all paths below one that is the whole.
fn below_all(paths: &[PathDelta], whole: Sides<u64>) -> Vec<PathDelta> {
    let root = PathDelta {
        depth: 0,
        function: ALL.to_owned(),
        calls: Sides { base: 0, change: 0 },
        instructions: whole.clone(),
        rep_iterations: whole.clone(),
        costly: Default::default(),
        wait: whole,
        idle: Sides::default(),
    };
    let below =
        |path: &PathDelta| PathDelta { depth: path.depth.saturating_add(1), ..path.clone() };
    [root].into_iter().chain(paths.iter().map(below)).collect()
}

/// Returns the indexes of the paths that have a bar: those that can be seen, and those that say why
/// the row moved.
fn drawn_paths(all: &[PathDelta], scale: PathScale) -> Vec<usize> {
    let counts_of = |path: &PathDelta| scale.by.path_counts(path).cloned();
    let widest = |counts: &Sides<u64>| counts.base.max(counts.change);
    let least = all.first().and_then(counts_of).map_or(0, |counts| widest(&counts));
    let least = least.saturating_mul(NARROW_PERCENT);
    let delta = |counts: &Sides<u64>| scale.delta(counts).abs();
    let most = all.iter().filter_map(counts_of).map(|counts| delta(&counts)).fold(0.0, f64::max);
    let is_drawn = |counts: &Sides<u64>| {
        let has_moved =
            delta(counts) > scale.spread && delta(counts) * 100.0 >= most * MOVED_PERCENT;
        widest(counts).saturating_mul(100) >= least || has_moved
    };
    kept(all, |path| counts_of(path).is_some_and(|counts| is_drawn(&counts)))
}

/// Returns the counts of each path without those of the list that it calls.
fn own_counts(paths: &[PathDelta], by: CountKind) -> Vec<Sides<u64>> {
    own(paths).iter().map(|own| by.own_counts(own).clone()).collect()
}

/// Place of a path: where it begins and how wide it is, in counts.
struct Room {
    from: u64,
    room: u64,
}

/// Returns the larger count of the two sides.
fn wider_side(own: &[Sides<u64>]) -> Vec<u64> {
    own.iter().map(|own| own.base.max(own.change)).collect()
}

/// Lays out paths: beside its own count each has room for all that it calls. Paths of one side
/// alone hide nothing of the other.
fn places(callers: &[Option<usize>], own: &[u64]) -> Vec<Room> {
    let mut rooms = own.to_vec();
    // Backwards, so that each sum is complete before its caller gets it.
    for (index, caller) in callers.iter().enumerate().rev() {
        if let Some(caller) = caller {
            rooms[*caller] = rooms[*caller].saturating_add(rooms[index]);
        }
    }
    let mut next: Vec<u64> = vec![0; rooms.len()];
    let mut places = Vec::with_capacity(rooms.len());
    for (index, room) in rooms.iter().enumerate() {
        let from = callers[index].map_or(0, |caller| next[caller]);
        next[index] = from;
        if let Some(caller) = callers[index] {
            next[caller] = from.saturating_add(*room);
        }
        places.push(Room { from, room: *room });
    }
    places
}

/// Numbers of a bar: `+40.00 (12.00 → 52.00), called 1.00 → 2.00 times`.
fn bar_numbers(path: &PathDelta, counts: &Sides<u64>, scale: PathScale) -> String {
    let calls = match &path.calls {
        Sides { base: 0, change: 0 } => String::new(),
        Sides { base, change } if base == change => {
            format!(", called {} times", number::count(scale.per_op(*base)))
        }
        calls => format!(", called {} times", scale.both(calls)),
    };
    scale.numbers(counts) + &calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_the_colour_of_its_own_code_and_what_moved_is_never_too_narrow() {
        let path = PathDelta::with_instructions;
        let paths = [
            path(0, "stat", 10_000, 10_044),
            path(1, "alloc", 900, 940),
            path(2, "memset", 0, 30),
            path(2, "narrow", 20, 22),
            path(1, "walk", 5000, 5003),
        ];
        let scale = PathScale { by: CountKind::Instructions, ops: 1, spread: 5.0 };
        let whole = Sides { base: 10_000, change: 10_044 };
        let flame = path_flame(&paths, whole, scale).unwrap();
        let shown = |bar: &FlameBar| (bar.name.clone(), bar.moved, bar.own.clone());
        let bars: Vec<_> = flame.bars.iter().map(shown).collect();
        let expected = [
            ("all", 0.0, None),
            ("stat", 0.0, None),
            ("alloc", 8.0 / 30.0, Some("+8.00 (880.00 → 888.00)")),
            ("memset", 1.0, Some("+30.00 (0 → 30.00)")),
            ("walk", 0.0, None),
        ];
        let expected =
            expected.map(|(name, moved, own)| (name.into(), moved, own.map(str::to_owned)));
        assert_eq!(bars, expected);
        // The room of what is not drawn is in its caller's.
        let room = |index: usize| (flame.bars[index].width * 1e6).round();
        assert!(room(2) > room(3) && flame.bars[2].sides.change > 99.0, "{flame:?}");
    }

    /// A lock is waited for much longer, in a function that executes as much as before.
    #[test]
    fn bars_of_waits_are_as_wide_and_as_dark_as_what_was_waited() {
        let path = |depth, function, base, change| PathDelta {
            wait: Sides { base, change },
            ..PathDelta::with_instructions(depth, function, 50, 50)
        };
        let paths = [path(0, "dup", 100, 900), path(1, "lock", 90, 890), path(1, "walk", 10, 10)];
        let scale = PathScale { by: CountKind::Wait, ops: 1, spread: 1.0 };
        let flame = path_flame(&paths, Sides { base: 100, change: 900 }, scale).unwrap();
        let bars: Vec<_> = flame
            .bars
            .iter()
            .map(|bar| (bar.name.as_str(), bar.moved, bar.width.round()))
            .collect();
        assert_eq!(bars[2], ("lock", 1.0, 99.0), "{flame:?}");
        assert!(bars.iter().filter(|bar| bar.0 != "lock").all(|bar| bar.1 == 0.0), "{flame:?}");
    }

    #[test]
    fn everything_has_room_and_nothing_lies_on_another() {
        // Of 0 the callees are 1 and 3, of 1 it is 2, and of 3 they are 4 and 5.
        let callers = [None, Some(0), Some(1), Some(0), Some(3), Some(3)];
        let places = places(&callers, &[20, 20, 40, 20, 40, 30]);
        let seen: Vec<_> =
            places.iter().map(|place| (place.from, place.from + place.room)).collect();
        assert_eq!(seen, [(0, 170), (0, 60), (0, 40), (60, 150), (60, 100), (100, 130)]);
        for (index, caller) in callers.iter().enumerate() {
            let Some(caller) = *caller else { continue };
            assert!(seen[caller].0 <= seen[index].0 && seen[index].1 <= seen[caller].1, "{index}");
        }
    }
}
