//! QEMU command lines, made by pure functions. Some options make two boots bit-identical; each of
//! these options has a comment that says how.

use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use super::Request;
use ktax_host::cache::Scratch;
use ktax_model::{Accelerator, Machine, Region, TimedMachine};
use ktax_program::PackedPrograms;

/// QEMU's machine type. Versions of QEMU differ in what `q35` is, so the version is part of the
/// Key.
pub const MACHINE: &str = "q35";

/// Boot parameter for a kernel that the translator runs in real time. On a busy host the first
/// interrupts of the timer are late, and without this parameter the kernel would panic.
pub const NO_TIMER_CHECK: &str = "no_timer_check";

/// QEMU's translator with one thread for all CPUs. With one thread for each CPU, a CPU that
/// translates code while another CPU patches the code can keep a stale breakpoint, and hit that
/// breakpoint for ever.
pub const TRANSLATOR: &str = "tcg,thread=single";

/// Translator for several CPUs, and for the model of a machine. When the buffer of translated code
/// is full, a slice ends and code is translated anew. The buffer has a fixed size because QEMU's
/// default depends on the host's memory.
const SIZED_TRANSLATOR: &str = "tcg,thread=single,tb-size=512";

/// The port of the wire: `docs/wire.md`.
const WIRE_PORT: u16 = 0x5e9;

/// The year that begins when a machine under icount is switched on: the start of its clock.
pub(super) const RTC_START_YEAR: u64 = 2020;

/// Value of `-rtc`: the guest's clock starts with `RTC_START_YEAR` and counts virtual time.
pub fn rtc() -> String {
    format!("base={RTC_START_YEAR}-01-01,clock=vm")
}

/// The fw_cfg item of the order: `docs/wire.md`.
pub const ORDER_ITEM: &str = "opt/ktax/order";

/// The paths of a VM's files.
#[derive(Debug)]
pub struct Files {
    pub ram: PathBuf,
    pub wire: PathBuf,
    pub console: PathBuf,
    pub stderr: PathBuf,
}

impl Files {
    /// Returns the paths in a private directory.
    pub(super) fn in_directory(scratch: &Scratch) -> Files {
        let [ram, wire, console, stderr] =
            ["ram", "wire", "serial.log", "stderr"].map(|name| scratch.file(name));
        Files { ram, wire, console, stderr }
    }
}

/// Options of the plugin.
#[derive(Debug)]
pub struct Plugin<'a> {
    pub library: &'a Path,
    pub symbols: &'a Path,
    /// The user's program, whose functions are counted, too.
    pub programs: Option<&'a PackedPrograms>,
    /// The file that the profile is written to.
    pub profile: &'a Path,
    /// The part of a run that is counted.
    pub region: Region,
    pub paths: &'a CallPaths,
    pub slices: Option<Slices>,
    /// The kernel's variables, for the model of coherence.
    pub variables: Option<&'a Path>,
    /// The sizes of a machine, for its model.
    pub machine: Option<&'a Path>,
}

impl<'a> Plugin<'a> {
    /// Returns options for counts between markers, without call paths, slices and models.
    pub(super) fn new(library: &'a Path, symbols: &'a Path, profile: &'a Path) -> Plugin<'a> {
        Plugin {
            library,
            symbols,
            programs: None,
            profile,
            region: Region::Marked,
            paths: &CallPaths::NotFollowed,
            slices: None,
            variables: None,
            machine: None,
        }
    }
}

/// Extent to which the plugin follows calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallPaths {
    /// The plugin follows calls and counts them.
    Followed,
    /// The plugin does not follow calls, so that benchmarks can measure the time that this takes.
    NotFollowed,
    /// The plugin neither follows calls nor counts costly instructions.
    NotFollowedNorCostly,
    /// The plugin follows calls. At random instructions it also writes the call path, the registers
    /// and the stack to this new file, for a test that unwinds the stack.
    Sampled(PathBuf),
}

/// The slices in which several CPUs execute in turn.
#[derive(Debug, Clone, Copy)]
pub struct Slices {
    /// Number of instructions in a slice.
    pub quantum: u32,
    /// Number of instructions in a slice while CPUs wait for each other; `None` for the quantum.
    pub contended: Option<u32>,
    /// The seed by which the length of slices varies; `None` for slices of equal length.
    pub seed: Option<u32>,
    /// Number of instructions after which the plugin ends the machine.
    pub limit: u64,
}

/// Returns the boot line: the engine's parameters, the Layout's padding, and the Subject's
/// parameters.
///
/// The padding is the value of a parameter with a dot in its name, like a parameter of a module.
/// The kernel does not pass such parameters to init, so the padding moves the kernel's data and not
/// the stack of the guest program.
pub fn boot_line(request: &Request) -> String {
    let padding = "x".repeat(request.layout.padding as usize);
    let engine = "console=ttyS0 quiet nokaslr norandmaps panic=-1 oops=panic";
    // The guest stops all CPUs but one before its freeze. When the guest starts them again, the
    // kernel would wait 10 ms for each CPU and compare the CPUs' time-stamp counters. Under icount
    // all CPUs start at once and share one clock.
    let cpus = match request.machine.cpus {
        1 => String::new(),
        cpus => format!(" ktax.cpus={cpus} cpu_init_udelay=0 tsc=reliable"),
    };
    format!("{engine} ktax.pad={padding}{cpus} {}", request.boot_line).trim_end().to_owned()
}

/// Arguments for a VM that boots until its freeze, with its memory in a file.
pub fn freeze(request: &Request, initrd: &Path, files: &Files, control: RawFd) -> Vec<String> {
    from_files(request, initrd, files, control, true)
}

/// Arguments for a VM whose memory, wire and console are files. If `is_shared`, the VM writes to
/// the file of its memory.
fn from_files(
    request: &Request,
    initrd: &Path,
    files: &Files,
    control: RawFd,
    is_shared: bool,
) -> Vec<String> {
    let mut args = machine_options(request, initrd);
    args.extend(memory_options(request, &files.ram, is_shared));
    args.extend(ports(&files.wire, &files.console, control));
    args
}

/// Options for the guest's ports, which write to files, and for QEMU's monitor.
fn ports(wire: &Path, console: &Path, control: RawFd) -> Vec<String> {
    let mut args = devices(wire, &format!("file:{}", escape(console)));
    args.extend(monitor(control));
    args
}

/// Arguments for a VM that starts from a Snapshot and maps the file of its memory privately.
pub fn resume(
    request: &Request,
    initrd: &Path,
    files: &Files,
    control: RawFd,
    order: &Path,
    plugin: Option<&Plugin>,
) -> Vec<String> {
    let mut args = from_files(request, initrd, files, control, false);
    args.extend(["-incoming".into(), "defer".into()]);
    args.extend(order_and_plugin(order, plugin));
    args
}

/// Arguments for a VM that boots with the plugin, and runs an order after its freeze.
pub fn boot(
    request: &Request,
    initrd: &Path,
    files: &Files,
    control: RawFd,
    order: &Path,
    plugin: &Plugin,
) -> Vec<String> {
    let mut args = freeze(request, initrd, files, control);
    args.extend(order_and_plugin(order, Some(plugin)));
    args
}

fn order_and_plugin(order: &Path, plugin: Option<&Plugin>) -> Vec<String> {
    let mut args = vec!["-fw_cfg".into(), format!("name={ORDER_ITEM},file={}", escape(order))];
    if let Some(plugin) = plugin {
        args.extend(["-plugin".into(), plugin_option(plugin)]);
    }
    args
}

/// Arguments for a QEMU that loads the plugin and has no machine.
pub fn plugin_only(plugin: &Plugin, control: RawFd) -> Vec<String> {
    let mut args = ["-M", "none", "-nodefaults", "-display", "none"].map(String::from).to_vec();
    args.extend(["-icount", "shift=0,sleep=off", "-accel", TRANSLATOR].map(String::from));
    args.extend(["-plugin".into(), plugin_option(plugin)]);
    args.extend(monitor(control));
    args
}

/// Arguments for a machine with a guest that has no kernel, and no memory in a file.
pub fn self_test(
    image: &Path,
    command_line: &str,
    cpus: u32,
    files: &Files,
    control: RawFd,
    plugin: &Plugin,
) -> Vec<String> {
    let mut args = translator_options(&Machine { cpus, ..Machine::default() }, 1);
    args.extend(["-kernel".into(), image.display().to_string()]);
    args.extend(["-append", command_line, "-M", MACHINE, "-m", "64"].map(String::from));
    args.extend(NO_DEFAULTS.map(String::from));
    args.extend(["-action", "panic=pause"].map(String::from));
    args.extend(ports(&files.wire, &files.console, control));
    args.extend(["-plugin".into(), plugin_option(plugin)]);
    args
}

/// The fw_cfg item of the orders of a timed boot: `docs/wire.md`.
const ORDERS_ITEM: &str = "opt/ktax/orders";

/// Returns the boot line of a timed boot: the engine's parameters, then the Subject's. KASLR stays
/// on, so every Boot has other addresses, and the effect of one placement of code is not taken for
/// the cost of the Kernel.
pub fn timed_boot_line(accelerator: Accelerator, subject_line: &str) -> String {
    let engine = "console=ttyS0 quiet panic=-1 oops=panic";
    let line = match accelerator {
        Accelerator::Kvm => format!("{engine} {subject_line}"),
        Accelerator::Tcg => format!("{engine} {NO_TIMER_CHECK} {subject_line}"),
    };
    line.trim_end().to_owned()
}

/// Arguments for a VM that boots until its freeze, and runs the orders when it continues.
pub fn timed_boot(
    shape: &TimedMachine,
    (image, initrd): (&Path, &Path),
    boot_line: &str,
    orders: &Path,
    files: &Files,
    control: RawFd,
) -> Vec<String> {
    let mib = shape.memory_mib;
    let accelerator = match shape.accelerator {
        Accelerator::Kvm => shape.accelerator.name(),
        Accelerator::Tcg => TRANSLATOR,
    };
    let mut args: Vec<String> = [
        ["-accel".into(), accelerator.into()],
        ["-smp".into(), shape.cpus.to_string()],
        ["-cpu".into(), shape.cpu.clone()],
        ["-M".into(), format!("{MACHINE},memory-backend=ram")],
        ["-m".into(), mib.to_string()],
        // QEMU allocates all memory before the guest starts, so that the guest's times do not
        // include the host's page faults.
        ["-object".into(), format!("memory-backend-ram,id=ram,size={mib}M,prealloc=on")],
        ["-display".into(), "none".into()],
        ["-kernel".into(), image.display().to_string()],
        ["-initrd".into(), initrd.display().to_string()],
        ["-append".into(), boot_line.to_owned()],
        ["-action".into(), "panic=pause".into()],
        ["-fw_cfg".into(), format!("name={ORDERS_ITEM},file={}", escape(orders))],
    ]
    .concat();
    args.extend(NO_DEFAULTS.map(String::from));
    args.extend(ports(&files.wire, &files.console, control));
    args
}

/// Options against QEMU's default devices, the user's QEMU configuration, and a reboot.
const NO_DEFAULTS: [&str; 3] = ["-nodefaults", "-no-user-config", "-no-reboot"];

/// Options for the machine, its kernel and its initrd, without memory and ports.
fn machine_options(request: &Request, initrd: &Path) -> Vec<String> {
    let Request { machine, layout, .. } = request;
    let mut args = translator_options(machine, layout.seed);
    args.extend(["-kernel".into(), request.image.display().to_string()]);
    args.extend(["-initrd".into(), initrd.display().to_string()]);
    args.extend(["-append".into(), boot_line(request)]);
    args.extend(NO_DEFAULTS.map(String::from));
    args
}

/// Options for CPUs that execute the same instructions in each boot.
fn translator_options(Machine { cpus, cpu, model, .. }: &Machine, seed: u32) -> Vec<String> {
    let is_sized = *cpus > 1 || model.is_some();
    [
        // Both have one thread for all CPUs. With several threads, counts are not exact.
        ["-accel".into(), if is_sized { SIZED_TRANSLATOR } else { TRANSLATOR }.into()],
        ["-smp".into(), cpus.to_string()],
        ["-cpu".into(), cpu.clone()],
        // One instruction is one virtual nanosecond, and idle time is skipped, not slept.
        ["-icount", "shift=0,sleep=off"].map(String::from),
        // The other inputs that could differ are RDRAND and the firmware's rng-seed, which depend
        // on the seed, and the clock.
        ["-seed".into(), seed.to_string()],
        ["-rtc".into(), rtc()],
        // No device that depends on the host's time.
        ["-display", "none"].map(String::from),
    ]
    .concat()
}

/// Options for memory that is a file: shared for a boot, which writes the file, and private for a
/// resumed VM.
fn memory_options(request: &Request, ram: &Path, is_shared: bool) -> Vec<String> {
    let mib = request.machine.memory_mib;
    let share = if is_shared { "on" } else { "off" };
    let path = escape(ram);
    vec![
        "-M".into(),
        format!("{MACHINE},memory-backend=ram"),
        "-m".into(),
        mib.to_string(),
        "-object".into(),
        format!("memory-backend-file,id=ram,size={mib}M,mem-path={path},share={share}"),
        "-action".into(),
        "panic=pause".into(),
    ]
}

/// Options for the ports of `docs/wire.md`. `console` is QEMU's name of a serial port's other end.
pub fn devices(wire: &Path, console: &str) -> Vec<String> {
    [
        ["-serial".into(), console.into()],
        ["-chardev".into(), format!("file,id=wire,path={}", escape(wire))],
        ["-device".into(), format!("isa-debugcon,iobase={WIRE_PORT:#x},chardev=wire")],
        ["-device".into(), "isa-debug-exit,iobase=0xf4,iosize=4".into()],
        ["-device".into(), "pvpanic".into()],
    ]
    .concat()
}

/// Options for QEMU's monitor on an inherited file descriptor.
pub fn monitor(control: RawFd) -> Vec<String> {
    vec![
        "-chardev".into(),
        format!("socket,id=control,fd={control}"),
        "-mon".into(),
        "chardev=control,mode=control".into(),
    ]
}

fn plugin_option(plugin: &Plugin) -> String {
    let region = if matches!(plugin.region, Region::Boot) { ",region=boot" } else { "" };
    let paths = match plugin.paths {
        CallPaths::Followed => String::new(),
        CallPaths::NotFollowed => ",paths=no".to_owned(),
        CallPaths::NotFollowedNorCostly => ",paths=no,costly=no".to_owned(),
        CallPaths::Sampled(file) => format!(",draw={}", escape(file)),
    };
    let [library, symbols, profile] = [plugin.library, plugin.symbols, plugin.profile].map(escape);
    let programs = plugin.programs.map_or(String::new(), |programs| {
        let [archive, functions] = [&programs.archive, &programs.symbols].map(|file| escape(file));
        format!(",archive={archive},functions={functions}")
    });
    // Without `jitter` each slice is as long as the quantum, so a seed of 0 must be another number.
    let slices =
        plugin.slices.map_or(String::new(), |Slices { quantum, contended, seed, limit }| {
            let contended = contended.map(|quantum| format!(",contended={quantum}"));
            let jitter = seed.map(|seed| format!(",jitter={}", u64::from(seed) + 1));
            let optional = [contended, jitter].map(Option::unwrap_or_default).concat();
            format!(",limit={limit},quantum={quantum}{optional}")
        });
    let models = [("coherence", plugin.variables), ("machine", plugin.machine)];
    let models = models
        .map(|(name, file)| file.map_or(String::new(), |file| format!(",{name}={}", escape(file))));
    let models = models.concat();
    format!("{library},symbols={symbols},out={profile}{region}{paths}{programs}{slices}{models}")
}

/// Escapes a path for QEMU's option lists, in which a comma is written twice.
pub fn escape(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// Returns a shell script that boots the machine of a request by hand, and runs the order in the
/// file `$1`.
pub fn script(program: &Path, request: &Request, initrd: &Path) -> String {
    let mut args = machine_options(request, initrd);
    // The console is on the terminal, the wire goes to a file, and the guest does not freeze.
    args.extend(["-m".into(), request.machine.memory_mib.to_string()]);
    args.extend(devices(Path::new("wire.log"), "stdio"));
    args.extend(["-action".into(), "panic=none".into()]);
    let comment = "# Boots this machine by hand and runs one order: sh argv orders/getppid\n\
                   # The guest's answer goes to wire.log. The counts need the plugin: see \
                   docs/wire.md.";
    shell_script(program, args, comment, &format!("-fw_cfg \"name={ORDER_ITEM},file=$1\""))
}

/// Returns a shell script that starts `program` with these arguments, and then with `tail`, which
/// is shell text that may use `$1`.
pub fn shell_script(program: &Path, args: Vec<String>, comment: &str, tail: &str) -> String {
    let quote = |word: String| format!("'{}'", word.replace('\'', r"'\''"));
    let mut lines = vec![quote(program.display().to_string())];
    lines.extend(args.into_iter().map(quote));
    format!("#!/bin/sh\n{comment}\nexec {} \\\n  {tail}\n", lines.join(" \\\n  "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(accelerator: Accelerator, boot_line: &str) -> Vec<String> {
        let cpu = "host,-x2apic".into();
        let shape = TimedMachine { cpu, memory_mib: 256, cpus: 2, cores: None, accelerator };
        let [ram, wire, console, stderr] =
            ["/r/ram", "/r/wire", "/r/log", "/r/err"].map(Into::into);
        let files = Files { ram, wire, console, stderr };
        let [image, initrd, orders] = ["/k/image", "/k/initrd", "/r/a,b"].map(Path::new);
        timed_boot(&shape, (image, initrd), boot_line, orders, &files, 7)
    }

    fn value<'a>(args: &'a [String], option: &str) -> &'a str {
        let index = args.iter().position(|arg| arg == option).unwrap();
        assert_eq!(args.iter().filter(|arg| *arg == option).count(), 1, "{option}");
        &args[index + 1]
    }

    #[test]
    fn options_follow_the_machine_of_the_request() {
        for accelerator in [Accelerator::Kvm, Accelerator::Tcg] {
            let args = args(accelerator, "console=ttyS0 a=b c");
            let name = if accelerator == Accelerator::Kvm { "kvm" } else { "tcg,thread=single" };
            assert_eq!(value(&args, "-accel"), name);
            assert_eq!(value(&args, "-cpu"), "host,-x2apic");
            assert_eq!(value(&args, "-smp"), "2");
            assert_eq!(value(&args, "-m"), "256");
            assert!(value(&args, "-object").contains("size=256M,prealloc=on"));
            assert_eq!(value(&args, "-kernel"), "/k/image");
            assert_eq!(value(&args, "-append"), "console=ttyS0 a=b c");
            assert_eq!(value(&args, "-action"), "panic=pause");
        }
    }

    #[test]
    fn a_timed_boot_has_real_time_and_no_plugin() {
        let args = args(Accelerator::Kvm, "");
        for unwanted in ["-icount", "-plugin", "-incoming", "-seed", "-rtc"] {
            assert!(!args.iter().any(|arg| arg == unwanted), "{unwanted}");
        }
    }

    #[test]
    fn commas_in_paths_are_doubled() {
        let args = args(Accelerator::Kvm, "");
        assert_eq!(value(&args, "-fw_cfg"), "name=opt/ktax/orders,file=/r/a,,b");
    }

    #[test]
    fn the_boot_line_has_the_engines_parameters_first() {
        let engine = "console=ttyS0 quiet panic=-1 oops=panic";
        assert_eq!(timed_boot_line(Accelerator::Kvm, ""), engine);
        let line = timed_boot_line(Accelerator::Kvm, "mitigations=off nokaslr");
        assert_eq!(line, format!("{engine} mitigations=off nokaslr"));
        let translated = timed_boot_line(Accelerator::Tcg, "nokaslr");
        assert_eq!(translated, format!("{engine} no_timer_check nokaslr"));
    }
}
