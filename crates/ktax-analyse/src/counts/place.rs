//! What both Sides execute, by the functions that were called.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::iter::Peekable;
use std::mem;

use super::kinds::costly;
use super::plain::plain;
use ktax_model::{
    Context, Costly, Counts, Metric, Path, PathDelta, Profile, ProfileLine, Side, Sides,
};

/// All of user mode.
const USER: &str = "[user]";

/// Whether it is a function of a program or a library, or code of it outside every function.
fn is_of_program(function: &str) -> bool {
    function.starts_with('[') && ![USER, "[kernel]", "[unknown]"].contains(&function)
}

/// What call paths have of a function's counts.
fn counts_of_paths(counts: &Counts) -> Counts {
    let Counts { instructions, rep_iterations, costly, wait, .. } = *counts;
    Counts { instructions, rep_iterations, costly, wait, ..Counts::default() }
}

fn has_room(whole: &Counts, parts: &Counts) -> bool {
    let is_less = |kind: Costly| parts.costly.get(kind) <= whole.costly.get(kind);
    parts.instructions <= whole.instructions
        && parts.rep_iterations <= whole.rep_iterations
        && parts.wait <= whole.wait
        && Costly::ALL.into_iter().all(is_less)
}

/// A function below its caller, and all that it calls.
#[derive(Default)]
pub(super) struct Place {
    calls: Sides<u64>,
    /// With those of all below it.
    pub(super) counts: Sides<Counts>,
    /// Boxed: profiles may be a thousand calls deep, and so the stack of who reads them.
    below: BTreeMap<String, Box<Place>>,
}

impl Place {
    /// What is called by none, which is above all.
    pub(super) fn of(base: &Profile, change: &Profile, context: Context) -> Place {
        let mut root = Place::default();
        for (side, profile) in [(Side::Base, base), (Side::Change, change)] {
            let of_context = |path: &&Path| path.context == context;
            root.add_below(0, side, &mut profile.paths.iter().filter(of_context).peekable());
            root.split_user(side, profile, context);
        }
        root
    }

    /// Puts the functions of programs and libraries below `[user]`: the plugin does not follow the
    /// calls of user mode.
    fn split_user(&mut self, side: Side, profile: &Profile, context: Context) {
        let Some(user) = self.below.get_mut(USER) else { return };
        let lines: Vec<&ProfileLine> = profile
            .lines
            .iter()
            .filter(|line| line.context == context && is_of_program(&line.function))
            .collect();
        let mut sum = Counts::default();
        lines.iter().for_each(|line| sum += counts_of_paths(&line.counts));
        // Of several vCPUs one is now and then taken for another: then they do not fit.
        if !has_room(user.counts.get(side), &sum) {
            return;
        }
        for line in lines {
            let mut place = Box::<Place>::default();
            *place.counts.get_mut(side) = counts_of_paths(&line.counts);
            user.add(plain(&line.function).to_owned(), place);
        }
    }

    /// Adds the next paths as long as they are that deep, and their counts to its own.
    fn add_below<'a>(
        &mut self,
        depth: u32,
        side: Side,
        paths: &mut Peekable<impl Iterator<Item = &'a Path>>,
    ) {
        while let Some(path) = paths.next_if(|path| path.depth == depth) {
            let mut below = Box::<Place>::default();
            *below.calls.get_mut(side) = path.calls;
            let Path { instructions, rep_iterations, costly, wait, idle, .. } = *path;
            *below.counts.get_mut(side) =
                Counts { instructions, rep_iterations, costly, wait, idle, ..Counts::default() };
            below.add_below(depth + 1, side, paths);
            *self.counts.get_mut(side) += *below.counts.get(side);
            self.add(plain(&path.function).to_owned(), below);
        }
    }

    fn add(&mut self, function: String, place: Box<Place>) {
        match self.below.entry(function) {
            Entry::Vacant(entry) => drop(entry.insert(place)),
            Entry::Occupied(mut entry) => entry.get_mut().merge(*place),
        }
    }

    fn merge(&mut self, Place { calls, counts, below }: Place) {
        for side in Side::BOTH {
            *self.calls.get_mut(side) += calls.get(side);
            *self.counts.get_mut(side) += *counts.get(side);
        }
        below.into_iter().for_each(|(function, place)| self.add(function, place));
    }

    /// The same places as they are compared: what an inlined function calls is below its caller. A
    /// function is inlined if only one Side calls it, and on the other one its caller itself calls
    /// most of what it called.
    pub(super) fn without_inlined(mut self) -> Place {
        self.lift_inlined();
        self
    }

    fn lift_inlined(&mut self) {
        let is_inlined = |place| Side::BOTH.into_iter().any(|side| self.has_inlined(place, side));
        let inlined = self.below.iter().filter(|(_, place)| is_inlined(place));
        let inlined: Vec<String> = inlined.map(|(function, _)| function.clone()).collect();
        let mut called = Vec::new();
        for function in inlined {
            let place = self.below.entry(function).or_default();
            for (function, callee) in mem::take(&mut place.below) {
                for side in Side::BOTH {
                    *place.counts.get_mut(side) -= *callee.counts.get(side);
                }
                called.push((function, callee));
            }
        }
        for (function, callee) in called {
            self.add(function, callee);
        }
        self.below.values_mut().for_each(|place| place.lift_inlined());
    }

    /// Whether what is called on one Side is part of this function on the other one.
    fn has_inlined(&self, place: &Place, side: Side) -> bool {
        if place.is_there(side.other()) {
            return false;
        }
        let executed = |place: &Place, side: Side| {
            let counts = place.counts.get(side);
            counts.instructions.saturating_add(counts.rep_iterations)
        };
        // As much of it as its like here executes on the other Side alone.
        let here = |function: &String, callee: &Place| {
            let like = self.below.get(function).filter(|it| !it.is_there(side));
            like.map_or(0, |it| executed(it, side.other()).min(executed(callee, side)))
        };
        let (mut all, mut found) = (0_u64, 0_u64);
        for (function, callee) in &place.below {
            all = all.saturating_add(executed(callee, side));
            found = found.saturating_add(here(function, callee));
        }
        found > all / 2
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
        let mut below: Vec<(&String, &Place)> =
            self.below.iter().map(|(function, place)| (function, &**place)).collect();
        choose(&mut below);
        for (function, place) in below {
            let Sides { base, change } = &place.counts;
            let of_both =
                |count: fn(&Counts) -> u64| Sides { base: count(base), change: count(change) };
            let instructions = of_both(|counts| counts.instructions);
            let rep_iterations = of_both(|counts| counts.rep_iterations);
            let (wait, idle) = (of_both(|counts| counts.wait), of_both(|counts| counts.idle));
            let (function, calls) = (function.clone(), place.calls.clone());
            let costly = costly(kinds.iter().copied(), &place.counts);
            let path = PathDelta {
                depth,
                function,
                calls,
                instructions,
                rep_iterations,
                costly,
                wait,
                idle,
            };
            to.push(path);
            place.list(depth + 1, kinds, to, choose);
        }
    }
}
