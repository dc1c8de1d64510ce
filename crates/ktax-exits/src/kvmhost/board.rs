//! Machines of other architectures that QEMU emulates, and the program that is the first process of
//! a KVM host there: it runs one guest and prints what KVM says of it. ktax has the program as
//! source, and compiles it where a compiler for the machine is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::HostError;
use ktax_engine::qemu::Qemu;
use ktax_host::cache::Scratch;
use ktax_host::disk::sha256;
use ktax_model::HostKind;

/// A machine, and the program that is its first process.
#[derive(Debug, Clone, Copy)]
pub struct Board {
    /// The name in messages.
    pub name: &'static str,
    /// QEMU's program, and the distribution's package with it.
    pub qemu: (&'static str, &'static str),
    /// QEMU's options for the machine.
    pub machine: &'static [&'static str],
    pub console: &'static str,
    /// The prefix of its compiler's name: `powerpc-linux-gnu` of `powerpc-linux-gnu-gcc`.
    pub compiler: &'static str,
    /// The distribution's package with a C library for that compiler.
    pub library: &'static str,
    pub flags: &'static [&'static str],
    /// The names and texts of the program's own files; all boards share those of `SHARED`.
    pub sources: &'static [(&'static str, &'static str)],
}

macro_rules! source {
    ($name:literal) => {
        ($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../guest/hosts/", $name)))
    };
}

/// The files that all first processes share.
const SHARED: [(&str, &str); 4] =
    [source!("host.h"), source!("host.c"), source!("guest.c"), source!("trace.c")];

/// The files of those whose guests KVM's tracepoints are about.
const RAW: [(&str, &str); 2] = [source!("raw.h"), source!("raw.c")];

/// QEMU's own processor has no measures against speculation, and says so.
const PSERIES: &str = "pseries,cap-nested-hv=on,cap-ccf-assist=off,cap-cfpc=broken,\
                       cap-sbbc=broken,cap-ibs=broken";

impl Board {
    /// A PowerPC of 2008 without virtualization: KVM emulates privileged instructions, and times
    /// exits.
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

    /// An arm64 processor with EL2 and without VHE: KVM's part at EL2 is below the host's kernel.
    pub const ARM64: Board = Board {
        name: "arm64",
        qemu: ("qemu-system-aarch64", "qemu-system-arm"),
        machine: &["-M", "virt,virtualization=on,gic-version=3", "-cpu", "cortex-a57"],
        console: "ttyAMA0",
        compiler: "aarch64-linux-gnu",
        library: "libc6-dev-arm64-cross",
        flags: &[],
        sources: &[RAW[0], RAW[1], source!("arm64.c")],
    };

    /// A POWER9 with nested guests, whose KVM times its own phases.
    pub const POWER9: Board = Board {
        name: "POWER9",
        qemu: ("qemu-system-ppc64", "qemu-system-ppc"),
        machine: &["-M", PSERIES, "-cpu", "POWER9"],
        console: "hvc0",
        compiler: "powerpc64le-linux-gnu",
        library: "libc6-dev-ppc64el-cross",
        flags: &[],
        sources: &[RAW[0], RAW[1], source!("power9.c")],
    };

    /// A riscv64 processor with the hypervisor extension, above the firmware that QEMU has.
    pub const RISCV64: Board = Board {
        name: "riscv64",
        qemu: ("qemu-system-riscv64", "qemu-system-misc"),
        machine: &["-M", "virt", "-cpu", "rv64,h=true", "-bios", "default"],
        console: "ttyS0",
        compiler: "riscv64-linux-gnu",
        library: "libc6-dev-riscv64-cross",
        flags: &[],
        sources: &[RAW[0], RAW[1], source!("riscv64.c")],
    };

    /// The board of hosts of this kind; `None` for the host of this machine's architecture.
    pub fn of(kind: HostKind) -> Option<&'static Board> {
        match kind {
            HostKind::Kvm => None,
            HostKind::KvmE500v2 => Some(&Board::E500V2),
            HostKind::KvmArm64 => Some(&Board::ARM64),
            HostKind::KvmPower9 => Some(&Board::POWER9),
            HostKind::KvmRiscv64 => Some(&Board::RISCV64),
        }
    }

    /// Finds QEMU for it, and checks that its compiler is there.
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

    /// SHA-256 of the first process as it is compiled here, below a directory for such files. It is
    /// part of the Key.
    ///
    /// # Errors
    /// Where the compiler fails or the directory cannot be written.
    pub fn program_sha256(&self, parent: &Path) -> Result<String, HostError> {
        let scratch = Scratch::create(parent);
        let scratch = scratch.map_err(HostError::of_file(parent.display().to_string()))?;
        Ok(sha256(&self.program(&scratch)?))
    }

    /// Compiles the first process, in a directory of its own.
    pub(super) fn program(&self, scratch: &Scratch) -> Result<Vec<u8>, HostError> {
        let broken = HostError::of_file("the host's program");
        let sources = SHARED.iter().chain(self.sources);
        for (name, text) in sources.clone() {
            fs::write(scratch.file(name), text).map_err(&broken)?;
        }
        let program = scratch.file("init");
        let mut compiler = Command::new(format!("{}-gcc", self.compiler));
        compiler.args(["-Wall", "-Wextra", "-Werror", "-O2", "-static", "-fno-ident"]);
        compiler.arg("-Wl,--build-id=none").args(self.flags).arg("-o").arg(&program);
        let code = sources.filter(|(name, _)| name.ends_with(".c"));
        compiler.args(code.map(|(name, _)| scratch.file(name)));
        let output = compiler.env("LC_ALL", "C").stdin(Stdio::null()).output().map_err(&broken)?;
        match output.status.success() {
            true => fs::read(&program).map_err(broken),
            false => {
                let (compiler, said) = (self.compiler, ktax_engine::wire::tail(&output.stderr));
                Err(HostError::Compiler { compiler, said })
            }
        }
    }
}
