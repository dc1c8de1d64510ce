//! Machines of other architectures that QEMU emulates, and the program that is the first process of
//! a KVM host there: it runs one guest and prints what KVM says of it. ktax has the program as
//! source, and compiles it where a compiler for the machine is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::init::{HostArchive, keep_archive};
use super::{
    GuestEngine, GuestResult, ReadyHost, boot_line, exact_time, new_scratch, unprepared,
    unprepared_row,
};
use crate::{Per, files};
use ktax_engine::argv::{escape, monitor, shell_script};
use ktax_engine::payload::pack_initramfs;
use ktax_engine::qemu::{Qemu, Vm, Watched};
use ktax_engine::{Cancel, Limits, Stop, read_tail, wire};
use ktax_host::cache::Scratch;
use ktax_host::disk::sha256;
use ktax_model::{
    Error, ExitRun, ExitTable, Failure, GuestRow, GuestWork, HostKind, Layout, Result, Side,
    Signature,
};

/// A machine, and the program that is its first process.
#[derive(Debug, Clone, Copy)]
pub struct Board {
    pub name: &'static str,
    /// QEMU's program, and its package in the distribution.
    pub qemu: (&'static str, &'static str),
    pub machine: &'static [&'static str],
    pub console: &'static str,
    /// The prefix of its compiler's name: `powerpc-linux-gnu` of `powerpc-linux-gnu-gcc`.
    pub compiler: &'static str,
    /// Package with a C library for that compiler.
    pub library: &'static str,
    pub flags: &'static [&'static str],
    /// The names and texts of the program's own files; all boards share those of `SHARED`.
    pub sources: &'static [(&'static str, &'static str)],
}

macro_rules! source {
    ($name:literal) => {
        ($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../guest/hosts/", $name)))
    };
}

const SHARED: [(&str, &str); 2] = [source!("host.h"), source!("host.c")];

/// The files of boards whose guests are recorded by KVM's tracepoints.
const RAW: [(&str, &str); 2] = [source!("raw.h"), source!("raw.c")];

/// QEMU's own processor has no measures against speculation, and says so.
const PSERIES: &str = "pseries,cap-nested-hv=on,cap-ccf-assist=off,cap-cfpc=broken,\
                       cap-sbbc=broken,cap-ibs=broken";

impl Board {
    /// A PowerPC of 2008 without virtualization: KVM emulates privileged instructions, and times
    /// exits.
    pub const E500V2: Board = Board {
        name: "e500v2",
        qemu: ("qemu-system-ppc", "qemu-system-ppc"),
        machine: &["-M", "ppce500", "-cpu", "e500v2"],
        console: "ttyS0",
        compiler: "powerpc-linux-gnu",
        library: "libc6-dev-powerpc-cross",
        flags: &["-Wa,-me500"],
        sources: &[source!("e500v2.c")],
    };

    /// An arm64 processor with EL2 and without VHE: KVM's part at EL2 is below the host's kernel.
    pub const ARM64: Board = Board {
        name: "arm64",
        qemu: ("qemu-system-aarch64", "qemu-system-arm"),
        machine: &["-M", "virt,virtualization=on,gic-version=3", "-cpu", "cortex-a57"],
        console: "ttyAMA0",
        compiler: "aarch64-linux-gnu",
        library: "libc6-dev-arm64-cross",
        flags: &[],
        sources: &[RAW[0], RAW[1], source!("arm64.c")],
    };

    /// A POWER9 with nested guests, whose KVM times its own phases.
    pub const POWER9: Board = Board {
        name: "POWER9",
        qemu: ("qemu-system-ppc64", "qemu-system-ppc"),
        machine: &["-M", PSERIES, "-cpu", "POWER9"],
        console: "hvc0",
        compiler: "powerpc64le-linux-gnu",
        library: "libc6-dev-ppc64el-cross",
        flags: &[],
        sources: &[RAW[0], RAW[1], source!("power9.c")],
    };

    /// A riscv64 processor with the hypervisor extension, above the firmware that QEMU has.
    pub const RISCV64: Board = Board {
        name: "riscv64",
        qemu: ("qemu-system-riscv64", "qemu-system-misc"),
        machine: &["-M", "virt", "-cpu", "rv64,h=true", "-bios", "default"],
        console: "ttyS0",
        compiler: "riscv64-linux-gnu",
        library: "libc6-dev-riscv64-cross",
        flags: &[],
        sources: &[RAW[0], RAW[1], source!("riscv64.c")],
    };

    /// Returns the board of hosts of this kind; `None` for the host of this machine's architecture.
    pub fn for_kind(kind: HostKind) -> Option<&'static Board> {
        match kind {
            HostKind::Kvm => None,
            HostKind::KvmE500v2 => Some(&Board::E500V2),
            HostKind::KvmArm64 => Some(&Board::ARM64),
            HostKind::KvmPower9 => Some(&Board::POWER9),
            HostKind::KvmRiscv64 => Some(&Board::RISCV64),
        }
    }

    /// Finds QEMU for the board, and checks that its compiler exists; the error names the missing
    /// packages.
    pub fn find_qemu(&self, qemu: Option<&Path>) -> Result<Qemu> {
        let is_there = |program: &str| {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
        };
        let compiler = format!("{}-gcc", self.compiler);
        let library = PathBuf::from(format!("/usr/{}/lib/libc.a", self.compiler));
        let wanted = [
            (self.qemu.0, self.qemu.1.to_owned(), qemu.is_some() || is_there(self.qemu.0)),
            (&compiler, format!("gcc-{}", self.compiler), is_there(&compiler)),
            ("a C library for it", self.library.to_owned(), library.is_file()),
        ];
        let missing: Vec<_> = wanted.iter().filter(|(.., is_there)| !is_there).collect();
        if !missing.is_empty() {
            let names: Vec<&str> = missing.iter().map(|(name, ..)| *name).collect();
            let packages: Vec<&str> = missing.iter().map(|(_, name, _)| name.as_str()).collect();
            let (names, packages) = (names.join(", "), packages.join(" "));
            let install = "type: sudo apt-get install --no-install-recommends";
            return Err(Error::guest(format!("a KVM host on {} needs {names}", self.name))
                .next(format!("{install} {packages}")));
        }
        Qemu::find(Some(qemu.unwrap_or(Path::new(self.qemu.0))))
    }

    /// Returns the SHA-256 of the first process as it is compiled here, below a directory for such
    /// files. It is part of the Key.
    pub fn program_sha256(&self, parent: &Path) -> Result<String> {
        let scratch = Scratch::create(parent).map_err(unprepared(parent))?;
        Ok(sha256(&self.program(&scratch)?))
    }

    /// Compiles the first process, in a directory of its own.
    fn program(&self, scratch: &Scratch) -> Result<Vec<u8>> {
        let broken = unprepared(Path::new("the host's program"));
        let sources = SHARED.iter().chain(self.sources);
        for (name, text) in sources.clone() {
            fs::write(scratch.file(name), text).map_err(&broken)?;
        }
        let program = scratch.file("init");
        let mut compiler = Command::new(format!("{}-gcc", self.compiler));
        compiler.args(["-Wall", "-Wextra", "-Werror", "-O2", "-static", "-fno-ident"]);
        compiler.arg("-Wl,--build-id=none").args(self.flags).arg("-o").arg(&program);
        let code = sources.filter(|(name, _)| name.ends_with(".c"));
        compiler.args(code.map(|(name, _)| scratch.file(name)));
        let output = compiler.env("LC_ALL", "C").stdin(Stdio::null()).output().map_err(&broken)?;
        match output.status.success() {
            true => fs::read(&program).map_err(broken),
            false => {
                let (compiler, message) = (self.compiler, wire::tail(&output.stderr));
                let what = format!("{compiler}-gcc cannot compile the host's program: {message}");
                Err(Error::host(what).next("install the compiler again"))
            }
        }
    }
}

const END: &str = "\nhost: end\n";

#[derive(Debug, Clone)]
pub struct BoardSide {
    pub kernel: PathBuf,
    /// Added to the kernel's boot line.
    pub boot_line: String,
    /// True if the guest uses the magic page.
    pub has_page: bool,
}

#[derive(Debug, Clone)]
pub struct BoardSetup {
    pub board: &'static Board,
    pub qemu: Qemu,
    /// Hosts of base and change.
    pub sides: [BoardSide; 2],
    pub rows: Vec<GuestRow>,
    pub limits: Limits,
    pub cancel: Cancel,
    pub cache: PathBuf,
}

#[derive(Debug)]
pub struct BoardGuests {
    setup: BoardSetup,
    initrd: HostArchive,
    scratch: PathBuf,
}

impl BoardGuests {
    /// Compiles the host's program and makes the engine ready.
    pub fn new(setup: BoardSetup) -> Result<BoardGuests> {
        let scratch = setup.cache.join("runs");
        let program = new_scratch(&scratch).map_err(unprepared(&scratch))?;
        let program = setup.board.program(&program)?;
        let archive = pack_initramfs(["dev", "proc", "sys"], [("init", &*program)]);
        let archive = archive.map_err(unprepared(Path::new("the host's initramfs")))?;
        let initrd = keep_archive(&setup.cache, &archive)?;
        Ok(BoardGuests { setup, initrd, scratch })
    }

    fn side(&self, side: Side) -> &BoardSide {
        &self.setup.sides[usize::from(side == Side::Change)]
    }

    /// Options for the machine; the boot line is the last word.
    fn args(&self, side: Side, layout: &Layout, arguments: &str) -> Vec<String> {
        let (board, side) = (self.setup.board, self.side(side));
        let fixed = format!(
            "{} -rtc base=2020-01-01,clock=vm -nodefaults -no-user-config -display none -m 512",
            exact_time(layout)
        );
        let mut args: Vec<String> = fixed.split(' ').map(str::to_owned).collect();
        args.extend(board.machine.iter().map(|&word| word.to_owned()));
        args.extend(["-kernel".into(), side.kernel.display().to_string()]);
        args.extend(["-initrd".into(), self.initrd.path.display().to_string()]);
        let console = format!("console={} quiet panic=-1", board.console);
        let mut line = boot_line(&console, layout, &[&side.boot_line]);
        if !arguments.is_empty() {
            // The kernel passes the words after `--` to the first process.
            line += &format!(" -- {arguments}");
        }
        args.extend(["-append".into(), line]);
        args
    }

    /// Boots the host once, with these arguments for its first process, and returns all console
    /// output. Fails if the first process does not finish.
    fn boot_once(&self, side: Side, layout: &Layout, arguments: &str) -> Result<String, Stop> {
        let BoardSetup { qemu, limits, cancel, .. } = &self.setup;
        let scratch = new_scratch(&self.scratch).map_err(unprepared_row(&self.scratch))?;
        let (console, stderr) = (scratch.file("console"), scratch.file("stderr"));
        let failed = |failure| Stop::Failed(failure, read_tail(&console));
        let args = |control| {
            let mut args = self.args(side, layout, arguments);
            args.extend(["-action".into(), "reboot=shutdown,shutdown=pause".into()]);
            args.extend(["-serial".into(), format!("file:{}", escape(&console))]);
            args.extend(monitor(control));
            args
        };
        let mut vm = Vm::start(&qemu.program, args, None, &stderr, limits).map_err(failed)?;
        vm.resume();
        let wire = (console.as_path(), limits.console_bytes);
        let watched = Watched { limits, cancel, wire, speaks_first: false, console: &console };
        vm.wait(&watched).map_err(|stop| stop.map_failure(failed))?;
        let printed = fs::read(&console);
        let printed = printed.map_err(unprepared_row(Path::new("the host's console")))?;
        let text = String::from_utf8_lossy(&printed).replace('\r', "");
        match text.contains(END) {
            true => Ok(text),
            false => Err(failed(Failure::NoAnswer { console: wire::tail(&printed) })),
        }
    }
}

impl GuestEngine for BoardGuests {
    fn script(&self, side: Side, layout: &Layout) -> String {
        const PLACE: &str = "-append";
        let mut args = self.args(side, layout, "");
        // The shell puts the arguments behind the boot line.
        let line = args.pop().unwrap_or_default();
        args.retain(|word| word != PLACE);
        args.extend(["-no-reboot", "-serial", "stdio"].map(String::from));
        let comment = "# Boots this KVM host by hand and runs one row: sh argv orders/ROW";
        let more = format!("{PLACE} '{line} -- '\"$(cat \"$1\")\"");
        shell_script(&self.setup.qemu.program, args, comment, &more)
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

    /// Empty: the first process does not look for busy threads.
    fn busy(&self) -> Vec<String> {
        Vec::new()
    }

    fn order(&self, row: usize) -> String {
        let GuestWork::Raw { kind, count } = &self.engine.setup.rows[row].work else {
            return String::new();
        };
        let page = if self.engine.side(self.side).has_page { " magic-page" } else { "" };
        let phase = self.layout.phase;
        let delay = if phase > 0 { format!(" phase={phase}") } else { String::new() };
        format!("{kind}={count}{page}{delay}")
    }

    fn run(&self, row: usize) -> Result<GuestResult, Stop> {
        let engine = self.engine;
        let printed = engine.boot_once(self.side, &self.layout, &self.order(row))?;
        let table = table(&printed).map_err(|reason| {
            Stop::Failed(Failure::Garbled { reason }, printed.clone().into_bytes())
        })?;
        let row = engine.setup.rows[row].row.clone();
        let run = ExitRun { row, table, guest_ns: None, native_ns: None };
        Ok(GuestResult { run, signature: Signature::new(), console: printed.into_bytes() })
    }
}

/// Parses the one table that the first process prints.
fn table(printed: &str) -> Result<ExitTable, String> {
    let entries = trace_entries(printed).filter(|(buffered, written)| buffered != written);
    if let Some((buffered, written)) = entries {
        return Err(format!("KVM's trace has {buffered} of {written} events; give a smaller N"));
    }
    let tables = files::read(printed, Per::Vm).map_err(|error| error.to_string())?;
    Ok(tables.into_iter().next().expect("a file without a table is an error"))
}

/// Parses `# entries-in-buffer/entries-written: 4146/4146   #P:1` above a trace: the kernel writes
/// over the oldest events where its buffer is full.
fn trace_entries(printed: &str) -> Option<(&str, &str)> {
    let (_, after) = printed.split_once("entries-in-buffer/entries-written: ")?;
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
