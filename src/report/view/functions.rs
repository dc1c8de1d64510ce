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

    /// `Call paths that carry most: vfs_open → security_file_open +215.00 (30 %)`; empty where none
    /// carries much.
    pub fn said_paths(&self) -> String {
        let one = |line: &PathLine| {
            let (delta, share) = (number::delta(line.delta), number::whole(line.share_percent));
            format!("{} {delta} ({share} %)", line.path)
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
