//! Kernels for other architectures, and programs for them: each is made once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use ktax::kernel::{Talk, check_out};
use ktax::model::Subject;
use sha2::{Digest, Sha256};

use crate::common::cache;

const SOURCE: &str = "debian-src:6.12";

/// What a kernel says of its own making: the same, so that the same source is the same kernel.
const MADE: [(&str, &str); 4] = [
    ("KBUILD_BUILD_TIMESTAMP", "Thu Jan  1 00:00:00 UTC 1970"),
    ("KBUILD_BUILD_USER", "ktax"),
    ("KBUILD_BUILD_HOST", "ktax"),
    ("KBUILD_BUILD_VERSION", "1"),
];

/// A kernel that is built from the distribution's source.
pub struct Build {
    /// Of its configuration below `kernels`; all else is off.
    pub name: &'static str,
    /// As the kernel names it.
    pub arch: &'static str,
    /// What the names of the compiler and its like begin with.
    pub cross: &'static str,
    /// Below `kernels/patches`.
    pub patches: &'static [&'static str],
}

/// Where it is kept what the hosts are made of.
pub fn hosts() -> PathBuf {
    let path = cache().join("hosts");
    fs::create_dir_all(&path).unwrap();
    path
}

pub fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// All that a command says goes into a file, which is named where it fails.
fn run(command: &mut Command, log: &Path) {
    let file = File::create(log).unwrap();
    let status = command.stdout(file.try_clone().unwrap()).stderr(file).status().unwrap();
    assert!(status.success(), "{command:?}: {}", fs::read_to_string(log).unwrap());
}

impl Build {
    /// The kernel without what only a debugger reads; of other patches and options it is another.
    pub fn vmlinux(&self) -> PathBuf {
        let mut hash = Sha256::new();
        let patches: Vec<PathBuf> =
            self.patches.iter().map(|name| project("kernels/patches").join(name)).collect();
        let config = project("kernels").join(self.name).with_extension("config");
        for file in patches.iter().chain([&config]) {
            hash.update(fs::read(file).unwrap());
        }
        hash.update(format!("{SOURCE} {}", self.arch));
        let vmlinux = hosts().join(format!("vmlinux-{}-{:.16x}", self.name, hash.finalize()));
        if !vmlinux.exists() {
            self.make(&patches, &config, &vmlinux);
        }
        vmlinux
    }

    fn make(&self, patches: &[PathBuf], config: &Path, vmlinux: &Path) {
        let (source, index) = (hosts().join("source"), hosts().join("index"));
        let objects = hosts().join(format!("objects-{}", self.name));
        [&source, &objects].iter().for_each(|dir| fs::create_dir_all(dir).unwrap());
        let mut subject = Subject::of(SOURCE, "");
        subject.patches = patches.iter().map(|path| path.display().to_string()).collect();
        let say: &dyn Fn(&str) = &|text| eprintln!("{text}");
        let talk = Talk { note: say, status: &|_| {}, is_cancelled: &|| false };
        check_out(&subject, [&source, &index], &cache(), &talk).unwrap();
        let make = |arguments: &[&str]| {
            let mut make = Command::new("make");
            make.arg("-C").arg(&source).arg(format!("O={}", objects.display())).arg("-s");
            make.args([format!("ARCH={}", self.arch), format!("CROSS_COMPILE={}", self.cross)]);
            make.args(arguments).envs(MADE).env("KCONFIG_ALLCONFIG", config);
            run(&mut make, &hosts().join(format!("log-{}", self.name)));
        };
        make(&["allnoconfig"]);
        assert_taken(config, &objects.join(".config"));
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        make(&[&format!("-j{jobs}"), "vmlinux"]);
        let stripped = vmlinux.with_extension("new");
        let mut strip = Command::new(format!("{}strip", self.cross));
        strip.arg("-o").arg(&stripped).arg(objects.join("vmlinux"));
        run(&mut strip, &hosts().join("log-strip"));
        fs::rename(stripped, vmlinux).unwrap();
    }
}

/// Kconfig drops what it does not know or what something else is missing for.
fn assert_taken(wanted: &Path, found: &Path) {
    let found = fs::read_to_string(found).unwrap();
    for line in fs::read_to_string(wanted).unwrap().lines() {
        let is_option = line.starts_with("CONFIG_");
        assert!(!is_option || found.lines().any(|there| there == line), "{line} is dropped");
    }
}

/// The static program of a host, from `tests/hosts/NAME.c` and what all of them share.
pub fn program(name: &str, cross: &str, flags: &[&str], dir: &Path) -> PathBuf {
    let program = dir.join(name);
    let sources = ["host", "guest", "trace", name];
    let sources = sources.map(|name| project("tests/hosts").join(name).with_extension("c"));
    let mut compiler = Command::new(format!("{cross}gcc"));
    compiler.args(["-Wall", "-Wextra", "-Werror", "-O2", "-static", "-o"]).arg(&program);
    run(compiler.args(flags).args(sources), &dir.join("log"));
    program
}
