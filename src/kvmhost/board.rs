//! KVM hosts of other architectures: a machine of QEMU's, a kernel for it, and as first process a
//! program in C that runs one guest and prints what KVM says of it. ktax has the program as source,
//! and compiles it where a compiler for the machine is.

use std::fs;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::HostError;
use crate::engine::argv::{escape, monitor};
use crate::engine::initramfs::{DIRECTORY, PROGRAM, append, append_console, end};
use crate::engine::qemu::Qemu;
use crate::engine::scratch::{Scratch, remove_stale};
use crate::engine::vm::{Vm, Watch};
use crate::engine::{Cancel, Limits, Stop};

/// A machine, and the program that is its first process.
#[derive(Debug, Clone, Copy)]
pub struct Board {
    /// For people.
    pub name: &'static str,
    /// QEMU for it, and the distribution's package of that.
    pub qemu: (&'static str, &'static str),
    /// What QEMU is told of it.
    pub machine: &'static [&'static str],
    pub console: &'static str,
    /// What its compiler is called before `-gcc`: `powerpc-linux-gnu`.
    pub compiler: &'static str,
    /// The distribution's package of a C library for that, to link with.
    pub library: &'static str,
    pub flags: &'static [&'static str],
    /// The program's own file, by its name; all have those of [`SHARED`].
    pub source: (&'static str, &'static str),
}

macro_rules! source {
    ($name:literal) => {
        ($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/guest/hosts/", $name)))
    };
}

/// What the first processes have in common.
const SHARED: [(&str, &str); 4] =
    [source!("host.h"), source!("host.c"), source!("guest.c"), source!("trace.c")];

impl Board {
    /// KVM that emulates what a guest may not do, and times its exits.
    pub const E500V2: Board = Board {
        name: "e500v2",
        qemu: ("qemu-system-ppc", "qemu-system-ppc"),
        machine: &["-M", "ppce500", "-cpu", "e500v2"],
        console: "ttyS0",
        compiler: "powerpc-linux-gnu",
        library: "libc6-dev-powerpc-cross",
        flags: &["-Wa,-me500"],
        source: source!("e500v2.c"),
    };

    /// QEMU for it, and nothing of the compiler missing.
    ///
    /// # Errors
    /// With the packages that are missing.
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

    /// Compiles the first process, in a directory for what does not outlive ktax.
    fn program(&self, scratch: &Scratch) -> Result<Vec<u8>, HostError> {
        let broken = |error| HostError::File { path: "the host's program".into(), error };
        let sources = SHARED.iter().chain([&self.source]);
        for (name, text) in sources.clone() {
            fs::write(scratch.file(name), text).map_err(broken)?;
        }
        let program = scratch.file("init");
        let mut compiler = Command::new(format!("{}-gcc", self.compiler));
        compiler.args(["-Wall", "-Wextra", "-Werror", "-O2", "-static", "-fno-ident"]);
        compiler.arg("-Wl,--build-id=none").args(self.flags).arg("-o").arg(&program);
        let code = sources.filter(|(name, _)| name.ends_with(".c"));
        compiler.args(code.map(|(name, _)| scratch.file(name)));
        let output = compiler.env("LC_ALL", "C").stdin(Stdio::null()).output().map_err(broken)?;
        match output.status.success() {
            true => fs::read(&program).map_err(broken),
            false => {
                let (compiler, said) = (self.compiler, crate::wire::tail(&output.stderr));
                Err(HostError::Compiler { compiler, said })
            }
        }
    }

    fn argv(&self, kernel: &Path, line: &str, files: [&Path; 2], control: RawFd) -> Vec<String> {
        // As in an exact host of this machine's architecture; see argv.rs there.
        let fixed = "-accel tcg,thread=single -smp 1 -icount shift=0,sleep=off -seed 1 -rtc \
                     base=2020-01-01,clock=vm -nodefaults -no-user-config -display none \
                     -action reboot=shutdown,shutdown=pause -m 512";
        let mut args: Vec<String> = fixed.split_whitespace().map(str::to_owned).collect();
        args.extend(self.machine.iter().map(|&word| word.to_owned()));
        let [initrd, console] = files;
        args.extend(["-serial".into(), format!("file:{}", escape(console))]);
        args.extend(["-kernel".into(), kernel.display().to_string()]);
        args.extend(["-initrd".into(), initrd.display().to_string()]);
        args.extend(["-append".into(), line.to_owned()]);
        args.extend(monitor(control));
        args
    }
}

/// A host of another architecture.
#[derive(Debug)]
pub struct BoardHost<'a> {
    pub board: &'a Board,
    pub qemu: &'a Qemu,
    pub kernel: &'a Path,
    /// A module of KVM's, where it is not built in.
    pub module: Option<&'a Path>,
    pub limits: &'a Limits,
    pub cancel: &'a Cancel,
    /// A directory for what does not outlive the host.
    pub scratch: &'a Path,
}

impl BoardHost<'_> {
    /// Boots it once, its first process with these arguments: all that comes by the console, which
    /// also is a file, from now on kept.
    ///
    /// # Errors
    /// Where it does not come to its end.
    pub fn boot(&self, arguments: &[&str], console: &Path) -> Result<String, HostError> {
        let broken = |error| HostError::File { path: "the host's files".into(), error };
        remove_stale(self.scratch);
        let scratch = Scratch::create(self.scratch).map_err(broken)?;
        let initrd = scratch.file("initrd");
        fs::write(&initrd, self.archive(&scratch)?).map_err(broken)?;
        let mut line = format!("console={} quiet panic=-1", self.board.console);
        if !arguments.is_empty() {
            // What comes after it is for the first process.
            line += &format!(" -- {}", arguments.join(" "));
        }
        let args = |control| self.board.argv(self.kernel, &line, [&initrd, console], control);
        let failed = |stop: Stop| match stop {
            Stop::Cancelled => HostError::Cancelled,
            Stop::Failed(failure, _) => self.failed(&failure.to_string(), console),
        };
        let stderr = scratch.file("stderr");
        let mut vm = Vm::start(&self.qemu.program, args, None, &stderr, self.limits)
            .map_err(|failure| failed(failure.into()))?;
        vm.go();
        let wire = (console, self.limits.console_bytes);
        let watch = Watch { limits: self.limits, cancel: self.cancel, wire, console };
        vm.wait(&watch).map_err(failed)?;
        drop(vm);
        let said = fs::read(console).map_err(broken)?;
        let said = String::from_utf8_lossy(&said).replace('\r', "");
        match said.contains("\nhost: end\n") {
            true => Ok(said),
            false => Err(self.failed("it went off before its end", console)),
        }
    }

    fn failed(&self, problem: &str, console: &Path) -> HostError {
        HostError::Board {
            name: self.board.name,
            problem: problem.to_owned(),
            console: console.display().to_string(),
        }
    }

    fn archive(&self, scratch: &Scratch) -> Result<Vec<u8>, HostError> {
        let broken = |error| HostError::File { path: "the host's archive".into(), error };
        let program = self.board.program(scratch)?;
        let module = self.module.map(fs::read).transpose().map_err(broken)?;
        let archive = || {
            let mut archive = Vec::new();
            for name in ["dev", "proc", "sys"] {
                append(&mut archive, name, DIRECTORY, &[])?;
            }
            append_console(&mut archive)?;
            append(&mut archive, "init", PROGRAM, &program)?;
            if let Some(module) = &module {
                append(&mut archive, "kvm.ko", PROGRAM, module)?;
            }
            end(archive)
        };
        archive().map_err(broken)
    }
}
