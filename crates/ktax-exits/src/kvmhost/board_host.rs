//! One boot of a [`Board`] with KVM.

use std::fs;
use std::os::fd::RawFd;
use std::path::Path;

use super::argv::{exact_time, padding, script};
use super::board::Board;
use super::error::HostError;
use ktax_engine::argv::{escape, monitor};
use ktax_engine::initramfs::{DIRECTORY, PROGRAM, append, append_console, end};
use ktax_engine::qemu::Qemu;
use ktax_engine::read_tail;
use ktax_engine::vm::{Vm, Watched};
use ktax_engine::wire;
use ktax_engine::{Cancel, Limits, Stop};
use ktax_host::cache::{Scratch, remove_stale};
use ktax_model::{Failure, Layout};

/// What the first process prints last.
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
    /// The host's initramfs, compiled here.
    ///
    /// # Errors
    /// Where the compiler fails or the disk is full.
    pub fn archive(&self) -> Result<Vec<u8>, HostError> {
        let program = self.board.program(&self.new_scratch()?)?;
        let broken = HostError::of_file("the host's initramfs");
        let archive = || {
            let mut archive = Vec::new();
            for name in ["dev", "proc", "sys"] {
                append(&mut archive, name, DIRECTORY, &[])?;
            }
            append_console(&mut archive)?;
            append(&mut archive, "init", PROGRAM, &program)?;
            end(archive)
        };
        archive().map_err(broken)
    }

    /// Boots the host once, with these arguments for its first process, and returns all that came
    /// by the console.
    ///
    /// # Errors
    /// With the end of the console, where the first process does not come to its end.
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
            HostError::of_stop(Some(self.board.name))(stop)
        };
        let args = |control| {
            let mut args = self.args(initrd, layout, arguments);
            args.extend(["-action".into(), "reboot=shutdown,shutdown=pause".into()]);
            args.extend(["-serial".into(), format!("file:{}", escape(&console))]);
            args.extend(monitor(control));
            args
        };
        self.wait(args, &console, &scratch.file("stderr")).map_err(failed)?;
        let said = fs::read(&console).map_err(HostError::of_file("the host's console"))?;
        let text = String::from_utf8_lossy(&said).replace('\r', "");
        match text.contains(END) {
            true => Ok(text),
            false => Err(failed(Failure::Silent { console: wire::tail(&said) }.into())),
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

    /// A shell script that boots the host by hand; `$1` names a file with the arguments.
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

    /// The machine; the boot line is the last word.
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
        let failed = HostError::of_file(self.scratch.display().to_string());
        Scratch::create(self.scratch).map_err(failed)
    }
}
