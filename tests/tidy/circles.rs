//! Circles in a graph of names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::imports::Uses;

/// The sets of files of which each reaches each other one, with a shortest circle in words.
pub fn circles(uses: &Uses) -> Vec<(BTreeSet<String>, String)> {
    let mut found: Vec<(BTreeSet<String>, String)> = Vec::new();
    for from in uses.keys() {
        if found.iter().any(|(set, _)| set.contains(from)) {
            continue;
        }
        let reached = reach(uses, from);
        if !reached.contains(from) {
            continue;
        }
        let together = |to: &&String| reach(uses, to).contains(from);
        let set: BTreeSet<String> = reached.iter().filter(together).cloned().collect();
        found.push((set, shortest(uses, from)));
    }
    found
}

/// What can be reached in one step or more.
fn reach(uses: &Uses, from: &str) -> BTreeSet<String> {
    let (mut reached, mut todo) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(at) = todo.pop() {
        for to in uses.get(&at).into_iter().flatten().map(|(to, _)| to) {
            if reached.insert(to.clone()) {
                todo.push(to.clone());
            }
        }
    }
    reached
}

/// The shortest way from a file back to itself: `a.rs → b.rs (item) → a.rs (item)`.
fn shortest(uses: &Uses, start: &str) -> String {
    let mut ways = BTreeMap::from([(start.to_owned(), start.to_owned())]);
    let mut todo = VecDeque::from([start.to_owned()]);
    while let Some(at) = todo.pop_front() {
        for (to, item) in uses.get(&at).into_iter().flatten() {
            let way = format!("{} → {to} ({item})", ways[&at]);
            if to == start {
                return way;
            }
            if !ways.contains_key(to) {
                ways.insert(to.clone(), way);
                todo.push_back(to.clone());
            }
        }
    }
    start.to_owned()
}
