use crate::numbers::numbers;
use crate::rundir::profile::{self, ProfileError};
use crate::suites::recognised;
use ktax_engine::wire::{self, Answer, Printed, WireError};
use ktax_engine::{Limits, RawAnswer};
use ktax_host::text::escape;
use ktax_model::{Failure, PrintedEnd, Sample, Signature, Workload};

/// A Sample and the profile's text, which is kept as it came.
pub struct Measured {
    pub sample: Sample,
    pub profile: String,
}

/// Judges what a Run left behind: the guest is trusted with nothing.
pub fn measure(
    answer: &RawAnswer,
    workload: &Workload,
    virtual_s: u64,
) -> Result<Measured, Failure> {
    let parsed = profile::parse(&answer.profile);
    if let Err(ProfileError::Over { limit, cpus }) = parsed {
        return Err(Failure::CountedTime { limit_s: Limits::seconds(limit), cpus });
    }
    let mut done = match wire::parse_answer(&answer.wire, &workload.program) {
        Ok(Answer::Done(done)) => done,
        Ok(Answer::Refused(message)) if workload.is_users() => {
            return Err(Failure::Program { message });
        }
        Ok(Answer::Refused(message)) => return Err(Failure::Refused { message }),
        Err(WireError::Nothing) => {
            return Err(Failure::Silent { console: answer.console_tail.clone() });
        }
        Err(error) => return Err(Failure::Garbled { reason: error.to_string() }),
    };
    let Some(tsc) = done.tsc else {
        return Err(Failure::Garbled { reason: "there is no time-stamp".into() });
    };
    let printed = workload.is_users().then(|| wire::parse_printed(&answer.wire));
    if let Some(printed) = &printed {
        let (signature, values) = (&mut done.signature, &mut done.values);
        read_printed(workload, printed, signature, values)?;
    }
    let deviations = workload.deviations(&done.signature).join("; ");
    if !deviations.is_empty() {
        return Err(Failure::WrongWork { deviations });
    }
    // Under icount a time-stamp count is a virtual nanosecond.
    if tsc > virtual_s.saturating_mul(1_000_000_000) {
        return Err(Failure::VirtualTime { limit_s: virtual_s });
    }
    let parsed = parsed.map_err(|error| unusable(error, workload))?;
    let ops = workload.ops_of(&done.signature);
    if ops == 0 {
        let message = "it printed that it did 0 operations".to_owned();
        return Err(Failure::Program { message });
    }
    let counts = parsed.counts();
    let sample = Sample {
        ops,
        counts,
        total: parsed.total,
        tsc,
        signature: done.signature,
        values: done.values,
        printed: printed.as_ref().and_then(printed_end),
        notes: parsed.notes.clone(),
        parallel: parsed.parallel,
    };
    Ok(Measured { sample, profile: answer.profile.clone() })
}

/// Adds the numbers in what a program printed: those that are asked for, and the operations of a
/// suite that is known.
fn read_printed(
    workload: &Workload,
    printed: &Printed,
    signature: &mut Signature,
    values: &mut Signature,
) -> Result<(), Failure> {
    let found = numbers(&workload.numbers, printed);
    signature.extend(found.map_err(|message| {
        let message = escape(&message).to_string();
        Failure::Program { message }
    })?);
    let operations = |(suite, count)| (format!("{suite}{}", Sample::OPERATIONS_OF), count);
    values.extend(recognised(printed).map(operations));
    Ok(())
}

/// How much of what a program printed is a part of its Sample.
const MOST_LINES: usize = 6;
const MOST_LINE_BYTES: usize = 160;

fn printed_end(printed: &Printed) -> Option<PrintedEnd> {
    let stdout = printed.stdout.last_lines(MOST_LINES, MOST_LINE_BYTES);
    let stderr = printed.stderr.last_lines(MOST_LINES, MOST_LINE_BYTES);
    (!stdout.is_empty() || !stderr.is_empty()).then_some(PrintedEnd { stdout, stderr })
}

/// What a profile that cannot be used says of the Workload.
fn unusable(error: ProfileError, workload: &Workload) -> Failure {
    match error {
        // The guest begins and ends around the whole program.
        ProfileError::Markers { begins, ends } if workload.is_users() => {
            let [begins, ends] = [begins, ends].map(|n| n.saturating_sub(1));
            let message =
                format!("it executed `begin` and `end` {begins} and {ends} times, not once each");
            Failure::Program { message }
        }
        ProfileError::Regions { regions: 2 } if workload.is_users() => {
            Failure::Program { message: "it executed `end` before `begin`".to_owned() }
        }
        error => Failure::Profile { reason: error.to_string() },
    }
}
