//! Machines of other architectures that QEMU emulates, and the program that is the first process of
//! a KVM host there: it runs one guest and prints what KVM says of it. ktax has the program as
//! source, and compiles it where a compiler for the machine is installed.

use std::fs;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::argv::{exact_time, padding, script};
use super::initramfs::{HostArchive, keep_archive};
use super::{GuestEngine, HostError, ReadyHost, Recorded};
use crate::{Per, files};
use ktax_engine::argv::{escape, monitor};
use ktax_engine::payload::{
    DIRECTORY_MODE, PROGRAM_MODE, append_console, append_file, end_archive,
};
use ktax_engine::qemu::Qemu;
use ktax_engine::vm::{Vm, Watched};
use ktax_engine::{Cancel, Limits, Stop, read_tail, wire};
use ktax_host::cache::{Scratch, remove_stale};
use ktax_host::disk::sha256;
use ktax_model::{ExitRun, ExitTable, Failure, HostKind, Layout, Side, Signature};

/// A machine, and the program that is its first process.
#[derive(Debug, Clone, Copy)]
pub struct Board {
    /// The name in messages.
    pub name: &'static str,
    /// QEMU's program, and the distribution's package with it.
    pub qemu: (&'static str, &'static str),
    /// QEMU's options for the machine.
    pub machine: &'static [&'static str],
    pub console: &'static str,
    /// The prefix of its compiler's name: `powerpc-linux-gnu` of `powerpc-linux-gnu-gcc`.
    pub compiler: &'static str,
    /// The distribution's package with a C library for that compiler.
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

/// The files that all first processes share.
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

    /// Finds QEMU for the board, and checks that its compiler is there; the error names the missing
    /// packages.
    pub fn look(&self, qemu: Option<&Path>) -> Result<Qemu, HostError> {
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
            let (missing, packages) = (names.join(", "), packages.join(" "));
            return Err(HostError::Missing { name: self.name, missing, packages });
        }
        Ok(Qemu::find(Some(qemu.unwrap_or(Path::new(self.qemu.0))))?)
    }

    /// Returns the SHA-256 of the first process as it is compiled here, below a directory for such
    /// files. It is part of the Key.
    pub fn program_sha256(&self, parent: &Path) -> Result<String, HostError> {
        let scratch = Scratch::create(parent);
        let scratch = scratch.map_err(HostError::file(parent.display().to_string()))?;
        Ok(sha256(&self.program(&scratch)?))
    }

    /// Compiles the first process, in a directory of its own.
    pub(super) fn program(&self, scratch: &Scratch) -> Result<Vec<u8>, HostError> {
        let broken = HostError::file("the host's program");
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
                let (compiler, message) = (self.compiler, ktax_engine::wire::tail(&output.stderr));
                Err(HostError::Compiler { compiler, message })
            }
        }
    }
}

/// The last line of the first process.
const END: &str = "\nhost: end\n";

/// A host of another architecture.
#[derive(Debug)]
pub struct BoardHost<'a> {
    pub board: &'a Board,
    pub qemu: &'a Qemu,
    pub kernel: &'a Path,
    /// Added to the kernel's boot line.
    pub boot_line: &'a str,
    pub limits: &'a Limits,
    pub cancel: &'a Cancel,
    /// A directory for files that are removed with the host.
    pub scratch: &'a Path,
}

impl BoardHost<'_> {
    /// Builds the host's initramfs, whose program is compiled here.
    pub fn archive(&self) -> Result<Vec<u8>, HostError> {
        let program = self.board.program(&self.new_scratch()?)?;
        let broken = HostError::file("the host's initramfs");
        let archive = || {
            let mut archive = Vec::new();
            for name in ["dev", "proc", "sys"] {
                append_file(&mut archive, name, DIRECTORY_MODE, &[])?;
            }
            append_console(&mut archive)?;
            append_file(&mut archive, "init", PROGRAM_MODE, &program)?;
            end_archive(archive)
        };
        archive().map_err(broken)
    }

    /// Boots the host once, with these arguments for its first process, and returns all that came
    /// by the console. It is an error if the first process does not come to its end.
    pub fn boot(
        &self,
        initrd: &Path,
        layout: &Layout,
        arguments: &str,
    ) -> Result<String, HostError> {
        let scratch = self.new_scratch()?;
        let console = scratch.file("console");
        let failed = |stop: Stop| {
            let stop = match stop {
                Stop::Failed(failure, _) => Stop::Failed(failure, read_tail(&console)),
                Stop::Cancelled => Stop::Cancelled,
            };
            HostError::stopped(Some(self.board.name))(stop)
        };
        let args = |control| {
            let mut args = self.args(initrd, layout, arguments);
            args.extend(["-action".into(), "reboot=shutdown,shutdown=pause".into()]);
            args.extend(["-serial".into(), format!("file:{}", escape(&console))]);
            args.extend(monitor(control));
            args
        };
        self.wait(args, &console, &scratch.file("stderr")).map_err(failed)?;
        let printed = fs::read(&console).map_err(HostError::file("the host's console"))?;
        let text = String::from_utf8_lossy(&printed).replace('\r', "");
        match text.contains(END) {
            true => Ok(text),
            false => Err(failed(Failure::Silent { console: wire::tail(&printed) }.into())),
        }
    }

    fn wait(
        &self,
        args: impl FnOnce(RawFd) -> Vec<String>,
        console: &Path,
        stderr: &Path,
    ) -> Result<(), Stop> {
        let mut vm = Vm::start(&self.qemu.program, args, None, stderr, self.limits)?;
        vm.go();
        let wire = (console, self.limits.console_bytes);
        let watch = Watched {
            limits: self.limits,
            cancel: self.cancel,
            wire,
            speaks_first: false,
            console,
        };
        vm.wait(&watch).map(drop)
    }

    /// Returns a shell script that boots the host by hand; `$1` names a file with the arguments.
    pub fn script(&self, initrd: &Path, layout: &Layout) -> String {
        const PLACE: &str = "-append";
        let mut args = self.args(initrd, layout, "");
        // The shell puts the arguments behind the boot line.
        let line = args.pop().unwrap_or_default();
        args.retain(|word| word != PLACE);
        args.extend(["-no-reboot", "-serial", "stdio"].map(String::from));
        let comment = "# Boots this KVM host by hand and runs one row: sh argv orders/ROW";
        let more = format!("{PLACE} '{line} -- '\"$(cat \"$1\")\"");
        script(&self.qemu.program, args, comment, &more)
    }

    /// Options for the machine; the boot line is the last word.
    fn args(&self, initrd: &Path, layout: &Layout, arguments: &str) -> Vec<String> {
        let fixed = format!(
            "{} -rtc base=2020-01-01,clock=vm -nodefaults -no-user-config -display none -m 512",
            exact_time(layout)
        );
        let mut args: Vec<String> = fixed.split(' ').map(str::to_owned).collect();
        args.extend(self.board.machine.iter().map(|&word| word.to_owned()));
        args.extend(["-kernel".into(), self.kernel.display().to_string()]);
        args.extend(["-initrd".into(), initrd.display().to_string()]);
        let console = format!("console={} quiet panic=-1", self.board.console);
        let words = [console, padding(layout), self.boot_line.to_owned()];
        let words: Vec<String> = words.into_iter().filter(|words| !words.is_empty()).collect();
        let mut line = words.join(" ");
        if !arguments.is_empty() {
            // The kernel passes what comes after it to the first process.
            line += &format!(" -- {arguments}");
        }
        args.extend(["-append".into(), line]);
        args
    }

    fn new_scratch(&self) -> Result<Scratch, HostError> {
        remove_stale(self.scratch);
        let failed = HostError::file(self.scratch.display().to_string());
        Scratch::create(self.scratch).map_err(failed)
    }
}

/// The work of a guest: one kind of exit, so often.
#[derive(Debug, Clone)]
pub struct BoardWork {
    pub kind: String,
    pub count: u32,
}

/// The host of one Side.
#[derive(Debug, Clone)]
pub struct BoardSide {
    pub kernel: PathBuf,
    /// Added to the kernel's boot line.
    pub boot_line: String,
    /// Whether the guest uses the magic page.
    pub has_page: bool,
}

/// The setup of a [`BoardGuests`].
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
    /// Initramfs of the base, and of the change.
    initrds: Vec<HostArchive>,
    scratch: PathBuf,
}

impl BoardGuests {
    /// Compiles the host's program and makes the engine ready.
    pub fn new(setup: BoardSetup) -> Result<BoardGuests, HostError> {
        let scratch = setup.cache.join("runs");
        let mut engine = BoardGuests { setup, initrds: Vec::new(), scratch };
        for side in Side::BOTH {
            let archive = engine.host(side).archive()?;
            let kept = keep_archive(&engine.setup.cache, &archive);
            engine.initrds.push(kept.map_err(HostError::file("the cache"))?);
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
        &self.setup.sides[side_index(side)]
    }
}

impl GuestEngine for BoardGuests {
    fn script(&self, side: Side, layout: &Layout) -> String {
        self.host(side).script(&self.initrds[side_index(side)].path, layout)
    }

    fn boot(&self, side: Side, layout: &Layout) -> Result<Box<dyn ReadyHost + '_>, Stop> {
        Ok(Box::new(BoardReady { engine: self, side, layout: layout.clone() }))
    }
}

fn side_index(side: Side) -> usize {
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

    /// Empty: the first process does not look.
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
        let initrd = &engine.initrds[side_index(self.side)].path;
        let printed = engine.host(self.side).boot(initrd, &self.layout, &self.order(row))?;
        let table = table(&printed).map_err(|reason| {
            Stop::Failed(Failure::Garbled { reason }, printed.clone().into_bytes())
        })?;
        let row = engine.setup.works[row].0.clone();
        let run = ExitRun { row, table, guest_ns: None, native_ns: None };
        Ok(Recorded { run, signature: Signature::new(), console: printed.into_bytes() })
    }
}

/// Parses the one table that the first process prints.
fn table(printed: &str) -> Result<ExitTable, String> {
    if let Some((kept, written)) = trace_entries(printed).filter(|(kept, written)| kept != written)
    {
        return Err(format!("KVM's trace has {kept} of {written} events; give a smaller N"));
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
