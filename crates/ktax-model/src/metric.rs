//! Metrics of exact counts.

use crate::{Basic, COUNTERS, Context, Costly, Counter, CounterRow, Counts, Modelled, Sample};

/// A column: source of a number in a Sample, and its meaning.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name in files and on the screen.
    pub name: &'static str,
    /// Unit of one value, per operation.
    pub unit: &'static str,
    /// Context that is counted.
    pub context: Context,
    /// Counter that it reads; `None` for the makespan, which no function carries.
    counter: Option<Counter>,
    /// Contexts that the threshold is a share of.
    whole_of: &'static [Context],
    /// Count of those Contexts.
    whole: Whole,
}

/// Count that a difference is a share of.
#[derive(Debug, Clone, Copy)]
enum Whole {
    /// The Metric's own count.
    Own,
    /// All work: a few iterations or a timer tick are nothing beside a million instructions,
    /// however few others there are.
    Work,
    /// A hundredth of all work: one count takes about as long as a hundred instructions.
    HundredthOfWork,
}

/// Fewer instructions say nothing about the last cache, which mostly holds older data.
const LEAST_FOR_LAST_CACHE: u64 = 1_000_000;

impl Metric {
    /// Count of a function or a Context.
    pub fn count(&self, counts: &Counts) -> u64 {
        self.counter.map_or(0, |counter| counts[counter])
    }

    /// Raw count of the Region.
    pub fn raw(&self, sample: &Sample) -> u64 {
        match (self.counter, &sample.parallel) {
            (None, Some(parallel)) => parallel.makespan,
            _ => sample.counts.get(&self.context).map_or(0, |counts| self.count(counts)),
        }
    }

    /// True if the Sample has this Metric. Every Region has costly instructions, except in results
    /// of an older ktax.
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

    /// Kind of costly instructions, if it counts one.
    pub fn costly(&self) -> Option<Costly> {
        match self.counter {
            Some(Counter::Costly(kind)) => Some(kind),
            _ => None,
        }
    }

    /// Counter of a machine's model, if it is one.
    pub fn modelled(&self) -> Option<Modelled> {
        match self.counter {
            Some(Counter::Modelled(event)) => Some(event),
            _ => None,
        }
    }

    /// True if functions carry it.
    pub fn is_of_functions(&self) -> bool {
        self.counter.is_some()
    }

    /// Raw count that the threshold is a share of.
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

    /// True for work beside the process, which decides nothing.
    pub fn is_background(&self) -> bool {
        !self.context.decides()
    }

    /// True if a row can be slower or faster by it. Costly instructions depend on the machine, and
    /// modelled events happen on none.
    pub fn decides(&self) -> bool {
        !self.is_background() && !self.is_of_kind()
    }

    /// True if it is one Metric of many kinds, which decides nothing.
    pub fn is_of_kind(&self) -> bool {
        matches!(self.counter, Some(Counter::Costly(_) | Counter::Modelled(_)))
    }
}

const PROCESS: &[Context] = &[Context::Process];

/// Metric of the process; its threshold is a share of all work.
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

/// Length of all rounds: the time that the user of several CPUs waits for.
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

/// All Metrics of the exact engine. The first is the headline; a row has the Verdict of the first
/// that decides and changed.
pub const METRICS: [Metric; BASIC.len() + COUNTERS.len() - Basic::ALL.len()] = {
    let mut metrics = [BASIC[0]; BASIC.len() + COUNTERS.len() - Basic::ALL.len()];
    let mut index = 1;
    while index < metrics.len() {
        metrics[index] = match index < BASIC.len() {
            true => BASIC[index],
            false => metric_of_kind(COUNTERS[index - BASIC.len() + Basic::ALL.len()]),
        };
        index += 1;
    }
    metrics
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
