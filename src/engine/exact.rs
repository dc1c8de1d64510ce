//! The exact engine: QEMU TCG under icount, counted by the plugin, each Run from the same Snapshot.

use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use super::argv::{self, Files, Plugin};
use super::limits::{Cancel, Limits};
use super::payload::{self, Payload};
use super::qemu::Qemu;
use super::scratch::Scratch;
use super::snapshot::{self, Snapshot, host};
use super::vm::{Rest, Vm, Watch, read_tail};
use super::{Answer, Engine, Frozen, Request, Stop, symbols};
use crate::model::{Failure, Key, Machine};
use crate::wire::{self, Hello};

/// QEMU, the cache, and the limits.
#[derive(Debug)]
pub struct Exact {
    pub(super) qemu: Qemu,
    pub(super) cache: PathBuf,
    pub(super) payload: Payload,
    pub(super) guest_sha256: String,
    pub(super) limits: Limits,
    pub(super) cancel: Cancel,
}

impl Exact {
    /// Makes the engine ready; `cache` is ktax's own directory.
    pub fn new(qemu: Qemu, cache: &Path, limits: Limits, cancel: Cancel) -> Result<Exact, Failure> {
        let payload = payload::install(cache).map_err(host("cannot write to the cache"))?;
        for dir in ["snapshots", "runs"] {
            super::remove_stale(&cache.join(dir));
        }
        let guest_sha256 = payload::guest_sha256();
        Ok(Exact { qemu, cache: cache.to_owned(), payload, guest_sha256, limits, cancel })
    }

    /// Loads the plugin into a QEMU that has no machine and lets it go again.
    pub fn try_plugin(&self) -> Result<(), Failure> {
        let scratch = Scratch::create(&self.cache.join("runs")).map_err(host("cannot start"))?;
        let symbols = scratch.file("symbols");
        fs::write(&symbols, "ffffffff81000000 _stext\n").map_err(host("cannot write"))?;
        let profile = scratch.file("profile");
        let plugin = Plugin { library: &self.payload.plugin, symbols: &symbols, profile: &profile };
        let args = |control| argv::no_machine(&plugin, control);
        let stderr = scratch.file("stderr");
        let mut vm = Vm::start(&self.qemu.program, args, None, &stderr, &self.limits)?;
        vm.monitor(|monitor| monitor.status()).map(drop)
    }

    /// What this engine's counts compare with.
    pub fn key(qemu: &Qemu, machine: &Machine) -> Key {
        Key {
            engine: "exact".into(),
            qemu: qemu.version.clone(),
            machine: argv::MACHINE.into(),
            cpu: machine.cpu.clone(),
            memory_mib: machine.memory_mib,
            guest: payload::guest_sha256(),
        }
    }

    /// What is watched while a VM with these files runs.
    pub(super) fn watch<'a>(&'a self, files: &'a Files, wire_bytes: u64) -> Watch<'a> {
        Watch {
            limits: &self.limits,
            cancel: &self.cancel,
            wire: (&files.wire, wire_bytes),
            console: &files.console,
        }
    }

    /// Boots to the Snapshot, or finds it.
    pub fn freeze(&self, request: &Request) -> Result<ExactBoot<'_>, Stop> {
        let snapshot = snapshot::obtain(self, request)?;
        Ok(ExactBoot { exact: self, request: request.clone(), snapshot, symbols: None })
    }
}

impl Engine for Exact {
    fn script(&self, request: &Request) -> String {
        argv::script(&self.qemu.program, request, &self.payload.initrd)
    }

    fn boot(&self, request: &Request) -> Result<Box<dyn Frozen + '_>, Stop> {
        let mut boot = self.freeze(request)?;
        boot.symbols = Some(symbols::obtain(self, request, &boot)?);
        Ok(Box::new(boot))
    }
}

/// A Snapshot, ready for Runs.
pub struct ExactBoot<'a> {
    exact: &'a Exact,
    request: Request,
    snapshot: Snapshot,
    symbols: Option<PathBuf>,
}

impl Frozen for ExactBoot<'_> {
    fn hello(&self) -> &Hello {
        &self.snapshot.hello
    }

    fn console(&self) -> Vec<u8> {
        read_tail(&self.snapshot.console())
    }

    fn run(&self, order: &str) -> Result<Answer, Stop> {
        self.resume(order, self.symbols.as_deref(), self.exact.limits.wire_bytes)
    }
}

impl ExactBoot<'_> {
    /// A Run without the plugin: what the counting costs is measured against it.
    pub fn run_uncounted(&self, order: &str) -> Result<Answer, Stop> {
        self.resume(order, None, self.exact.limits.wire_bytes)
    }

    /// Starts from the Snapshot, hands over an order, waits for the end; counts if there are
    /// symbols.
    pub(super) fn resume(
        &self,
        order: &str,
        symbols: Option<&Path>,
        wire_bytes: u64,
    ) -> Result<Answer, Stop> {
        let exact = self.exact;
        let scratch = Scratch::create(&exact.cache.join("runs")).map_err(host("cannot start"))?;
        let order_file = scratch.file("order");
        fs::write(&order_file, order).map_err(host("cannot write the order"))?;
        let profile = scratch.file("profile");
        let plugin = symbols.map(|symbols| Plugin {
            library: &exact.payload.plugin,
            symbols,
            profile: &profile,
        });
        let files = Files {
            ram: self.snapshot.ram(),
            wire: scratch.file("wire"),
            console: scratch.file("serial.log"),
        };
        let initrd = &exact.payload.initrd;
        let args = |control| {
            argv::resume(&self.request, initrd, &files, control, &order_file, plugin.as_ref())
        };
        let state = File::open(self.snapshot.state()).map_err(host("cannot read the snapshot"))?;
        let (program, stderr) = (&exact.qemu.program, scratch.file("stderr"));
        let mut vm = Vm::start(program, args, Some(state.as_fd()), &stderr, &exact.limits)?;
        let uri = format!("fd:{}", state.as_raw_fd());
        vm.monitor(|monitor| monitor.receive_state(uri, exact.limits.poll / 50))?;
        vm.go();
        let ended = vm.wait(&exact.watch(&files, wire_bytes)).and_then(|rest| {
            if rest == Rest::Paused {
                vm.quit(&exact.limits)?;
            }
            Ok(collect(&rest, &files, &profile)?)
        });
        ended.map_err(|stop| stop.with_console(&files.console))
    }
}

fn collect(rest: &Rest, files: &Files, profile: &Path) -> Result<Answer, Failure> {
    let console = read_tail(&files.console);
    if let Some(message) = wire::panic_message(&console) {
        return Err(Failure::Panic { message });
    }
    let console_tail = wire::tail(&console);
    if *rest == Rest::ShutDown {
        return Err(Failure::Silent { console: console_tail });
    }
    let wire = fs::read(&files.wire).map_err(host("cannot read the wire"))?;
    let profile = fs::read_to_string(profile).unwrap_or_default();
    Ok(Answer { wire, profile, console_tail })
}
