//! What cannot be planned.

use super::experiment::TimesExperiment;
use crate::bounds::{CORES, LOOPS, MEMORY_MIB, MOST_PAIRS, PAIRS, VCPUS};
use crate::error::{PlanError, printable_line, range};
use crate::flags::with_flag;
use ktax_engine::EngineEntry;
use ktax_model::{RunsOn, TimedMachine, TimedSubject, UserProgram};

impl TimesExperiment {
    /// Refuses what cannot be planned; call it again after changing a field.
    pub fn check(&self) -> Result<(), PlanError> {
        range("pairs", self.pairs.unwrap_or(*PAIRS.start()), PAIRS)?;
        range("most_pairs", self.most_pairs, MOST_PAIRS)?;
        range("loops", self.loops, LOOPS)?;
        let is_here = self.engine.runs_on == RunsOn::RunningKernel;
        if is_here && self.machine != TimedMachine::default() {
            let engine = self.engine.name;
            return Err(PlanError::NotOfEngine { what: "a [machine] table", engine });
        }
        let TimedMachine { memory_mib, cpus, cores, .. } = self.machine;
        range("machine.cpus", cpus, VCPUS)?;
        range("machine.cores", cores.unwrap_or(1), CORES)?;
        if !MEMORY_MIB.contains(&memory_mib) {
            return Err(PlanError::Memory { memory_mib });
        }
        printable_line("--cpu (machine.cpu)", &self.machine.cpu)?;
        if self.change.bare_metal {
            return Err(PlanError::BareMetal { key: "change.bare_metal" });
        }
        if self.base.bare_metal && is_here {
            return Err(PlanError::BareMetal { key: "base.bare_metal" });
        }
        self.check_sweep()?;
        self.check_programs()?;
        check_subject(self.engine, &self.base, "the base's kernel, boot line or settings")?;
        check_subject(self.engine, &self.change, "the change's kernel, boot line or settings")?;
        Ok(())
    }
}

impl TimesExperiment {
    fn check_programs(&self) -> Result<(), PlanError> {
        let refuse = |reason: String| Err(PlanError::Program { reason });
        let is_here = self.engine.runs_on == RunsOn::RunningKernel || self.base.bare_metal;
        for program in &self.programs {
            if program.numbers.contains_key(UserProgram::OPS) {
                let key = with_flag("ops_from");
                return refuse(format!("only counts have {key}; give its times --ops (ops)"));
            }
            if program.size.is_some() {
                let key = with_flag("sizes");
                return refuse(format!("only counts have {key}; remove it, or count it"));
            }
            if let (true, Some(key)) = (is_here, program.only_in_guests()) {
                return refuse(format!(
                    "only a program in a guest has {}, and a side is this machine itself; remove \
                     it, or compare two guests",
                    with_flag(key)
                ));
            }
        }
        Ok(())
    }
}

/// `texts` names what must be printable.
fn check_subject(
    engine: &'static EngineEntry,
    subject: &TimedSubject,
    texts: &'static str,
) -> Result<(), PlanError> {
    let runs_on = engine.runs_on;
    let is_set = !subject.sysctl.is_empty()
        || subject.thp.is_some()
        || subject.governor.is_some()
        || !subject.prefix.is_empty();
    let engine = engine.name;
    let wrong = |what| Err(PlanError::NotOfEngine { what, engine });
    match runs_on {
        RunsOn::Guests if is_set => {
            wrong("--base-set or --change-set (sysctl, thp, governor, prefix)")
        }
        RunsOn::Guests if subject.bare_metal => match *subject == bare() {
            true => Ok(()),
            false => Err(PlanError::BareMetalBoots),
        },
        RunsOn::Guests if subject.kernel.is_none() => Err(PlanError::NoKernel { engine }),
        RunsOn::RunningKernel if !subject.boot_line.is_empty() => {
            wrong("--base-boot-line or --change-boot-line (boot_line)")
        }
        RunsOn::RunningKernel | RunsOn::Guests => {
            let all = subject.sysctl.iter().flat_map(|(name, value)| [name, value]);
            let all = all.chain(&subject.thp).chain(&subject.governor).chain(&subject.kernel);
            let mut all = all.chain(&subject.prefix).chain([&subject.boot_line]);
            all.try_for_each(|text| printable_line(texts, text))
        }
    }
}

fn bare() -> TimedSubject {
    TimedSubject { bare_metal: true, ..TimedSubject::default() }
}
