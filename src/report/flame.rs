//! Call paths as a picture: each function below its caller, as wide as what both sides execute.

use super::carried::Carried;
use super::number;
use super::view::{Flame, FlameBar};
use crate::model::{Effect, Own, PathDelta, Row, Sides, callers, own, without_below};
use crate::stats::tables::share_percent;

/// What no path is above.
const ALL: &str = "all";

/// What is narrower than this on both sides, in percent of the row, and all below it, is not drawn.
const NARROW_PERCENT: u64 = 1;

/// The paths of a row's Effect; nothing where it has none.
pub fn flame(row: &Row, effect: &Effect) -> Option<Flame> {
    let by = Carried::of(effect);
    let whole = effect.counts()?;
    (!effect.paths.is_empty()).then(|| {
        flame_of(&effect.paths, whole, PathScale { by, ops: row.ops, spread: effect.spread })
    })?
}

/// What the numbers of paths are.
#[derive(Debug, Clone, Copy)]
pub struct PathScale {
    /// What is counted.
    pub by: Carried,
    /// Operations in the Region.
    pub ops: u64,
    /// How far layouts lie apart, per operation.
    pub spread: f64,
}

impl PathScale {
    fn per_op(self, count: u64) -> f64 {
        count as f64 / self.ops.max(1) as f64
    }

    fn delta(self, of: &Sides<u64>) -> f64 {
        self.per_op(of.change) - self.per_op(of.base)
    }

    /// `+40.00 (12.00 → 52.00)`.
    pub fn said(self, of: &Sides<u64>) -> String {
        format!("{} ({})", number::delta(self.delta(of)), self.both(of))
    }

    fn both(self, of: &Sides<u64>) -> String {
        let [base, change] = [of.base, of.change].map(|it| number::count(self.per_op(it)));
        format!("{base} → {change}")
    }
}

/// Those of these paths that are wide enough to be seen, below one that is the whole; nothing of
/// what paths do not count.
pub fn flame_of(paths: &[PathDelta], whole: Sides<u64>, scale: PathScale) -> Option<Flame> {
    let paths = drawn(paths, whole, scale.by);
    let own = own_of(&paths, scale.by);
    let places = places(&callers(&paths), &rooms(&own));
    let most = own.iter().map(|own| scale.delta(own).abs()).fold(0.0, f64::max);
    let bar = |at: usize| {
        let (path, place, delta) = (&paths[at], &places[at], scale.delta(&own[at]));
        let of = scale.by.of_path(path)?;
        let of_place = |count: u64| percent(count, place.room).min(100.0);
        Some(FlameBar {
            name: path.function.clone(),
            depth: path.depth as usize,
            from: percent(place.from, places[0].room),
            width: percent(place.room, places[0].room),
            sides: Sides { base: of_place(of.base), change: of_place(of.change) },
            // What a layout does as well says nothing.
            moved: if delta.abs() <= scale.spread { 0.0 } else { delta / most },
            said: said(path, of, scale),
        })
    };
    let bars: Vec<FlameBar> = (0..paths.len()).filter_map(bar).collect();
    (bars.len() > 1).then_some(Flame { unit: scale.by.unit(), bars })
}

fn percent(part: u64, whole: u64) -> f64 {
    share_percent(part as f64, whole.max(1) as f64)
}

fn drawn(paths: &[PathDelta], whole: Sides<u64>, by: Carried) -> Vec<PathDelta> {
    let least = whole.base.max(whole.change).saturating_mul(NARROW_PERCENT);
    let is_wide = |path: &PathDelta| {
        by.of_path(path).is_some_and(|of| of.base.max(of.change).saturating_mul(100) >= least)
    };
    let root = PathDelta {
        depth: 0,
        function: ALL.to_owned(),
        calls: Sides { base: 0, change: 0 },
        instructions: whole.clone(),
        rep_iterations: whole,
        costly: Default::default(),
    };
    let below = |mut path: PathDelta| {
        path.depth = path.depth.saturating_add(1);
        path
    };
    let wide = without_below(paths, is_wide).into_iter().map(below);
    [root].into_iter().chain(wide).collect()
}

/// What each executes without those of the list that it calls.
fn own_of(paths: &[PathDelta], by: Carried) -> Vec<Sides<u64>> {
    let of = |own: Own| if by == Carried::Rep { own.rep_iterations } else { own.instructions };
    own(paths).into_iter().map(of).collect()
}

/// Where a path's place begins and how wide it is, in what is counted.
struct Place {
    from: u64,
    room: u64,
}

/// Of the wider side.
fn rooms(own: &[Sides<u64>]) -> Vec<u64> {
    own.iter().map(|own| own.base.max(own.change)).collect()
}

/// Beside what each executes itself there is room for all that it calls: what only one side calls
/// hides nothing of the other.
fn places(callers: &[Option<usize>], own: &[u64]) -> Vec<Place> {
    let mut rooms = own.to_vec();
    // From the last on, so that each is whole before its caller gets it.
    for (at, caller) in callers.iter().enumerate().rev() {
        if let Some(caller) = caller {
            rooms[*caller] = rooms[*caller].saturating_add(rooms[at]);
        }
    }
    let mut next: Vec<u64> = vec![0; rooms.len()];
    let mut places = Vec::with_capacity(rooms.len());
    for (at, room) in rooms.iter().enumerate() {
        let from = callers[at].map_or(0, |caller| next[caller]);
        next[at] = from;
        if let Some(caller) = callers[at] {
            next[caller] = from.saturating_add(*room);
        }
        places.push(Place { from, room: *room });
    }
    places
}

/// `+40.00 (12.00 → 52.00), called 1.00 → 2.00 times`.
fn said(path: &PathDelta, of: &Sides<u64>, scale: PathScale) -> String {
    let calls = match &path.calls {
        Sides { base: 0, change: 0 } => String::new(),
        Sides { base, change } if base == change => {
            format!(", called {} times", number::count(scale.per_op(*base)))
        }
        calls => format!(", called {} times", scale.both(calls)),
    };
    scale.said(of) + &calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_room_and_nothing_lies_on_another() {
        // Of 0 the callees are 1 and 3, of 1 it is 2, and of 3 they are 4 and 5.
        let callers = [None, Some(0), Some(1), Some(0), Some(3), Some(3)];
        let places = places(&callers, &[20, 20, 40, 20, 40, 30]);
        let seen: Vec<_> = places.iter().map(|it| (it.from, it.from + it.room)).collect();
        assert_eq!(seen, [(0, 170), (0, 60), (0, 40), (60, 150), (60, 100), (100, 130)]);
        for (at, caller) in callers.iter().enumerate() {
            let Some(caller) = *caller else { continue };
            assert!(seen[caller].0 <= seen[at].0 && seen[at].1 <= seen[caller].1, "{at}");
        }
    }
}
