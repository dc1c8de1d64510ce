use std::path::{Path, PathBuf};

use super::Recorded;
use crate::cmd::args::HostArgs;
use crate::cmd::drive::{cancel, obtain_for};
use crate::engine::qemu::Qemu;
use crate::engine::{Cancel, Limits};
use crate::exits::{Per, files};
use crate::kernel::{Kernel, Target};
use crate::kvmhost::board::{Board, BoardHost};
use crate::model::{ExitRun, ExitTable, Subject};
use crate::plan::{Feature, RawSubject, RawWork};

/// All that a host is made of.
pub struct Ready {
    qemu: Qemu,
    kernel: Kernel,
    /// The kernel, for people.
    named: String,
    limits: Limits,
    cancel: Cancel,
    scratch: PathBuf,
}

impl Ready {
    /// Looks for QEMU and the compiler before it builds the host's kernel, which takes minutes.
    pub fn new(kernel: &Subject, host: &HostArgs) -> anyhow::Result<Ready> {
        let cancel = cancel()?;
        let qemu = Board::E500V2.look(host.qemu.as_deref())?;
        let cache = host.cache()?;
        let beside = kernel.beside_kernel();
        let kernel = obtain_for(&Target::E500V2, kernel, &cache)?;
        let named = [kernel.identity.name(), &beside].join(" ").trim_end().to_owned();
        let (limits, scratch) = (host.limits(), cache.join("runs"));
        Ok(Ready { qemu, kernel, named, limits, cancel, scratch })
    }

    /// Runs the guests of one Side, each in a host of its own, whose console is kept in `console`
    /// with the row's number behind it; also what they are.
    pub fn side(
        &self,
        subject: &RawSubject,
        works: &[(String, RawWork)],
        console: &Path,
    ) -> anyhow::Result<Recorded> {
        let host = BoardHost {
            board: &Board::E500V2,
            qemu: &self.qemu,
            kernel: &self.kernel.image,
            module: None,
            limits: &self.limits,
            cancel: &self.cancel,
            scratch: &self.scratch,
        };
        let has_page = !subject.without.contains(&Feature::MagicPage);
        let mut runs = Vec::new();
        for (number, (row, work)) in works.iter().enumerate() {
            let order = format!("{}={}", work.kind, work.count);
            let arguments: Vec<&str> =
                [order.as_str()].into_iter().chain(has_page.then_some("magic-page")).collect();
            let console = console.with_extension(format!("{}.log", number + 1));
            let table = table(&host.boot(&arguments, &console)?, &console)?;
            runs.push(ExitRun { row: row.clone(), table, guest_ns: None, native_ns: None });
        }
        let page = if has_page { "with" } else { "without" };
        let (host, qemu) = (&self.named, &self.qemu.version);
        let what = format!("{page} the magic page");
        Ok((runs, format!("{what}, on KVM for e500v2 of {host}, exact, QEMU {qemu}")))
    }
}

/// The only one that the host's first process prints.
fn table(said: &str, console: &Path) -> anyhow::Result<ExitTable> {
    let tables = files::read(said, Per::Vm);
    let table = tables.map_err(|error| anyhow::anyhow!("{}: {error}", console.display()))?;
    Ok(table.into_iter().next().expect("a file without a table is an error"))
}
