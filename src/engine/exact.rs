//! The exact engine: QEMU TCG under icount, counted by the plugin, each Run from the same Snapshot.

use std::fs;
use std::path::{Path, PathBuf};

use super::argv::{self, Files, Plugin};
use super::evict::evict;
use super::frozen::ExactBoot;
use super::limits::{Cancel, Limits};
use super::payload::{self, Payload};
use super::qemu::Qemu;
use super::scratch::Scratch;
use super::snapshot::{self, host};
use super::vm::{Vm, Watch};
use super::{Engine, Frozen, Request, Stop, symbols};
use crate::model::{Failure, Key, Machine, Region};

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
        evict(&cache.join("snapshots"));
        let guest_sha256 = payload::guest_sha256();
        Ok(Exact { qemu, cache: cache.to_owned(), payload, guest_sha256, limits, cancel })
    }

    /// Loads the plugin into a QEMU that has no machine and lets it go again.
    pub fn try_plugin(&self) -> Result<(), Failure> {
        let scratch = Scratch::create(&self.cache.join("runs")).map_err(host("cannot start"))?;
        let symbols = scratch.file("symbols");
        fs::write(&symbols, "ffffffff81000000 _stext\n").map_err(host("cannot write"))?;
        let profile = scratch.file("profile");
        let region = Region::Marked;
        let library = &self.payload.plugin;
        let plugin = Plugin { library, symbols: &symbols, profile: &profile, region };
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
        Ok(ExactBoot::new(self, request.clone(), snapshot))
    }
}

impl Engine for Exact {
    fn script(&self, request: &Request) -> String {
        argv::script(&self.qemu.program, request, &self.payload.initrd)
    }

    fn boot(&self, request: &Request) -> Result<Box<dyn Frozen + '_>, Stop> {
        let mut boot = self.freeze(request)?;
        boot.set_symbols(symbols::obtain(self, request, &boot)?);
        Ok(Box::new(boot))
    }
}
