//! Subjects: the kernels and guests that are compared, their disks, and the Layouts and Keys under
//! which they are measured.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Model, is_default};

named_enum! {
    /// One of the two Subjects of a comparison.
    #[derive(PartialOrd, Ord)]
    pub enum Side {
        /// The reference.
        Base = "base",
        /// The Subject that is measured.
        Change = "change",
    }
}

impl Side {
    /// Both Sides, base first.
    pub const BOTH: [Side; 2] = Side::ALL;

    /// The opposite Side.
    pub fn other(self) -> Side {
        match self {
            Side::Base => Side::Change,
            Side::Change => Side::Base,
        }
    }
}

/// One value for each Side.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sides<T> {
    pub base: T,
    pub change: T,
}

impl<T: PartialEq> Sides<T> {
    pub fn are_equal(&self) -> bool {
        self.base == self.change
    }
}

impl<T> Sides<T> {
    /// Both values, that of the base first.
    pub fn each(&self) -> [&T; 2] {
        [&self.base, &self.change]
    }

    pub fn get(&self, side: Side) -> &T {
        match side {
            Side::Base => &self.base,
            Side::Change => &self.change,
        }
    }

    /// Applies `make` to each value.
    pub fn map<U>(self, mut make: impl FnMut(T) -> U) -> Sides<U> {
        Sides { base: make(self.base), change: make(self.change) }
    }

    pub fn get_mut(&mut self, side: Side) -> &mut T {
        match side {
            Side::Base => &mut self.base,
            Side::Change => &mut self.change,
        }
    }

    /// Calls `make` for each Side, base first.
    pub fn from_fn(mut make: impl FnMut(Side) -> T) -> Self {
        Sides { base: make(Side::Base), change: make(Side::Change) }
    }

    /// Calls `make` for each Side, base first, until it fails.
    pub fn try_from_fn<E>(mut make: impl FnMut(Side) -> Result<T, E>) -> Result<Self, E> {
        Ok(Sides { base: make(Side::Base)?, change: make(Side::Change)? })
    }
}

/// The shape of the computer; both Sides share it unless it is the declared factor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Machine {
    /// QEMU's name of a CPU model, with its features (`max`, `EPYC,-x2apic`).
    pub cpu: String,
    pub memory_mib: u32,
    #[serde(skip_serializing_if = "is_one")]
    pub cpus: u32,
    /// Instructions that each of several CPUs executes in turn. If absent, [`QUANTUM`], and
    /// [`CONTENDED_QUANTUM`] while CPUs wait for each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantum: Option<u32>,
    /// Model that runs beside counting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
}

impl Machine {
    /// Default memory, also of a timed guest.
    pub const USUAL_MEMORY_MIB: u32 = 512;

    /// Most CPUs that the plugin tells apart.
    pub const MOST_CPUS: u32 = 32;

    /// Default machine with this number of CPUs.
    pub fn with_cpus(cpus: u32) -> Machine {
        let machine = Machine { cpus, ..Machine::default() };
        Machine { cpu: machine.usual_cpu().to_owned(), ..machine }
    }

    /// Default number of layouts per Side. With several CPUs the order of execution is the largest
    /// noise, and more Metrics can decide a row.
    pub fn usual_layouts(&self) -> u32 {
        if self.cpus == 1 { 5 } else { 7 }
    }

    /// QEMU's name of the default CPU. A kernel that sees a hypervisor spins on one byte instead of
    /// using queued locks, so several CPUs hide the hypervisor.
    pub fn usual_cpu(&self) -> &'static str {
        if self.cpus == 1 { "max" } else { "max,-hypervisor" }
    }
}

/// Default quantum of several CPUs.
pub const QUANTUM: u32 = 1000;

/// Quantum of several CPUs while they wait for each other.
pub const CONTENDED_QUANTUM: u32 = 200;

/// True for one CPU, which files leave out.
fn is_one(cpus: &u32) -> bool {
    *cpus == 1
}

impl Default for Machine {
    fn default() -> Self {
        Machine {
            cpu: "max".into(),
            memory_mib: Machine::USUAL_MEMORY_MIB,
            cpus: 1,
            quantum: None,
            model: None,
        }
    }
}

/// A Kernel by its specification, and the boot line and settings that it is given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// A path, `debian:…`, or source; see `ktax help compare`.
    pub kernel: String,
    /// Kernel parameters beyond those that the engine needs.
    #[serde(default)]
    pub boot_line: String,
    /// For source: options, `CONFIG_NAME=VALUE`, or paths of files of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config: Vec<String>,
    /// For source: paths of patches, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<String>,
    /// Start of the configuration of a source: `base`, `defconfig`, `running`, or a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_config: Option<String>,
    /// Directory of the repository of a revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// Kernel settings by their names in sysctl(8), written before the guest is frozen.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctl: BTreeMap<String, String>,
    /// Modules that only this Side's guest loads, each with its parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<String>,
    /// File system of this Side's files, if the other Side has another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
    /// Files for this Side's programs and commands, `PATH` or `PATH:AT`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Shell commands that run once in this Side's guest, before it is frozen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
}

impl Subject {
    pub fn new(kernel: &str, boot_line: &str) -> Subject {
        let (kernel, boot_line) = (kernel.to_owned(), boot_line.to_owned());
        Subject { kernel, boot_line, ..Subject::default() }
    }

    /// Copy with the same Kernel, an empty boot line, and no settings.
    pub fn kernel_alone(&self) -> Subject {
        let Subject { kernel, config, patches, start_config, tree, .. } = self.clone();
        Subject { config, patches, start_config, tree, ..Subject::new(&kernel, "") }
    }

    /// Copy with the same guest settings, but without Kernel and boot line.
    pub fn settings_alone(&self) -> Subject {
        let Subject { sysctl, modules, disk, files, setup, .. } = self.clone();
        Subject { sysctl, modules, disk, files, setup, ..Subject::default() }
    }

    /// True if its guest has settings of its own.
    pub fn has_settings(&self) -> bool {
        self.settings_alone() != Subject::default()
    }

    /// Text that tells it from others with the same Kernel name: options, patches, boot line, then
    /// the guest's settings as `key=value`.
    pub fn beside_kernel(&self) -> String {
        let start = self.start_config.iter().map(|start| format!("start_config={start}"));
        let words = start.chain(self.config.iter().cloned()).chain(self.patches.iter().cloned());
        let boot_line = (!self.boot_line.is_empty()).then(|| self.boot_line.clone());
        words.chain(boot_line).chain(self.settings()).collect::<Vec<_>>().join(" ")
    }

    /// The guest's settings, each as `key=value` with the value quoted for a shell, and the disk in
    /// parentheses.
    pub fn settings(&self) -> Vec<String> {
        let word = |key: &str, value: &str| format!("{key}={}", quoted(value));
        let sysctl = self.sysctl.iter().map(|(name, value)| word(name, value));
        let modules = self.modules.iter().map(|module| word("module", module));
        let disk = self.disk.iter().map(|disk| format!("disk=({disk})"));
        let files = self.files.iter().map(|file| word("file", file));
        let setup = self.setup.iter().map(|commands| word("setup", commands));
        sysctl.chain(modules).chain(disk).chain(files).chain(setup).collect()
    }

    /// True if both have the same Kernel, whatever the boot lines and settings.
    pub fn is_kernel_of(&self, other: &Subject) -> bool {
        self.kernel_alone() == other.kernel_alone()
    }

    /// Revision of `git:REVISION`, from which its Kernel is built.
    pub fn revision(&self) -> Option<&str> {
        self.kernel.strip_prefix("git:")
    }

    /// True if it needs a Kernel from source.
    pub fn is_built(&self) -> bool {
        !self.config.is_empty()
            || !self.patches.is_empty()
            || self.start_config.is_some()
            || self.tree.is_some()
    }
}

/// Word as a shell takes it, on one line; line feeds and the like are escaped.
fn quoted(word: &str) -> String {
    let quoted = shlex::try_quote(word).map_or_else(|_| word.to_owned(), |word| word.into_owned());
    let on_one_line = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    quoted.chars().map(on_one_line).collect()
}

/// Deterministic perturbation of a Boot, on which no honest result may depend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// QEMU's `-seed`: RDRAND, the firmware's rng-seed, and through them slab order and stack
    /// offsets.
    pub seed: u32,
    /// Characters of padding on the boot line.
    pub padding: u32,
    /// Delay-loop iterations before the Region: moves it against the timer tick.
    pub phase: u64,
}

/// One Boot to make: a Side under a Layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Position in the Plan, from 0.
    pub index: u32,
    pub side: Side,
    /// Index into the Plan's Layouts; Steps of one Layout are a pair.
    pub layout: usize,
}

impl Step {
    /// Directory name of the Boot: `003-change`.
    pub fn name(&self) -> String {
        format!("{:03}-{}", self.index, self.side.name())
    }
}

/// Name and parameters of a module such as `zram num_devices=2`.
pub fn module_and_parameters(module: &str) -> (&str, &str) {
    module.split_once(' ').unwrap_or((module, ""))
}

/// Counts compare only within one Key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// `exact`.
    pub engine: String,
    /// QEMU's version with the distribution's suffix, as `--version` prints it.
    pub qemu: String,
    /// QEMU's machine type; its version is QEMU's.
    #[serde(rename = "machine")]
    pub machine_type: String,
    #[serde(flatten)]
    pub machine: Machine,
    /// SHA-256 over the guest programs and the plugin.
    pub guest: String,
    /// SHA-256 of each archive of the user's programs, joined by `+`; empty without programs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub programs: String,
    /// Kernel modules that are loaded, each with its parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<String>,
}

impl Key {
    /// Modules that were asked for, without those of this disk.
    pub fn asked_modules(&self, disk: Option<&Disk>) -> Vec<String> {
        let implied = Disk::with_modules(disk, &[]);
        self.modules.iter().filter(|module| !implied.contains(module)).cloned().collect()
    }
}

/// Identity of a Kernel. It has a release or a build-id, or both.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// `debian:NAME=VERSION`, or the absolute path of the file: either can be given as a kernel
    /// again.
    pub source: String,
    /// SHA-256 of the image, in lower-case hexadecimal.
    pub sha256: String,
    /// Release, as `uname -r` prints it: from the setup header of a bzImage, from the banner of a
    /// vmlinux.
    pub release: Option<String>,
    /// Date of the kernel's package, `2026-01-31`, from the image. Absent for images without it,
    /// such as those built here, and in plans of older releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package_date: Option<String>,
    /// The GNU build-id of a vmlinux, in lower-case hexadecimal; a bzImage does not show it.
    pub build_id: Option<String>,
    /// SHA-256 of the config that came with the image, in lower-case hexadecimal.
    pub config_sha256: Option<String>,
    pub arch: Arch,
    pub format: ImageFormat,
}

/// The form of an image, which decides how QEMU starts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ImageFormat {
    /// The compressed image with a setup header that `make bzImage` builds.
    BzImage,
    /// The uncompressed ELF file, with a PVH entry.
    Vmlinux,
    /// Kernel as it lies in memory: the `Image` of arm64 and riscv64.
    Image,
}

named_enum! {
    /// The architecture an image is for.
    #[derive(Hash)]
    pub enum Arch {
        /// 64-bit x86.
        X86_64 = "x86_64",
        /// 32-bit big-endian PowerPC.
        PowerPc = "powerpc",
        /// 64-bit little-endian PowerPC.
        Ppc64le = "powerpc64le",
        /// 64-bit ARM.
        Arm64 = "arm64",
        /// 64-bit RISC-V.
        Riscv64 = "riscv64",
    }
}

impl Identity {
    /// Shortest text that tells this Kernel from another: the release, else the build-id.
    pub fn name(&self) -> &str {
        self.release.as_deref().or(self.build_id.as_deref()).unwrap_or(&self.sha256)
    }
}

/// A file system in the guest's memory, on which workloads and programs have their files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// `ext4`, `xfs`, `btrfs` or `f2fs`; or `overlay`, which lies on tmpfs.
    pub fs: String,
    /// Size in MiB; memory is taken only for what is written.
    pub mib: u32,
    /// Mount options, separated by commas.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub options: String,
    /// More options for mkfs, as a shell takes them: `-O ^metadata_csum`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mkfs: String,
    /// Device below the file system.
    #[serde(default, skip_serializing_if = "is_default")]
    pub device: BlockDevice,
    /// Latency of each request, in microseconds of the guest's clock.
    #[serde(default, skip_serializing_if = "is_default")]
    pub latency_us: u32,
}

/// Words of `--disk`: the type, then `KEY=VALUE` for each key that is not the default.
impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Disk { fs, mib, options, mkfs, device, latency_us } = self;
        f.write_str(fs)?;
        if *mib != Disk::USUAL_MIB {
            write!(f, " mib={mib}")?;
        }
        for (key, value) in [("options", options), ("mkfs", mkfs)] {
            if !value.is_empty() {
                write!(f, " {key}={}", shlex::try_quote(value).unwrap_or_default())?;
            }
        }
        if !device.is_usual() {
            write!(f, " device={}", device.name())?;
        }
        if *latency_us > 0 {
            write!(f, " latency_us={latency_us}")?;
        }
        Ok(())
    }
}

named_enum! {
    /// A block device in the guest's memory, by the name of its driver.
    #[derive(Default)]
    pub enum BlockDevice {
        /// A RAM disk.
        #[default]
        Brd = "brd",
        /// A device with queues and, if asked for, a latency.
        NullBlk = "null_blk",
        /// A device that compresses.
        Zram = "zram",
    }
}

impl BlockDevice {
    /// Path in the guest.
    pub fn path(self) -> &'static str {
        match self {
            BlockDevice::Brd => "/dev/ram0",
            BlockDevice::NullBlk => "/dev/nullb0",
            BlockDevice::Zram => "/dev/zram0",
        }
    }

    fn is_usual(&self) -> bool {
        *self == BlockDevice::Brd
    }
}

impl Disk {
    /// Type on tmpfs, without a device.
    pub const OVERLAY: &str = "overlay";

    /// Modules of the driver, each with its parameters.
    pub fn modules(&self) -> Vec<String> {
        if self.fs == Disk::OVERLAY {
            return Vec::new();
        }
        let kib = u64::from(self.mib) << 10;
        let modules: &[&str] = match self.device {
            BlockDevice::Brd => &[&format!("brd rd_nr=1 max_part=0 rd_size={kib}")],
            BlockDevice::NullBlk => &["null_blk nr_devices=0"],
            // zram's name for its compressor is not that of the module.
            BlockDevice::Zram => &["lzo-rle", "zram num_devices=1"],
        };
        modules.iter().map(|module| (*module).to_owned()).collect()
    }

    /// Modules of a disk, if there is one, then `more`, each once.
    pub fn with_modules(disk: Option<&Disk>, more: &[String]) -> Vec<String> {
        let mut modules: Vec<String> = disk.map_or_else(Vec::new, Disk::all_modules);
        let new: Vec<String> =
            more.iter().filter(|name| !modules.contains(name)).cloned().collect();
        modules.extend(new);
        modules
    }

    /// Modules of the driver and of the file system.
    pub fn all_modules(&self) -> Vec<String> {
        self.modules().into_iter().chain([self.fs.clone()]).collect()
    }

    /// Settings that make the device: files of the guest with the text for each, in order; a
    /// directory has no text.
    pub fn settings(&self) -> Vec<(String, String)> {
        const NULL: &str = "/sys/kernel/config/nullb/nullb0";
        let null = |name: &str, value: String| (format!("{NULL}/{name}"), value);
        match self.device {
            BlockDevice::Brd => Vec::new(),
            BlockDevice::Zram => {
                vec![("/sys/block/zram0/disksize".to_owned(), format!("{}M", self.mib))]
            }
            BlockDevice::NullBlk => {
                let mut settings = vec![
                    (NULL.to_owned(), String::new()),
                    null("size", self.mib.to_string()),
                    null("memory_backed", "1".to_owned()),
                ];
                if self.latency_us > 0 {
                    let nanoseconds = u64::from(self.latency_us) * 1000;
                    settings.push(null("irqmode", "2".to_owned()));
                    settings.push(null("completion_nsec", nanoseconds.to_string()));
                }
                settings.push(null("power", "1".to_owned()));
                settings
            }
        }
    }

    /// Default size.
    pub const USUAL_MIB: u32 = 320;
}

/// Parameters of a boot line as typed; a quoted space does not split.
pub fn boot_parameters(line: &str) -> Vec<&str> {
    let mut is_quoted = false;
    let parts = line.split(move |c: char| {
        is_quoted ^= c == '"';
        matches!(c, ' ' | '\t'..='\r') && !is_quoted
    });
    parts.filter(|parameter| !parameter.is_empty()).collect()
}

/// A parameter as the kernel passes it to init if it does not know it: `a="x y"` is `a=x y`.
pub fn unquoted_parameter(parameter: &str) -> String {
    let inner = parameter.strip_prefix('"');
    let (text, mut is_quoted) = (inner.unwrap_or(parameter), inner.is_some());
    // A name has at least one character.
    let equals = text.char_indices().skip(1).find(|(_, c)| *c == '=').map(|(index, _)| index);
    let (name, mut value) = match equals {
        Some(index) => text.split_at(index + 1),
        None => ("", text),
    };
    if let Some(inner) = value.strip_prefix('"').filter(|_| equals.is_some()) {
        (value, is_quoted) = (inner, true);
    }
    let value = if is_quoted { value.strip_suffix('"').unwrap_or(value) } else { value };
    format!("{name}{value}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The kernel's own steps: one parameter, what init gets of it, and the rest of the line.
    fn next_arg(line: &[u8]) -> (Vec<u8>, &[u8]) {
        let is_space = |byte: u8| matches!(byte, b' ' | b'\t'..=b'\r');
        let quoted = line.first() == Some(&b'"');
        let args = &line[usize::from(quoted)..];
        let (mut in_quote, mut equals, mut i) = (quoted, 0, 0);
        while i < args.len() && (in_quote || !is_space(args[i])) {
            if equals == 0 && args[i] == b'=' {
                equals = i;
            }
            in_quote ^= args[i] == b'"';
            i += 1;
        }
        let (mut end, mut value) = (i, equals + 1);
        if equals > 0 && value < i && args[value] == b'"' {
            value += 1;
            end -= usize::from(args[i - 1] == b'"');
        }
        if quoted && end == i && i > 0 && args[i - 1] == b'"' {
            end -= 1;
        }
        let value_of_init = match equals {
            0 => args[..end].to_vec(),
            _ => [&args[..=equals], args.get(value..end).unwrap_or_default()].concat(),
        };
        let rest = &args[i..];
        let blanks = rest.iter().take_while(|byte| is_space(**byte)).count();
        (value_of_init, &rest[blanks..])
    }

    #[test]
    fn quotes_hold_a_value_together() {
        let line = r#"quiet  foo="x y" "bar=1 2" dyndbg="file a.c +p" b=" "#;
        let words = boot_parameters(line);
        assert_eq!(
            words,
            ["quiet", r#"foo="x y""#, r#""bar=1 2""#, r#"dyndbg="file a.c +p""#, "b=\" "]
        );
        let read: Vec<String> = words.into_iter().map(unquoted_parameter).collect();
        assert_eq!(read, ["quiet", "foo=x y", "bar=1 2", "dyndbg=file a.c +p", "b= "]);
    }

    proptest! {
        #[test]
        fn any_line_is_read_as_the_kernel_reads_it(line in r#"[ab="\t .-]{0,24}"#) {
            let read = boot_parameters(&line).into_iter().map(unquoted_parameter);
            let read: Vec<String> = read.collect();
            let mut rest = line.trim_start().as_bytes();
            let mut expected = Vec::new();
            while !rest.is_empty() {
                let (one, after) = next_arg(rest);
                expected.push(String::from_utf8(one).unwrap());
                rest = after;
            }
            prop_assert_eq!(read, expected);
        }
    }
}
