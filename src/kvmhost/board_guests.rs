//! Guests of KVM on a [`Board`]. A host boots with its one guest in seconds, so each row boots.

use std::path::PathBuf;

use super::board::Board;
use super::board_host::BoardHost;
use super::engine::{GuestEngine, ReadyHost, Recorded};
use super::error::HostError;
use super::kept::keep;
use crate::engine::qemu::Qemu;
use crate::engine::{Cancel, Limits, Stop};
use crate::exits::{Per, files};
use crate::model::{ExitRun, Failure, Layout, Side, Signature};

/// What a guest does: this, so often.
#[derive(Debug, Clone)]
pub struct BoardWork {
    pub kind: String,
    pub count: u32,
}

/// What a [`BoardGuests`] is made of.
#[derive(Debug, Clone)]
pub struct BoardSetup {
    pub board: &'static Board,
    pub qemu: Qemu,
    /// The host's kernel.
    pub kernel: PathBuf,
    /// Whether the guest of the base uses the magic page, and that of the change.
    pub has_page: [bool; 2],
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
    initrd: PathBuf,
    scratch: PathBuf,
}

impl BoardGuests {
    /// Compiles the host's program and makes the engine ready.
    ///
    /// # Errors
    /// Where the compiler fails or the cache cannot be written.
    pub fn new(setup: BoardSetup) -> Result<BoardGuests, HostError> {
        let scratch = setup.cache.join("runs");
        let mut engine = BoardGuests { setup, initrd: PathBuf::new(), scratch };
        let archive = engine.host().archive(None)?;
        let kept = keep(&engine.setup.cache, &archive);
        engine.initrd = kept.map_err(HostError::of_file("the cache"))?;
        Ok(engine)
    }

    fn host(&self) -> BoardHost<'_> {
        let BoardSetup { board, qemu, kernel, limits, cancel, .. } = &self.setup;
        let scratch = &self.scratch;
        BoardHost { board, qemu, kernel, limits, cancel, scratch }
    }

    fn has_page(&self, side: Side) -> bool {
        self.setup.has_page[usize::from(side == Side::Change)]
    }
}

impl GuestEngine for BoardGuests {
    fn script(&self, _: Side, layout: &Layout) -> String {
        self.host().script(&self.initrd, layout)
    }

    fn boot(&self, side: Side, layout: &Layout) -> Result<Box<dyn ReadyHost + '_>, Stop> {
        Ok(Box::new(BoardReady { engine: self, side, layout: layout.clone() }))
    }
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
        let page = if self.engine.has_page(self.side) { " magic-page" } else { "" };
        let phase = self.layout.phase;
        let delay = if phase > 0 { format!(" phase={phase}") } else { String::new() };
        format!("{kind}={count}{page}{delay}")
    }

    fn run(&self, row: usize) -> Result<Recorded, Stop> {
        let engine = self.engine;
        let said = engine.host().boot(&engine.initrd, &self.layout, &self.order(row))?;
        // The first process prints one table.
        let table = match files::read(&said, Per::Vm) {
            Ok(tables) => tables.into_iter().next().expect("a file without a table is an error"),
            Err(error) => {
                let failure = Failure::Garbled { reason: error.to_string() };
                return Err(Stop::Failed(failure, said.into_bytes()));
            }
        };
        let row = engine.setup.works[row].0.clone();
        let run = ExitRun { row, table, guest_ns: None, native_ns: None };
        Ok(Recorded { run, signature: Signature::new(), console: said.into_bytes() })
    }
}
