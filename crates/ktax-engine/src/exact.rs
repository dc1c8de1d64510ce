//! The exact engine: QEMU TCG under icount, counted by the plugin, each Run from the same Snapshot.

mod boot;

use std::fs;
use std::path::{Path, PathBuf};

use boot::{ExactBoot, SymbolFile, collect, lock};

use super::argv::{Files, Plugin, Slices};
use super::limits::{Cancel, Limits};
use super::payload::{Payload, UserSpace};
use super::qemu::Qemu;
use super::vm::{Vm, Watched};
use super::wire::{
    Answer, SYMBOLS_ORDER, VARIABLES_ORDER, parse_answer, parse_symbols, parse_variables,
};
use crate::{
    CountsSetup, Engine, EngineEntry, Frozen, Measures, RawAnswer, Request, Stop, argv,
    host_failure, payload,
};
use ktax_host::cache::{Holder, Scratch, remove_stale};
use ktax_host::disk::{sha256_of_file, sha256_of_parts, write_atomically};
use ktax_model::{Blame, Error, Failure, Key, Machine, Model, Result, RunsOn};
use ktax_program::PackedPrograms;

pub use super::argv::Paths;
pub use boot::save_state;

pub const ENGINE: EngineEntry = EngineEntry {
    name: NAME,
    about: "Count instructions under QEMU's translator: the same numbers everywhere",
    runs_on: RunsOn::Guests,
    measures: Measures::Counts {
        key: Exact::key,
        open: |CountsSetup { qemu, cpus, cache, limits, cancel, guest }| {
            let engine = Exact::with_guest(guest, qemu, cache, limits, cancel)?;
            if cpus > 1 {
                engine.check_slices()?;
            }
            Ok(Box::new(engine))
        },
    },
};

const NAME: &str = "exact";

/// The exact engine.
#[derive(Debug)]
pub struct Exact {
    pub(super) tools: Tools,
}

impl Exact {
    /// Prepares the engine; `cache` is ktax's own directory.
    pub fn new(qemu: Qemu, cache: &Path, limits: Limits, cancel: Cancel) -> Result<Exact, Failure> {
        Exact::with_guest(UserSpace::own(), qemu, cache, limits, cancel)
    }

    /// Prepares the engine with a guest that may have more workloads.
    pub fn with_guest(
        guest: UserSpace,
        qemu: Qemu,
        cache: &Path,
        limits: Limits,
        cancel: Cancel,
    ) -> Result<Exact, Failure> {
        let payload = payload::install_guest(&guest, cache)
            .map_err(host_failure("cannot write to the cache"))?;
        for dir in ["snapshots", "runs"] {
            remove_stale(&cache.join(dir));
        }
        let guest_sha256 = guest.sha256();
        let cache = cache.to_owned();
        let tools = Tools { qemu, cache, payload, guest_sha256, limits, cancel };
        Ok(Exact { tools })
    }

    /// Loads the plugin into a QEMU without a machine, to see whether that works.
    pub fn try_plugin(&self) -> Result<(), Failure> {
        let tools = &self.tools;
        let scratch =
            Scratch::create(&tools.cache.join("runs")).map_err(host_failure("cannot start"))?;
        let symbols = scratch.file("symbols");
        fs::write(&symbols, "ffffffff81000000 _stext\n").map_err(host_failure("cannot write"))?;
        let profile = scratch.file("profile");
        let library = &tools.payload.plugin;
        let plugin = Plugin::new(library, &symbols, &profile);
        let args = |control| argv::no_machine(&plugin, control);
        let stderr = scratch.file("stderr");
        let mut vm = Vm::start(&tools.qemu.program, args, None, &stderr, &tools.limits)?;
        vm.monitor(|monitor| monitor.status()).map(drop)
    }

    /// Returns the Key: counts compare only with counts of the same Key.
    pub fn key(qemu: &Qemu, machine: &Machine) -> Key {
        Key {
            engine: NAME.into(),
            qemu: qemu.version.clone(),
            machine_type: argv::MACHINE.into(),
            machine: machine.clone(),
            guest: payload::guest_sha256(),
            programs: String::new(),
            modules: Vec::new(),
        }
    }

    /// Boots and makes the Snapshot, or finds it in the cache.
    pub fn freeze(&self, request: &Request) -> Result<ExactBoot<'_>, Stop> {
        let initrd = self.tools.initrd(request)?;
        let snapshot = boot::obtain(&self.tools, request, &initrd)?;
        Ok(ExactBoot {
            tools: &self.tools,
            request: request.clone(),
            initrd,
            snapshot,
            symbols: None,
            variables: None,
            paths: Paths::Followed,
        })
    }

    /// Returns the path of the functions of a booted Kernel in the cache.
    pub fn functions_file(&self, request: &Request) -> PathBuf {
        let name = symbol_file_name(&self.tools, request, SYMBOLS_ORDER);
        self.tools.cache.join("symbols").join(name)
    }

    /// Boots as [`Engine::boot`] does; Runs follow calls as `paths` says.
    pub fn boot_with(&self, request: &Request, paths: Paths) -> Result<Box<dyn Frozen + '_>, Stop> {
        let mut boot = self.counted(request)?;
        boot.paths = paths;
        Ok(Box::new(boot))
    }

    fn counted(&self, request: &Request) -> Result<ExactBoot<'_>, Stop> {
        let mut boot = self.freeze(request)?;
        let tools = &self.tools;
        boot.symbols = Some(obtain_symbols(tools, request, &boot, SYMBOLS_ORDER, parse_symbols)?);
        if request.machine.model == Some(Model::Coherence) {
            let (order, parse) = (VARIABLES_ORDER, parse_variables);
            boot.variables = Some(obtain_symbols(tools, request, &boot, order, parse)?);
        }
        Ok(boot)
    }
}

impl Engine for Exact {
    fn script(&self, request: &Request) -> String {
        // The boot writes this file, unless its programs are measured already.
        let initrd = self.tools.payload.path_with(&archives(request));
        argv::script(&self.tools.qemu.program, request, &initrd)
    }

    fn boot(&self, request: &Request) -> Result<Box<dyn Frozen + '_>, Stop> {
        Ok(Box::new(self.counted(request)?))
    }
}

/// Tools that every part of the exact engine uses.
#[derive(Debug)]
pub(super) struct Tools {
    pub qemu: Qemu,
    /// ktax's own directory.
    pub cache: PathBuf,
    pub payload: Payload,
    pub guest_sha256: String,
    pub limits: Limits,
    pub cancel: Cancel,
}

impl Tools {
    /// Writes the archive that the guest of a Boot unpacks: ktax's programs, the kernel's modules,
    /// the user's.
    pub fn initrd(&self, request: &Request) -> Result<PathBuf, Failure> {
        self.payload.with(&archives(request)).map_err(host_failure("cannot write to the cache"))
    }

    /// Returns whether the kernel gets more code than its image has.
    pub fn loads_code(request: &Request) -> bool {
        let mut programs = request.beside.iter().chain(&request.program);
        request.modules.is_some() || programs.any(|programs| programs.has_setup)
    }

    /// Returns the limits and files to watch while a VM with these files runs.
    pub fn watch<'a>(&'a self, files: &'a Files, wire_bytes: u64) -> Watched<'a> {
        Watched {
            limits: &self.limits,
            cancel: &self.cancel,
            wire: (&files.wire, wire_bytes),
            speaks_first: true,
            console: &files.console,
        }
    }
}

/// Returns the archives of a guest beside ktax's own programs.
pub(super) fn archives(request: &Request) -> Vec<&PackedPrograms> {
    let modules = request.modules.iter().map(|modules| &modules.packed);
    modules.chain(&request.beside).chain(&request.program).collect()
}

/// Returns the name in the cache of the symbols that `order` asks for. The boot line always has
/// `nokaslr`, so the addresses depend on the image alone, unless the guest loads modules, or code
/// by a hook.
fn symbol_file_name(tools: &Tools, request: &Request, order: &str) -> String {
    let kernel = match Tools::loads_code(request) {
        true => boot::key(tools, request),
        false => request.image_sha256.clone(),
    };
    sha256_of_parts(&[&*kernel, &*tools.guest_sha256, order])
}

/// Finds or makes the file of symbols of the Kernel that `boot` runs.
fn obtain_symbols(
    tools: &Tools,
    request: &Request,
    boot: &ExactBoot,
    order: &str,
    parse: fn(&[u8]) -> Result<String>,
) -> Result<SymbolFile, Stop> {
    let dir = tools.cache.join("symbols");
    fs::create_dir_all(&dir).map_err(host_failure("cannot create the symbol cache"))?;
    let name = symbol_file_name(tools, request, order);
    let path = dir.join(&name);
    let _lock = lock(&dir.join(format!("{name}.lock")), tools)?;
    loop {
        if let Some(holder) =
            Holder::hold(&path).map_err(host_failure("cannot read the symbols"))?
        {
            return Ok(SymbolFile { path, _holder: holder });
        }
        let answer = boot.resume(order, None, tools.limits.symbols_bytes)?;
        let symbols =
            parse(&answer.wire).map_err(|error| Failure::Garbled { reason: error.to_string() })?;
        write_atomically(&path, symbols.as_bytes())
            .map_err(host_failure("cannot keep the symbols"))?;
    }
}

const CPUS: u32 = 4;

/// Number of times that all CPUs together take the lock.
const ACQUISITIONS: u64 = 80_000;

/// A quantum, and the percentage of acquisitions that find the lock taken at it. At this quantum a
/// deviation shows most: 5 % of it are three points. The test takes a second.
const TRIED: (u32, f64) = (200, 43.0);

/// Percentage points that a share may differ: firmware decides where in a slice the first CPU
/// begins.
const MOST_AWAY: f64 = 1.0;

/// The work of the guest of the self-test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelfTest {
    /// Each CPU takes the lock before it counts.
    Locked,
    /// No CPU does.
    Unlocked,
}

impl Exact {
    /// Makes sure that this QEMU ends slices as asked. The cache remembers a QEMU that passed.
    pub fn check_slices(&self) -> Result<()> {
        let passed = self.record()?;
        if Holder::hold(&passed).map_err(host_failure("cannot read the self-test"))?.is_some() {
            return Ok(());
        }
        let refused = |why| {
            let found = &self.tools.qemu.version;
            Error::guest(format!(
                "QEMU {found} does not schedule several CPUs as --cpus needs it, by ktax's \
                 self-test: {why}"
            ))
            .next(
                "use another QEMU, such as that of Debian 13 or of `ktax doctor --newer-qemu \
                 DIR`, and name it with --qemu",
            )
        };
        match self.self_test(SelfTest::Locked, TRIED.0) {
            Ok(answer) => judge(&answer).map_err(refused)?,
            Err(Stop::Cancelled) => return Err(Error::cancelled()),
            Err(Stop::Failed(failure, _)) if failure.blame() == Blame::Host => {
                return Err(failure.into());
            }
            Err(Stop::Failed(failure, _)) => return Err(refused(failure.to_string())),
        }
        Ok(write_atomically(&passed, b"passed\n")
            .map_err(host_failure("cannot keep the self-test"))?)
    }

    /// Returns the path of the file that exists if this QEMU has passed.
    fn record(&self) -> Result<PathBuf, Failure> {
        let qemu = &self.tools.qemu;
        let dir = self.tools.cache.join("self-tests");
        fs::create_dir_all(&dir).map_err(host_failure("cannot write to the cache"))?;
        let program = sha256_of_file(&qemu.program).map_err(host_failure("cannot read QEMU"))?;
        let tried = format!("{TRIED:?}");
        let parts = [&program, &qemu.version, &payload::self_test_sha256(), &tried];
        Ok(dir.join(sha256_of_parts(&parts)))
    }

    /// Runs the guest of the self-test at a quantum.
    pub fn self_test(&self, what: SelfTest, quantum: u32) -> Result<RawAnswer, Stop> {
        let tools = &self.tools;
        let scratch =
            Scratch::create(&tools.cache.join("runs")).map_err(host_failure("cannot start"))?;
        let image = tools.payload.self_test().map_err(host_failure("cannot write to the cache"))?;
        let files = Files::in_scratch(&scratch);
        let (symbols, profile) = (scratch.file("symbols"), scratch.file("profile"));
        fs::write(&symbols, "ffffffff81000000 _stext\n").map_err(host_failure("cannot write"))?;
        let limit = tools.limits.instructions();
        let plugin = Plugin {
            slices: Some(Slices { quantum, contended: None, seed: None, limit }),
            ..Plugin::new(&tools.payload.plugin, &symbols, &profile)
        };
        let words = if what == SelfTest::Locked { "locked" } else { "unlocked" };
        let args = |control| argv::self_test(&image, words, CPUS, &files, control, &plugin);
        // The self-test does not have the limits of the user's guests.
        let limits = Limits::default().for_cpus(CPUS);
        let mut vm = Vm::start(&tools.qemu.program, args, None, &files.stderr, &limits)?;
        let watch = Watched {
            limits: &limits,
            cancel: &tools.cancel,
            wire: (&files.wire, limits.wire_bytes),
            speaks_first: false,
            console: &files.console,
        };
        collect(&mut vm, &watch, &profile)
    }
}

/// Judges the answer of the self-test; the error says what is wrong.
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
fn percent(part: u64, total: u64) -> f64 {
    part as f64 / total as f64 * 100.0
}
