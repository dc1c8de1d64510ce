//! The host's QEMU command line and boot line: pure functions.

use std::os::fd::RawFd;
use std::path::Path;

use crate::engine::argv::{MACHINE, escape, monitor};

/// The processor: AMD's virtualization with nested paging, and without what the translators of
/// some QEMUs do not have, so that it is the same for all.
const CPU: &str = "EPYC,svm=on,npt=on,nrip-save=off,rdseed=off,sha-ni=off,fxsr-opt=off,\
                   misalignsse=off,3dnowprefetch=off,osvw=off,topoext=off,xsavec=off";
/// For the host, a guest of its own, and all files in memory.
const MEMORY_MIB: &str = "1400";

/// The engine reads the time since power-on off a clock that begins with a year.
const CLOCK: &str = "base=2020-01-01,clock=vm";

/// Where the host's files are.
pub(super) struct Places<'a> {
    pub initrd: &'a Path,
    /// The first serial port.
    pub console: &'a Path,
    /// The second.
    pub frames: &'a Path,
}

/// What comes after `--` is for init; a variable that the kernel does not know is init's too.
fn boot_line(exact: bool, more: &str) -> String {
    let fixed = "console=ttyS0 quiet panic=-1 oops=panic";
    let same_addresses = if exact { "nokaslr norandmaps" } else { "" };
    let init = "LD_LIBRARY_PATH=/lib rdinit=/ktax -- kvm-host-init";
    let words = [fixed, same_addresses, more, init].into_iter().filter(|words| !words.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// `more` is added to the boot line.
pub(super) fn qemu(
    kernel: &Path,
    more: &str,
    places: &Places<'_>,
    exact: bool,
    control: RawFd,
) -> Vec<String> {
    let time = match exact {
        // As the exact engine: one instruction is one virtual nanosecond, idle time is skipped,
        // and random numbers always begin alike.
        true => "-accel tcg,thread=single -smp 1 -icount shift=0,sleep=off -seed 1",
        false => "-accel tcg,thread=multi -smp 2",
    };
    // A machine that is off waits to be ended: a QEMU that exits by itself while it is asked for
    // its state can hang.
    let fixed = format!(
        "-M {MACHINE} -cpu {CPU} -m {MEMORY_MIB} {time} -rtc {CLOCK} -nodefaults -no-user-config \
         -action reboot=shutdown,shutdown=pause -display none"
    );
    let mut args: Vec<String> = fixed.split(' ').map(str::to_owned).collect();
    for port in [places.console, places.frames] {
        args.extend(["-serial".into(), format!("file:{}", escape(port))]);
    }
    args.extend(["-kernel".into(), kernel.display().to_string()]);
    args.extend(["-initrd".into(), places.initrd.display().to_string()]);
    args.extend(["-append".into(), boot_line(exact, more)]);
    args.extend(monitor(control));
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn init_is_told_what_it_is() {
        for exact in [false, true] {
            assert!(
                boot_line(exact, "lockdown=integrity").ends_with(" rdinit=/ktax -- kvm-host-init")
            );
            assert_eq!(boot_line(exact, "").contains("nokaslr"), exact);
            assert!(boot_line(exact, "nosmp").contains(" nosmp LD"));
        }
    }

    #[test]
    fn exact_is_one_cpu_with_a_counted_clock() {
        let places =
            Places { initrd: Path::new("/i"), console: Path::new("/c,d"), frames: Path::new("/f") };
        let args = |exact| qemu(Path::new("/k"), "", &places, exact, 7).join(" ");
        assert!(args(true).contains("-smp 1 -icount shift=0,sleep=off -seed 1"));
        assert!(!args(false).contains("icount"));
        assert!(args(false).contains("-serial file:/c,,d -serial file:/f -kernel /k"));
    }
}
