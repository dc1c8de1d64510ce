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
        /// The Subject that is compared with the reference.
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
    /// Both values, the base's first.
    pub fn both(&self) -> [&T; 2] {
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

/// Machine of a guest. Both Sides have the same, unless the experiment compares machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Machine {
    /// CPU model with features, in QEMU's syntax (`max`, `EPYC,-x2apic`).
    pub cpu: String,
    pub memory_mib: u32,
    #[serde(skip_serializing_if = "is_one")]
    pub cpus: u32,
    /// Number of instructions that each of several CPUs executes before the next CPU. If absent, it
    /// is [`QUANTUM`], or [`CONTENDED_QUANTUM`] while CPUs wait for each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantum: Option<u32>,
    /// Model that the plugin runs while it counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
}

impl Machine {
    /// Default memory of counted and of timed guests.
    pub const DEFAULT_MEMORY_MIB: u32 = 512;

    /// Maximum number of CPUs that the plugin supports.
    pub const MAX_CPUS: u32 = 32;

    /// Default machine with `cpus` CPUs.
    pub fn with_cpus(cpus: u32) -> Machine {
        let machine = Machine { cpus, ..Machine::default() };
        Machine { cpu: machine.default_cpu().to_owned(), ..machine }
    }

    /// Default number of Layouts per Side. Several CPUs need more Layouts, because their order of
    /// execution adds noise and more Metrics can decide a row.
    pub fn default_layouts(&self) -> u32 {
        if self.cpus == 1 { 5 } else { 7 }
    }

    /// Default CPU model. Several CPUs hide the hypervisor, because under a hypervisor a kernel
    /// uses test-and-set locks in place of queued spinlocks.
    pub fn default_cpu(&self) -> &'static str {
        if self.cpus == 1 { "max" } else { "max,-hypervisor" }
    }
}

/// Default quantum of several CPUs.
pub const QUANTUM: u32 = 1000;

/// Quantum of several CPUs while they wait for each other.
pub const CONTENDED_QUANTUM: u32 = 200;

/// True for one CPU, which is omitted in files.
fn is_one(cpus: &u32) -> bool {
    *cpus == 1
}

impl Default for Machine {
    fn default() -> Self {
        Machine {
            cpu: "max".into(),
            memory_mib: Machine::DEFAULT_MEMORY_MIB,
            cpus: 1,
            quantum: None,
            model: None,
        }
    }
}

/// Specification of a Kernel, with its boot line and its guest's settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// Path, `debian:…`, or source; `ktax help compare` describes the forms.
    pub kernel: String,
    /// Kernel parameters, without those that the engine adds.
    #[serde(default)]
    pub boot_line: String,
    /// Options of a source, `CONFIG_NAME=VALUE`, or paths of files with options.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config: Vec<String>,
    /// Paths of patches for a source, in the order in which they are applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<String>,
    /// Initial configuration of a source: `base`, `defconfig`, `running`, or a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_config: Option<String>,
    /// Directory of the repository with the revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// Kernel settings by their names in sysctl(8). They are written before the guest is frozen.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctl: BTreeMap<String, String>,
    /// Modules that only this Side's guest loads, each with its parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<String>,
    /// File system of this Side's files, if the Sides differ.
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

    /// Copy with the same Kernel, but without boot line and settings.
    pub fn kernel_only(&self) -> Subject {
        let Subject { kernel, config, patches, start_config, tree, .. } = self.clone();
        Subject { config, patches, start_config, tree, ..Subject::new(&kernel, "") }
    }

    /// Copy with the same guest settings, but without Kernel and boot line.
    pub fn settings_only(&self) -> Subject {
        let Subject { sysctl, modules, disk, files, setup, .. } = self.clone();
        Subject { sysctl, modules, disk, files, setup, ..Subject::default() }
    }

    /// True if the guest has settings.
    pub fn has_settings(&self) -> bool {
        self.settings_only() != Subject::default()
    }

    /// Text that distinguishes Subjects with the same `kernel`: options, patches, boot line, and
    /// the guest's settings as `key=value`.
    pub fn variant_text(&self) -> String {
        let start = self.start_config.iter().map(|start| format!("start_config={start}"));
        let words = start.chain(self.config.iter().cloned()).chain(self.patches.iter().cloned());
        let boot_line = (!self.boot_line.is_empty()).then(|| self.boot_line.clone());
        words.chain(boot_line).chain(self.settings()).collect::<Vec<_>>().join(" ")
    }

    /// Settings of the guest, each as `key=value` with the value quoted for a shell. The disk is in
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
    pub fn has_same_kernel(&self, other: &Subject) -> bool {
        self.kernel_only() == other.kernel_only()
    }

    /// Revision of a Kernel `git:REVISION`; `None` for other Kernels.
    pub fn revision(&self) -> Option<&str> {
        self.kernel.strip_prefix("git:")
    }

    /// True if a key is set that only Kernels from source can have.
    pub fn is_built_from_source(&self) -> bool {
        !self.config.is_empty()
            || !self.patches.is_empty()
            || self.start_config.is_some()
            || self.tree.is_some()
    }
}

/// Quotes a word for a shell, with control characters escaped, so that the result is one line.
fn quoted(word: &str) -> String {
    let quoted = shlex::try_quote(word).map_or_else(|_| word.to_owned(), |word| word.into_owned());
    let on_one_line = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    quoted.chars().map(on_one_line).collect()
}

/// Deterministic perturbation of a Boot. A difference between kernels must show under all Layouts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// QEMU's `-seed`. It determines RDRAND and the firmware's rng-seed, and by these the order of
    /// slab objects and stack offsets.
    pub seed: u32,
    /// Number of characters of padding on the boot line.
    pub padding: u32,
    /// Iterations of a delay loop before the Region, which shift the Region relative to the timer
    /// tick.
    pub phase: u64,
}

/// One Boot to make: a Side under a Layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Position in the Plan, from 0.
    pub index: u32,
    pub side: Side,
    /// Index into the Plan's Layouts. Two Steps with one Layout are a pair.
    pub layout: usize,
}

impl Step {
    /// Directory name of the Boot: `003-change`.
    pub fn name(&self) -> String {
        format!("{:03}-{}", self.index, self.side.name())
    }
}

/// Splits a module with parameters, such as `zram num_devices=2`, into name and parameters.
pub fn module_and_parameters(module: &str) -> (&str, &str) {
    module.split_once(' ').unwrap_or((module, ""))
}

/// Conditions of measurement. Only counts with the same Key can be compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Name of the engine: `exact`.
    pub engine: String,
    /// QEMU's version as `--version` prints it, with the distribution's suffix.
    pub qemu: String,
    /// QEMU's machine type without a version.
    #[serde(rename = "machine")]
    pub machine_type: String,
    #[serde(flatten)]
    pub machine: Machine,
    /// SHA-256 over ktax's guest programs and the plugin.
    pub guest: String,
    /// SHA-256 of each archive with programs of the user, joined by `+`; empty without archives.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub programs: String,
    /// Kernel modules that are loaded, each with its parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<String>,
}

impl Key {
    /// Modules without those that `disk` needs: the modules that the user asked for.
    pub fn asked_modules(&self, disk: Option<&Disk>) -> Vec<String> {
        let implied = Disk::with_modules(disk, &[]);
        self.modules.iter().filter(|module| !implied.contains(module)).cloned().collect()
    }
}

/// Identity of a Kernel. At least one of release and build-id is set.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// `debian:NAME=VERSION`, or the absolute path of the file. Both are specifications of a
    /// kernel.
    pub source: String,
    /// SHA-256 of the image, in lower-case hexadecimal.
    pub sha256: String,
    /// Release, as `uname -r` prints it, from the setup header of a bzImage or the banner of a
    /// vmlinux.
    pub release: Option<String>,
    /// Date of the kernel's package, `2026-01-31`, from the image. Absent for images without a
    /// date, such as kernels that ktax builds, and in plans of older releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package_date: Option<String>,
    /// GNU build-id of a vmlinux, in lower-case hexadecimal; absent for a bzImage.
    pub build_id: Option<String>,
    /// SHA-256 of the config that came with the image, in lower-case hexadecimal.
    pub config_sha256: Option<String>,
    pub arch: Arch,
    pub format: ImageFormat,
}

/// Format of an image, which determines how QEMU starts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ImageFormat {
    /// Compressed image with a setup header, as `make bzImage` builds.
    BzImage,
    /// Uncompressed ELF file with a PVH entry point.
    Vmlinux,
    /// Raw memory image: the `Image` of arm64 and riscv64.
    Image,
}

named_enum! {
    /// Architecture of an image.
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
    /// Name for people: the release, else the build-id, else the hash of the image.
    pub fn name(&self) -> &str {
        self.release.as_deref().or(self.build_id.as_deref()).unwrap_or(&self.sha256)
    }
}

/// File system in the guest's memory with the files of workloads and programs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// `ext4`, `xfs`, `btrfs`, `f2fs`, or `overlay` on tmpfs.
    pub fs: String,
    /// Size in MiB. Memory is allocated when data are written.
    pub mib: u32,
    /// Mount options, separated by commas.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub options: String,
    /// Additional options for mkfs, in shell syntax: `-O ^metadata_csum`.
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
        if *mib != Disk::DEFAULT_MIB {
            write!(f, " mib={mib}")?;
        }
        for (key, value) in [("options", options), ("mkfs", mkfs)] {
            if !value.is_empty() {
                write!(f, " {key}={}", shlex::try_quote(value).unwrap_or_default())?;
            }
        }
        if !device.is_default() {
            write!(f, " device={}", device.name())?;
        }
        if *latency_us > 0 {
            write!(f, " latency_us={latency_us}")?;
        }
        Ok(())
    }
}

named_enum! {
    /// Drivers of block devices in the guest's memory.
    #[derive(Default)]
    pub enum BlockDevice {
        /// RAM disk.
        #[default]
        Brd = "brd",
        /// Device with queues and an optional latency.
        NullBlk = "null_blk",
        /// Device that compresses its data.
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

    fn is_default(&self) -> bool {
        *self == BlockDevice::Brd
    }
}

impl Disk {
    /// Value of `fs` for an overlay on tmpfs, which has no device.
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
            // zram uses the compressor lzo-rle, which is a separate module.
            BlockDevice::Zram => &["lzo-rle", "zram num_devices=1"],
        };
        modules.iter().map(|module| (*module).to_owned()).collect()
    }

    /// Modules of a disk, if there is one, then those of `more` that are not among them.
    pub fn with_modules(disk: Option<&Disk>, more: &[String]) -> Vec<String> {
        let mut modules: Vec<String> = disk.map_or_else(Vec::new, Disk::all_modules);
        let new: Vec<String> =
            more.iter().filter(|name| !modules.contains(name)).cloned().collect();
        modules.extend(new);
        modules
    }

    /// Modules of the driver, then of the file system, each with its parameters.
    pub fn all_modules(&self) -> Vec<String> {
        self.modules().into_iter().chain([self.fs.clone()]).collect()
    }

    /// Writes that create the device, in order: path of a file in the guest, and text. A path with
    /// an empty text is a directory to create.
    pub fn settings(&self) -> Vec<(String, String)> {
        const NULL_BLK: &str = "/sys/kernel/config/nullb/nullb0";
        let null = |name: &str, value: String| (format!("{NULL_BLK}/{name}"), value);
        match self.device {
            BlockDevice::Brd => Vec::new(),
            BlockDevice::Zram => {
                vec![("/sys/block/zram0/disksize".to_owned(), format!("{}M", self.mib))]
            }
            BlockDevice::NullBlk => {
                let mut settings = vec![
                    (NULL_BLK.to_owned(), String::new()),
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

    /// Default size in MiB.
    pub const DEFAULT_MIB: u32 = 320;
}

/// Splits a boot line into its parameters, with their quotes. A space within quotes does not split.
pub fn boot_parameters(line: &str) -> Vec<&str> {
    let mut is_quoted = false;
    let parts = line.split(move |c: char| {
        is_quoted ^= c == '"';
        matches!(c, ' ' | '\t'..='\r') && !is_quoted
    });
    parts.filter(|parameter| !parameter.is_empty()).collect()
}

/// Removes the quotes of a parameter as the kernel does: `a="x y"` becomes `a=x y`.
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

    /// Reference implementation of the kernel's `next_arg`: the first parameter of a line without
    /// its quotes, and the rest of the line.
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
        let unquoted = match equals {
            0 => args[..end].to_vec(),
            _ => [&args[..=equals], args.get(value..end).unwrap_or_default()].concat(),
        };
        let rest = &args[i..];
        let blanks = rest.iter().take_while(|byte| is_space(**byte)).count();
        (unquoted, &rest[blanks..])
    }

    #[test]
    fn a_quoted_space_does_not_split() {
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
        fn boot_lines_are_parsed_as_by_the_kernel(line in r#"[ab="\t .-]{0,24}"#) {
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
