use crate::number;
use ktax_host::text::counted;

/// The functions that carry a row's delta.
#[derive(Debug, Clone, PartialEq)]
pub struct Functions {
    /// The row.
    pub row: String,
    /// What it changed by: `+404.00 instructions (+1.22 %, the same in every layout)`.
    pub effect: String,
    /// The same in percent of the base, without its sign; infinite where the base is 0.
    pub size_percent: f64,
    /// What one operation is.
    pub operation: String,
    /// What [`FunctionLine::other`] counts.
    pub other: &'static str,
    /// Whether all of them are shown, however many.
    pub is_whole: bool,
    /// The largest first.
    pub lines: Vec<FunctionLine>,
    /// The call paths that carry most, if they are known.
    pub paths: Vec<PathLine>,
}

/// A place in the kernel that carries much of a row's delta.
#[derive(Debug, Clone, PartialEq)]
pub struct PathLine {
    /// The last of the functions that lead there: `vfs_open → do_dentry_open → security_file_open`.
    pub path: String,
    /// Its delta per operation, with all that it calls.
    pub delta: f64,
    /// That in percent of the row's.
    pub share_percent: f64,
    /// The feature that the CPU lacks, for which one Side alone goes there; `None` of most places.
    pub lacking: Option<&'static str>,
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

/// What is less than this share of the largest delta is noise beside it.
const NOISE_SHARE: f64 = 0.01;

/// How many functions say something, of which these are the delta and what else changed, the
/// largest delta first: up to the last that is no noise beside the largest of either, and at least
/// one.
pub fn telling(functions: &[[f64; 2]]) -> usize {
    let largest =
        [0, 1].map(|kind| functions.iter().map(|deltas| deltas[kind].abs()).fold(0.0, f64::max));
    let is_telling = |deltas: &[f64; 2]| {
        deltas
            .iter()
            .zip(largest)
            .any(|(delta, most)| *delta != 0.0 && delta.abs() >= most * NOISE_SHARE)
    };
    let last = functions.iter().rposition(is_telling);
    last.map_or(functions.len().min(1), |last| last + 1)
}

impl Functions {
    /// The delta, the function, from what to what, and what else changed: at most so many lines,
    /// none of a function that carries next to nothing, and one for all others together. All
    /// functions where all are to be shown.
    pub fn largest(&self, most: usize) -> Vec<[String; 4]> {
        let deltas: Vec<[f64; 2]> =
            self.lines.iter().map(|line| [line.delta, line.other]).collect();
        let most = if self.is_whole { usize::MAX } else { most.min(telling(&deltas)) };
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

    /// `Call paths that carry most: vfs_open → security_file_open +215.00 (30 %)`; empty where none
    /// carries much.
    pub fn said_paths(&self) -> String {
        let one = |line: &PathLine| {
            let (delta, share) = (number::delta(line.delta), number::whole(line.share_percent));
            let why = line.lacking.map(|feature| format!(", as the CPU lacks {feature}"));
            format!("{} {delta} ({share} %{})", line.path, why.unwrap_or_default())
        };
        let all: Vec<String> = self.paths.iter().map(one).collect();
        match all.is_empty() {
            true => String::new(),
            false => format!("Call paths that carry most: {}", all.join(", ")),
        }
    }

    fn other(&self, value: f64) -> String {
        match value {
            0.0 => String::new(),
            value => format!("{} {}", self.other, number::delta(value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_carry_next_to_nothing_are_left_out() {
        assert_eq!(telling(&[]), 0);
        assert_eq!(telling(&[[0.0, 0.0]]), 1);
        assert_eq!(telling(&[[-120.0, 0.0], [45.0, 0.0], [-0.003, 0.0], [0.003, 0.0]]), 2);
        // What else changed much is no noise.
        assert_eq!(telling(&[[-120.0, 0.0], [0.0, 4096.0], [0.003, 1.0]]), 2);
        // A single function is shown, however small it is.
        assert_eq!(telling(&[[0.003, 0.0]]), 1);
    }
}
