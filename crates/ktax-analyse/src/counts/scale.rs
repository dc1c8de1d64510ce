//! Counts of Sides that did not do as many operations, made those of as many.

use ktax_model::{CountedOperations, Counts, Path, Profile, ProfileLine, Sample, Side};

/// Makes counts those of one count of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scale {
    pub from: u64,
    pub to: u64,
}

impl Scale {
    fn count(self, count: u64) -> u64 {
        if self.from == self.to {
            return count;
        }
        let (from, to) = (u128::from(self.from.max(1)), u128::from(self.to));
        u64::try_from((u128::from(count) * to + from / 2) / from).unwrap_or(u64::MAX)
    }

    fn counts(self, counts: &Counts) -> Counts {
        Counts {
            instructions: self.count(counts.instructions),
            rep_iterations: self.count(counts.rep_iterations),
            wait: self.count(counts.wait),
            idle: self.count(counts.idle),
            transfers: self.count(counts.transfers),
            costly: counts.costly.map(|count| self.count(count)),
            modelled: counts.modelled.map(|count| self.count(count)),
        }
    }

    /// The counts of a profile.
    pub fn profile(self, profile: Profile) -> Profile {
        if self.from == self.to {
            return profile;
        }
        let line = |line: ProfileLine| ProfileLine { counts: self.counts(&line.counts), ..line };
        let path = |path: Path| Path {
            calls: self.count(path.calls),
            instructions: self.count(path.instructions),
            rep_iterations: self.count(path.rep_iterations),
            costly: path.costly.map(|count| self.count(count)),
            ..path
        };
        Profile {
            lines: profile.lines.into_iter().map(line).collect(),
            paths: profile.paths.into_iter().map(path).collect(),
            ..profile
        }
    }

    /// The counts of a Sample.
    pub fn sample(self, sample: &Sample) -> Sample {
        let scaled = sample.counts.iter().map(|(context, counts)| (*context, self.counts(counts)));
        Sample { counts: scaled.collect(), ..sample.clone() }
    }
}

/// What scales a row's profile of one Side.
pub(super) fn scale_of(operations: Option<&CountedOperations>, side: Side, to: u64) -> Scale {
    let from = operations.map_or(to, |operations| *operations.count.get(side));
    Scale { from, to }
}
