use ktax_model::{
    Comparison, ComparisonMethod, GuestSide, LedgerMethod, LedgerTable, Saved, SavedResult, Side,
    Sides, Subjects, fact,
};

/// What is known of a result without opening it.
pub(super) struct Described {
    pub kind: &'static str,
    pub title: String,
    pub headline: String,
    pub rows: Vec<String>,
    /// The names of the kernels that were measured.
    pub kernels: Vec<String>,
    /// SHA-256 of images, each with the name that was asked for, and where it came from. A
    /// measurement has only the names under which it was made.
    pub aliases: Vec<[String; 3]>,
}

impl Described {
    pub fn of(saved: &Saved) -> Described {
        let headline = saved.headline.clone();
        let (kind, title, rows, kernels) = match &saved.result {
            SavedResult::Comparison(it) => {
                let rows = it.rows.iter().map(|row| row.row.clone()).collect();
                ("comparison", it.title.clone(), rows, compared(it))
            }
            SavedResult::Ledger(it) => {
                let rows = it.rows.iter().map(|row| row.row.clone()).collect();
                ("ledger", it.title.clone(), rows, of_ledger(it))
            }
            // It keeps no kernel: its elements are commits, options, patches or parameters.
            SavedResult::Bisection(it) => {
                ("bisection", it.title.clone(), vec![it.row.clone()], Vec::new())
            }
            SavedResult::Stat(_) => ("stat", String::new(), Vec::new(), Vec::new()),
            SavedResult::Native(_) => ("workloads", String::new(), Vec::new(), Vec::new()),
            SavedResult::Exits(_) => ("exits", String::new(), Vec::new(), Vec::new()),
            SavedResult::Calibration(_) => ("calibration", String::new(), Vec::new(), Vec::new()),
            SavedResult::Validation(it) => {
                let rows = it.rows.iter().map(|row| row.row.clone()).collect();
                ("validation", it.title.clone(), rows, Vec::new())
            }
            SavedResult::History(_) => ("history", String::new(), Vec::new(), Vec::new()),
            SavedResult::ExitDiff(_) => ("exits diff", String::new(), Vec::new(), Vec::new()),
        };
        let aliases = aliases(&saved.result);
        Described { kind, title, headline, rows, kernels, aliases }
    }
}

fn aliases(result: &SavedResult) -> Vec<[String; 3]> {
    let counts = match result {
        SavedResult::Comparison(comparison) => comparison.counts(),
        _ => None,
    };
    let of = |side: &Subjects| {
        let Subjects { subject, kernel } = side.clone();
        [kernel.sha256, subject.kernel, kernel.source]
    };
    counts.map_or(Vec::new(), |it| Side::BOTH.map(|side| of(it.subjects.get(side))).to_vec())
}

fn compared(comparison: &Comparison) -> Vec<String> {
    match &comparison.method {
        ComparisonMethod::Counts(of) => {
            let Sides { base, change } = &of.subjects;
            [base, change].map(|side| side.kernel.name().to_owned()).to_vec()
        }
        // Of guests it is in the plan; of the running kernel it is a fact of the machine.
        ComparisonMethod::Times(of) => {
            let planned = of.plan.kernels.values().map(|it| it.name().to_owned());
            let facts = Side::BOTH.map(|side| of.facts.get(side).get(fact::KERNEL).cloned());
            planned.chain(facts.into_iter().flatten()).collect()
        }
        ComparisonMethod::Guests(of) => {
            let sides = [Some(&of.plan.base), of.plan.change.as_ref()];
            let guests = sides.into_iter().flatten().filter_map(name_of_guest);
            [of.plan.host_kernel.name().to_owned()].into_iter().chain(guests).collect()
        }
    }
}

fn of_ledger(ledger: &LedgerTable) -> Vec<String> {
    match &ledger.method {
        LedgerMethod::Counts { base, .. } => vec![base.0.clone()],
        LedgerMethod::Guests(plan) => {
            let guest = name_of_guest(&plan.base);
            [plan.host_kernel.name().to_owned()].into_iter().chain(guest).collect()
        }
    }
}

fn name_of_guest(side: &GuestSide) -> Option<String> {
    Some(side.kernel.as_ref()?.name().to_owned())
}
