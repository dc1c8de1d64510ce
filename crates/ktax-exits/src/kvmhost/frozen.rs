//! A host that is booted once, and goes on from the same state with one order after the other.

use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use super::argv::Stretch;
use super::error::HostError;
use super::frame::Said;
use super::host::KvmHost;
use super::order::Order;
use ktax_engine::read_tail;
use ktax_engine::save_state;
use ktax_engine::vm::Rest;
use ktax_host::cache::Scratch;
use ktax_host::text::escape_bytes;
use ktax_model::Failure;

/// A host's memory and state at the freeze.
#[derive(Debug)]
pub(super) struct Frozen {
    scratch: Scratch,
    /// The console up to there.
    pub console: Vec<u8>,
    /// Tasks that still ran there.
    pub busy: Vec<String>,
}

impl Frozen {
    /// Boots a host whose initramfs has no order, up to where it asks for one.
    pub fn make(host: &KvmHost<'_>, initrd: &Path) -> Result<Frozen, HostError> {
        let scratch = host.scratch()?;
        let session = host.session(&scratch);
        let ram = scratch.file("ram");
        let mut vm = session.start(&host.machine(initrd), &Stretch::ToFreeze { ram: &ram })?;
        if session.wait(&mut vm)? != Rest::Paused {
            // Init says why it went off instead.
            session.answers(0)?;
            let console = ktax_engine::wire::tail(&read_tail(&session.console));
            return Err(session.failed(Failure::Silent { console }));
        }
        let busy = session.answers(1)?.iter().flat_map(lines).collect();
        save_state(&session.limits, &mut vm, &scratch.file("state"))
            .map_err(HostError::of_stop(None))?;
        drop(vm);
        let console = read_tail(&session.console);
        Ok(Frozen { scratch, console, busy })
    }

    /// Goes on with an order to the end; what each command printed, and the console meanwhile.
    pub fn run(
        &self,
        host: &KvmHost<'_>,
        initrd: &Path,
        order: &Order,
    ) -> Result<(Vec<Said>, Vec<u8>), HostError> {
        let scratch = host.scratch()?;
        let session = host.session(&scratch);
        let file = scratch.file("order");
        fs::write(&file, order.to_json())
            .map_err(HostError::of_file(file.display().to_string()))?;
        let state = self.scratch.file("state");
        let state = File::open(&state).map_err(HostError::of_file(state.display().to_string()))?;
        let (ram, uri) = (self.scratch.file("ram"), format!("fd:{}", state.as_raw_fd()));
        let stretch = Stretch::FromFreeze { ram: &ram, order: &file, state: state.as_fd() };
        let mut vm = session.start(&host.machine(initrd), &stretch)?;
        let poll = session.limits.poll / 50;
        vm.monitor(|monitor| monitor.receive_state(uri, poll))
            .map_err(|failure| session.failed(failure))?;
        vm.go();
        let rest = session.wait(&mut vm)?;
        drop(vm);
        let console = read_tail(&session.console);
        if rest == Rest::Paused {
            let console = ktax_engine::wire::tail(&console);
            return Err(session.failed(Failure::Silent { console }));
        }
        Ok((session.answers(order.commands.len())?, console))
    }
}

fn lines(said: &Said) -> Vec<String> {
    said.stdout
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(escape_bytes)
        .collect()
}
