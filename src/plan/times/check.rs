//! What cannot be planned.

use super::experiment::TimesExperiment;
use crate::engine::EngineEntry;
use crate::model::{RunsOn, TimedMachine, TimedSubject};
use crate::plan::error::{PlanError, printable_line};
use crate::stats::timed::MIN_PAIRS;

impl TimesExperiment {
    /// Refuses what cannot be planned; call it again after changing a field.
    pub fn check(&self) -> Result<(), PlanError> {
        let least = MIN_PAIRS as u32;
        for (what, pairs, least) in
            [("pairs", self.pairs.unwrap_or(least), least), ("most_pairs", self.most_pairs, 20)]
        {
            if !(least..=10_000).contains(&pairs) {
                return Err(PlanError::Range { what, value: pairs, least, most: 10_000 });
            }
        }
        if !(1..=1000).contains(&self.loops) {
            let (what, value) = ("loops", self.loops);
            return Err(PlanError::Range { what, value, least: 1, most: 1000 });
        }
        let is_here = self.engine.runs_on == RunsOn::RunningKernel;
        if is_here && self.machine != TimedMachine::default() {
            let engine = self.engine.name;
            return Err(PlanError::NotOfEngine { what: "machine", engine });
        }
        let TimedMachine { memory_mib, vcpus, cores, .. } = self.machine;
        for (what, value, least, most) in [
            ("vcpus", vcpus, 1, 255),
            ("cores", cores.unwrap_or(1), 1, 1023),
            ("memory_mib", memory_mib, 128, 65536),
        ] {
            if !(least..=most).contains(&value) {
                return Err(PlanError::Range { what, value, least, most });
            }
        }
        printable_line("machine.cpu", &self.machine.cpu)?;
        if self.change.bare_metal || (self.base.bare_metal && is_here) {
            let (what, engine) = ("bare_metal, except as the base of guests", self.engine.name);
            return Err(PlanError::NotOfEngine { what, engine });
        }
        self.check_sweep()?;
        for subject in [&self.base, &self.change] {
            check_subject(self.engine, subject)?;
        }
        Ok(())
    }
}

fn check_subject(engine: &'static EngineEntry, subject: &TimedSubject) -> Result<(), PlanError> {
    let runs_on = engine.runs_on;
    let is_set = !subject.sysctl.is_empty()
        || subject.thp.is_some()
        || subject.governor.is_some()
        || !subject.prefix.is_empty();
    let engine = engine.name;
    let wrong = |what| Err(PlanError::NotOfEngine { what, engine });
    match runs_on {
        RunsOn::Guests if is_set => wrong("sysctl, thp, governor or prefix"),
        RunsOn::Guests if subject.bare_metal => match *subject == bare() {
            true => Ok(()),
            false => wrong("settings of its own on bare metal"),
        },
        RunsOn::Guests if subject.kernel.is_none() => Err(PlanError::NoKernel { engine }),
        RunsOn::RunningKernel if !subject.boot_line.is_empty() => wrong("boot_line"),
        RunsOn::RunningKernel | RunsOn::Guests => {
            let texts = subject.sysctl.iter().flat_map(|(name, value)| [name, value]);
            let texts = texts.chain(&subject.thp).chain(&subject.governor).chain(&subject.kernel);
            let texts = texts.chain(&subject.prefix).chain([&subject.boot_line]);
            texts.into_iter().try_for_each(|text| printable_line("a Subject's setting", text))
        }
    }
}

fn bare() -> TimedSubject {
    TimedSubject { bare_metal: true, ..TimedSubject::default() }
}
