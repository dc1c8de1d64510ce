//! Boots of a [`GuestEngine`]: hosts, in which each row runs a guest.

use crate::engine::Stop;
use crate::kvmhost::{GuestEngine, ReadyHost, Recorded};
use crate::model::{Boot, GuestSample, GuestsPlan, Outcome, Step};
use crate::run::driver::{Boots, Made, ReadyBoot};

/// What runs the hosts and their guests.
pub struct GuestsBoots<'a> {
    /// The engine.
    pub engine: &'a dyn GuestEngine,
}

/// A host.
struct GuestsBoot<'a>(Box<dyn ReadyHost + 'a>);

impl Boots for GuestsBoots<'_> {
    type Plan = GuestsPlan;
    type Sample = GuestSample;

    fn steps(plan: &GuestsPlan) -> &[Step] {
        &plan.steps
    }

    fn rows(plan: &GuestsPlan) -> Vec<&str> {
        plan.rows.iter().map(|row| row.row.as_str()).collect()
    }

    fn script(&self, plan: &GuestsPlan, step: &Step) -> String {
        self.engine.script(step.side, &plan.layouts[step.layout])
    }

    fn boot<'a>(
        &'a self,
        plan: &'a GuestsPlan,
        step: &Step,
    ) -> Result<Box<dyn ReadyBoot<GuestSample> + 'a>, Stop> {
        let host = self.engine.boot(step.side, &plan.layouts[step.layout])?;
        Ok(Box::new(GuestsBoot(host)))
    }
}

impl ReadyBoot<GuestSample> for GuestsBoot<'_> {
    /// A host says nothing of its kernel: the plan has the image's hash.
    fn about(&self) -> Boot {
        Boot { busy: self.0.busy(), ..Boot::default() }
    }

    fn console(&self) -> Option<Vec<u8>> {
        self.0.console()
    }

    fn order(&self, row: usize) -> String {
        self.0.order(row)
    }

    fn run(&self, row: usize, _: &str) -> Result<Made<GuestSample>, Stop> {
        let Recorded { run, signature, console } = self.0.run(row)?;
        let outcome = Outcome::Measured(GuestSample { run, signature });
        Ok(Made { outcome, profile: None, garbled: None, console })
    }
}
