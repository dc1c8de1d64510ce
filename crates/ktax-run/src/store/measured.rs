//! Measurements of a run directory: each row of a Side is one measurement in the store.

use crate::rundir::RunDir;
use ktax_model::{
    AskedGuest, Boot, CountsPlan, FORMAT, Identity, Measurand, MeasuredLayout, Measurement,
    Outcome, Plan, Run, Side, Step, Subject, Workload,
};

/// A row of a Side of a Plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    pub side: Side,
    /// The measurand: kernel, boot line, machine, row and Layouts.
    pub of: Measurand,
    /// The Kernel's names.
    pub kernel: Identity,
    /// Subject as the user wrote it.
    subject: Subject,
    /// Settings of the guest that both Sides share.
    guest: AskedGuest,
    /// Random seed of the Layouts.
    seed: u64,
    /// The Steps, in the order of the Layouts.
    steps: Vec<Step>,
}

/// All rows of both Sides.
pub fn groups(plan: &Plan<CountsPlan>) -> Vec<Group> {
    let Plan { seed, method: plan, .. } = plan;
    let group = |side: Side, workload: &Workload| {
        let mut steps: Vec<Step> =
            plan.steps.iter().filter(|step| step.side == side).cloned().collect();
        steps.sort_by_key(|step| step.layout);
        Group {
            side,
            of: Measurand {
                kernel_sha256: plan.kernels.get(side).sha256.clone(),
                boot_line: plan.asked.subjects.get(side).boot_line.clone(),
                machine: plan.asked.machine.clone(),
                key: plan.key_of(side, &workload.row),
                workload: workload.clone(),
                layouts: plan.layouts.clone(),
            },
            kernel: plan.kernels.get(side).clone(),
            subject: plan.asked.subjects.get(side).clone(),
            guest: plan.asked.guest.without_traced(),
            seed: *seed,
            steps,
        }
    };
    let sides = Side::BOTH.into_iter();
    sides
        .flat_map(|side| plan.workloads.iter().map(move |workload| group(side, workload)))
        .collect()
}

impl Group {
    pub fn row(&self) -> &str {
        &self.of.workload.row
    }

    /// The measurement of this row with these results, one for each Layout.
    pub fn measurement(&self, layouts: Vec<MeasuredLayout>) -> Measurement {
        let Group { of, kernel, subject, guest, seed, .. } = self.clone();
        Measurement { format: FORMAT, of, kernel, subject, guest, seed, layouts }
    }

    /// Whether the run directory has a Run of it, or a Boot that failed.
    pub fn is_begun(&self, dir: &RunDir<CountsPlan>) -> Result<bool, ktax_model::Error> {
        for step in &self.steps {
            let run: Option<Run> = dir.run(step, self.row())?;
            let has_failed = dir.boot(step)?.is_some_and(|boot| boot.failure.is_some());
            if run.is_some() || has_failed {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The measurement of a row in a run directory; `None` if a Layout is missing or failed, or if the
/// host lost something of it.
pub fn measured(
    dir: &RunDir<CountsPlan>,
    group: &Group,
) -> Result<Option<Measurement>, ktax_model::Error> {
    let mut layouts = Vec::new();
    for step in &group.steps {
        let (boot, run) = (dir.boot(step)?, dir.run(step, group.row())?);
        let (Some(boot), Some(Run { outcome: Outcome::Measured(sample), .. })) = (boot, run) else {
            return Ok(None);
        };
        if boot.failure.is_some() {
            return Ok(None);
        }
        // Failures of the host say nothing about the guest.
        let boot = Boot { lost: Vec::new(), ..boot };
        layouts.push(MeasuredLayout {
            boot,
            sample,
            profile: dir.profile_text(step, group.row())?,
        });
    }
    Ok((!layouts.is_empty()).then(|| group.measurement(layouts)))
}

/// Writes the stored measurement of a row into a run directory, as if it had been measured there.
pub fn place_in(
    dir: &RunDir<CountsPlan>,
    group: &Group,
    measurement: &Measurement,
) -> Result<(), ktax_model::Error> {
    for (step, layout) in group.steps.iter().zip(&measurement.layouts) {
        dir.prepare(step)?;
        let (row, outcome) = (group.row().to_owned(), Outcome::Measured(layout.sample.clone()));
        dir.write_run(step, &Run { row, outcome }, Some(&layout.profile))?;
        if dir.boot(step)?.is_none() {
            dir.write_boot(step, &layout.boot)?;
        }
    }
    Ok(())
}
