//! Guests of KVM on a [`Board`]. A host boots with its one guest in seconds, so each row boots.

use std::path::PathBuf;

use super::board::Board;
use super::board_host::BoardHost;
use super::engine::{GuestEngine, ReadyHost, Recorded};
use super::error::HostError;
use super::kept::{HostArchive, keep};
use crate::{Per, files};
use ktax_engine::qemu::Qemu;
use ktax_engine::{Cancel, Limits, Stop};
use ktax_model::{ExitRun, ExitTable, Failure, Layout, Side, Signature};

/// What a guest does: this, so often.
#[derive(Debug, Clone)]
pub struct BoardWork {
    pub kind: String,
    pub count: u32,
}

/// The host of a Side.
#[derive(Debug, Clone)]
pub struct BoardSide {
    pub kernel: PathBuf,
    /// Added to the kernel's boot line.
    pub boot_line: String,
    /// Whether the guest uses the magic page.
    pub has_page: bool,
}

/// What a [`BoardGuests`] is made of.
#[derive(Debug, Clone)]
pub struct BoardSetup {
    pub board: &'static Board,
    pub qemu: Qemu,
    /// The host of the base, and that of the change.
    pub sides: [BoardSide; 2],
    /// The rows, by name.
    pub works: Vec<(String, BoardWork)>,
    pub limits: Limits,
    pub cancel: Cancel,
    /// ktax's own directory.
    pub cache: PathBuf,
}

/// Guests of KVM on a [`Board`].
#[derive(Debug)]
pub struct BoardGuests {
    setup: BoardSetup,
    /// Of the base, and of the change.
    initrds: Vec<HostArchive>,
    scratch: PathBuf,
}

impl BoardGuests {
    /// Compiles the host's program and makes the engine ready.
    ///
    /// # Errors
    /// Where the compiler fails or the cache cannot be written.
    pub fn new(setup: BoardSetup) -> Result<BoardGuests, HostError> {
        let scratch = setup.cache.join("runs");
        let mut engine = BoardGuests { setup, initrds: Vec::new(), scratch };
        for side in Side::BOTH {
            let archive = engine.host(side).archive()?;
            let kept = keep(&engine.setup.cache, &archive);
            engine.initrds.push(kept.map_err(HostError::of_file("the cache"))?);
        }
        Ok(engine)
    }

    fn host(&self, side: Side) -> BoardHost<'_> {
        let BoardSetup { board, qemu, limits, cancel, .. } = &self.setup;
        let BoardSide { kernel, boot_line, .. } = self.side(side);
        let scratch = &self.scratch;
        BoardHost { board, qemu, kernel, boot_line, limits, cancel, scratch }
    }

    fn side(&self, side: Side) -> &BoardSide {
        &self.setup.sides[at(side)]
    }
}

impl GuestEngine for BoardGuests {
    fn script(&self, side: Side, layout: &Layout) -> String {
        self.host(side).script(&self.initrds[at(side)].path, layout)
    }

    fn boot(&self, side: Side, layout: &Layout) -> Result<Box<dyn ReadyHost + '_>, Stop> {
        Ok(Box::new(BoardReady { engine: self, side, layout: layout.clone() }))
    }
}

fn at(side: Side) -> usize {
    usize::from(side == Side::Change)
}

/// A host of one Side under one Layout, which boots anew for each row.
struct BoardReady<'a> {
    engine: &'a BoardGuests,
    side: Side,
    layout: Layout,
}

impl ReadyHost for BoardReady<'_> {
    fn console(&self) -> Option<Vec<u8>> {
        None
    }

    /// Its first process does not look.
    fn busy(&self) -> Vec<String> {
        Vec::new()
    }

    fn order(&self, row: usize) -> String {
        let (_, BoardWork { kind, count }) = &self.engine.setup.works[row];
        let page = if self.engine.side(self.side).has_page { " magic-page" } else { "" };
        let phase = self.layout.phase;
        let delay = if phase > 0 { format!(" phase={phase}") } else { String::new() };
        format!("{kind}={count}{page}{delay}")
    }

    fn run(&self, row: usize) -> Result<Recorded, Stop> {
        let engine = self.engine;
        let initrd = &engine.initrds[at(self.side)].path;
        let said = engine.host(self.side).boot(initrd, &self.layout, &self.order(row))?;
        let table = table(&said).map_err(|reason| {
            Stop::Failed(Failure::Garbled { reason }, said.clone().into_bytes())
        })?;
        let row = engine.setup.works[row].0.clone();
        let run = ExitRun { row, table, guest_ns: None, native_ns: None };
        Ok(Recorded { run, signature: Signature::new(), console: said.into_bytes() })
    }
}

/// The one table that the first process prints.
fn table(said: &str) -> Result<ExitTable, String> {
    if let Some((kept, written)) = entries(said).filter(|(kept, written)| kept != written) {
        return Err(format!("KVM's trace has {kept} of {written} events; give a smaller N"));
    }
    let tables = files::read(said, Per::Vm).map_err(|error| error.to_string())?;
    Ok(tables.into_iter().next().expect("a file without a table is an error"))
}

/// `# entries-in-buffer/entries-written: 4146/4146   #P:1` above a trace: the kernel writes over
/// the oldest events where its buffer is full.
fn entries(said: &str) -> Option<(&str, &str)> {
    let (_, after) = said.split_once("entries-in-buffer/entries-written: ")?;
    after.split_whitespace().next()?.split_once('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_whose_beginning_is_lost_is_no_table() {
        let trace = |entries: &str| {
            format!(
                "# entries-in-buffer/entries-written: {entries}   #P:1\n\
                 a-1 [000] 2.000000: kvm_entry: vcpu 0, rip 0x1\n\
                 a-1 [000] 2.000007: kvm_exit: reason EXIT_HLT rip 0x1 info 0 0\n"
            )
        };
        assert_eq!(table(&trace("2/2")).unwrap().row("TIMEINGUEST").unwrap().sum_ns, Some(7000));
        let error = table(&trace("2/9")).unwrap_err();
        assert_eq!(error, "KVM's trace has 2 of 9 events; give a smaller N");
    }
}
