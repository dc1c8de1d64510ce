use ktax_engine::Stop;
use ktax_model::{ExitRun, Layout, Side, Signature};

/// Runs guests of a KVM host within QEMU. For guest experiments it is what
/// [`Engine`](ktax_engine::Engine) is for counts: a Step boots a host, and each row is a guest.
///
/// The same Side, Layout and row give the same table, to the byte.
pub trait GuestEngine: Sync {
    /// A shell script that boots the host by hand; `$1` names a file with a row's order.
    fn script(&self, side: Side, layout: &Layout) -> String;
    /// Boots a Side's host under a Layout, up to where its guests can start.
    ///
    /// # Errors
    /// With a typed failure and the end of the console, which is a failed Step; or cancelled.
    fn boot(&self, side: Side, layout: &Layout) -> Result<Box<dyn ReadyHost + '_>, Stop>;
}

/// A host that has booted. Each row runs in a host of its own that is equal to this one, so that
/// no guest sees what another left.
pub trait ReadyHost {
    /// The console of the boot that the rows go on from; `None` where each row boots.
    fn console(&self) -> Option<Vec<u8>>;
    /// Kernel threads that still ran when the host was ready.
    fn busy(&self) -> Vec<String>;
    /// What the host is told to do for this row: the content of `orders/ROW`.
    fn order(&self, row: usize) -> String;
    /// Runs the work of this row, an index into the engine's rows, as a guest and records it.
    ///
    /// # Errors
    /// With a typed failure and the end of the console, which is a failed row; or cancelled.
    fn run(&self, row: usize) -> Result<Recorded, Stop>;
}

/// What came of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Its exit table and times.
    pub run: ExitRun,
    /// What a program says that it did; of other work nothing.
    pub signature: Signature,
    /// The console of the row's own host, and that of its guest where it has one.
    pub console: Vec<u8>,
}
