//! The bridge from base to change: bars whose printed numbers add up to the last digit.

use super::functions::from_to;
use crate::carried::Carried;
use crate::number;
use crate::view::{BarKind, Bridge, BridgeBar, telling};
use ktax_host::text::counted;
use ktax_model::{Effect, FunctionDelta, Row, Sides};

/// What the counts of a region are rounded to, per operation: printed values are multiples of it.
struct Grain {
    ops: i128,
    decimals: u32,
}

impl Grain {
    /// Whole numbers of one operation, otherwise hundredths; more where the delta is small.
    fn of(ops: u64, delta: f64) -> Grain {
        let decimals = match (ops, delta.abs()) {
            (0 | 1, _) => 0,
            (_, delta) if delta < 0.1 => 4,
            _ => 2,
        };
        Grain { ops: i128::from(ops.max(1)), decimals }
    }

    /// The multiple nearest to a count of a whole region.
    fn round(&self, count: i128) -> i128 {
        (count * 10_i128.pow(self.decimals) * 2 + self.ops).div_euclid(self.ops * 2)
    }

    fn per_op(&self, count: i128) -> f64 {
        count as f64 / self.ops as f64
    }

    fn shown(&self, multiple: i128, is_delta: bool) -> String {
        if is_delta && multiple == 0 {
            return "0".to_owned();
        }
        let value = multiple as f64 / 10_f64.powi(self.decimals as i32);
        number::with_decimals(value, self.decimals as usize, is_delta)
    }
}

/// The Effect that decided: the largest functions, so many, and all others as one. Nothing where no
/// functions are known.
///
/// A bar's number is the difference of two rounded sums, so that the numbers add up whatever the
/// rounding does to one of them.
pub fn bridge(row: &Row, effect: &Effect, most: usize) -> Option<Bridge> {
    let by = Carried::of(effect);
    let Sides { base, change } = effect.counts()?;
    let [base, change] = [base, change].map(i128::from);
    let carried: i128 = effect.functions.iter().map(|one| carried(one, by)).sum();
    if effect.functions.is_empty() || base + carried != change {
        return None;
    }
    let grain = Grain::of(row.ops, effect.delta);
    let mut bars = vec![side("base", base, base, &grain)];
    let mut at = base;
    for part in parts(effect, by, row, most) {
        let (from, to) = (at, at + part.carries);
        at = to;
        bars.push(BridgeBar {
            name: part.name,
            kind: part.kind,
            span: (grain.per_op(from - base), grain.per_op(to - base)),
            shown: grain.shown(grain.round(to) - grain.round(from), true),
            from_to: part.from_to,
            other: if part.other == 0.0 { String::new() } else { number::delta(part.other) },
        });
    }
    bars.push(side("change", change, base, &grain));
    Some(Bridge { unit: by.unit(), other: by.other().short(), bars })
}

fn side(name: &str, count: i128, base: i128, grain: &Grain) -> BridgeBar {
    BridgeBar {
        name: name.to_owned(),
        kind: BarKind::Side,
        span: (0.0, grain.per_op(count - base)),
        shown: grain.shown(grain.round(count), false),
        from_to: String::new(),
        other: String::new(),
    }
}

/// A bar before it has its place.
struct Part {
    name: String,
    kind: BarKind,
    /// The region's count, change minus base.
    carries: i128,
    from_to: String,
    other: f64,
}

/// The largest functions, and all others as one.
fn parts(effect: &Effect, by: Carried, row: &Row, most: usize) -> Vec<Part> {
    let beside = |one: &FunctionDelta| by.other().delta(one, row);
    let part = |one: &FunctionDelta| Part {
        name: one.function.clone(),
        kind: kind(one, by),
        carries: carried(one, by),
        from_to: from_to(one, by, row.ops),
        other: beside(one),
    };
    let deltas = effect.functions.iter().map(|one| [carried(one, by) as f64, beside(one)]);
    let telling = telling(&deltas.collect::<Vec<_>>());
    let (shown, others) = effect.functions.split_at(most.min(telling));
    let rest = (!others.is_empty()).then(|| Part {
        name: format!("… {}", counted(others.len(), "more function")),
        kind: BarKind::Both,
        carries: others.iter().map(|one| carried(one, by)).sum(),
        from_to: String::new(),
        other: others.iter().map(beside).sum(),
    });
    shown.iter().map(part).chain(rest).collect()
}

fn carried(function: &FunctionDelta, by: Carried) -> i128 {
    let of = by.counts(function);
    i128::from(of.change) - i128::from(of.base)
}

/// Whether both Sides execute it.
fn kind(function: &FunctionDelta, by: Carried) -> BarKind {
    match (by.counts(function).base, by.counts(function).change) {
        (0, 1..) => BarKind::New,
        (1.., 0) => BarKind::Gone,
        _ => BarKind::Both,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever the counts and the number of operations.
        #[test]
        fn printed_bars_add_up(
            ops in 1..100_000_u64, base in 0..1_i128 << 50,
            steps in prop::collection::vec(-1_i128 << 40..1_i128 << 40, 0..20)
        ) {
            let grain = Grain { ops: i128::from(ops), decimals: 2 };
            let (mut at, mut sum) = (base, grain.round(base));
            for step in steps {
                sum += grain.round(at + step) - grain.round(at);
                at += step;
            }
            prop_assert_eq!(sum, grain.round(at));
        }
    }

    #[test]
    fn counts_are_rounded_to_the_nearest() {
        let grain = Grain { ops: 3, decimals: 2 };
        assert_eq!(
            [0, 1, 2, 3, -1, -2].map(|count| grain.round(count)),
            [0, 33, 67, 100, -33, -67]
        );
        assert_eq!(grain.shown(-123_456, true), "-1 234.56");
        assert_eq!(grain.shown(123_456, false), "1 234.56");
        assert_eq!(grain.shown(0, true), "0");
    }
}
