//! A host's boots, of which only the serial line is kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ktax::engine::initramfs::{DIRECTORY, PROGRAM, append, append_console, end};

/// Generous: a boot is seconds on an idle machine.
const LIMIT: Duration = Duration::from_secs(300);

pub struct Host<'a> {
    pub qemu: &'a str,
    /// The machine.
    pub arguments: &'a [&'a str],
    pub console: &'a str,
    pub kernel: &'a Path,
    /// The first process.
    pub init: &'a Path,
    /// A module of KVM's.
    pub module: Option<&'a Path>,
}

impl Host<'_> {
    /// All that comes by the serial line until the end: in each boot the same, to the byte.
    pub fn boot(&self, dir: &Path) -> String {
        let [first, second] = [(); 2].map(|()| self.once(dir));
        assert_eq!(first, second);
        first
    }

    fn once(&self, dir: &Path) -> String {
        let serial = dir.join("serial.log");
        let mut qemu = Command::new(self.qemu);
        qemu.args(["-accel", "tcg", "-nodefaults", "-display", "none", "-no-reboot"]);
        // The clock is the host's instructions: a busy machine changes nothing.
        qemu.args(["-icount", "shift=0,sleep=off", "-rtc", "base=2020-01-01,clock=vm"]);
        qemu.args(["-seed", "1"]).args(self.arguments);
        qemu.args(["-m", "512"]).arg("-serial").arg(format!("file:{}", serial.display()));
        qemu.arg("-kernel").arg(self.kernel).arg("-initrd").arg(self.initrd(dir));
        qemu.arg("-append").arg(format!("console={} quiet panic=-1", self.console));
        let mut child = qemu.stdin(Stdio::null()).spawn().unwrap();
        let deadline = Instant::now() + LIMIT;
        while child.try_wait().unwrap().is_none() {
            if Instant::now() > deadline {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("no end of {}", said(&serial));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        said(&serial)
    }

    fn initrd(&self, dir: &Path) -> PathBuf {
        let mut archive = Vec::new();
        for name in ["dev", "proc", "sys"] {
            append(&mut archive, name, DIRECTORY, &[]).unwrap();
        }
        append_console(&mut archive).unwrap();
        for (name, path) in [("init", Some(self.init)), ("kvm.ko", self.module)] {
            if let Some(path) = path {
                append(&mut archive, name, PROGRAM, &fs::read(path).unwrap()).unwrap();
            }
        }
        let path = dir.join("initrd");
        fs::write(&path, end(archive).unwrap()).unwrap();
        path
    }
}

fn said(serial: &Path) -> String {
    let bytes = fs::read(serial).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\r', "")
}
