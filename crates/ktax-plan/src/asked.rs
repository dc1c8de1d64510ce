use ktax_model::{FORMAT, Plan};

/// What is compared, over which rows, and by `M` how it is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment<M> {
    /// One line for people.
    pub title: String,
    /// What the Layouts, or the order of the pairs, are drawn from.
    pub seed: u64,
    /// A change below this many percent gets no verdict.
    pub threshold_percent: f64,
    /// How it is measured.
    pub method: M,
}

impl<M> Experiment<M> {
    /// The same with another method.
    pub fn with<N>(&self, method: N) -> Experiment<N> {
        let Experiment { title, seed, threshold_percent, .. } = self;
        Experiment {
            title: title.clone(),
            seed: *seed,
            threshold_percent: *threshold_percent,
            method,
        }
    }

    /// The Plan of it, with what the method needs to know.
    pub(super) fn plan_of<P>(&self, method: P) -> Plan<P> {
        let Experiment { title, seed, threshold_percent, method } = self.with(method);
        Plan { format: FORMAT, title, seed, threshold_percent, method }
    }
}
