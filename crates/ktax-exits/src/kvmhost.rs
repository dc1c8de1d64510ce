//! A KVM host within QEMU: real KVM on any kernel, also where this machine has no KVM. QEMU
//! emulates AMD's virtualization with nested paging.
//!
//! ```text
//! host ─► initramfs: a ktax, modules, files, the order
//!            │ QEMU boots it, and ktax is its first process
//!            ▼
//!         init: mounts, loads modules, runs the commands ─► frames: what the commands printed
//! ```
//!
//! Guest experiments use a [`GuestEngine`]. [`X86Guests`] boots such a host once for each Side and
//! Layout, and freezes it before the first command. Each row goes on from there with its own order:
//! the commands that record one guest. [`BoardGuests`] boots a [`Board`], whose first process, in
//! C, runs the one guest.

mod board;
mod init;
mod x86;

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::path::{Path, PathBuf};

use init::{ORDER_ITEM, Order, parse_frames};
use ktax_engine::argv::{LATE_TIMER, MACHINE, TRANSLATOR, escape, monitor, shell_script};
use ktax_engine::qemu::{Qemu, Rest, Vm, Watched};
use ktax_engine::{Cancel, Limits, Stop, read_tail, save_state, wire};
use ktax_host::cache::{Scratch, remove_stale};
use ktax_host::text::escape_bytes;
use ktax_model::{Blame, Error, ExitRun, Failure, Identity, Layout, Result, Side, Signature};

pub use board::{Board, BoardGuests, BoardSetup, BoardSide};
pub use init::{CommandOutput, FREEZE_PATH, GIVEN_MAX, Given, THIS_PROGRAM, main as init};
pub use x86::{Guest, X86Guests, X86Setup};

/// Runs guests of a KVM host within QEMU: a Step boots a host, and each row is a guest. Equal Side,
/// Layout and row give the same table, to the byte.
pub trait GuestEngine: Sync {
    /// A shell script that boots the host by hand; `$1` names a file with a row's order.
    fn script(&self, side: Side, layout: &Layout) -> String;
    /// Boots a Side's host under a Layout, up to the point where its guests can start.
    fn boot(&self, side: Side, layout: &Layout) -> Result<Box<dyn ReadyHost + '_>, Stop>;
}

/// A host that has booted. Each row runs in an equal host of its own, so that no guest sees traces
/// of another.
pub trait ReadyHost {
    /// Returns the console of the boot that all rows share; `None` if each row boots.
    fn console(&self) -> Option<Vec<u8>>;
    /// Returns the kernel threads that still ran when the host was ready.
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

fn unprepared(path: &Path) -> impl Fn(io::Error) -> Error {
    let what = format!("cannot prepare {} for the KVM host", path.display());
    move |error| {
        let next = "check that it is readable and that the disk has free space";
        Error::host(format!("{what}: {error}")).next(next)
    }
}

/// Makes the failure of a row whose file cannot be read or written.
fn unprepared_row(path: &Path) -> impl Fn(io::Error) -> Stop {
    let operation = format!("cannot prepare {} for the KVM host", path.display());
    move |error| Failure::Host { operation: operation.clone(), reason: error.to_string() }.into()
}

/// Makes the error of a host without an answer; a host that does not run is a fault of the guest's
/// kernel.
fn no_answer(stop: Stop) -> Error {
    let (failure, console) = match stop {
        Stop::Cancelled => return Error::cancelled(),
        Stop::Failed(failure, console) => (failure, console),
    };
    if let Failure::Refused { message } = failure {
        return Error::guest(message).next("give a kernel with KVM for AMD (--kernel)");
    }
    let is_hosts = matches!(failure, Failure::Host { .. });
    let mut error = Error::guest(format!(
        "the KVM host did not answer: {failure}; its console ends with `{}`",
        wire::tail(&console)
    ));
    error.blame = if is_hosts { Blame::Host } else { Blame::Guest };
    error.next("try a longer --time-limit, or run `ktax doctor`")
}

fn new_scratch(parent: &Path) -> io::Result<Scratch> {
    remove_stale(parent);
    Scratch::create(parent)
}

/// Returns options for exact time, as in the exact engine: one instruction is one virtual
/// nanosecond, idle time is skipped, and random numbers follow from the Layout's seed.
fn exact_time(layout: &Layout) -> String {
    let seed = layout.seed;
    format!("-accel {TRANSLATOR} -smp 1 -icount shift=0,sleep=off -seed {seed}")
}

/// Joins words of a boot line and the Layout's padding, behind the first. The kernel keeps a
/// parameter with a dot to itself, so that the padding moves no program's stack.
fn boot_line(first: &str, layout: &Layout, more: &[&str]) -> String {
    let padding = match layout.padding {
        0 => String::new(),
        padding => format!("ktax.pad={}", "x".repeat(padding as usize)),
    };
    let words = [first, &padding].into_iter().chain(more.iter().copied());
    words.filter(|words| !words.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Most bytes that all commands together may print.
const FRAMES_MAX: u64 = 64 << 20;

/// The modules that the host needs, in the order in which they are loaded.
pub const MODULES: [&str; 3] = ["irqbypass", "kvm", "kvm-amd"];

/// The Layout of a host that is booted only once.
pub const PLAIN: Layout = Layout { seed: 1, padding: 0, phase: 0 };

/// AMD's virtualization with nested paging. Features that some QEMU versions lack are off, so that
/// the processor is the same for all.
const CPU: &str = "EPYC,svm=on,npt=on,nrip-save=off,rdseed=off,sha-ni=off,fxsr-opt=off,\
                   misalignsse=off,3dnowprefetch=off,osvw=off,topoext=off,xsavec=off";
/// Enough for the host, one guest, and all files in memory.
const MEMORY_MIB: u32 = 1400;

/// `ktax_engine::qemu` computes the time since power-on from this date.
const CLOCK: &str = "base=2020-01-01,clock=vm";

/// Kernel of the host.
#[derive(Debug, Clone)]
pub struct HostKernel {
    pub image: PathBuf,
    pub identity: Identity,
    pub boot_line: String,
    /// Files of [`MODULES`]; empty if they are built in.
    pub modules: Vec<PathBuf>,
}

#[derive(Debug)]
pub struct KvmHost<'a> {
    pub qemu: &'a Qemu,
    pub kernel: &'a HostKernel,
    /// One instruction is one nanosecond on one CPU, so that two runs do and print the same.
    pub exact: bool,
    pub layout: &'a Layout,
    pub limits: &'a Limits,
    pub cancel: &'a Cancel,
    /// A directory for files that are removed with the host.
    pub scratch: &'a Path,
}

/// The part of a host's life that one QEMU runs.
enum RunSpan<'a> {
    /// From power-on to power-off.
    Whole,
    /// From power-on to where init freezes the machine, its memory in a file.
    ToFreeze { ram: &'a Path },
    /// From the freeze to power-off, with an order; QEMU inherits the file with the state.
    FromFreeze { ram: &'a Path, order: &'a Path, state: BorrowedFd<'a> },
}

impl KvmHost<'_> {
    /// Boots the host, runs the commands one after the other, and returns their outputs.
    pub fn run(&self, commands: &[Vec<String>], files: &[Given]) -> Result<Vec<CommandOutput>> {
        let scratch = new_scratch(self.scratch).map_err(unprepared(self.scratch))?;
        let initrd = scratch.file("initramfs.cpio");
        let order = Order { phase: self.layout.phase, commands: commands.to_vec() };
        let modules = &self.kernel.modules;
        let archive = init::build(Path::new(THIS_PROGRAM), modules, Some(&order), files)?;
        fs::write(&initrd, archive).map_err(unprepared(&initrd))?;
        let session = Session::new(self, &initrd, &scratch);
        let off = session.start(&RunSpan::Whole).and_then(|mut vm| {
            vm.resume();
            session.wait(&mut vm)
        });
        off.map_err(no_answer)?;
        let frames = fs::read(&session.frames).map_err(unprepared(&session.frames))?;
        session.parse(&frames, commands.len()).map_err(no_answer)
    }

    /// Returns the boot line. The kernel passes what comes after `--`, and each variable that it
    /// does not know, to init.
    fn boot_line(&self) -> String {
        let time_words = if self.exact { "nokaslr norandmaps" } else { LATE_TIMER };
        let fixed = format!("console=ttyS0 quiet panic=-1 oops=panic {time_words}");
        let init = "LD_LIBRARY_PATH=/lib rdinit=/ktax -- kvm-host-init";
        boot_line(&fixed, self.layout, &[&self.kernel.boot_line, init])
    }

    fn hardware(&self, initrd: &Path, has_own_memory: bool) -> Vec<String> {
        let time = match self.exact {
            true => exact_time(self.layout),
            false => format!("-accel {TRANSLATOR} -smp 1"),
        };
        let memory = if has_own_memory { "" } else { ",memory-backend=ram" };
        let fixed = format!(
            "-M {MACHINE}{memory} -cpu {CPU} -m {MEMORY_MIB} {time} -rtc {CLOCK} -nodefaults \
             -no-user-config -display none"
        );
        let mut args: Vec<String> = fixed.split(' ').map(str::to_owned).collect();
        args.extend(["-kernel".into(), self.kernel.image.display().to_string()]);
        args.extend(["-initrd".into(), initrd.display().to_string()]);
        args.extend(["-append".into(), self.boot_line()]);
        args
    }

    /// Returns a script that boots the host by hand: its console is the terminal, and nothing
    /// freezes it.
    fn script(&self, initrd: &Path) -> String {
        let mut args = self.hardware(initrd, true);
        let ports = ["-no-reboot", "-serial", "stdio", "-serial", "file:frames.log"];
        args.extend(ports.map(String::from));
        let comment = "# Boots this KVM host by hand and runs one row: sh argv orders/ROW\n\
                       # The answers of its commands go to frames.log.";
        let order = format!("-fw_cfg \"name={ORDER_ITEM},file=$1\"");
        shell_script(&self.qemu.program, args, comment, &order)
    }
}

/// Returns options for memory in a file. A boot writes it; a resumed machine maps it privately.
fn memory(ram: &Path, share: &str) -> Vec<String> {
    let (size, path) = (MEMORY_MIB, escape(ram));
    let backend = format!("memory-backend-file,id=ram,size={size}M,mem-path={path},share={share}");
    // Device by which init freezes the machine.
    vec!["-object".into(), backend, "-device".into(), "pvpanic".into()]
}

/// Returns limits for a host, which may have as much virtual time as real time.
fn limits(given: &Limits, exact: bool) -> Limits {
    let virtual_s = given.virtual_s.max(given.time.as_secs());
    let limits = Limits { virtual_s, ..given.clone() };
    if exact { limits } else { limits.without_virtual_time() }
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
        let limits = limits(host.limits, host.exact);
        let [console, frames, stderr] = ["console", "frames", "stderr"].map(|n| scratch.file(n));
        Session { host, initrd, limits, console, frames, stderr }
    }

    /// Returns the arguments of QEMU, with its monitor on an inherited descriptor.
    fn args(&self, span: &RunSpan<'_>, control: RawFd) -> Vec<String> {
        let mut args = self.host.hardware(self.initrd, matches!(span, RunSpan::Whole));
        // A machine that is off waits to be ended: a QEMU that exits by itself while it is asked
        // for its state can hang.
        args.extend(["-action".into(), "reboot=shutdown,shutdown=pause,panic=pause".into()]);
        for port in [&self.console, &self.frames] {
            args.extend(["-serial".into(), format!("file:{}", escape(port))]);
        }
        match span {
            RunSpan::Whole => {}
            RunSpan::ToFreeze { ram } => args.extend(memory(ram, "on")),
            RunSpan::FromFreeze { ram, order, .. } => {
                args.extend(memory(ram, "off"));
                args.extend(["-incoming".into(), "defer".into()]);
                let order = format!("name={ORDER_ITEM},file={}", escape(order));
                args.extend(["-fw_cfg".into(), order]);
            }
        }
        args.extend(monitor(control));
        args
    }

    fn start(&self, span: &RunSpan<'_>) -> Result<Vm, Stop> {
        let state = match span {
            RunSpan::FromFreeze { state, .. } => Some(*state),
            _ => None,
        };
        let args = |control| self.args(span, control);
        Vm::start(&self.host.qemu.program, args, state, &self.stderr, &self.limits)
            .map_err(|failure| self.failed(failure))
    }

    fn wait(&self, vm: &mut Vm) -> Result<Rest, Stop> {
        let watched = Watched {
            limits: &self.limits,
            cancel: self.host.cancel,
            wire: (&self.frames, FRAMES_MAX),
            speaks_first: false,
            console: &self.console,
        };
        vm.wait(&watched).map_err(|stop| stop.map_failure(|failure| self.failed(failure)))
    }

    fn answers(&self, commands: usize) -> Result<Vec<CommandOutput>, Stop> {
        self.parse(&fs::read(&self.frames).map_err(unprepared_row(&self.frames))?, commands)
    }

    fn parse(&self, frames: &[u8], commands: usize) -> Result<Vec<CommandOutput>, Stop> {
        parse_frames(frames, commands).map_err(|failure| match failure {
            // Init says why; the console adds nothing.
            Failure::Refused { .. } => failure.into(),
            failure => self.failed(failure),
        })
    }

    /// Makes a failure with the end of the console; a panic there is the reason.
    fn failed(&self, failure: Failure) -> Stop {
        let console = read_tail(&self.console);
        let panicked = wire::panic_message(&console);
        let failure = panicked.map_or(failure, |message| Failure::Panic { message });
        Stop::Failed(failure, console)
    }

    fn silent(&self) -> Stop {
        self.failed(Failure::NoAnswer { console: wire::tail(&read_tail(&self.console)) })
    }
}

/// Memory and state of a host at the freeze.
#[derive(Debug)]
struct Frozen {
    scratch: Scratch,
    /// The console up to there.
    pub console: Vec<u8>,
    /// Tasks that still ran there.
    pub busy: Vec<String>,
}

impl Frozen {
    /// Boots a host whose initramfs has no order, until it asks for one.
    pub fn make(host: &KvmHost<'_>, initrd: &Path) -> Result<Frozen, Stop> {
        let scratch = new_scratch(host.scratch).map_err(unprepared_row(host.scratch))?;
        let session = Session::new(host, initrd, &scratch);
        let ram = scratch.file("ram");
        let mut vm = session.start(&RunSpan::ToFreeze { ram: &ram })?;
        if session.wait(&mut vm)? != Rest::Paused {
            // Init says why it went off instead.
            session.answers(0)?;
            return Err(session.silent());
        }
        let busy = session.answers(1)?.iter().flat_map(output_lines).collect();
        save_state(&session.limits, &mut vm, &scratch.file("state"))?;
        drop(vm);
        let console = read_tail(&session.console);
        Ok(Frozen { scratch, console, busy })
    }

    /// Goes on with an order to the end. Returns the output of each command, and the console since
    /// the freeze.
    pub fn run(
        &self,
        host: &KvmHost<'_>,
        initrd: &Path,
        order: &Order,
    ) -> Result<(Vec<CommandOutput>, Vec<u8>), Stop> {
        let scratch = new_scratch(host.scratch).map_err(unprepared_row(host.scratch))?;
        let session = Session::new(host, initrd, &scratch);
        let file = scratch.file("order");
        fs::write(&file, order.to_json()).map_err(unprepared_row(&file))?;
        let state = self.scratch.file("state");
        let state = File::open(&state).map_err(unprepared_row(&state))?;
        let (ram, uri) = (self.scratch.file("ram"), format!("fd:{}", state.as_raw_fd()));
        let span = RunSpan::FromFreeze { ram: &ram, order: &file, state: state.as_fd() };
        let mut vm = session.start(&span)?;
        let poll = session.limits.poll / 50;
        vm.monitor(|monitor| monitor.receive_state(uri, poll))
            .map_err(|failure| session.failed(failure))?;
        vm.resume();
        let rest = session.wait(&mut vm)?;
        drop(vm);
        if rest == Rest::Paused {
            return Err(session.silent());
        }
        Ok((session.answers(order.commands.len())?, read_tail(&session.console)))
    }
}

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
    use ktax_model::{Arch, ImageFormat};

    #[test]
    fn an_error_blames_the_one_who_can_act() {
        let failed = |failure, console: &[u8]| no_answer(Stop::Failed(failure, console.to_vec()));
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let (operation, reason) = ("cannot write x".to_owned(), "it is full".to_owned());
        let host = failed(Failure::Host { operation, reason }, b"");
        assert_eq!([host.blame, unprepared(Path::new("/x"))(full()).blame], [Blame::Host; 2]);
        assert!(no_answer(Stop::Cancelled).is_cancelled());
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
        let Stop::Failed(failure, _) = unprepared_row(Path::new("/x"))(full()) else {
            panic!("it is a row")
        };
        assert!(failure.is_worth_retrying());
    }

    const LAYOUT: Layout = Layout { seed: 7, padding: 3, phase: 5 };

    /// Calls `work` with the session of a host.
    fn with<T>(exact: bool, layout: &Layout, line: &str, work: impl FnOnce(&Session) -> T) -> T {
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
        let (given, cancel, scratch) = (Limits::default(), Cancel::default(), Path::new("/none"));
        let (limits, cancel, kernel, qemu) = (&given, &cancel, &kernel, &qemu);
        let host = KvmHost { qemu, kernel, exact, layout, limits, cancel, scratch };
        let [console, frames, stderr] = ["/c,d", "/f", "/e"].map(PathBuf::from);
        let (limits, initrd) = (given.clone(), Path::new("/i"));
        work(&Session { host: &host, initrd, limits, console, frames, stderr })
    }

    #[test]
    fn init_is_told_what_it_is() {
        for exact in [false, true] {
            let line = with(exact, &LAYOUT, "lockdown=integrity", |made| made.host.boot_line());
            let end = " ktax.pad=xxx lockdown=integrity LD_LIBRARY_PATH=/lib rdinit=/ktax -- \
                       kvm-host-init";
            assert!(line.ends_with(end), "{line}");
            assert_eq!(line.contains("nokaslr"), exact);
            assert_eq!(line.contains("no_timer_check"), !exact);
        }
        let layout = Layout { padding: 0, ..LAYOUT };
        let line = with(true, &layout, "", |made| made.host.boot_line());
        assert!(line.contains(" norandmaps LD_LIBRARY"), "{line}");
    }

    #[test]
    fn a_host_is_one_cpu_and_an_exact_one_has_a_counted_clock() {
        let args = |exact| with(exact, &LAYOUT, "", |made| made.args(&RunSpan::Whole, 7).join(" "));
        assert!(args(true).contains("-smp 1 -icount shift=0,sleep=off -seed 7"));
        assert!(!args(false).contains("icount"));
        assert!(args(false).contains("-accel tcg,thread=single -smp 1 "));
        assert!(args(false).contains("-serial file:/c,,d -serial file:/f"));
    }

    #[test]
    fn a_frozen_host_goes_on_as_the_same_machine() {
        let (ram, order) = (Path::new("/r"), Path::new("/o"));
        let args = |span| with(true, &LAYOUT, "", |made| made.args(&span, 7));
        let frozen = args(RunSpan::ToFreeze { ram });
        let state = File::open("/dev/null").unwrap();
        let resumed = args(RunSpan::FromFreeze { ram, order, state: state.as_fd() });
        let only = |some: &[String], other: &[String]| -> Vec<String> {
            some.iter().filter(|word| !other.contains(word)).cloned().collect()
        };
        let backend =
            |share| format!("memory-backend-file,id=ram,size=1400M,mem-path=/r,share={share}");
        assert_eq!(only(&frozen, &resumed), [backend("on")]);
        let order = "name=opt/ktax/order,file=/o".to_owned();
        let more = [backend("off"), "-incoming".into(), "defer".into(), "-fw_cfg".into(), order];
        assert_eq!(only(&resumed, &frozen), more);
    }

    #[test]
    fn a_script_names_the_order_last() {
        let script = with(true, &LAYOUT, "", |made| made.host.script(Path::new("/i")));
        assert!(script.contains(r"exec '/it'\''s/qemu' \"), "{script}");
        assert!(script.ends_with("\n  -fw_cfg \"name=opt/ktax/order,file=$1\"\n"), "{script}");
        assert!(!script.contains("chardev"), "{script}");
    }

    #[test]
    fn virtual_time_is_limited_only_where_it_is_counted() {
        let given = Limits::with_seconds(1000);
        let counted = limits(&given, true);
        assert_eq!((counted.virtual_s, counted.is_counted), (1000, true));
        assert!(!limits(&given, false).is_counted);
    }
}
