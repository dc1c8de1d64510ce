//! Guests: each Step boots a KVM host, and each row runs a guest in a host of its own.

use crate::driver::{Boots, Made, ReadyBoot};
use ktax_engine::Stop;
use ktax_exits::kvmhost::{GuestEngine, ReadyHost, Recorded};
use ktax_model::{Boot, GuestSample, GuestsPlan, Outcome, Step};

impl Boots for &dyn GuestEngine {
    type Plan = GuestsPlan;
    type Sample = GuestSample;

    fn steps(plan: &GuestsPlan) -> &[Step] {
        &plan.steps
    }

    fn rows(plan: &GuestsPlan) -> Vec<&str> {
        plan.asked.rows.iter().map(|row| row.row.as_str()).collect()
    }

    fn script(&self, plan: &GuestsPlan, step: &Step) -> String {
        GuestEngine::script(*self, step.side, &plan.layouts[step.layout])
    }

    fn boot<'a>(
        &'a self,
        plan: &'a GuestsPlan,
        step: &Step,
    ) -> Result<Box<dyn ReadyBoot<GuestSample> + 'a>, Stop> {
        Ok(Box::new(GuestEngine::boot(*self, step.side, &plan.layouts[step.layout])?))
    }
}

impl ReadyBoot<GuestSample> for Box<dyn ReadyHost + '_> {
    /// Facts about the host; the plan has the hash of its kernel's image.
    fn about(&self) -> Boot {
        Boot { busy: (**self).busy(), ..Boot::default() }
    }

    fn console(&self) -> Option<Vec<u8>> {
        (**self).console()
    }

    fn order(&self, row: usize) -> String {
        (**self).order(row)
    }

    fn run(&self, row: usize, _: &str) -> Result<Made<GuestSample>, Stop> {
        let Recorded { run, signature, console } = (**self).run(row)?;
        let outcome = Outcome::Measured(GuestSample { run, signature });
        Ok(Made { outcome, profile: None, garbled: None, console, printed: None })
    }
}
