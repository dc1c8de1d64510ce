use crate::report::number;
use crate::text::counted;

/// The functions that carry a row's delta.
#[derive(Debug, Clone, PartialEq)]
pub struct Functions {
    /// The row.
    pub row: String,
    /// What it changed by: `+404.00 instructions (+1.22 %, the same in every layout)`.
    pub effect: String,
    /// What one operation is.
    pub operation: String,
    /// What [`FunctionLine::other`] counts.
    pub other: &'static str,
    /// Whether all of them are shown, however many.
    pub is_whole: bool,
    /// The largest first.
    pub lines: Vec<FunctionLine>,
}

/// What one function contributes, per operation.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionLine {
    /// Its symbol.
    pub function: String,
    /// Change minus base of what the effect counts.
    pub delta: f64,
    /// From what to what: `25.00 → 168.00`.
    pub from_to: String,
    /// Change minus base of what else it counts.
    pub other: f64,
}

impl Functions {
    /// The delta, the function, from what to what, and what else changed: so many lines, and one
    /// for all others together, unless all are shown.
    pub fn largest(&self, most: usize) -> Vec<[String; 4]> {
        let most = if self.is_whole { usize::MAX } else { most };
        let (shown, others) = self.lines.split_at(self.lines.len().min(most));
        let line = |line: &FunctionLine| {
            let (delta, other) = (number::delta(line.delta), self.other(line.other));
            [delta, line.function.clone(), line.from_to.clone(), other]
        };
        let sum = |of: fn(&FunctionLine) -> f64| others.iter().map(of).sum::<f64>();
        let rest = (!others.is_empty()).then(|| {
            let name = format!("… {}", counted(others.len(), "more function"));
            let (delta, other) = (sum(|line| line.delta), sum(|line| line.other));
            [number::delta(delta), name, String::new(), self.other(other)]
        });
        shown.iter().map(line).chain(rest).collect()
    }

    fn other(&self, value: f64) -> String {
        match value {
            0.0 => String::new(),
            value => format!("{} {}", self.other, number::delta(value)),
        }
    }
}
