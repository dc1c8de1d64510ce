//! Two kernels that are one.

use ktax_model::{
    CountsPlan, GuestsPlan, Identity, PlanMethod, Sides, Subject, TimesPlan, Warning,
};

/// What is to be said of a Plan whose Sides name two kernels that have the same bytes.
pub fn one_image(plan: &PlanMethod) -> Option<Warning> {
    match plan {
        PlanMethod::Counts(plan) => of_counts(plan),
        PlanMethod::Times(plan) => of_times(plan),
        PlanMethod::Guests(plan) => of_guests(plan),
    }
}

pub(super) fn of_counts(plan: &CountsPlan) -> Option<Warning> {
    let Sides { base, change } = &plan.kernels;
    is_asked_twice(&plan.subjects.base, &plan.subjects.change).then(|| warning(base, change))?
}

pub(super) fn of_times(plan: &TimesPlan) -> Option<Warning> {
    let (base, change) =
        (plan.subjects.base.kernel.as_ref()?, plan.subjects.change.kernel.as_ref()?);
    let kernel = |name: &String| plan.kernels.get(name);
    (base != change).then(|| warning(kernel(base)?, kernel(change)?))?
}

pub(super) fn of_guests(plan: &GuestsPlan) -> Option<Warning> {
    let (base, change) = (&plan.base, plan.change.as_ref()?);
    is_asked_twice(base.subject.kernel.as_ref()?, change.subject.kernel.as_ref()?)
        .then(|| warning(base.kernel.as_ref()?, change.kernel.as_ref()?))?
}

/// Whether the kernels were asked for by other names, options or patches.
fn is_asked_twice(base: &Subject, change: &Subject) -> bool {
    !change.is_kernel_of(base)
}

fn warning(base: &Identity, change: &Identity) -> Option<Warning> {
    (base.sha256 == change.sha256).then(|| Warning {
        fact: format!(
            "the kernels of base and change have the same bytes (SHA-256 begins with {})",
            base.sha256.chars().take(12).collect::<String>()
        ),
        next_step: "check their names, options and patches, unless only the boot lines should \
                    differ"
            .into(),
    })
}
