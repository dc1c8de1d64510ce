//! The lines that lead from a caller to what it calls.

use ktax_model::{PathDelta, callers};

/// What stands before each function: one that is its caller's only one stands right below it, and
/// to each of several a line leads. So a chain of calls takes no width.
pub(super) fn branches(paths: &[PathDelta]) -> Vec<String> {
    let callers = callers(paths);
    let place = |caller: Option<usize>| caller.map_or(0, |at| at + 1);
    // How many are still to come below each, and below all at first.
    let mut to_come = vec![0; paths.len() + 1];
    callers.iter().for_each(|caller| to_come[place(*caller)] += 1);
    let is_alone: Vec<bool> = to_come.iter().map(|count| *count == 1).collect();
    // What stands before the functions that each calls.
    let mut below = vec![String::new(); paths.len() + 1];
    let mut branches = Vec::with_capacity(paths.len());
    for (at, caller) in callers.iter().enumerate() {
        let caller = place(*caller);
        to_come[caller] -= 1;
        let (here, next) = match (is_alone[caller], to_come[caller]) {
            (true, _) => ("", ""),
            (false, 0) => ("└ ", "  "),
            (false, _) => ("├ ", "│ "),
        };
        below[at + 1] = format!("{}{next}", below[caller]);
        branches.push(format!("{}{here}", below[caller]));
    }
    branches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(depths: &[u32]) -> Vec<String> {
        let path = |depth: &u32| PathDelta::with_instructions(*depth, "f", 0, 0);
        branches(&depths.iter().map(path).collect::<Vec<_>>())
    }

    #[test]
    fn a_line_leads_to_each_of_several_and_to_none_that_is_alone() {
        let drawn = of(&[0, 1, 2, 3, 3, 4, 2, 3]);
        assert_eq!(drawn, ["", "", "├ ", "│ ├ ", "│ └ ", "│   ", "└ ", "  "]);
        // Several that nothing calls.
        assert_eq!(of(&[0, 1, 0]), ["├ ", "│ ", "└ "]);
        // The end of a chain and what comes next below its caller's caller.
        assert_eq!(of(&[0, 1, 2, 1]), ["", "├ ", "│ ", "└ "]);
    }

    #[test]
    fn a_list_that_ktax_did_not_write_is_no_panic() {
        assert_eq!(of(&[7, 4_000_000_000, 0]), ["├ ", "│ ", "└ "]);
        assert_eq!(of(&[]), [""; 0]);
    }
}
