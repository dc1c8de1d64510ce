//! QEMU's command line for a timed guest, made by pure functions.

use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use crate::argv::{LATE_TIMER, MACHINE, TRANSLATOR, devices, escape, monitor};
use ktax_model::{Accelerator, TimedMachine};

/// The fw_cfg item of several orders, to be timed: `docs/wire.md`.
const ORDERS_ITEM: &str = "opt/ktax/orders";

/// The paths of a VM's files.
#[derive(Debug)]
pub struct VmFiles {
    /// The orders.
    pub orders: PathBuf,
    /// The wire.
    pub wire: PathBuf,
    /// The console.
    pub console: PathBuf,
    /// QEMU's stderr.
    pub stderr: PathBuf,
}

/// Returns the boot line: the engine's parameters and the Subject's. KASLR stays on: every Boot has
/// other addresses, so that the effect of one placement is not taken for the cost of the Kernel.
pub fn boot_line(accelerator: Accelerator, own: &str) -> String {
    let engine = "console=ttyS0 quiet panic=-1 oops=panic";
    let line = match accelerator {
        Accelerator::Kvm => format!("{engine} {own}"),
        Accelerator::Tcg => format!("{engine} {LATE_TIMER} {own}"),
    };
    line.trim_end().to_owned()
}

/// Arguments for a VM that boots until its freeze. When it continues, it runs the orders.
pub fn boot(
    shape: &TimedMachine,
    (image, initrd): (&Path, &Path),
    boot_line: &str,
    files: &VmFiles,
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
        ["-fw_cfg".into(), format!("name={ORDERS_ITEM},file={}", escape(&files.orders))],
    ]
    .concat();
    args.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(String::from));
    args.extend(devices(&files.wire, &format!("file:{}", escape(&files.console))));
    args.extend(monitor(control));
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(accelerator: Accelerator, boot_line: &str) -> Vec<String> {
        let cpu = "host,-x2apic".into();
        let shape = TimedMachine { cpu, memory_mib: 256, cpus: 2, cores: None, accelerator };
        let [orders, wire, console, stderr] =
            ["/r/a,b", "/r/wire", "/r/log", "/r/err"].map(Into::into);
        let files = VmFiles { orders, wire, console, stderr };
        boot(&shape, (Path::new("/k/image"), Path::new("/k/initrd")), boot_line, &files, 7)
    }

    fn value<'a>(args: &'a [String], option: &str) -> &'a str {
        let index = args.iter().position(|arg| arg == option).unwrap();
        assert_eq!(args.iter().filter(|arg| *arg == option).count(), 1, "{option}");
        &args[index + 1]
    }

    #[test]
    fn the_machine_is_as_asked_for() {
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
    fn time_is_real_and_nothing_counts() {
        let args = args(Accelerator::Kvm, "");
        for never in ["-icount", "-plugin", "-incoming", "-seed", "-rtc"] {
            assert!(!args.iter().any(|arg| arg == never), "{never}");
        }
    }

    #[test]
    fn a_comma_in_a_path_does_not_end_it() {
        let args = args(Accelerator::Kvm, "");
        assert_eq!(value(&args, "-fw_cfg"), "name=opt/ktax/orders,file=/r/a,,b");
    }

    #[test]
    fn the_boot_line_is_the_engines_and_the_subjects() {
        let engine = "console=ttyS0 quiet panic=-1 oops=panic";
        assert_eq!(boot_line(Accelerator::Kvm, ""), engine);
        let own = boot_line(Accelerator::Kvm, "mitigations=off nokaslr");
        assert_eq!(own, format!("{engine} mitigations=off nokaslr"));
        let translated = boot_line(Accelerator::Tcg, "nokaslr");
        assert_eq!(translated, format!("{engine} no_timer_check nokaslr"));
    }
}
