//! Joins what several recorders of one VM have recorded.

use super::points::{Level, Points};
use super::process::lives;
use crate::recording::{Cost, Recording, Thread};
use crate::table::{CountedExits, Per, Recorded};
use ktax_model::{ExitTable, RecorderCost, Warning};

/// What one recorder has recorded.
pub(super) struct Seen {
    pub points: Points,
    pub source: &'static str,
    pub recording: Recording,
}

/// What all recorders have recorded.
pub(super) struct Whole {
    pub process: u32,
    pub of: String,
    pub seen: Vec<Seen>,
    /// When the recording began, if the VM ran already.
    pub began_ns: Option<u64>,
    /// Why eBPF could not be used.
    pub refused: Option<String>,
    /// Whether what was to be recorded is over.
    pub is_over: bool,
    pub now_ns: u64,
}

impl Whole {
    /// The tables of the first recorder that saw a guest.
    pub fn tables(&self, per: Per) -> Vec<ExitTable> {
        let has_seen = |seen: &&Seen| !seen.recording.rows.is_empty();
        let Some(seen) = self.seen.iter().find(has_seen).or(self.seen.first()) else {
            return vec![];
        };
        let moments = match seen.points.level {
            Level::Exits => "kvm_entry and kvm_exit",
            Level::Run => "KVM_RUN",
        };
        let recorded = Recorded {
            recording: &seen.recording,
            of: &self.of,
            source: &format!("{moments}, {}", seen.source),
            began: self.began_ns,
            name: &|reason| seen.points.names.name(reason),
            end: &|tid, thread| self.end(seen.recording.until, tid, thread),
            counted: &CountedExits::default(),
            has_switches: true,
            may_sleep: &|_| false,
        };
        let mut tables = recorded.tables(per);
        for table in &mut tables {
            table.warnings.extend(self.warnings(seen));
            if let Some(account) = &mut table.account {
                account.recorder = self.cost();
            }
        }
        tables
    }

    /// When the recording of a thread ended: of a thread that has ended, at its last exit.
    fn end(&self, until: Option<u64>, tid: u32, thread: &Thread) -> u64 {
        match thread.open {
            Some((_, began)) if self.is_over || !lives(self.process, tid) => began,
            Some((_, began)) => until.unwrap_or(self.now_ns).max(began),
            None => until.unwrap_or(self.now_ns).max(thread.last),
        }
    }

    /// The cost of all recorders together.
    fn cost(&self) -> Option<RecorderCost> {
        let costs = self.seen.iter().filter_map(|seen| seen.recording.cost);
        let Cost { exit_ns, switch_ns } = costs.reduce(|a, b| Cost {
            exit_ns: a.exit_ns + b.exit_ns,
            switch_ns: a.switch_ns + b.switch_ns,
        })?;
        Some(RecorderCost { exit_ns, switch_ns })
    }

    fn warnings(&self, seen: &Seen) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut warn = |fact: String, next_step: &str| {
            warnings.push(Warning { fact, next_step: next_step.to_owned() });
        };
        if let Some(reason) = &self.refused {
            let fact = format!("eBPF is refused here ({reason}), so perf copies each event");
            warn(fact, "run ktax with CAP_BPF to avoid the copies");
        }
        let first = self.seen.first().map(|first| first.points.level);
        if seen.recording.rows.is_empty() {
            let fact = "no vCPU left its guest or entered it".to_owned();
            let next = "record for longer, and give the VMM's own process, not one that starts it; \
                        use --via stats for a guest that never exits";
            warn(fact, next);
        } else if first != Some(seen.points.level) {
            let fact = "kvm_exit never fires here, so only exits that reach the VMM have reasons";
            warn(fact.to_owned(), "record on a host with hardware virtualization");
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Reason;

    #[test]
    fn a_thread_that_has_ended_was_no_vcpu_after_its_last_exit() {
        let process = std::process::id();
        let (of, seen) = (String::new(), vec![]);
        let (began_ns, refused) = (None, None);
        let whole = Whole { process, of, seen, began_ns, refused, is_over: false, now_ns: 900 };
        let name = String::new;
        let thread = |open| Thread { name: name(), first: 50, last: 100, open, unpaired: 0 };
        let (open, closed) = (thread(Some((Reason::GUEST, 100))), thread(None));
        // The first thread of a process has its number, and no thread has this one.
        let gone = 1 << 30;
        assert_eq!(whole.end(None, process, &open), 900);
        assert_eq!(whole.end(Some(500), process, &open), 500);
        assert_eq!(whole.end(None, gone, &open), 100);
        assert_eq!(whole.end(None, process, &closed), 900);
        assert_eq!(Whole { is_over: true, ..whole }.end(None, process, &open), 100);
    }
}
