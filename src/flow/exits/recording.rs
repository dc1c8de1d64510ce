//! A VM that runs, recorded until it ends, or the user wants no more.

use std::time::{Duration, Instant};

use super::error::RecordError;
use super::vmm::{CANCEL_POLL, RecordedVmm, VmmToRecord};
use crate::engine::Cancel;
use crate::exits::Per;
use crate::exits::live::{Recorder, RecorderChoice};
use crate::flow::error::Error;
use crate::flow::session::Observer;
use crate::model::ExitTable;
use crate::text::escape;

/// Records a VM until it ends, the user stops it, or for `most`; `None` where the user stopped it
/// before it began.
///
/// # Errors
/// Nothing can be recorded, or what was started ran no guest.
pub fn record(
    vmm: &VmmToRecord,
    choice: RecorderChoice,
    per: Per,
    most: Option<Duration>,
    cancel: Cancel,
    observer: &dyn Observer,
) -> Result<Option<Vec<ExitTable>>, Error> {
    let Some(target) = vmm.open(cancel)? else { return Ok(None) };
    let mut recording = Attached::attach(target, choice)?;
    let began = Instant::now();
    let of = escape(&recording.target.of);
    observer.status(&format!("recording {of}; Ctrl-C ends it"));
    let is_long_enough = || most.is_some_and(|most| began.elapsed() >= most);
    while recording.goes_on() && !is_long_enough() {
        recording.look(most.map_or(CANCEL_POLL, |most| most.saturating_sub(began.elapsed())))?;
    }
    observer.status("");
    let (tables, failure) = recording.finish(per)?;
    if let Some(status) = failure {
        if tables.iter().all(|table| table.rows.is_empty()) {
            return Err(RecordError::NoGuest { status }.into());
        }
        observer.note(&format!("the command failed: {status}"));
    }
    Ok(Some(tables))
}

/// Shows what was counted so far, after each `interval`, until nobody reads it any more. Whether
/// it began.
///
/// # Errors
/// Nothing can be recorded, or shown.
pub fn watch(
    vmm: &VmmToRecord,
    choice: RecorderChoice,
    per: Per,
    interval: Duration,
    cancel: Cancel,
    show: &dyn Fn(&[ExitTable]) -> Result<bool, Error>,
) -> Result<bool, Error> {
    let Some(target) = vmm.open(cancel)? else { return Ok(false) };
    let mut recording = Attached::attach(target, choice)?;
    let mut is_read = true;
    while is_read && recording.goes_on() {
        let shown = Instant::now();
        while recording.goes_on() && shown.elapsed() < interval {
            recording.look(interval.saturating_sub(shown.elapsed()))?;
        }
        is_read = show(&recording.recorder.tables(per)?)?;
    }
    recording.finish(per)?;
    Ok(true)
}

/// A recording that goes on.
struct Attached {
    recorder: Recorder,
    target: RecordedVmm,
    is_over: bool,
    is_marked: bool,
}

impl Attached {
    fn attach(target: RecordedVmm, choice: RecorderChoice) -> Result<Attached, Error> {
        let recorder = Recorder::attach(&target.process, &target.of, choice, !target.is_own())?;
        target.go()?;
        Ok(Attached { recorder, target, is_over: false, is_marked: false })
    }

    fn goes_on(&self) -> bool {
        !self.is_over && !self.is_marked && !self.target.is_cancelled()
    }

    /// Waits for the VM's end, for at most `time`, and takes what was recorded meanwhile.
    fn look(&mut self, time: Duration) -> Result<(), Error> {
        self.is_over = self.target.process.ended_within(time.min(CANCEL_POLL))?;
        self.recorder.poll()?;
        self.is_marked = !self.is_over && self.target.has_marked_its_end()?;
        Ok(())
    }

    /// The tables, and how the command failed, if it did.
    fn finish(self, per: Per) -> Result<(Vec<ExitTable>, Option<String>), Error> {
        let Attached { recorder, target, mut is_over, is_marked } = self;
        let tables = recorder.finish(per, is_marked)?;
        if is_marked {
            target.go_to_the_end()?;
            is_over = !target.is_cancelled();
        }
        Ok((tables, target.end(is_over)?))
    }
}
