use super::{Context, Costly, Counts, Modelled, Parallel, Sample};

/// One column: how a number is taken from a Sample, and what it means.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// The name in files and on the screen.
    pub name: &'static str,
    /// The unit of one value, per operation.
    pub unit: &'static str,
    /// Whose counts it reads.
    pub context: Context,
    /// Which of the counts it reads.
    pub count: fn(&Counts) -> u64,
    /// Where there is such a thing.
    pub is_in: fn(&Sample) -> bool,
    /// What it reads of all CPUs together instead; no function carries that.
    pub of_rounds: Option<fn(&Parallel) -> u64>,
    /// The costly instructions that it counts, if it is of such.
    pub costly: Option<Costly>,
    /// The counter of the model of a machine that it is, if it is one.
    pub modelled: Option<Modelled>,
    /// Whose counts together a difference must be a share of to matter.
    pub whole_of: &'static [Context],
    /// What of them.
    pub whole: fn(&Counts) -> u64,
}

impl Metric {
    /// The Region's raw count.
    pub fn raw(&self, sample: &Sample) -> u64 {
        match (self.of_rounds, &sample.parallel) {
            (Some(of_rounds), Some(parallel)) => of_rounds(parallel),
            _ => sample.counts.get(&self.context).map_or(0, self.count),
        }
    }

    /// Whether functions carry it.
    pub fn is_of_functions(&self) -> bool {
        self.of_rounds.is_none()
    }

    /// What a difference of raw counts must be a share of to matter.
    pub fn whole(&self, sample: &Sample) -> u64 {
        let of = |context| sample.counts.get(context).map_or(0, self.whole);
        self.whole_of.iter().map(of).fold(0, u64::saturating_add)
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

    /// Whether it is of one kind of many, which decides nothing.
    pub fn is_of_kind(&self) -> bool {
        self.costly.is_some() || self.modelled.is_some()
    }
}

const fn exact(
    name: &'static str,
    unit: &'static str,
    context: Context,
    count: fn(&Counts) -> u64,
) -> Metric {
    let is_in: fn(&Sample) -> bool = |_| true;
    let (of_rounds, costly, modelled, whole) = (None, None, None, count);
    let whole_of = only(context);
    Metric { name, unit, context, count, is_in, of_rounds, costly, modelled, whole_of, whole }
}

const fn only(context: Context) -> &'static [Context] {
    match context {
        Context::Process => &[Context::Process],
        Context::Interrupt => &[Context::Interrupt],
        Context::Kthread => &[Context::Kthread],
        Context::Awaited => &[Context::Awaited],
    }
}

/// A few iterations, or a timer tick, where there is hardly anything else of that kind are nothing
/// beside a million instructions of the process.
const fn of_all_work(metric: Metric) -> Metric {
    let whole: fn(&Counts) -> u64 = |counts| counts.instructions + counts.rep_iterations;
    Metric { whole_of: &[Context::Process], whole, ..metric }
}

/// It is a part of what the row takes.
const fn beside_process(metric: Metric) -> Metric {
    Metric { whole_of: &[Context::Process, Context::Awaited], ..of_all_work(metric) }
}

const fn of_several(name: &'static str, context: Context, count: fn(&Counts) -> u64) -> Metric {
    let metric = exact(name, "instructions", context, count);
    Metric { is_in: |sample| sample.parallel.is_some(), ..of_all_work(metric) }
}

/// One takes about as long as a hundred instructions.
const fn of_hundred(metric: Metric) -> Metric {
    let whole: fn(&Counts) -> u64 = |counts| (counts.instructions + counts.rep_iterations) / 100;
    Metric { whole, ..metric }
}

/// Such a number is the model's.
const fn of_coherence(metric: Metric) -> Metric {
    let is_in: fn(&Sample) -> bool =
        |sample| sample.parallel.as_ref().is_some_and(|it| it.transfers.is_some());
    Metric { unit: "transfers", is_in, ..of_hundred(metric) }
}

/// How many of the kind that has this number in [`Costly::ALL`]. Each Region has some of one kind,
/// unless an older ktax did not count them.
const fn of_kind<const KIND: usize>() -> Metric {
    let kind = Costly::ALL[KIND];
    let count: fn(&Counts) -> u64 = |counts| counts.costly.get(Costly::ALL[KIND]);
    let metric = exact(kind.name(), "instructions", Context::Process, count);
    let is_in: fn(&Sample) -> bool =
        |sample| sample.counts.values().any(|counts| !counts.costly.is_zero());
    Metric { costly: Some(kind), is_in, ..of_hundred(metric) }
}

/// Fewer instructions say nothing of the last cache: most of it has what was before.
const LEAST_FOR_LAST_CACHE: u64 = 1_000_000;

/// The counter of the model of a machine that has this number in [`Modelled::ALL`].
const fn of_model<const COUNTER: usize>() -> Metric {
    let counter = Modelled::ALL[COUNTER];
    let count: fn(&Counts) -> u64 = |counts| counts.modelled.get(Modelled::ALL[COUNTER]);
    let metric = exact(counter.name(), counter.unit(), Context::Process, count);
    let metric = if counter.is_common() { of_all_work(metric) } else { of_hundred(metric) };
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

/// What CPUs waited for each other.
pub const SPIN_WAIT: &str = "spin-wait";

/// What CPUs had nothing to do.
pub const IDLE: &str = "idle";

/// How often cache lines travelled between CPUs, by the model of coherence.
pub const TRANSFERS: &str = "model-transfers";

/// What kernel threads did while the processes of one CPU waited for them.
pub const AWAITED: &str = "awaited-kthread";

/// Every Metric of the exact engine. The first is the headline; a row's Verdict is that of the
/// first that decides and changed.
pub const METRICS: [Metric; 9 + Costly::ALL.len() + Modelled::ALL.len()] = [
    exact("instructions", "instructions", Context::Process, |c| c.instructions),
    of_all_work(exact("rep-iterations", "iterations", Context::Process, |c| c.rep_iterations)),
    of_all_work(exact("interrupt", "instructions", Context::Interrupt, |c| c.instructions)),
    of_all_work(exact("kthread", "instructions", Context::Kthread, |c| c.instructions)),
    beside_process(exact(AWAITED, "instructions", Context::Awaited, |c| c.instructions)),
    Metric {
        of_rounds: Some(|parallel| parallel.makespan),
        ..of_several(MAKESPAN, Context::Process, |_| 0)
    },
    of_several(SPIN_WAIT, Context::Process, |c| c.wait),
    of_several(IDLE, Context::Kthread, |c| c.idle),
    of_coherence(of_several(TRANSFERS, Context::Process, |c| c.transfers)),
    of_kind::<0>(),
    of_kind::<1>(),
    of_kind::<2>(),
    of_kind::<3>(),
    of_kind::<4>(),
    of_kind::<5>(),
    of_kind::<6>(),
    of_kind::<7>(),
    of_kind::<8>(),
    of_kind::<9>(),
    of_kind::<10>(),
    of_kind::<11>(),
    of_kind::<12>(),
    of_kind::<13>(),
    of_kind::<14>(),
    of_kind::<15>(),
    of_kind::<16>(),
    of_kind::<17>(),
    of_kind::<18>(),
    of_kind::<19>(),
    of_kind::<20>(),
    of_kind::<21>(),
    of_kind::<22>(),
    of_kind::<23>(),
    of_kind::<24>(),
    of_kind::<25>(),
    of_kind::<26>(),
    of_kind::<27>(),
    of_kind::<28>(),
    of_model::<0>(),
    of_model::<1>(),
    of_model::<2>(),
    of_model::<3>(),
    of_model::<4>(),
    of_model::<5>(),
    of_model::<6>(),
    of_model::<7>(),
    of_model::<8>(),
    of_model::<9>(),
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
        let background: Vec<&Metric> = METRICS.iter().filter(|it| it.is_background()).collect();
        assert_eq!(background.len(), 3);
        assert!(background.iter().all(|metric| metric.whole(&sample) == 20_000_005));
        assert_eq!(METRICS[0].whole(&sample), 20_000_000);
    }
}
