use crate::engine::{Frozen, Stop};
use crate::model::{Failure, Sample, Workload};
use crate::rundir::profile;
use crate::wire::{self, Answer, WireError};

/// A Sample and the profile's text, which is kept as it came.
pub struct Measured {
    pub sample: Sample,
    pub profile: String,
}

/// Runs one Workload and judges what comes back: the guest is trusted with nothing.
pub fn measure(
    frozen: &dyn Frozen,
    workload: &Workload,
    order: &str,
    virtual_s: u64,
) -> Result<Measured, Stop> {
    let answer = frozen.run(order)?;
    let (signature, tsc) = match wire::parse_answer(&answer.wire, &workload.program) {
        Ok(Answer::Done { signature, tsc }) => (signature, tsc),
        Ok(Answer::Refused(message)) => return Err(Failure::Refused { message }.into()),
        Err(WireError::Nothing) => {
            return Err(Failure::Silent { console: answer.console_tail }.into());
        }
        Err(error) => return Err(Failure::Garbled { reason: error.to_string() }.into()),
    };
    let deviations = workload.deviations(&signature).join("; ");
    if !deviations.is_empty() {
        return Err(Failure::WrongWork { deviations }.into());
    }
    // Under icount a time-stamp count is a virtual nanosecond.
    if tsc > virtual_s.saturating_mul(1_000_000_000) {
        return Err(Failure::VirtualTime { limit_s: virtual_s }.into());
    }
    let parsed = profile::parse(&answer.profile)
        .map_err(|error| Failure::Profile { reason: error.to_string() })?;
    let sample = Sample {
        ops: workload.ops,
        counts: parsed.counts(),
        total: parsed.total,
        tsc,
        signature,
        notes: parsed.notes,
    };
    Ok(Measured { sample, profile: answer.profile })
}
