//! The self-test of the quantum. Four CPUs of a guest without a kernel (`guest/self-test/`) want
//! one lock. How often they find it locked follows from the quantum alone, so a QEMU that does not
//! end a slice where the plugin asks for it has another share.

use std::fs;
use std::path::PathBuf;

use super::engine::Exact;
use super::frozen::collect;
use crate::argv::{self, Files, Plugin, Slices};
use crate::contract::RawAnswer;
use crate::entry::OpenError;
use crate::limits::Limits;
use crate::paths::Paths;
use crate::payload;
use crate::qemu::QemuError;
use crate::stop::{Stop, host};
use crate::vm::{Rest, Vm, Watched};
use crate::wire::{Answer, parse_answer};
use ktax_host::cache::{Holder, Scratch};
use ktax_host::disk::{sha256_of_file, sha256_of_parts, write_atomically};
use ktax_model::{Blame, Failure, Region};

const CPUS: u32 = 4;

/// How often all CPUs together take the lock.
const ACQUISITIONS: u64 = 80_000;

/// A quantum, and how many percent of all acquisitions find the lock taken at it. Of all quanta,
/// here a longer or shorter one shows most: 5 % of it are three points. It takes a second.
const TRIED: (u32, f64) = (200, 43.0);

/// How many points a share may be away: firmware decides where in a slice the first CPU begins.
const MOST_AWAY: f64 = 1.0;

/// What the guest does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelfTest {
    /// Each CPU takes the lock before it counts.
    Locked,
    /// No CPU does.
    Unlocked,
}

impl Exact {
    /// Makes sure that this QEMU ends slices as asked. What it once did is in the cache.
    ///
    /// # Errors
    ///
    /// It does not, the cache cannot be used, or the user cancelled.
    pub fn check_slices(&self) -> Result<(), OpenError> {
        let passed = self.record()?;
        if Holder::of(&passed).map_err(host("cannot read the self-test"))?.is_some() {
            return Ok(());
        }
        let refused = |why| QemuError::SelfTest { found: self.tools.qemu.version.clone(), why };
        match self.self_test(SelfTest::Locked, TRIED.0) {
            Ok(answer) => judge(&answer).map_err(refused)?,
            Err(Stop::Cancelled) => return Err(OpenError::Cancelled),
            Err(Stop::Failed(failure, _)) if failure.blame() == Blame::Host => {
                return Err(failure.into());
            }
            Err(Stop::Failed(failure, _)) => return Err(refused(failure.to_string()).into()),
        }
        Ok(write_atomically(&passed, b"passed\n").map_err(host("cannot keep the self-test"))?)
    }

    /// The file that is there if this QEMU has passed.
    fn record(&self) -> Result<PathBuf, Failure> {
        let qemu = &self.tools.qemu;
        let dir = self.tools.cache.join("self-tests");
        fs::create_dir_all(&dir).map_err(host("cannot write to the cache"))?;
        let program = sha256_of_file(&qemu.program).map_err(host("cannot read QEMU"))?;
        let tried = format!("{TRIED:?}");
        let of = [&program, &qemu.version, &payload::self_test_sha256(), &tried];
        Ok(dir.join(sha256_of_parts(&of)))
    }

    /// Runs the guest at a quantum.
    ///
    /// # Errors
    ///
    /// It fails, or the user cancelled.
    pub fn self_test(&self, what: SelfTest, quantum: u32) -> Result<RawAnswer, Stop> {
        let tools = &self.tools;
        let scratch = Scratch::create(&tools.cache.join("runs")).map_err(host("cannot start"))?;
        let image = tools.payload.self_test().map_err(host("cannot write to the cache"))?;
        let files = Files {
            ram: scratch.file("ram"),
            wire: scratch.file("wire"),
            console: scratch.file("serial.log"),
        };
        let (symbols, profile) = (scratch.file("symbols"), scratch.file("profile"));
        fs::write(&symbols, "ffffffff81000000 _stext\n").map_err(host("cannot write"))?;
        let plugin = Plugin {
            library: &tools.payload.plugin,
            symbols: &symbols,
            programs: None,
            profile: &profile,
            region: Region::Marked,
            paths: &Paths::LeftOut,
            slices: Some(Slices {
                quantum,
                contended: None,
                seed: None,
                limit: tools.limits.instructions(),
            }),
            variables: None,
            machine: None,
        };
        let words = if what == SelfTest::Locked { "locked" } else { "unlocked" };
        let args = |control| argv::self_test(&image, words, CPUS, &files, control, &plugin);
        // Not those of the user's guests.
        let limits = Limits::default().of_cpus(CPUS);
        let stderr = scratch.file("stderr");
        let mut vm = Vm::start(&tools.qemu.program, args, None, &stderr, &limits)?;
        let rest = vm.wait(&Watched {
            limits: &limits,
            cancel: &tools.cancel,
            wire: (&files.wire, limits.wire_bytes),
            speaks_first: false,
            console: &files.console,
        })?;
        if rest == Rest::Paused {
            vm.quit(&limits)?;
        }
        Ok(collect(&rest, &files, &profile)?)
    }
}

/// Says why not.
fn judge(answer: &RawAnswer) -> Result<(), String> {
    let done = match parse_answer(&answer.wire, "self-test") {
        Ok(Answer::Done(done)) => done,
        Ok(Answer::Refused(reason)) => return Err(reason),
        Err(error) => return Err(error.to_string()),
    };
    let number = |name: &str| done.signature.get(name).copied().unwrap_or_default();
    let counter = number("counter");
    if counter != ACQUISITIONS {
        return Err(format!("a counter behind a lock is {counter} instead of {ACQUISITIONS}"));
    }
    let (quantum, expected) = TRIED;
    let share = percent(number("contended"), ACQUISITIONS);
    match (share - expected).abs() <= MOST_AWAY {
        true => Ok(()),
        false => Err(format!(
            "at a quantum of {quantum}, {share:.1} % of a lock's acquisitions are contended \
             instead of {expected:.1} %"
        )),
    }
}

#[allow(clippy::cast_precision_loss, reason = "both are small")]
fn percent(part: u64, of: u64) -> f64 {
    part as f64 / of as f64 * 100.0
}
