use super::{Context, Counts, Sample};

/// One column: how a number is taken from a Sample, and what it means.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// The name in files and on the screen.
    pub name: &'static str,
    /// The unit of one value, per operation.
    pub unit: &'static str,
    /// Whose counts it reads.
    pub context: Context,
    /// Which of the two counts it reads.
    pub count: fn(&Counts) -> u64,
    /// What a difference must be a share of to matter.
    pub whole: fn(&Counts) -> u64,
}

impl Metric {
    /// The Region's raw count.
    pub fn raw(&self, sample: &Sample) -> u64 {
        sample.counts.get(&self.context).map_or(0, self.count)
    }

    /// What a difference of raw counts must be a share of to matter.
    pub fn whole(&self, sample: &Sample) -> u64 {
        sample.counts.get(&self.context).map_or(0, self.whole)
    }
}

const fn exact(
    name: &'static str,
    unit: &'static str,
    context: Context,
    count: fn(&Counts) -> u64,
) -> Metric {
    Metric { name, unit, context, count, whole: count }
}

/// A few iterations where there are hardly any are nothing beside a million instructions.
const fn of_all_work(metric: Metric) -> Metric {
    Metric { whole: |counts| counts.instructions + counts.rep_iterations, ..metric }
}

/// Every Metric of the exact engine. The first is the headline; a row's Verdict is that of the
/// first in process context that changed.
pub const METRICS: [Metric; 4] = [
    exact("instructions", "instructions", Context::Process, |c| c.instructions),
    of_all_work(exact("rep-iterations", "iterations", Context::Process, |c| c.rep_iterations)),
    exact("interrupt", "instructions", Context::Interrupt, |c| c.instructions),
    exact("kthread", "instructions", Context::Kthread, |c| c.instructions),
];

/// The Metric of that name.
pub fn metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}
