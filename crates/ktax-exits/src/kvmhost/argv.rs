//! The host's QEMU command line and boot line: pure functions.

use std::os::fd::{BorrowedFd, RawFd};
use std::path::Path;

use super::frame::ORDER_ITEM;
use ktax_engine::argv::{LATE_TIMER, MACHINE, TRANSLATOR, escape, monitor};
use ktax_model::Layout;

/// AMD's virtualization with nested paging. Features that some QEMU versions lack are off, so that
/// the processor is the same for all.
const CPU: &str = "EPYC,svm=on,npt=on,nrip-save=off,rdseed=off,sha-ni=off,fxsr-opt=off,\
                   misalignsse=off,3dnowprefetch=off,osvw=off,topoext=off,xsavec=off";
/// Enough for the host, one guest, and all files in memory.
const MEMORY_MIB: u32 = 1400;

/// `engine/vm.rs` computes the time since power-on from this date.
const CLOCK: &str = "base=2020-01-01,clock=vm";

/// A machine to boot.
pub(super) struct HostMachine<'a> {
    pub kernel: &'a Path,
    /// Added to the boot line.
    pub boot_line: &'a str,
    pub initrd: &'a Path,
    pub layout: &'a Layout,
    /// Whether time is counted in instructions of one CPU.
    pub exact: bool,
}

/// Files for the host's output.
pub(super) struct OutputFiles<'a> {
    /// The first serial port.
    pub console: &'a Path,
    /// The second.
    pub frames: &'a Path,
}

/// The part of a host's life that one QEMU runs.
pub(super) enum RunSpan<'a> {
    /// From power-on to power-off.
    Whole,
    /// From power-on to where init freezes the machine, its memory in a file.
    ToFreeze { ram: &'a Path },
    /// From the freeze to power-off, with an order; QEMU inherits the file with the state.
    FromFreeze { ram: &'a Path, order: &'a Path, state: BorrowedFd<'a> },
}

/// Returns the boot line. The kernel passes what comes after `--`, and each variable that it does
/// not know, to init.
fn boot_line(machine: &HostMachine<'_>) -> String {
    let fixed = "console=ttyS0 quiet panic=-1 oops=panic";
    let time_words = match machine.exact {
        true => "nokaslr norandmaps",
        false => LATE_TIMER,
    };
    let init = "LD_LIBRARY_PATH=/lib rdinit=/ktax -- kvm-host-init";
    let padding = padding(machine.layout);
    let words = [fixed, time_words, &padding, machine.boot_line, init];
    words.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Returns the Layout's padding as a word of a boot line; no word where there is none. The kernel
/// keeps a parameter with a dot to itself, so that the padding moves no program's stack.
pub(super) fn padding(layout: &Layout) -> String {
    match layout.padding {
        0 => String::new(),
        padding => format!("ktax.pad={}", "x".repeat(padding as usize)),
    }
}

/// Returns the arguments of QEMU, with its monitor on an inherited descriptor.
pub(super) fn qemu(
    machine: &HostMachine<'_>,
    span: &RunSpan<'_>,
    outputs: &OutputFiles<'_>,
    control: RawFd,
) -> Vec<String> {
    let mut args = hardware(machine, matches!(span, RunSpan::Whole));
    // A machine that is off waits to be ended: a QEMU that exits by itself while it is asked for
    // its state can hang.
    args.extend(["-action".into(), "reboot=shutdown,shutdown=pause,panic=pause".into()]);
    for port in [outputs.console, outputs.frames] {
        args.extend(["-serial".into(), format!("file:{}", escape(port))]);
    }
    match span {
        RunSpan::Whole => {}
        RunSpan::ToFreeze { ram } => args.extend(memory(ram, "on")),
        RunSpan::FromFreeze { ram, order, .. } => {
            args.extend(memory(ram, "off"));
            args.extend(["-incoming".into(), "defer".into()]);
            args.extend(["-fw_cfg".into(), format!("name={ORDER_ITEM},file={}", escape(order))]);
        }
    }
    args.extend(monitor(control));
    args
}

/// Returns the arguments for a machine by hand: its console is the terminal, and nothing freezes
/// it.
fn interactive_args(machine: &HostMachine<'_>) -> Vec<String> {
    let mut args = hardware(machine, true);
    args.extend(["-no-reboot", "-serial", "stdio", "-serial", "file:frames.log"].map(String::from));
    args
}

fn hardware(machine: &HostMachine<'_>, has_own_memory: bool) -> Vec<String> {
    let time = match machine.exact {
        true => exact_time(machine.layout),
        false => format!("-accel {TRANSLATOR} -smp 1"),
    };
    let memory = if has_own_memory { "" } else { ",memory-backend=ram" };
    let fixed = format!(
        "-M {MACHINE}{memory} -cpu {CPU} -m {MEMORY_MIB} {time} -rtc {CLOCK} -nodefaults \
         -no-user-config -display none"
    );
    let mut args: Vec<String> = fixed.split(' ').map(str::to_owned).collect();
    args.extend(["-kernel".into(), machine.kernel.display().to_string()]);
    args.extend(["-initrd".into(), machine.initrd.display().to_string()]);
    args.extend(["-append".into(), boot_line(machine)]);
    args
}

/// Options for memory that is a file. A boot writes it; a machine that goes on maps it privately.
fn memory(ram: &Path, share: &str) -> Vec<String> {
    let (size, path) = (MEMORY_MIB, escape(ram));
    let backend = format!("memory-backend-file,id=ram,size={size}M,mem-path={path},share={share}");
    // The device by which init freezes the machine.
    vec!["-object".into(), backend, "-device".into(), "pvpanic".into()]
}

/// Options for exact time, as in the exact engine: one instruction is one virtual nanosecond, idle
/// time is skipped, and random numbers follow from the Layout's seed.
pub(super) fn exact_time(layout: &Layout) -> String {
    let seed = layout.seed;
    format!("-accel {TRANSLATOR} -smp 1 -icount shift=0,sleep=off -seed {seed}")
}

/// Returns a shell script that starts `program` with these arguments and `more`, which may use
/// `$1`.
pub(super) fn script(program: &Path, args: Vec<String>, comment: &str, more: &str) -> String {
    let quote = |word: String| format!("'{}'", word.replace('\'', r"'\''"));
    let mut lines = vec![quote(program.display().to_string())];
    lines.extend(args.into_iter().map(quote));
    format!("#!/bin/sh\n{comment}\nexec {} \\\n  {more}\n", lines.join(" \\\n  "))
}

/// Returns the script of an x86 host.
pub(super) fn x86_script(program: &Path, machine: &HostMachine<'_>) -> String {
    let comment = "# Boots this KVM host by hand and runs one row: sh argv orders/ROW\n\
                   # The answers of its commands go to frames.log.";
    let order = format!("-fw_cfg \"name={ORDER_ITEM},file=$1\"");
    script(program, interactive_args(machine), comment, &order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    const LAYOUT: Layout = Layout { seed: 7, padding: 3, phase: 5 };

    fn machine(exact: bool, boot_line: &str) -> HostMachine<'_> {
        let (kernel, initrd) = (Path::new("/k"), Path::new("/i"));
        HostMachine { kernel, boot_line, initrd, layout: &LAYOUT, exact }
    }

    #[test]
    fn init_is_told_what_it_is() {
        for exact in [false, true] {
            let line = boot_line(&machine(exact, "lockdown=integrity"));
            let end = " ktax.pad=xxx lockdown=integrity LD_LIBRARY_PATH=/lib rdinit=/ktax -- \
                       kvm-host-init";
            assert!(line.ends_with(end), "{line}");
            assert_eq!(line.contains("nokaslr"), exact);
            assert_eq!(line.contains("no_timer_check"), !exact);
        }
        let layout = Layout { padding: 0, ..LAYOUT };
        let line = boot_line(&HostMachine { layout: &layout, ..machine(true, "") });
        assert!(line.contains(" norandmaps LD_LIBRARY"), "{line}");
    }

    #[test]
    fn a_host_is_one_cpu_and_an_exact_one_has_a_counted_clock() {
        let outputs = OutputFiles { console: Path::new("/c,d"), frames: Path::new("/f") };
        let args = |exact| qemu(&machine(exact, ""), &RunSpan::Whole, &outputs, 7).join(" ");
        assert!(args(true).contains("-smp 1 -icount shift=0,sleep=off -seed 7"));
        assert!(!args(false).contains("icount"));
        assert!(args(false).contains("-accel tcg,thread=single -smp 1 "));
        assert!(args(false).contains("-serial file:/c,,d -serial file:/f"));
    }

    #[test]
    fn a_frozen_host_goes_on_as_the_same_machine() {
        let outputs = OutputFiles { console: Path::new("/c"), frames: Path::new("/f") };
        let (ram, order) = (Path::new("/r"), Path::new("/o"));
        let args = |span| qemu(&machine(true, ""), &span, &outputs, 7);
        let frozen = args(RunSpan::ToFreeze { ram });
        let state = std::fs::File::open("/dev/null").unwrap();
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
        let script = x86_script(Path::new("/it's/qemu"), &machine(true, ""));
        assert!(script.contains(r"exec '/it'\''s/qemu' \"), "{script}");
        assert!(script.ends_with("\n  -fw_cfg \"name=opt/ktax/order,file=$1\"\n"), "{script}");
        assert!(!script.contains("chardev"), "{script}");
    }
}
