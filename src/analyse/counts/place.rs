//! What both Sides execute, by the functions that were called.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::mem;

use super::kinds::costly;
use super::plain::plain;
use crate::model::{Context, Costly, Counts, Metric, Path, PathDelta, Profile, Side, Sides};

/// A function below its caller, and all that it calls.
#[derive(Default)]
pub(super) struct Place {
    calls: Sides<u64>,
    own: Sides<Counts>,
    /// With those of all below it.
    pub(super) counts: Sides<Counts>,
    below: BTreeMap<String, Place>,
}

impl Place {
    /// What is called by none, which is above all.
    pub(super) fn of(base: &Profile, change: &Profile, context: Context) -> Place {
        let mut root = Place::default();
        for (side, profile) in [(Side::Base, base), (Side::Change, change)] {
            let of_context = |path: &&Path| path.context == context;
            root.add_below(0, side, &mut profile.paths.iter().filter(of_context).peekable());
        }
        root.add_up();
        root
    }

    /// Adds the next paths as long as they are that deep.
    fn add_below<'a>(
        &mut self,
        depth: u32,
        side: Side,
        paths: &mut Peekable<impl Iterator<Item = &'a Path>>,
    ) {
        while let Some(path) = paths.next_if(|path| path.depth == depth) {
            let mut below = Place::default();
            *below.calls.get_mut(side) = path.calls;
            *below.own.get_mut(side) = Counts {
                instructions: path.instructions,
                rep_iterations: path.rep_iterations,
                costly: path.costly,
                ..Counts::default()
            };
            below.add_below(depth + 1, side, paths);
            self.below.entry(plain(&path.function).to_owned()).or_default().merge(below);
        }
    }

    fn merge(&mut self, other: Place) {
        for side in Side::BOTH {
            *self.calls.get_mut(side) += other.calls.get(side);
            *self.own.get_mut(side) += *other.own.get(side);
            *self.counts.get_mut(side) += *other.counts.get(side);
        }
        for (function, place) in other.below {
            self.below.entry(function).or_default().merge(place);
        }
    }

    fn add_up(&mut self) {
        self.counts = self.own.clone();
        for below in self.below.values_mut() {
            below.add_up();
            for side in Side::BOTH {
                *self.counts.get_mut(side) += *below.counts.get(side);
            }
        }
    }

    /// Puts what an inlined function calls below its caller, where the other Side has it. A
    /// function is inlined if only one Side calls it, and the caller itself calls most of what it
    /// called on the other one.
    pub(super) fn without_inlined(mut self) -> Place {
        for side in Side::BOTH {
            let inlined = self.below.iter().filter(|(_, place)| self.has_inlined(place, side));
            let inlined: Vec<String> = inlined.map(|(function, _)| function.clone()).collect();
            for function in inlined {
                let place = self.below.entry(function).or_default();
                place.counts = place.own.clone();
                for (function, callee) in mem::take(&mut place.below) {
                    self.below.entry(function).or_default().merge(callee);
                }
            }
        }
        let below = mem::take(&mut self.below).into_iter();
        self.below = below.map(|(function, it)| (function, it.without_inlined())).collect();
        self
    }

    /// Whether what is called on one Side is part of this function on the other one.
    fn has_inlined(&self, place: &Place, side: Side) -> bool {
        if place.is_there(side.other()) {
            return false;
        }
        let is_called_here = |function: &String| {
            self.below
                .get(function)
                .is_some_and(|it| !it.is_there(side) && it.is_there(side.other()))
        };
        let executed = |place: &Place| {
            let counts = place.counts.get(side);
            counts.instructions.saturating_add(counts.rep_iterations)
        };
        let sum = |sum: u64, place: &Place| sum.saturating_add(executed(place));
        let all = place.below.values().fold(0, sum);
        let here = place.below.iter().filter(|(function, _)| is_called_here(function));
        let here = here.fold(0, |all, (_, place)| sum(all, place));
        here > all / 2
    }

    fn is_there(&self, side: Side) -> bool {
        *self.calls.get(side) > 0 || *self.counts.get(side) != Counts::default()
    }

    pub(super) fn size(&self, metric: &Metric) -> u64 {
        (metric.count)(&self.counts.base).abs_diff((metric.count)(&self.counts.change))
    }

    /// The larger of both Sides.
    pub(super) fn whole(&self, metric: &Metric) -> u64 {
        (metric.count)(&self.counts.base).max((metric.count)(&self.counts.change))
    }

    /// All below it, with costly instructions of these kinds; `choose` says which of a caller's,
    /// and in which order.
    pub(super) fn list<'a>(
        &'a self,
        depth: u32,
        kinds: &[Costly],
        to: &mut Vec<PathDelta>,
        choose: &mut impl FnMut(&mut Vec<(&'a String, &'a Place)>),
    ) {
        let mut below: Vec<(&String, &Place)> = self.below.iter().collect();
        choose(&mut below);
        for (function, place) in below {
            let Sides { base, change } = &place.counts;
            let [instructions, rep_iterations] = [
                [base.instructions, change.instructions],
                [base.rep_iterations, change.rep_iterations],
            ]
            .map(|[base, change]| Sides { base, change });
            let (function, calls) = (function.clone(), place.calls.clone());
            let costly = costly(kinds.iter().copied(), &place.counts);
            to.push(PathDelta { depth, function, calls, instructions, rep_iterations, costly });
            place.list(depth + 1, kinds, to, choose);
        }
    }
}
