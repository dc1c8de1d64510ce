//! Metrics of exact counts.

use crate::{Basic, COUNTERS, Context, Costly, Counter, CounterRow, Counts, Modelled, Sample};

/// A column: how a number is taken from a Sample, and what it means.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// The name in files and on the screen.
    pub name: &'static str,
    /// The unit of one value, per operation.
    pub unit: &'static str,
    /// Context whose counts it reads.
    pub context: Context,
    /// Which of the counts it reads; `None` for the makespan, which no function carries.
    counter: Option<Counter>,
    /// Contexts whose counts together a difference must be a share of to matter.
    whole_of: &'static [Context],
    /// Count of those Contexts.
    whole: Whole,
}

/// What a difference is related to.
#[derive(Debug, Clone, Copy)]
enum Whole {
    /// The Metric's own count.
    Own,
    /// All work: a few iterations, or a timer tick, where there is hardly anything else of that
    /// kind are nothing beside a million instructions of the process.
    Work,
    /// A hundredth of all work: one count takes about as long as a hundred instructions.
    HundredthOfWork,
}

/// Fewer instructions say nothing of the last cache: most of it has what was before.
const LEAST_FOR_LAST_CACHE: u64 = 1_000_000;

impl Metric {
    /// Its count of a function or a Context.
    pub fn count(&self, counts: &Counts) -> u64 {
        self.counter.map_or(0, |counter| counts[counter])
    }

    /// The Region's raw count.
    pub fn raw(&self, sample: &Sample) -> u64 {
        match (self.counter, &sample.parallel) {
            (None, Some(parallel)) => parallel.makespan,
            _ => sample.counts.get(&self.context).map_or(0, |counts| self.count(counts)),
        }
    }

    /// Whether a Sample has this Metric. Each Region has costly instructions of some kind, unless
    /// an older ktax did not count them.
    pub fn is_in(&self, sample: &Sample) -> bool {
        let has = |group| sample.counts.values().any(|counts| counts.group(group).next().is_some());
        match self.counter {
            None | Some(Counter::Basic(Basic::Wait | Basic::Idle)) => sample.parallel.is_some(),
            Some(Counter::Basic(Basic::Transfers)) => {
                sample.parallel.as_ref().is_some_and(|parallel| parallel.transfers.is_some())
            }
            Some(Counter::Basic(_)) => true,
            Some(Counter::Costly(_)) => has("costly"),
            Some(Counter::Modelled(Modelled::CacheMisses)) => {
                has("modelled") && sample.total >= LEAST_FOR_LAST_CACHE
            }
            Some(Counter::Modelled(_)) => has("modelled"),
        }
    }

    /// The costly instructions that it counts.
    pub fn costly(&self) -> Option<Costly> {
        match self.counter {
            Some(Counter::Costly(kind)) => Some(kind),
            _ => None,
        }
    }

    /// The counter of the model of a machine that it is.
    pub fn modelled(&self) -> Option<Modelled> {
        match self.counter {
            Some(Counter::Modelled(event)) => Some(event),
            _ => None,
        }
    }

    /// Whether functions carry it.
    pub fn is_of_functions(&self) -> bool {
        self.counter.is_some()
    }

    /// Count that a difference of raw counts must be a share of to matter.
    pub fn whole(&self, sample: &Sample) -> u64 {
        let whole_in = |context| {
            let counts = sample.counts.get(context)?;
            Some(match self.whole {
                Whole::Own => self.count(counts),
                Whole::Work => counts.executed(),
                Whole::HundredthOfWork => counts.executed() / 100,
            })
        };
        self.whole_of.iter().filter_map(whole_in).fold(0, u64::saturating_add)
    }

    /// Whether it is what the machine does beside the process, which decides nothing.
    pub fn is_background(&self) -> bool {
        !self.context.decides()
    }

    /// Whether a row can be slower or faster by it. What a costly instruction costs depends on the
    /// machine, and what is modelled happens on none.
    pub fn decides(&self) -> bool {
        !self.is_background() && !self.is_of_kind()
    }

    /// Whether this is one Metric of many kinds, which decides nothing.
    pub fn is_of_kind(&self) -> bool {
        matches!(self.counter, Some(Counter::Costly(_) | Counter::Modelled(_)))
    }
}

const PROCESS: &[Context] = &[Context::Process];

/// Metric of the process that is related to all work of the process.
const fn metric_of(name: &'static str, counter: Basic) -> Metric {
    Metric {
        name,
        unit: Counter::Basic(counter).row().unit,
        context: Context::Process,
        counter: Some(Counter::Basic(counter)),
        whole_of: PROCESS,
        whole: Whole::Work,
    }
}

/// The length of all rounds, which is what the user of several CPUs waits for.
pub const MAKESPAN: &str = "makespan";

/// Time that CPUs waited for each other.
pub const SPIN_WAIT: &str = "spin-wait";

/// Time that CPUs had nothing to do.
pub const IDLE: &str = "idle";

/// Number of times that cache lines travelled between CPUs, by the model of coherence.
pub const TRANSFERS: &str = "model-transfers";

/// Work of kernel threads while the processes of one CPU waited for them.
pub const AWAITED: &str = "awaited-kthread";

const BASIC: [Metric; 9] = [
    Metric { whole: Whole::Own, ..metric_of("instructions", Basic::Instructions) },
    metric_of("rep-iterations", Basic::RepIterations),
    Metric { context: Context::Interrupt, ..metric_of("interrupt", Basic::Instructions) },
    Metric { context: Context::Kthread, ..metric_of("kthread", Basic::Instructions) },
    Metric {
        context: Context::Awaited,
        whole_of: &[Context::Process, Context::Awaited],
        ..metric_of(AWAITED, Basic::Instructions)
    },
    Metric { counter: None, ..metric_of(MAKESPAN, Basic::Instructions) },
    metric_of(SPIN_WAIT, Basic::Wait),
    Metric { context: Context::Kthread, ..metric_of(IDLE, Basic::Idle) },
    Metric { whole: Whole::HundredthOfWork, ..metric_of(TRANSFERS, Basic::Transfers) },
];

/// Every Metric of the exact engine. The first is the headline; a row's Verdict is that of the
/// first that decides and changed.
pub const METRICS: [Metric; BASIC.len() + COUNTERS.len() - Basic::ALL.len()] = {
    let mut all = [BASIC[0]; BASIC.len() + COUNTERS.len() - Basic::ALL.len()];
    let mut index = 1;
    while index < all.len() {
        all[index] = match index < BASIC.len() {
            true => BASIC[index],
            false => metric_of_kind(COUNTERS[index - BASIC.len() + Basic::ALL.len()]),
        };
        index += 1;
    }
    all
};

/// Metric of a costly or modelled counter.
const fn metric_of_kind(row: CounterRow) -> Metric {
    let is_common = matches!(row.counter, Counter::Modelled(event) if event.is_common());
    Metric {
        name: row.name,
        unit: row.unit,
        context: Context::Process,
        counter: Some(row.counter),
        whole_of: PROCESS,
        whole: if is_common { Whole::Work } else { Whole::HundredthOfWork },
    }
}

/// The Metric of that name.
pub fn metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_interrupts_and_threads_do_matters_as_a_share_of_what_the_process_does() {
        let sample = Sample {
            ops: 1,
            counts: [
                (Context::Process, Counts::dispatched(20_000_000, 5)),
                (Context::Kthread, Counts::dispatched(44, 0)),
            ]
            .into(),
            total: 20_000_049,
            tsc: 20_000_049,
            signature: Default::default(),
            values: Default::default(),
            notes: Vec::new(),
            printed: None,
            parallel: None,
        };
        for (row, metric) in COUNTERS[Basic::ALL.len()..].iter().zip(&METRICS[BASIC.len()..]) {
            assert_eq!((metric.name, metric.counter), (row.name, Some(row.counter)));
            assert!(!metric.decides());
        }
        let background: Vec<&Metric> =
            METRICS.iter().filter(|metric| metric.is_background()).collect();
        assert_eq!(background.len(), 3);
        assert!(background.iter().all(|metric| metric.whole(&sample) == 20_000_005));
        assert_eq!(METRICS[0].whole(&sample), 20_000_000);
    }
}
