//! The usual KVM host: Linux on an emulated AMD processor, and its Linux and raw guests.

use std::fs;
use std::path::{Path, PathBuf};

use super::argv::x86_script;
use super::frame::Order;
use super::guest::{Guest, Task, archive, commands, outcome};
use super::host::{Frozen, KvmHost};
use super::initramfs::{self, Given, HostArchive, keep_archive};
use super::{GuestEngine, HostError, ReadyHost, Recorded};
use ktax_engine::qemu::Qemu;
use ktax_engine::{Cancel, Limits, Stop, payload};
use ktax_model::{Identity, Layout, Side};

/// The host's own kernel.
#[derive(Debug, Clone)]
pub struct HostKernel {
    pub image: PathBuf,
    pub identity: Identity,
    /// Added to its command line.
    pub boot_line: String,
    /// The files of [`MODULES`](super::MODULES), or none where they are built in.
    pub modules: Vec<PathBuf>,
}

/// The setup of an [`X86Guests`].
#[derive(Debug, Clone)]
pub struct X86Setup {
    pub qemu: Qemu,
    /// The ktax that records in the host, usually [`THIS_PROGRAM`](super::THIS_PROGRAM). It may
    /// need no library that this process does not have.
    pub ktax: PathBuf,
    pub host: HostKernel,
    pub base: Guest,
    /// `None` where an experiment has only a base.
    pub change: Option<Guest>,
    /// The rows, by name.
    pub tasks: Vec<(String, Task)>,
    pub limits: Limits,
    pub cancel: Cancel,
    /// ktax's own directory.
    pub cache: PathBuf,
}

/// Guests of the usual KVM host.
#[derive(Debug)]
pub struct X86Guests {
    setup: X86Setup,
    /// Initramfs of the hosts of base and change.
    initrds: [HostArchive; 2],
    scratch: PathBuf,
}

impl X86Guests {
    /// Makes the engine ready.
    pub fn new(setup: X86Setup) -> Result<X86Guests, HostError> {
        let initrd = |guest: &Guest| {
            let read =
                |path: &Path| fs::read(path).map_err(HostError::file(path.display().to_string()));
            let given = |name: &str, content| Given { name: name.to_owned(), content };
            let archive = archive().map_err(HostError::file("the guest's initramfs"))?;
            let files = [
                given("kernel", read(&guest.image)?),
                given("initrd", archive),
                given("ktax-guest", payload::GUEST.to_vec()),
            ];
            let built = initramfs::build(&setup.ktax, &setup.host.modules, None, &files)?;
            keep_archive(&setup.cache, &built).map_err(HostError::file("the cache"))
        };
        let base = initrd(&setup.base)?;
        let change = setup.change.as_ref().map(initrd).transpose()?.unwrap_or_else(|| base.clone());
        let scratch = setup.cache.join("runs");
        Ok(X86Guests { setup, initrds: [base, change], scratch })
    }

    fn guest(&self, side: Side) -> &Guest {
        let change = self.setup.change.as_ref().filter(|_| side == Side::Change);
        change.unwrap_or(&self.setup.base)
    }

    fn initrd(&self, side: Side) -> &Path {
        let [base, change] = &self.initrds;
        &(if side == Side::Base { base } else { change }).path
    }

    fn host<'a>(&'a self, layout: &'a Layout) -> KvmHost<'a> {
        let X86Setup { qemu, host, limits, cancel, .. } = &self.setup;
        let HostKernel { image, boot_line, modules, .. } = host;
        let scratch = &self.scratch;
        KvmHost {
            qemu,
            kernel: image,
            boot_line,
            modules,
            exact: true,
            layout,
            limits,
            cancel,
            scratch,
        }
    }
}

impl GuestEngine for X86Guests {
    fn script(&self, side: Side, layout: &Layout) -> String {
        let host = self.host(layout);
        x86_script(&host.qemu.program, &host.machine(self.initrd(side)))
    }

    fn boot(&self, side: Side, layout: &Layout) -> Result<Box<dyn ReadyHost + '_>, Stop> {
        let frozen = Frozen::make(&self.host(layout), self.initrd(side))?;
        Ok(Box::new(X86Ready { engine: self, side, layout: layout.clone(), frozen }))
    }
}

/// A host of one Side under one Layout.
struct X86Ready<'a> {
    engine: &'a X86Guests,
    side: Side,
    layout: Layout,
    frozen: Frozen,
}

impl X86Ready<'_> {
    fn make_order(&self, row: usize) -> Order {
        let (guest, (_, task)) = (self.engine.guest(self.side), &self.engine.setup.tasks[row]);
        let commands = commands(guest, task, &self.layout);
        Order { phase: self.layout.phase, commands }
    }
}

impl ReadyHost for X86Ready<'_> {
    fn console(&self) -> Option<Vec<u8>> {
        Some(self.frozen.console.clone())
    }

    fn busy(&self) -> Vec<String> {
        self.frozen.busy.clone()
    }

    fn order(&self, row: usize) -> String {
        String::from_utf8_lossy(&self.make_order(row).to_json()).into_owned()
    }

    fn run(&self, row: usize) -> Result<Recorded, Stop> {
        let (host, initrd) = (self.engine.host(&self.layout), self.engine.initrd(self.side));
        let (outputs, console) = self.frozen.run(&host, initrd, &self.make_order(row))?;
        let (name, task) = &self.engine.setup.tasks[row];
        let mut recorded = outcome(name, task, &outputs)?;
        recorded.console.splice(0..0, console);
        Ok(recorded)
    }
}
