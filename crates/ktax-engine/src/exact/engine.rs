use std::fs;
use std::path::Path;

use super::frozen::ExactBoot;
use super::snapshot;
use super::symbols::{self, Symbols};
use super::tools::{Tools, archives};
use crate::argv::{self, Plugin};
use crate::contract::{Engine, Frozen, Request};
use crate::limits::{Cancel, Limits};
use crate::paths::Paths;
use crate::payload::{self, UserSpace};
use crate::qemu::Qemu;
use crate::stop::{Stop, host};
use crate::vm::Vm;
use ktax_host::cache::{Scratch, remove_stale};
use ktax_model::{Failure, Key, Machine, Model, Region};

/// What the engine is called.
pub(super) const NAME: &str = "exact";

/// The engine.
#[derive(Debug)]
pub struct Exact {
    pub(super) tools: Tools,
}

impl Exact {
    /// Prepares the engine; `cache` is ktax's own directory.
    ///
    /// # Errors
    ///
    /// The cache cannot be written.
    pub fn new(qemu: Qemu, cache: &Path, limits: Limits, cancel: Cancel) -> Result<Exact, Failure> {
        Exact::of(UserSpace::OWN, qemu, cache, limits, cancel)
    }

    /// The same with another guest.
    ///
    /// # Errors
    ///
    /// The cache cannot be written.
    pub fn of(
        guest: UserSpace,
        qemu: Qemu,
        cache: &Path,
        limits: Limits,
        cancel: Cancel,
    ) -> Result<Exact, Failure> {
        let payload =
            payload::install_of(&guest, cache).map_err(host("cannot write to the cache"))?;
        for dir in ["snapshots", "runs"] {
            remove_stale(&cache.join(dir));
        }
        let guest_sha256 = guest.sha256();
        let cache = cache.to_owned();
        let tools = Tools { qemu, cache, payload, guest_sha256, limits, cancel };
        Ok(Exact { tools })
    }

    /// Loads the plugin into a QEMU without a machine, to see whether that works.
    ///
    /// # Errors
    ///
    /// QEMU does not start, or does not load the plugin.
    pub fn try_plugin(&self) -> Result<(), Failure> {
        let tools = &self.tools;
        let scratch = Scratch::create(&tools.cache.join("runs")).map_err(host("cannot start"))?;
        let symbols = scratch.file("symbols");
        fs::write(&symbols, "ffffffff81000000 _stext\n").map_err(host("cannot write"))?;
        let profile = scratch.file("profile");
        let region = Region::Marked;
        let library = &tools.payload.plugin;
        let (symbols, profile) = (&*symbols, &*profile);
        let plugin = Plugin {
            library,
            symbols,
            programs: None,
            profile,
            region,
            paths: &Paths::LeftOut,
            slices: None,
            variables: None,
            machine: None,
        };
        let args = |control| argv::no_machine(&plugin, control);
        let stderr = scratch.file("stderr");
        let mut vm = Vm::start(&tools.qemu.program, args, None, &stderr, &tools.limits)?;
        vm.monitor(|monitor| monitor.status()).map(drop)
    }

    /// The Key: counts compare only with counts of the same Key.
    pub fn key(qemu: &Qemu, machine: &Machine) -> Key {
        Key {
            engine: NAME.into(),
            qemu: qemu.version.clone(),
            machine: argv::MACHINE.into(),
            cpu: machine.cpu.clone(),
            memory_mib: machine.memory_mib,
            cpus: machine.cpus,
            quantum: machine.quantum,
            model: machine.model.clone(),
            guest: payload::guest_sha256(),
            programs: String::new(),
            modules: Vec::new(),
        }
    }

    /// Boots and makes the Snapshot, or finds it in the cache.
    ///
    /// # Errors
    ///
    /// The guest or the host failed, or the user cancelled.
    pub fn freeze(&self, request: &Request) -> Result<ExactBoot<'_>, Stop> {
        let initrd = self.tools.initrd(request)?;
        let snapshot = snapshot::obtain(&self.tools, request, &initrd)?;
        Ok(ExactBoot::new(&self.tools, request.clone(), initrd, snapshot))
    }

    /// The same as [`Engine::boot`], whose Runs say this of calls.
    ///
    /// # Errors
    ///
    /// As of [`Engine::boot`].
    pub fn boot_with(&self, request: &Request, paths: Paths) -> Result<Box<dyn Frozen + '_>, Stop> {
        let mut boot = self.counted(request)?;
        boot.set_paths(paths);
        Ok(Box::new(boot))
    }

    fn counted(&self, request: &Request) -> Result<ExactBoot<'_>, Stop> {
        let mut boot = self.freeze(request)?;
        boot.set_symbols(symbols::obtain(&self.tools, request, &boot, Symbols::Functions)?);
        if request.machine.model == Some(Model::Coherence) {
            boot.set_variables(symbols::obtain(&self.tools, request, &boot, Symbols::Variables)?);
        }
        Ok(boot)
    }
}

impl Engine for Exact {
    fn script(&self, request: &Request) -> String {
        // The boot writes it, unless its programs are measured already.
        let initrd = self.tools.payload.path_with(&archives(request));
        argv::script(&self.tools.qemu.program, request, &initrd)
    }

    fn boot(&self, request: &Request) -> Result<Box<dyn Frozen + '_>, Stop> {
        Ok(Box::new(self.counted(request)?))
    }
}
