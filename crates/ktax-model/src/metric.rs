//! Metrics of exact counts.

use crate::{Context, Costly, Counts, Modelled, Parallel, Sample};

/// A column: how a number is taken from a Sample, and what it means.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// The name in files and on the screen.
    pub name: &'static str,
    /// The unit of one value, per operation.
    pub unit: &'static str,
    /// Context whose counts it reads.
    pub context: Context,
    /// Which of the counts it reads.
    pub count: fn(&Counts) -> u64,
    /// Whether a Sample has this Metric.
    pub is_in: fn(&Sample) -> bool,
    /// Count of all CPUs together that it reads instead; no function carries that.
    pub parallel_count: Option<fn(&Parallel) -> u64>,
    /// The costly instructions that it counts, if it is of such.
    pub costly: Option<Costly>,
    /// The counter of the model of a machine that it is, if it is one.
    pub modelled: Option<Modelled>,
    /// Contexts whose counts together a difference must be a share of to matter.
    pub whole_of: &'static [Context],
    /// Count of those Contexts.
    pub whole: fn(&Counts) -> u64,
}

impl Metric {
    /// The Region's raw count.
    pub fn raw(&self, sample: &Sample) -> u64 {
        match (self.parallel_count, &sample.parallel) {
            (Some(parallel_count), Some(parallel)) => parallel_count(parallel),
            _ => sample.counts.get(&self.context).map_or(0, self.count),
        }
    }

    /// Whether functions carry it.
    pub fn is_of_functions(&self) -> bool {
        self.parallel_count.is_none()
    }

    /// Count that a difference of raw counts must be a share of to matter.
    pub fn whole(&self, sample: &Sample) -> u64 {
        let whole_in = |context| sample.counts.get(context).map_or(0, self.whole);
        self.whole_of.iter().map(whole_in).fold(0, u64::saturating_add)
    }

    /// Whether it is what the machine does beside the process, which decides nothing.
    pub fn is_background(&self) -> bool {
        !self.context.decides()
    }

    /// Whether a row can be slower or faster by it. What a costly instruction costs depends on the
    /// machine, and what is modelled happens on none.
    pub fn decides(&self) -> bool {
        !self.is_background() && self.costly.is_none() && self.modelled.is_none()
    }

    /// Whether this is one Metric of many kinds, which decides nothing.
    pub fn is_of_kind(&self) -> bool {
        self.costly.is_some() || self.modelled.is_some()
    }
}

const fn exact_metric(
    name: &'static str,
    unit: &'static str,
    context: Context,
    count: fn(&Counts) -> u64,
) -> Metric {
    let is_in: fn(&Sample) -> bool = |_| true;
    let (parallel_count, costly, modelled, whole) = (None, None, None, count);
    let whole_of = only_context(context);
    Metric { name, unit, context, count, is_in, parallel_count, costly, modelled, whole_of, whole }
}

const fn only_context(context: Context) -> &'static [Context] {
    match context {
        Context::Process => &[Context::Process],
        Context::Interrupt => &[Context::Interrupt],
        Context::Kthread => &[Context::Kthread],
        Context::Awaited => &[Context::Awaited],
    }
}

/// Relates a Metric to the work of the process: a few iterations, or a timer tick, where there is
/// hardly anything else of that kind are nothing beside a million instructions of the process.
const fn relative_to_all_work(metric: Metric) -> Metric {
    let whole: fn(&Counts) -> u64 = |counts| counts.instructions + counts.rep_iterations;
    Metric { whole_of: &[Context::Process], whole, ..metric }
}

/// Relates a Metric to the work of the process and of the threads that it waits for.
const fn beside_process(metric: Metric) -> Metric {
    Metric { whole_of: &[Context::Process, Context::Awaited], ..relative_to_all_work(metric) }
}

const fn multi_cpu(name: &'static str, context: Context, count: fn(&Counts) -> u64) -> Metric {
    let metric = exact_metric(name, "instructions", context, count);
    Metric { is_in: |sample| sample.parallel.is_some(), ..relative_to_all_work(metric) }
}

/// Relates a Metric to a hundredth of all work: one count takes about as long as a hundred
/// instructions.
const fn relative_to_hundredth(metric: Metric) -> Metric {
    let whole: fn(&Counts) -> u64 = |counts| (counts.instructions + counts.rep_iterations) / 100;
    Metric { whole, ..metric }
}

/// Makes a Metric of the model of coherence: one transfer counts like a hundred instructions.
const fn coherence_metric(metric: Metric) -> Metric {
    let is_in: fn(&Sample) -> bool =
        |sample| sample.parallel.as_ref().is_some_and(|parallel| parallel.transfers.is_some());
    Metric { unit: "transfers", is_in, ..relative_to_hundredth(metric) }
}

/// Metric of the kind that has this number in [`Costly::ALL`]. Each Region has some of one kind,
/// unless an older ktax did not count them.
const fn costly_metric<const KIND: usize>() -> Metric {
    let kind = Costly::ALL[KIND];
    let count: fn(&Counts) -> u64 = |counts| counts.costly.get(Costly::ALL[KIND]);
    let metric = exact_metric(kind.name(), "instructions", Context::Process, count);
    let is_in: fn(&Sample) -> bool =
        |sample| sample.counts.values().any(|counts| !counts.costly.is_zero());
    Metric { costly: Some(kind), is_in, ..relative_to_hundredth(metric) }
}

/// Fewer instructions say nothing of the last cache: most of it has what was before.
const LEAST_FOR_LAST_CACHE: u64 = 1_000_000;

/// The counter of the model of a machine that has this number in [`Modelled::ALL`].
const fn modelled_metric<const COUNTER: usize>() -> Metric {
    let counter = Modelled::ALL[COUNTER];
    let count: fn(&Counts) -> u64 = |counts| counts.modelled.get(Modelled::ALL[COUNTER]);
    let metric = exact_metric(counter.name(), counter.unit(), Context::Process, count);
    let metric = if counter.is_common() {
        relative_to_all_work(metric)
    } else {
        relative_to_hundredth(metric)
    };
    let is_in: fn(&Sample) -> bool = |sample| {
        let is_long = sample.total >= LEAST_FOR_LAST_CACHE;
        let is_of_last_cache = matches!(Modelled::ALL[COUNTER], Modelled::CacheMisses);
        let is_modelled = |counts: &Counts| !counts.modelled.is_zero();
        sample.counts.values().any(is_modelled) && (is_long || !is_of_last_cache)
    };
    Metric { modelled: Some(counter), is_in, ..metric }
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

/// Every Metric of the exact engine. The first is the headline; a row's Verdict is that of the
/// first that decides and changed.
pub const METRICS: [Metric; 9 + Costly::ALL.len() + Modelled::ALL.len()] = [
    exact_metric("instructions", "instructions", Context::Process, |c| c.instructions),
    relative_to_all_work(exact_metric("rep-iterations", "iterations", Context::Process, |c| {
        c.rep_iterations
    })),
    relative_to_all_work(exact_metric("interrupt", "instructions", Context::Interrupt, |c| {
        c.instructions
    })),
    relative_to_all_work(exact_metric("kthread", "instructions", Context::Kthread, |c| {
        c.instructions
    })),
    beside_process(exact_metric(AWAITED, "instructions", Context::Awaited, |c| c.instructions)),
    Metric {
        parallel_count: Some(|parallel| parallel.makespan),
        ..multi_cpu(MAKESPAN, Context::Process, |_| 0)
    },
    multi_cpu(SPIN_WAIT, Context::Process, |c| c.wait),
    multi_cpu(IDLE, Context::Kthread, |c| c.idle),
    coherence_metric(multi_cpu(TRANSFERS, Context::Process, |c| c.transfers)),
    costly_metric::<0>(),
    costly_metric::<1>(),
    costly_metric::<2>(),
    costly_metric::<3>(),
    costly_metric::<4>(),
    costly_metric::<5>(),
    costly_metric::<6>(),
    costly_metric::<7>(),
    costly_metric::<8>(),
    costly_metric::<9>(),
    costly_metric::<10>(),
    costly_metric::<11>(),
    costly_metric::<12>(),
    costly_metric::<13>(),
    costly_metric::<14>(),
    costly_metric::<15>(),
    costly_metric::<16>(),
    costly_metric::<17>(),
    costly_metric::<18>(),
    costly_metric::<19>(),
    costly_metric::<20>(),
    costly_metric::<21>(),
    costly_metric::<22>(),
    costly_metric::<23>(),
    costly_metric::<24>(),
    costly_metric::<25>(),
    costly_metric::<26>(),
    costly_metric::<27>(),
    costly_metric::<28>(),
    modelled_metric::<0>(),
    modelled_metric::<1>(),
    modelled_metric::<2>(),
    modelled_metric::<3>(),
    modelled_metric::<4>(),
    modelled_metric::<5>(),
    modelled_metric::<6>(),
    modelled_metric::<7>(),
    modelled_metric::<8>(),
    modelled_metric::<9>(),
];

/// The Metric of that name.
pub fn metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_interrupts_and_threads_do_matters_as_a_share_of_what_the_process_does() {
        let counts = |instructions, rep_iterations| Counts {
            instructions,
            rep_iterations,
            ..Counts::default()
        };
        let sample = Sample {
            ops: 1,
            counts: [(Context::Process, counts(20_000_000, 5)), (Context::Kthread, counts(44, 0))]
                .into(),
            total: 20_000_049,
            tsc: 20_000_049,
            signature: Default::default(),
            values: Default::default(),
            notes: Vec::new(),
            printed: None,
            parallel: None,
        };
        for (kind, metric) in Costly::ALL.into_iter().zip(&METRICS[9..]) {
            assert_eq!((metric.name, metric.costly), (kind.name(), Some(kind)));
            assert!(!metric.decides());
        }
        for (counter, metric) in Modelled::ALL.into_iter().zip(&METRICS[9 + Costly::ALL.len()..]) {
            assert_eq!((metric.name, metric.modelled), (counter.name(), Some(counter)));
            assert!(!metric.decides());
        }
        let background: Vec<&Metric> =
            METRICS.iter().filter(|metric| metric.is_background()).collect();
        assert_eq!(background.len(), 3);
        assert!(background.iter().all(|metric| metric.whole(&sample) == 20_000_005));
        assert_eq!(METRICS[0].whole(&sample), 20_000_000);
    }
}
