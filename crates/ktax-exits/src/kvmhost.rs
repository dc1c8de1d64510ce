//! KVM hosts in QEMU: they run real KVM on any kernel, even if this machine has no KVM. For the
//! usual host QEMU emulates AMD's virtualization with nested paging.
//!
//! ```text
//! initramfs: ktax, modules, files, an order with the commands
//!    │ QEMU boots it, with ktax as the first process
//!    ▼
//! init: mounts file systems, loads modules, runs the commands ─► frames: the commands' output
//! ```
//!
//! Guest experiments use a [`GuestEngine`]. [`X86Guests`] boots such a host once for each Side and
//! Layout, and freezes the host before its first command. Each row resumes a copy of the frozen
//! host with an order of its own: the commands that record one guest. [`BoardGuests`] boots a
//! [`Board`] for each row: its first process is a C program that runs the guest.

mod board;
mod init;
mod x86;

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::path::{Path, PathBuf};

use init::{HostOrder, parse_frames};
use ktax_engine::argv::{
    MACHINE, NO_TIMER_CHECK, ORDER_ITEM, TRANSLATOR, escape, monitor, rtc, shell_script,
};
use ktax_engine::qemu::{Halt, Qemu, Vm, VmStart, VmWatch};
use ktax_engine::{Cancel, Limits, Stop, read_tail, save_state, wire};
use ktax_host::cache::{Scratch, remove_stale};
use ktax_host::text::escape_bytes;
use ktax_model::{Error, ExitRun, Failure, Identity, Layout, Result, Side, Signature};

pub use board::{Board, BoardGuests, BoardSetup, BoardSide};
pub use init::{
    CommandOutput, FREEZE_PROGRAM_PATH, HOST_FILES_MAX, HostFile, THIS_PROGRAM, main as init,
};
pub use x86::{X86Guest, X86Guests, X86Setup};

/// Runs guests of KVM hosts in QEMU: each Step boots a host, and each row runs a guest. The same
/// Side, Layout and row always give the same table, byte for byte.
pub trait GuestEngine: Sync {
    /// Returns a shell script that boots the host by hand; its argument is a file with a row's
    /// order.
    fn script(&self, side: Side, layout: &Layout) -> String;
    /// Boots a Side's host under a Layout, up to the point where its guests can start.
    fn boot(&self, side: Side, layout: &Layout) -> Result<Box<dyn ReadyHost + '_>, Stop>;
}

/// A booted host. Each row runs in its own copy of the host, so that no guest is affected by
/// earlier guests.
pub trait ReadyHost {
    /// Returns the console of the boot that all rows share; `None` if each row boots.
    fn console(&self) -> Option<Vec<u8>>;
    /// Returns the kernel threads that were still busy when the host was ready.
    fn busy(&self) -> Vec<String>;
    /// Returns the order for this row's host: the content of `orders/ROW`.
    fn order(&self, row: usize) -> String;
    /// Runs the work of this row, an index into the engine's rows, as a guest and records it.
    fn run(&self, row: usize) -> Result<GuestResult, Stop>;
}

/// The outcome of one row: exit table and times, work, and consoles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestResult {
    pub run: ExitRun,
    /// Work that a program reports; empty for other work.
    pub signature: Signature,
    /// Console of the row's own host, and of its guest if it has a console.
    pub console: Vec<u8>,
}

/// Makes the error of a file that cannot be read or written.
fn prepare_error(path: &Path) -> impl Fn(io::Error) -> Error {
    let action = format!("cannot prepare {} for the KVM host", path.display());
    move |error| {
        let next = "check that it is readable and that the disk has free space";
        Error::host(format!("{action}: {error}")).next(next)
    }
}

/// Makes the failure of a row whose file cannot be read or written.
fn row_prepare_failure(path: &Path) -> impl Fn(io::Error) -> Stop {
    let operation = format!("cannot prepare {} for the KVM host", path.display());
    move |error| Failure::Host { operation: operation.clone(), reason: error.to_string() }.into()
}

/// Makes the error of a host that gave no answer. It blames the kernel that the user chose (the
/// guest of this QEMU), unless this machine is the reason.
fn host_error(stop: Stop) -> Error {
    let (failure, console) = match stop {
        Stop::Cancelled => return Error::cancelled(),
        Stop::Failed(failure, console) => (failure, console),
    };
    if let Failure::Refused { message } = failure {
        return Error::guest(message).next("give a kernel with KVM for AMD (--kernel)");
    }
    if let Failure::Host { .. } = failure {
        return Error::host(failure.to_string()).next("run `ktax doctor`");
    }
    let message = format!(
        "the KVM host did not answer: {failure}; its console ends with `{}`",
        wire::tail(&console)
    );
    Error::guest(message).next("try a longer --time-limit, or run `ktax doctor`")
}

/// Makes a scratch directory, after removing those of processes that are gone.
fn new_scratch(parent: &Path) -> io::Result<Scratch> {
    remove_stale(parent);
    Scratch::create(parent)
}

/// Returns QEMU's options for the exact engine's time: one instruction takes one virtual
/// nanosecond, idle time is skipped, and the Layout's seed determines random numbers.
fn exact_time_args(layout: &Layout) -> String {
    let seed = layout.seed;
    format!("-accel {TRANSLATOR} -smp 1 -icount shift=0,sleep=off -seed {seed}")
}

/// Makes a boot line: the first words, the Layout's padding, and more words. The kernel does not
/// pass parameters with a dot to init, so the padding does not move the stack of any program.
fn boot_line(first: &str, layout: &Layout, more: &[&str]) -> String {
    let padding = match layout.padding {
        0 => String::new(),
        padding => format!("ktax.pad={}", "x".repeat(padding as usize)),
    };
    let words = [first, &padding].into_iter().chain(more.iter().copied());
    words.filter(|words| !words.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Maximum size of the output of all commands, in bytes.
const MAX_FRAMES_BYTES: u64 = 64 << 20;

/// The modules that the host needs, in the order in which they are loaded.
pub const KVM_MODULES: [&str; 3] = ["irqbypass", "kvm", "kvm-amd"];

/// Layout of a host that is not part of an experiment.
pub const PLAIN_LAYOUT: Layout = Layout { seed: 1, padding: 0, phase: 0 };

/// An AMD processor with virtualization and nested paging. Features that some versions of QEMU lack
/// are off, so that the processor is the same with each version.
const CPU: &str = "EPYC,svm=on,npt=on,nrip-save=off,rdseed=off,sha-ni=off,fxsr-opt=off,\
                   misalignsse=off,3dnowprefetch=off,osvw=off,topoext=off,xsavec=off";
/// Memory for the host, one guest, and the initramfs with all files.
const MEMORY_MIB: u32 = 1400;

/// Kernel of the host.
#[derive(Debug, Clone)]
pub struct HostKernel {
    pub image: PathBuf,
    pub identity: Identity,
    pub boot_line: String,
    /// Files of [`KVM_MODULES`]; empty if they are built in.
    pub modules: Vec<PathBuf>,
}

#[derive(Debug)]
pub struct KvmHost<'a> {
    pub qemu: &'a Qemu,
    pub kernel: &'a HostKernel,
    /// True if virtual time counts instructions, so that equal runs print equal output.
    pub is_exact: bool,
    pub layout: &'a Layout,
    pub limits: &'a Limits,
    pub cancel: &'a Cancel,
    /// Directory for the host's temporary files.
    pub scratch: &'a Path,
}

/// The part of a host's run that one QEMU process executes.
enum RunSpan<'a> {
    /// From power-on to power-off.
    Whole,
    /// From power-on until init freezes the machine, with its memory in the file `ram`.
    ToFreeze { ram: &'a Path },
    /// From the freeze to power-off, with an order; QEMU inherits the descriptor of the state file.
    FromFreeze { ram: &'a Path, order: &'a Path, state: BorrowedFd<'a> },
}

impl KvmHost<'_> {
    /// Boots the host, runs the commands in sequence, and returns their outputs.
    pub fn run(&self, commands: &[Vec<String>], files: &[HostFile]) -> Result<Vec<CommandOutput>> {
        let scratch = new_scratch(self.scratch).map_err(prepare_error(self.scratch))?;
        let initrd = scratch.file("initramfs.cpio");
        let order = HostOrder { phase: self.layout.phase, commands: commands.to_vec() };
        let modules = &self.kernel.modules;
        let archive = init::build_initramfs(Path::new(THIS_PROGRAM), modules, Some(&order), files)?;
        fs::write(&initrd, archive).map_err(prepare_error(&initrd))?;
        let session = Session::new(self, &initrd, &scratch);
        let rest = session.start(&RunSpan::Whole).and_then(|mut vm| {
            vm.resume();
            session.wait(&mut vm)
        });
        rest.map_err(host_error)?;
        let frames = fs::read(&session.frames).map_err(prepare_error(&session.frames))?;
        session.parse(&frames, commands.len()).map_err(host_error)
    }

    /// Returns the boot line. The kernel passes the words after `--` to init as arguments, and
    /// unknown variables as environment.
    fn boot_line(&self) -> String {
        let time_words = if self.is_exact { "nokaslr norandmaps" } else { NO_TIMER_CHECK };
        let fixed = format!("console=ttyS0 quiet panic=-1 oops=panic {time_words}");
        let init = "LD_LIBRARY_PATH=/lib rdinit=/ktax -- kvm-host-init";
        boot_line(&fixed, self.layout, &[&self.kernel.boot_line, init])
    }

    /// Returns QEMU's options for the machine, the kernel and the initramfs.
    fn machine_args(&self, initrd: &Path, has_own_memory: bool) -> Vec<String> {
        let time = match self.is_exact {
            true => exact_time_args(self.layout),
            false => format!("-accel {TRANSLATOR} -smp 1"),
        };
        let memory = if has_own_memory { "" } else { ",memory-backend=ram" };
        let rtc = rtc();
        let fixed = format!(
            "-M {MACHINE}{memory} -cpu {CPU} -m {MEMORY_MIB} {time} -rtc {rtc} -nodefaults \
             -no-user-config -display none"
        );
        let mut args: Vec<String> = fixed.split(' ').map(str::to_owned).collect();
        args.extend(["-kernel".into(), self.kernel.image.display().to_string()]);
        args.extend(["-initrd".into(), initrd.display().to_string()]);
        args.extend(["-append".into(), self.boot_line()]);
        args
    }

    /// Returns a script that boots the host by hand, with the terminal as console and without a
    /// freeze.
    fn script(&self, initrd: &Path) -> String {
        let mut args = self.machine_args(initrd, true);
        let ports = ["-no-reboot", "-serial", "stdio", "-serial", "file:frames.log"];
        args.extend(ports.map(String::from));
        let comment = "# Boots this KVM host by hand and runs one row: sh argv orders/ROW\n\
                       # The answers of its commands go to frames.log.";
        let order = format!("-fw_cfg \"name={ORDER_ITEM},file=$1\"");
        shell_script(&self.qemu.program, args, comment, &order)
    }
}

/// Returns QEMU's options for memory in a file. A boot writes to the file (`share` is `on`); a
/// resumed machine maps the file privately (`off`).
fn memory_args(ram: &Path, share: &str) -> Vec<String> {
    let (size, path) = (MEMORY_MIB, escape(ram));
    let backend = format!("memory-backend-file,id=ram,size={size}M,mem-path={path},share={share}");
    // Init freezes the machine by writing to pvpanic's port.
    vec!["-object".into(), backend, "-device".into(), "pvpanic".into()]
}

/// Returns the limits of a host: at least as much virtual time as real time, or no limit of virtual
/// time if it is not exact.
fn host_limits(limits: &Limits, is_exact: bool) -> Limits {
    let virtual_s = limits.virtual_s.max(limits.time.as_secs());
    let limits = Limits { virtual_s, ..limits.clone() };
    if is_exact { limits } else { limits.without_virtual_time() }
}

/// The files and limits of one QEMU process.
struct Session<'a> {
    host: &'a KvmHost<'a>,
    initrd: &'a Path,
    limits: Limits,
    console: PathBuf,
    frames: PathBuf,
    stderr: PathBuf,
}

impl<'a> Session<'a> {
    fn new(host: &'a KvmHost<'a>, initrd: &'a Path, scratch: &Scratch) -> Session<'a> {
        let limits = host_limits(host.limits, host.is_exact);
        let [console, frames, stderr] = ["console", "frames", "stderr"].map(|n| scratch.file(n));
        Session { host, initrd, limits, console, frames, stderr }
    }

    /// Returns the arguments of QEMU, with its monitor on an inherited descriptor.
    fn args(&self, span: &RunSpan<'_>, control: RawFd) -> Vec<String> {
        let mut args = self.host.machine_args(self.initrd, matches!(span, RunSpan::Whole));
        // QEMU pauses a machine that is off instead of exiting: a QEMU that exits while ktax reads
        // its state can hang.
        args.extend(["-action".into(), "reboot=shutdown,shutdown=pause,panic=pause".into()]);
        for port in [&self.console, &self.frames] {
            args.extend(["-serial".into(), format!("file:{}", escape(port))]);
        }
        match span {
            RunSpan::Whole => {}
            RunSpan::ToFreeze { ram } => args.extend(memory_args(ram, "on")),
            RunSpan::FromFreeze { ram, order, .. } => {
                args.extend(memory_args(ram, "off"));
                args.extend(["-incoming".into(), "defer".into()]);
                let order = format!("name={ORDER_ITEM},file={}", escape(order));
                args.extend(["-fw_cfg".into(), order]);
            }
        }
        args.extend(monitor(control));
        args
    }

    fn start(&self, span: &RunSpan<'_>) -> Result<Vm, Stop> {
        let start = match span {
            RunSpan::FromFreeze { state, .. } => VmStart::Snapshot(*state),
            _ => VmStart::PowerOn,
        };
        let args = |control| self.args(span, control);
        Vm::start(&self.host.qemu.program, args, start, &self.stderr, &self.limits)
            .map_err(|failure| self.failure_with_console(failure))
    }

    fn wait(&self, vm: &mut Vm) -> Result<Halt, Stop> {
        let watched = VmWatch {
            limits: &self.limits,
            cancel: self.host.cancel,
            wire: (&self.frames, MAX_FRAMES_BYTES),
            expects_hello: false,
            console: &self.console,
        };
        vm.wait(&watched)
            .map_err(|stop| stop.map_failure(|failure| self.failure_with_console(failure)))
    }

    fn answers(&self, commands: usize) -> Result<Vec<CommandOutput>, Stop> {
        self.parse(&fs::read(&self.frames).map_err(row_prepare_failure(&self.frames))?, commands)
    }

    fn parse(&self, frames: &[u8], commands: usize) -> Result<Vec<CommandOutput>, Stop> {
        parse_frames(frames, commands).map_err(|failure| match failure {
            // Init's message has the reason; the console adds nothing.
            Failure::Refused { .. } => failure.into(),
            failure => self.failure_with_console(failure),
        })
    }

    /// Makes a failure with the end of the console. If the console has a panic, that is the
    /// failure.
    fn failure_with_console(&self, failure: Failure) -> Stop {
        let console = read_tail(&self.console);
        let panicked = wire::panic_message(&console);
        let failure = panicked.map_or(failure, |message| Failure::Panic { message });
        Stop::Failed(failure, console)
    }

    /// Makes the failure of a host that stopped without an answer.
    fn silent_failure(&self) -> Stop {
        self.failure_with_console(Failure::NoAnswer {
            console: wire::tail(&read_tail(&self.console)),
        })
    }
}

/// A frozen host: its memory and QEMU's state, in files.
#[derive(Debug)]
struct FrozenHost {
    scratch: Scratch,
    /// The console's output before the freeze.
    pub console: Vec<u8>,
    /// Tasks that were still busy at the freeze.
    pub busy: Vec<String>,
}

impl FrozenHost {
    /// Boots a host whose initramfs has no order, up to the point where it waits for one.
    pub fn boot(host: &KvmHost<'_>, initrd: &Path) -> Result<FrozenHost, Stop> {
        let scratch = new_scratch(host.scratch).map_err(row_prepare_failure(host.scratch))?;
        let session = Session::new(host, initrd, &scratch);
        let ram = scratch.file("ram");
        let mut vm = session.start(&RunSpan::ToFreeze { ram: &ram })?;
        if session.wait(&mut vm)? != Halt::Paused {
            // Init powered off instead; its message has the reason.
            session.answers(0)?;
            return Err(session.silent_failure());
        }
        let busy = session.answers(1)?.iter().flat_map(output_lines).collect();
        save_state(&session.limits, &mut vm, &scratch.file("state"))?;
        drop(vm);
        let console = read_tail(&session.console);
        Ok(FrozenHost { scratch, console, busy })
    }

    /// Resumes a copy of the host with an order and runs it to power-off. Returns the output of
    /// each command, and the console's output after the freeze.
    pub fn run(
        &self,
        host: &KvmHost<'_>,
        initrd: &Path,
        order: &HostOrder,
    ) -> Result<(Vec<CommandOutput>, Vec<u8>), Stop> {
        let scratch = new_scratch(host.scratch).map_err(row_prepare_failure(host.scratch))?;
        let session = Session::new(host, initrd, &scratch);
        let file = scratch.file("order");
        fs::write(&file, order.to_json()).map_err(row_prepare_failure(&file))?;
        let state = self.scratch.file("state");
        let state = File::open(&state).map_err(row_prepare_failure(&state))?;
        let (ram, uri) = (self.scratch.file("ram"), format!("fd:{}", state.as_raw_fd()));
        let span = RunSpan::FromFreeze { ram: &ram, order: &file, state: state.as_fd() };
        let mut vm = session.start(&span)?;
        // Loading the state takes much less time than a usual wait.
        let poll = session.limits.resume_poll();
        vm.monitor(|monitor| monitor.receive_state(uri, poll))
            .map_err(|failure| session.failure_with_console(failure))?;
        vm.resume();
        let rest = session.wait(&mut vm)?;
        drop(vm);
        if rest == Halt::Paused {
            return Err(session.silent_failure());
        }
        Ok((session.answers(order.commands.len())?, read_tail(&session.console)))
    }
}

/// Returns the escaped lines of a command's stdout.
fn output_lines(output: &CommandOutput) -> Vec<String> {
    output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(escape_bytes)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use ktax_model::Blame;
    use ktax_model::{Arch, ImageFormat};

    #[test]
    fn an_error_blames_the_kernel_unless_this_machine_failed() {
        let failed = |failure, console: &[u8]| host_error(Stop::Failed(failure, console.to_vec()));
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let (operation, reason) = ("cannot write x".to_owned(), "it is full".to_owned());
        let host = failed(Failure::Host { operation, reason }, b"");
        assert_eq!([host.blame, prepare_error(Path::new("/x"))(full()).blame], [Blame::Host; 2]);
        assert!(host_error(Stop::Cancelled).is_cancelled());
        let error = failed(Failure::RealTime { limit_s: 3 }, b"last words");
        assert_eq!(error.blame, Blame::Guest);
        let message = error.to_string();
        assert!(message.starts_with("the KVM host did not answer: no result"), "{message}");
        assert!(message.contains("`last words`; try a longer --time-limit, or run"), "{message}");
        let message = "the KVM host cannot be used: no KVM".to_owned();
        let unusable = failed(Failure::Refused { message }, b"");
        assert_eq!(unusable.blame, Blame::Guest);
        assert!(
            unusable.to_string().ends_with("no KVM; give a kernel with KVM for AMD (--kernel)")
        );
        let Stop::Failed(failure, _) = row_prepare_failure(Path::new("/x"))(full()) else {
            panic!("the failure is that of a row")
        };
        assert!(failure.is_worth_retrying());
    }

    const LAYOUT: Layout = Layout { seed: 7, padding: 3, phase: 5 };

    /// Calls `work` with the session of a host.
    fn with_session<T>(
        is_exact: bool,
        layout: &Layout,
        line: &str,
        work: impl FnOnce(&Session) -> T,
    ) -> T {
        let (arch, format) = (Arch::X86_64, ImageFormat::BzImage);
        let (source, sha256) = (String::new(), String::new());
        let (release, package_date, build_id, config_sha256) = (None, None, None, None);
        let identity = Identity {
            source,
            sha256,
            release,
            package_date,
            build_id,
            config_sha256,
            arch,
            format,
        };
        let (image, boot_line) = ("/k".into(), line.to_owned());
        let kernel = HostKernel { image, identity, boot_line, modules: vec![] };
        let qemu = Qemu { program: "/it's/qemu".into(), version: String::new() };
        let (base_limits, cancel, scratch) =
            (Limits::default(), Cancel::default(), Path::new("/none"));
        let (limits, cancel, kernel, qemu) = (&base_limits, &cancel, &kernel, &qemu);
        let host = KvmHost { qemu, kernel, is_exact, layout, limits, cancel, scratch };
        let [console, frames, stderr] = ["/c,d", "/f", "/e"].map(PathBuf::from);
        let (limits, initrd) = (base_limits.clone(), Path::new("/i"));
        work(&Session { host: &host, initrd, limits, console, frames, stderr })
    }

    #[test]
    fn the_boot_line_starts_ktax_as_init() {
        for exact in [false, true] {
            let line = with_session(exact, &LAYOUT, "lockdown=integrity", |session| {
                session.host.boot_line()
            });
            let end = " ktax.pad=xxx lockdown=integrity LD_LIBRARY_PATH=/lib rdinit=/ktax -- \
                       kvm-host-init";
            assert!(line.ends_with(end), "{line}");
            assert_eq!(line.contains("nokaslr"), exact);
            assert_eq!(line.contains("no_timer_check"), !exact);
        }
        let layout = Layout { padding: 0, ..LAYOUT };
        let line = with_session(true, &layout, "", |session| session.host.boot_line());
        assert!(line.contains(" norandmaps LD_LIBRARY"), "{line}");
    }

    #[test]
    fn only_an_exact_host_counts_instructions() {
        let args = |exact| {
            with_session(exact, &LAYOUT, "", |session| session.args(&RunSpan::Whole, 7).join(" "))
        };
        assert!(args(true).contains("-smp 1 -icount shift=0,sleep=off -seed 7"));
        assert!(!args(false).contains("icount"));
        assert!(args(false).contains("-accel tcg,thread=single -smp 1 "));
        assert!(args(false).contains("-serial file:/c,,d -serial file:/f"));
    }

    #[test]
    fn a_frozen_host_is_resumed_on_the_same_machine() {
        let (ram, order) = (Path::new("/r"), Path::new("/o"));
        let args = |span| with_session(true, &LAYOUT, "", |session| session.args(&span, 7));
        let frozen = args(RunSpan::ToFreeze { ram });
        let state = File::open("/dev/null").unwrap();
        let resumed = args(RunSpan::FromFreeze { ram, order, state: state.as_fd() });
        let difference = |words: &[String], other: &[String]| -> Vec<String> {
            words.iter().filter(|word| !other.contains(word)).cloned().collect()
        };
        let backend =
            |share| format!("memory-backend-file,id=ram,size=1400M,mem-path=/r,share={share}");
        assert_eq!(difference(&frozen, &resumed), [backend("on")]);
        let order = "name=opt/ktax/order,file=/o".to_owned();
        let more = [backend("off"), "-incoming".into(), "defer".into(), "-fw_cfg".into(), order];
        assert_eq!(difference(&resumed, &frozen), more);
    }

    #[test]
    fn a_script_names_the_order_last() {
        let script =
            with_session(true, &LAYOUT, "", |session| session.host.script(Path::new("/i")));
        assert!(script.contains(r"exec '/it'\''s/qemu' \"), "{script}");
        assert!(script.ends_with("\n  -fw_cfg \"name=opt/ktax/order,file=$1\"\n"), "{script}");
        assert!(!script.contains("chardev"), "{script}");
    }

    #[test]
    fn virtual_time_is_limited_only_if_it_is_counted() {
        let base_limits = Limits::with_seconds(1000);
        let counted = host_limits(&base_limits, true);
        assert_eq!((counted.virtual_s, counted.is_clock_counted), (1000, true));
        assert!(!host_limits(&base_limits, false).is_clock_counted);
    }
}
