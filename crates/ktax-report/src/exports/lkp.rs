//! Rows as the mails of the kernel's test robot have them: in percent of all that a side executed,
//! with the difference in points.

use std::collections::{BTreeMap, BTreeSet};

use super::export::Export;
use super::stacks::{Stack, stacks};
use ktax_model::{RowPaths, Side, Sides};
use ktax_stats::tables::share_percent;

pub(super) const EXPORT: Export = Export {
    name: "lkp",
    about: "shares in percent, as in the mails of the 0-day robot",
    is_compared: false,
    is_of_instructions: true,
    has_sides: true,
    write: |paths, side| write(paths, side).into_bytes(),
};

/// The robot's rows have so many functions of a stack.
const LEVELS: usize = 5;

/// They begin at this share, and here so do the differences, in points.
const LEAST: f64 = 0.05;

const HEAD: &str = "      base          points      change\n\
                    --------------------------------------\n";

fn write(paths: &RowPaths, side: Option<Side>) -> String {
    let mut rows = Rows::default();
    stacks(paths).for_each(|stack| rows.add(&stack));
    let mut text = format!("{}: {}\n\n", paths.row, paths.operation);
    text += if side.is_none() { HEAD } else { "" };
    for (kind, of_kind) in
        [("calltrace", &rows.stacks), ("children", &rows.children), ("self", &rows.own)]
    {
        let mut shares: Vec<(&str, Sides<f64>)> =
            of_kind.iter().map(|(name, counts)| (name.as_str(), rows.shares(counts))).collect();
        let weight = |share: &Sides<f64>| match side {
            Some(side) => *share.get(side),
            None => share.change - share.base,
        };
        shares.retain(|(_, share)| weight(share).abs() >= LEAST);
        shares.sort_by(|(_, one), (_, other)| weight(one).total_cmp(&weight(other)));
        for (name, share) in shares {
            text += &match side {
                Some(_) => format!("{:>10.2}", weight(&share)),
                None => {
                    let Sides { base, change } = share;
                    format!("{base:>10.2} {:>+15.2} {change:>11.2}", change - base)
                }
            };
            text += &format!("        ktax-profile.{kind}.instructions.{name}\n");
        }
    }
    text
}

/// Instructions of a region by what the rows name.
#[derive(Default)]
struct Rows {
    all: [u64; 2],
    /// A function and those above it, with all below it.
    stacks: BTreeMap<String, [u64; 2]>,
    /// A function, with all below it.
    children: BTreeMap<String, [u64; 2]>,
    own: BTreeMap<String, [u64; 2]>,
}

impl Rows {
    fn add(&mut self, stack: &Stack<'_>) {
        let own = Side::BOTH.map(|side| *stack.own.instructions.get(side));
        // The first is the Context.
        let functions = &stack.functions[1..];
        // A function that calls itself, and the same functions once more, have it once.
        let shown = |at: usize| &functions[at.saturating_sub(LEVELS - 1)..=at];
        for shown in (0..functions.len()).map(shown).collect::<BTreeSet<_>>() {
            let shown: Vec<&str> = shown.iter().rev().copied().collect();
            add(self.stacks.entry(shown.join(".")).or_default(), own);
        }
        for function in functions.iter().collect::<BTreeSet<_>>() {
            add(self.children.entry((*function).to_owned()).or_default(), own);
        }
        let function = functions[functions.len() - 1];
        add(self.own.entry(function.to_owned()).or_default(), own);
        add(&mut self.all, own);
    }

    fn shares(&self, counts: &[u64; 2]) -> Sides<f64> {
        let [base, change] =
            [0, 1].map(|at| share_percent(counts[at] as f64, self.all[at].max(1) as f64));
        Sides { base, change }
    }
}

fn add(to: &mut [u64; 2], counts: [u64; 2]) {
    to.iter_mut().zip(counts).for_each(|(to, count)| *to = to.saturating_add(count));
}
