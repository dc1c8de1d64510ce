//! KVM hosts on machines of other architectures that QEMU emulates. The first process of such a
//! host is a C program that runs one guest and prints KVM's timing or trace. ktax contains the
//! source and compiles it with the machine's cross compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::init::{HostArchive, store_archive};
use super::{
    GuestEngine, GuestResult, ReadyHost, boot_line, exact_time_args, new_scratch, prepare_error,
    row_prepare_failure,
};
use crate::{TableScope, files};
use ktax_engine::argv::{escape, monitor, rtc, shell_script};
use ktax_engine::payload::pack_initramfs;
use ktax_engine::qemu::{Qemu, Vm, VmStart, VmWatch};
use ktax_engine::{Cancel, Limits, Stop, read_tail, wire};
use ktax_host::cache::Scratch;
use ktax_host::disk::sha256;
use ktax_model::{
    Error, ExitRun, ExitTable, Failure, GuestRow, GuestWork, HostKind, Layout, Result, Side,
    Signature,
};

/// A machine, and the source of the program that is its first process.
#[derive(Debug, Clone, Copy)]
pub struct Board {
    pub name: &'static str,
    /// QEMU's program, and its package in Debian.
    pub qemu: (&'static str, &'static str),
    /// QEMU's options for the machine and its processor.
    pub machine: &'static [&'static str],
    /// Linux's name of the console.
    pub console: &'static str,
    /// Target of the cross compiler: `powerpc-linux-gnu` for `powerpc-linux-gnu-gcc`.
    pub compiler: &'static str,
    /// Debian package with a C library for that compiler.
    pub library: &'static str,
    /// Additional flags of the compiler.
    pub flags: &'static [&'static str],
    /// Names and texts of the program's files, in addition to `SHARED_SOURCES`.
    pub sources: &'static [(&'static str, &'static str)],
}

macro_rules! source {
    ($name:literal) => {
        ($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../guest/hosts/", $name)))
    };
}

/// Files of all boards.
const SHARED_SOURCES: [(&str, &str); 2] = [source!("host.h"), source!("host.c")];

/// Files of boards that record their guests with KVM's tracepoints.
const RAW_SOURCES: [(&str, &str); 2] = [source!("raw.h"), source!("raw.c")];

/// Machine of a POWER9. QEMU's translator implements no mitigations of speculation, and without
/// these options it refuses the machine or warns.
const PSERIES: &str = "pseries,cap-nested-hv=on,cap-ccf-assist=off,cap-cfpc=broken,\
                       cap-sbbc=broken,cap-ibs=broken";

impl Board {
    /// A PowerPC of 2008 without hardware virtualization: KVM emulates privileged instructions, and
    /// times exits itself.
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

    /// An arm64 processor with EL2 and without VHE: the host's kernel runs at EL1, and only a part
    /// of KVM at EL2.
    pub const ARM64: Board = Board {
        name: "arm64",
        qemu: ("qemu-system-aarch64", "qemu-system-arm"),
        machine: &["-M", "virt,virtualization=on,gic-version=3", "-cpu", "cortex-a57"],
        console: "ttyAMA0",
        compiler: "aarch64-linux-gnu",
        library: "libc6-dev-arm64-cross",
        flags: &[],
        sources: &[RAW_SOURCES[0], RAW_SOURCES[1], source!("arm64.c")],
    };

    /// A POWER9 with nested virtualization, whose KVM times its own phases.
    pub const POWER9: Board = Board {
        name: "POWER9",
        qemu: ("qemu-system-ppc64", "qemu-system-ppc"),
        machine: &["-M", PSERIES, "-cpu", "POWER9"],
        console: "hvc0",
        compiler: "powerpc64le-linux-gnu",
        library: "libc6-dev-ppc64el-cross",
        flags: &[],
        sources: &[RAW_SOURCES[0], RAW_SOURCES[1], source!("power9.c")],
    };

    /// A riscv64 processor with the hypervisor extension, and QEMU's own firmware.
    pub const RISCV64: Board = Board {
        name: "riscv64",
        qemu: ("qemu-system-riscv64", "qemu-system-misc"),
        machine: &["-M", "virt", "-cpu", "rv64,h=true", "-bios", "default"],
        console: "ttyS0",
        compiler: "riscv64-linux-gnu",
        library: "libc6-dev-riscv64-cross",
        flags: &[],
        sources: &[RAW_SOURCES[0], RAW_SOURCES[1], source!("riscv64.c")],
    };

    /// Returns the board for a kind of hosts; `None` for x86-64 hosts.
    pub fn for_kind(kind: HostKind) -> Option<&'static Board> {
        match kind {
            HostKind::Kvm => None,
            HostKind::KvmE500v2 => Some(&Board::E500V2),
            HostKind::KvmArm64 => Some(&Board::ARM64),
            HostKind::KvmPower9 => Some(&Board::POWER9),
            HostKind::KvmRiscv64 => Some(&Board::RISCV64),
        }
    }

    /// Finds QEMU for the board, and checks that the cross compiler and its C library are
    /// installed. An error names the missing packages.
    pub fn find_qemu(&self, qemu: Option<&Path>) -> Result<Qemu> {
        let is_in_path = |program: &str| {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
        };
        let compiler = format!("{}-gcc", self.compiler);
        let library = PathBuf::from(format!("/usr/{}/lib/libc.a", self.compiler));
        let requirements = [
            (self.qemu.0, self.qemu.1.to_owned(), qemu.is_some() || is_in_path(self.qemu.0)),
            (&compiler, format!("gcc-{}", self.compiler), is_in_path(&compiler)),
            ("a C library for it", self.library.to_owned(), library.is_file()),
        ];
        let missing: Vec<_> =
            requirements.iter().filter(|(.., is_installed)| !is_installed).collect();
        if !missing.is_empty() {
            let names: Vec<&str> = missing.iter().map(|(name, ..)| *name).collect();
            let packages: Vec<&str> =
                missing.iter().map(|(_, package, _)| package.as_str()).collect();
            let (names, packages) = (names.join(", "), packages.join(" "));
            let install = "type: sudo apt-get install --no-install-recommends";
            return Err(Error::guest(format!("a KVM host on {} needs {names}", self.name))
                .next(format!("{install} {packages}")));
        }
        Qemu::find(Some(qemu.unwrap_or(Path::new(self.qemu.0))))
    }

    /// Compiles the first process in a scratch directory below `parent`, and returns the program's
    /// SHA-256, which is part of the Key.
    pub fn program_sha256(&self, parent: &Path) -> Result<String> {
        let scratch = Scratch::create(parent).map_err(prepare_error(parent))?;
        Ok(sha256(&self.compile(&scratch)?))
    }

    /// Compiles the first process in `scratch` and returns the program.
    fn compile(&self, scratch: &Scratch) -> Result<Vec<u8>> {
        let file_error = prepare_error(Path::new("the host's program"));
        let sources = SHARED_SOURCES.iter().chain(self.sources);
        for (name, text) in sources.clone() {
            fs::write(scratch.file(name), text).map_err(&file_error)?;
        }
        let program = scratch.file("init");
        let mut compiler = Command::new(format!("{}-gcc", self.compiler));
        compiler.args(["-Wall", "-Wextra", "-Werror", "-O2", "-static", "-fno-ident"]);
        compiler.arg("-Wl,--build-id=none").args(self.flags).arg("-o").arg(&program);
        let c_files = sources.filter(|(name, _)| name.ends_with(".c"));
        compiler.args(c_files.map(|(name, _)| scratch.file(name)));
        let output =
            compiler.env("LC_ALL", "C").stdin(Stdio::null()).output().map_err(&file_error)?;
        match output.status.success() {
            true => fs::read(&program).map_err(file_error),
            false => {
                let (compiler, message) = (self.compiler, wire::tail(&output.stderr));
                let message =
                    format!("{compiler}-gcc cannot compile the host's program: {message}");
                Err(Error::host(message).next("install the compiler again"))
            }
        }
    }
}

/// Line that the first process prints after its work.
const END: &str = "\nhost: end\n";

/// The host's kernel on one Side.
#[derive(Debug, Clone)]
pub struct BoardSide {
    pub kernel: PathBuf,
    /// Words that are added to the kernel's boot line.
    pub boot_line: String,
    /// True if the guest uses KVM's magic page.
    pub has_magic_page: bool,
}

/// Inputs of [`BoardGuests`].
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

/// [`GuestEngine`] of boards.
#[derive(Debug)]
pub struct BoardGuests {
    setup: BoardSetup,
    initrd: HostArchive,
    scratch: PathBuf,
}

impl BoardGuests {
    /// Compiles the first process and stores its initramfs in the cache.
    pub fn new(setup: BoardSetup) -> Result<BoardGuests> {
        let scratch = setup.cache.join("runs");
        let build_dir = new_scratch(&scratch).map_err(prepare_error(&scratch))?;
        let program = setup.board.compile(&build_dir)?;
        let archive = pack_initramfs(["dev", "proc", "sys"], [("init", &*program)]);
        let archive = archive.map_err(prepare_error(Path::new("the host's initramfs")))?;
        let initrd = store_archive(&setup.cache, &archive)?;
        Ok(BoardGuests { setup, initrd, scratch })
    }

    fn side(&self, side: Side) -> &BoardSide {
        &self.setup.sides[usize::from(side == Side::Change)]
    }

    /// Returns QEMU's options for the machine and the kernel. The boot line is the last of them.
    fn args(&self, side: Side, layout: &Layout, arguments: &str) -> Vec<String> {
        let (board, side) = (self.setup.board, self.side(side));
        let fixed = format!(
            "{} -rtc {} -nodefaults -no-user-config -display none -m 512",
            exact_time_args(layout),
            rtc()
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

    /// Boots the host with these arguments for its first process, and returns the console's output.
    /// Fails if the first process does not finish.
    fn boot_once(&self, side: Side, layout: &Layout, arguments: &str) -> Result<String, Stop> {
        let BoardSetup { qemu, limits, cancel, .. } = &self.setup;
        let scratch = new_scratch(&self.scratch).map_err(row_prepare_failure(&self.scratch))?;
        let (console, stderr) = (scratch.file("console"), scratch.file("stderr"));
        let failed = |failure| Stop::Failed(failure, read_tail(&console));
        let args = |control| {
            let mut args = self.args(side, layout, arguments);
            args.extend(["-action".into(), "reboot=shutdown,shutdown=pause".into()]);
            args.extend(["-serial".into(), format!("file:{}", escape(&console))]);
            args.extend(monitor(control));
            args
        };
        let mut vm =
            Vm::start(&qemu.program, args, VmStart::PowerOn, &stderr, limits).map_err(failed)?;
        vm.resume();
        let wire = (console.as_path(), limits.console_bytes);
        let watched = VmWatch { limits, cancel, wire, expects_hello: false, console: &console };
        vm.wait(&watched).map_err(|stop| stop.map_failure(failed))?;
        let printed = fs::read(&console);
        let printed = printed.map_err(row_prepare_failure(Path::new("the host's console")))?;
        let text = String::from_utf8_lossy(&printed).replace('\r', "");
        match text.contains(END) {
            true => Ok(text),
            false => Err(failed(Failure::NoAnswer { console: wire::tail(&printed) })),
        }
    }
}

impl GuestEngine for BoardGuests {
    fn script(&self, side: Side, layout: &Layout) -> String {
        const APPEND: &str = "-append";
        let mut args = self.args(side, layout, "");
        // The script itself adds `-append`, with the arguments from the order's file.
        let line = args.pop().unwrap_or_default();
        args.retain(|word| word != APPEND);
        args.extend(["-no-reboot", "-serial", "stdio"].map(String::from));
        let comment = "# Boots this KVM host by hand and runs one row: sh argv orders/ROW";
        let more = format!("{APPEND} '{line} -- '\"$(cat \"$1\")\"");
        shell_script(&self.setup.qemu.program, args, comment, &more)
    }

    fn boot(&self, side: Side, layout: &Layout) -> Result<Box<dyn ReadyHost + '_>, Stop> {
        Ok(Box::new(BoardReady { engine: self, side, layout: layout.clone() }))
    }
}

/// The host of a Side and Layout, which boots again for each row.
struct BoardReady<'a> {
    engine: &'a BoardGuests,
    side: Side,
    layout: Layout,
}

impl ReadyHost for BoardReady<'_> {
    fn console(&self) -> Option<Vec<u8>> {
        None
    }

    /// Always empty: the first process does not check for busy threads.
    fn busy(&self) -> Vec<String> {
        Vec::new()
    }

    fn order(&self, row: usize) -> String {
        let GuestWork::Raw { kind, count } = &self.engine.setup.rows[row].work else {
            return String::new();
        };
        let magic_page =
            if self.engine.side(self.side).has_magic_page { " magic-page" } else { "" };
        let phase = match self.layout.phase {
            0 => String::new(),
            phase => format!(" phase={phase}"),
        };
        format!("{kind}={count}{magic_page}{phase}")
    }

    fn run(&self, row: usize) -> Result<GuestResult, Stop> {
        let engine = self.engine;
        let printed = engine.boot_once(self.side, &self.layout, &self.order(row))?;
        let table = parse_table(&printed).map_err(|reason| {
            Stop::Failed(Failure::Garbled { reason }, printed.clone().into_bytes())
        })?;
        let row = engine.setup.rows[row].row.clone();
        let run = ExitRun { row, table, guest_ns: None, native_ns: None };
        Ok(GuestResult { run, signature: Signature::new(), console: printed.into_bytes() })
    }
}

/// Parses the table in the console's output.
fn parse_table(printed: &str) -> Result<ExitTable, String> {
    let overwritten = trace_entries(printed).filter(|(buffered, written)| buffered != written);
    if let Some((buffered, written)) = overwritten {
        return Err(format!("KVM's trace has {buffered} of {written} events; give a smaller N"));
    }
    let tables = files::read(printed, TableScope::Vm).map_err(|error| error.to_string())?;
    Ok(tables.into_iter().next().expect("reading text without a table is an error"))
}

/// Parses the numbers of `# entries-in-buffer/entries-written: 4146/4146   #P:1` above a trace.
/// They differ if the buffer was full, so that the kernel overwrote the oldest events.
fn trace_entries(printed: &str) -> Option<(&str, &str)> {
    let (_, after) = printed.split_once("entries-in-buffer/entries-written: ")?;
    after.split_whitespace().next()?.split_once('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_with_overwritten_events_is_refused() {
        let trace = |entries: &str| {
            format!(
                "# entries-in-buffer/entries-written: {entries}   #P:1\n\
                 a-1 [000] 2.000000: kvm_entry: vcpu 0, rip 0x1\n\
                 a-1 [000] 2.000007: kvm_exit: reason EXIT_HLT rip 0x1 info 0 0\n"
            )
        };
        assert_eq!(
            parse_table(&trace("2/2")).unwrap().row("TIMEINGUEST").unwrap().sum_ns,
            Some(7000)
        );
        let error = parse_table(&trace("2/9")).unwrap_err();
        assert_eq!(error, "KVM's trace has 2 of 9 events; give a smaller N");
    }
}
