//! Keys of experiment files and of the command line, and the file systems that they ask for.

use std::collections::{BTreeMap, BTreeSet};

use ktax_engine::EngineEntry;
use ktax_host::text::{escape_lines, shell_path};
use ktax_model::{BlockDevice, Disk, HostKind, Subject, TimedSubject, UserProgram};
use serde::{Deserialize, Serialize};

use crate::experiment::{Error, check_printable_line};
use crate::keys::{MachineKeys, check_range};
use crate::program::ProgramKeys;
use crate::workloads::{Definition, ParamValue};

/// Keys of an experiment, ledger or campaign file, or of the command line. Absent keys have
/// defaults.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExperimentFile {
    /// Title in one line.
    pub title: Option<String>,
    /// Purpose of the experiment, for readers of the file.
    pub why: String,
    /// Engine that runs the Subjects.
    #[serde(skip_serializing)]
    pub engine: Option<&'static EngineEntry>,
    /// Guests: the kind of KVM host that they run on.
    pub host: Option<HostKind>,
    /// Random seed for the Layouts, or for the order of the pairs.
    pub seed: Option<u64>,
    /// A change below this many percent gets no verdict.
    pub threshold_percent: Option<f64>,
    /// True if the Sides may be the same, which measures noise.
    pub same: Option<bool>,
    /// Rows by name.
    pub workloads: Option<Vec<String>>,
    /// Directory with additional workloads of the user.
    pub workloads_from: Option<String>,
    /// Workloads that the files in the directory `workloads_from` define; set after parsing.
    #[serde(skip)]
    pub definitions: Vec<Definition>,
    /// Names of the rows of all programs in the file, if some programs were chosen.
    #[serde(skip)]
    pub all_programs: BTreeSet<String>,
    /// Modules that each guest loads, with their parameters.
    pub modules: Vec<String>,
    /// A file system for the guest's files.
    pub disk: Option<DiskKeys>,
    /// Programs of the user; each program is a row.
    pub program: Vec<ProgramKeys>,
    /// Commands that run with the rows that are not programs.
    pub hooks: Option<ProgramKeys>,
    /// Layouts per Side.
    pub layouts: Option<u32>,
    /// Fixed number of pairs, which are judged once; by default a pilot determines the number, and
    /// the pairs are judged five times.
    pub pairs: Option<u32>,
    pub most_pairs: Option<u32>,
    /// Number of times that each row runs in a Boot.
    pub loops: Option<u32>,
    /// True to continue, with a warning, if the Sides differ in more than was declared.
    pub allow_differences: Option<bool>,
    /// Rows that are measured, but do not count for the exit status.
    pub secondary: Vec<String>,
    /// Values by name: a row for each value of a workload's parameter, a run for each value of a
    /// setting.
    pub sweep: BTreeMap<String, Vec<ParamValue>>,
    /// Guests: kernel of the host; by default the kernel that its kind of host has in ktax.
    pub host_kernel: Option<String>,
    /// Guests: options of the host's kernel, from source.
    pub host_config: Vec<String>,
    /// Guests: paths of patches for the host's kernel, from source.
    pub host_patches: Vec<String>,
    /// Machine of both Sides.
    pub machine: MachineKeys,
    pub base: SubjectKeys,
    pub change: Option<SubjectKeys>,
    /// Ledgers: additions to the base, one at a time.
    pub add: Vec<Addition>,
    /// Campaigns: Subjects, each compared with the one before it.
    pub subjects: Vec<SubjectKeys>,
    /// Campaigns: timed experiments, by the names or paths of their files.
    pub timed: Vec<String>,
}

/// An addition to the base of a ledger.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Addition {
    pub name: String,
    /// Parameters that are appended to the base's boot line.
    #[serde(default)]
    pub boot_line: String,
    /// Options that are appended to the base's options, for a Kernel from source.
    #[serde(default)]
    pub config: Vec<String>,
    /// Patches that are applied after the base's patches, for a Kernel from source.
    #[serde(default)]
    pub patches: Vec<String>,
    /// Guests of a KVM host: features of KVM that the base lacks.
    #[serde(default, rename = "with")]
    pub features: Vec<String>,
    /// Kernel settings that replace the base's, by their names in sysctl(8).
    #[serde(default)]
    pub sysctl: BTreeMap<String, String>,
    /// Modules that are loaded after the base's modules, with their parameters.
    #[serde(default)]
    pub modules: Vec<String>,
    /// Files in addition to the base's files, `PATH` or `PATH:AT`.
    #[serde(default)]
    pub files: Vec<String>,
    /// Shell commands that follow the base's commands. They run once in the guest before it is
    /// frozen.
    #[serde(default)]
    pub setup: Option<String>,
}

/// Kernel and settings of a Side.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct SubjectKeys {
    /// A path, `debian:…`, or source. On the running kernel: a word for the kernel that the user
    /// boots.
    pub kernel: Option<String>,
    /// Kernel parameters.
    pub boot_line: Option<String>,
    /// Kernels from source: options, `CONFIG_NAME=VALUE`, or paths of files with options.
    pub config: Vec<String>,
    /// Kernels from source: paths of patches, in their order.
    pub patches: Vec<String>,
    /// Kernels from source: start configuration.
    pub start_config: Option<String>,
    /// Kernels from a revision: the directory of the repository.
    pub tree: Option<String>,
    /// True if the base is this machine itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub bare_metal: bool,
    /// On the running kernel, or in a counted guest: values of kernel settings, by their names in
    /// sysctl(8).
    pub sysctl: BTreeMap<String, String>,
    /// On the running kernel: transparent huge pages.
    pub thp: Option<String>,
    /// On the running kernel: frequency governor of all CPUs.
    pub governor: Option<String>,
    /// On the running kernel: the command that runs each loop.
    pub prefix: Vec<String>,
    /// Guests of a KVM host: features of KVM that are hidden from the guests.
    pub without: Vec<String>,
    /// Guests of a KVM host: number of vCPUs.
    pub cpus: Option<u8>,
    /// Guests of a KVM host: memory in MiB.
    pub memory_mib: Option<u32>,
    /// Modules that only this Side's guest loads, with their parameters.
    pub modules: Vec<String>,
    /// A file system for this Side's files.
    pub disk: Option<DiskKeys>,
    /// Files for this Side's programs and commands, `PATH` or `PATH:AT`.
    pub files: Vec<String>,
    /// Shell commands that run once in this Side's guest, before it is frozen.
    pub setup: Option<String>,
}

impl ExperimentFile {
    /// Parses an experiment file; `path` is for messages. Fails for a ledger or a campaign, and if
    /// a key is unknown or the title is missing.
    pub fn parse(text: &str, path: &str) -> Result<ExperimentFile, Error> {
        let file = ExperimentFile::read(text).map_err(|reason| {
            Error::user(format!(
                "{path} is not an experiment file: {reason}. `ktax compare --help` shows one"
            ))
        })?;
        if !file.add.is_empty() {
            return Err(Error::user(format!(
                "{path} is a ledger: it has additions. Run it with `ktax ledger {}`",
                shell_path(path)
            )));
        }
        match file.is_campaign() {
            true => Err(Error::user(format!(
                "{path} is a campaign: it has subjects. Plan it with `ktax campaign plan {}`",
                shell_path(path)
            ))),
            false => Ok(file),
        }
    }

    /// Returns true if the file has keys that only a campaign has.
    pub(super) fn is_campaign(&self) -> bool {
        !self.subjects.is_empty() || !self.timed.is_empty()
    }

    /// Parses an experiment, a ledger or a campaign file.
    pub(super) fn read(text: &str) -> Result<ExperimentFile, String> {
        let file: ExperimentFile =
            toml::from_str(text).map_err(|error| escape_lines(error.to_string().trim_end()))?;
        match file.title {
            Some(_) => Ok(file),
            None => Err("the title is missing".into()),
        }
    }

    /// Keys of the change; created if missing.
    pub fn change_mut(&mut self) -> &mut SubjectKeys {
        self.change.get_or_insert_default()
    }
}

impl SubjectKeys {
    /// Subject of these keys; `None` without a kernel.
    pub(super) fn subject(&self) -> Option<Subject> {
        self.kernel.as_ref().map(|kernel| self.subject_with(kernel))
    }

    /// Subject of these keys, with `default_kernel` if no kernel is named; `None` if no key is
    /// about a kernel.
    pub(super) fn subject_or(&self, default_kernel: &str) -> Option<Subject> {
        let is_built = !self.config.is_empty() || !self.patches.is_empty();
        let has_kernel_keys = is_built || self.boot_line.is_some() || self.kernel.is_some();
        has_kernel_keys.then(|| self.subject_with(self.kernel.as_deref().unwrap_or(default_kernel)))
    }

    /// Subject of these keys in timed experiments.
    pub(super) fn timed_subject(&self) -> TimedSubject {
        let SubjectKeys { kernel, bare_metal, sysctl, thp, governor, prefix, .. } = self.clone();
        let boot_line = self.boot_line.clone().unwrap_or_default();
        TimedSubject { kernel, bare_metal, boot_line, sysctl, thp, governor, prefix }
    }

    /// Subject of these keys with this kernel. The disk is left out, because it is not checked yet.
    pub(super) fn subject_with(&self, kernel: &str) -> Subject {
        let keys = self.clone();
        Subject {
            boot_line: keys.boot_line.unwrap_or_default(),
            config: keys.config,
            patches: keys.patches,
            start_config: keys.start_config,
            tree: keys.tree,
            sysctl: keys.sysctl,
            modules: keys.modules,
            files: keys.files,
            setup: keys.setup,
            ..Subject::new(kernel, "")
        }
    }
}

/// Supported file systems, and their minimum sizes in MiB.
const FILE_SYSTEMS: [(&str, u32); 5] =
    [("ext4", 16), ("xfs", 300), ("btrfs", 128), ("f2fs", 64), (Disk::OVERLAY, 16)];
/// File system of guests without a disk.
const TMPFS: &str = "tmpfs";
const MAX_MIB: u32 = 65536;
const MAX_LATENCY_US: u32 = 1_000_000;

/// UUID of the made file systems: a fixed UUID makes them identical each time.
const UUID: &str = "6b746178-0000-4000-8000-000000000001";
/// Seconds of 2020-01-01, the date of the guest's clock.
const GUEST_DATE: &str = "1577836800";

/// Keys of a disk in a file or on the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct DiskKeys {
    /// Type of the file system.
    pub fs: String,
    pub mib: Option<u32>,
    /// Mount options, separated by commas.
    pub options: String,
    /// Additional options of mkfs, quoted as in a shell.
    pub mkfs: String,
    /// Block device below the file system: `brd`, `null_blk` or `zram`.
    pub device: BlockDevice,
    /// Latency of each request in microseconds, for `null_blk`.
    pub latency_us: Option<u32>,
}

impl DiskKeys {
    /// Parses the value of `--disk`: `ext4`, or `ext4 mib=64 options=noatime`. Splits the words as
    /// a shell does.
    pub fn parse(text: &str) -> Result<DiskKeys, Error> {
        let refuse = |reason: &str| disk_error(text, reason);
        let words = shlex::split(text).ok_or_else(|| refuse("a quote is not closed"))?;
        let mut words = words.into_iter();
        let mut keys = DiskKeys { fs: words.next().unwrap_or_default(), ..DiskKeys::default() };
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((&word, ""));
            let number = || value.parse().map_err(|_| refuse(&format!("{key} needs a number")));
            match key {
                "mib" => keys.mib = Some(number()?),
                "options" => keys.options = value.to_owned(),
                "mkfs" => keys.mkfs = value.to_owned(),
                "latency_us" => keys.latency_us = Some(number()?),
                "device" => {
                    let is_named = |device: &BlockDevice| device.name() == value;
                    let device = BlockDevice::ALL.into_iter().find(is_named);
                    let unknown = || refuse("device must be brd, null_blk or zram");
                    keys.device = device.ok_or_else(unknown)?;
                }
                _ => {
                    let names = "mib, options, mkfs, device and latency_us";
                    return Err(refuse(&format!(
                        "{word:?} is not a key of a disk; its keys are {names}"
                    )));
                }
            }
        }
        Ok(keys)
    }
}

fn disk_error(text: &str, reason: &str) -> Error {
    Error::user(format!("the disk {text:?} cannot be made: {reason}"))
        .next("write it like --disk 'ext4 options=noatime'")
}

/// Checks the keys of a disk. Returns `None` for `tmpfs`, which needs no disk.
pub(super) fn checked_disk(keys: &DiskKeys) -> Result<Option<Disk>, Error> {
    if *keys == (DiskKeys { fs: TMPFS.into(), ..DiskKeys::default() }) {
        return Ok(None);
    }
    let DiskKeys { fs, mib, options, mkfs, device, latency_us } = keys.clone();
    let file_system = FILE_SYSTEMS.iter().find(|(name, _)| *name == fs);
    let (_, min_mib) = file_system.ok_or_else(|| {
        Error::user(format!("a guest cannot have the file system {fs:?}"))
            .next("choose ext4, xfs, btrfs, f2fs, overlay or tmpfs")
    })?;
    let mib = mib.unwrap_or(Disk::DEFAULT_MIB);
    check_range("disk.mib", mib, *min_mib..=MAX_MIB)?;
    check_printable_line("--disk (disk.options)", &options)?;
    check_printable_line("--disk (disk.mkfs)", &mkfs)?;
    if shlex::split(&mkfs).is_none() {
        return Err(disk_error(&mkfs, "a quote in mkfs is not closed"));
    }
    let latency_us = latency_us.unwrap_or(0);
    check_range("disk.latency_us", latency_us, 0..=MAX_LATENCY_US)?;
    let has_device = device != BlockDevice::default() || latency_us > 0 || !mkfs.is_empty();
    if fs == Disk::OVERLAY && has_device {
        let reason = "an overlay has no block device; remove mkfs, device and latency_us";
        return Err(disk_error(&fs, reason));
    }
    match latency_us > 0 && device != BlockDevice::NullBlk {
        true => Err(Error::user("disk.latency_us only applies to null_blk")
            .next("write device = \"null_blk\"")),
        false => Ok(Some(Disk { fs, mib, options, mkfs, device, latency_us })),
    }
}

/// Program that makes the file system; `None` for an overlay, which is only mounted.
pub fn mkfs_program(disk: &Disk) -> Option<UserProgram> {
    if disk.fs == Disk::OVERLAY {
        return None;
    }
    let program = format!("mkfs.{}", disk.fs);
    let seed = format!("hash_seed={UUID},lazy_itable_init=0,nodiscard");
    let uuid = format!("uuid={UUID}");
    let options: &[&str] = match disk.fs.as_str() {
        "ext4" => &["-q", "-F", "-U", UUID, "-E", &seed],
        "xfs" => &["-q", "-f", "-K", "-m", &uuid],
        // -t 0: do not discard the device first.
        "f2fs" => &["-q", "-f", "-t", "0", "-U", UUID, "-T", GUEST_DATE],
        _ => &["-q", "-f", "-K", "-U", UUID],
    };
    let options = options.iter().copied().map(str::to_owned);
    let additional = shlex::split(&disk.mkfs).unwrap_or_default();
    let command = [program.clone()].into_iter().chain(options).chain(additional);
    Some(UserProgram {
        name: program,
        command: command.chain([disk.device.path().to_owned()]).collect(),
        env: vec![
            format!("E2FSPROGS_FAKE_TIME={GUEST_DATE}"),
            format!("SOURCE_DATE_EPOCH={GUEST_DATE}"),
        ],
        ..UserProgram::default()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(fs: &str, mib: Option<u32>) -> DiskKeys {
        DiskKeys { fs: fs.into(), mib, ..DiskKeys::default() }
    }

    fn is_refused(keys: &DiskKeys, reason: &str) -> bool {
        checked_disk(keys).unwrap_err().to_string().contains(reason)
    }

    #[test]
    fn disks_are_checked_and_load_their_modules() {
        let xfs = checked_disk(&keys("xfs", None)).unwrap().unwrap();
        let modules = Disk::with_modules(Some(&xfs), &["xfs".into(), "nf_tables".into()]);
        assert_eq!(modules[1..], ["xfs", "nf_tables"]);
        assert!(modules[0].starts_with("brd ") && modules[0].ends_with("rd_size=327680"));
        assert!(is_refused(&keys("ext5", None), "cannot have the file system"));
        assert!(is_refused(&keys("xfs", Some(64)), "must be 300 to"));
        assert_eq!(mkfs_program(&xfs).unwrap().command.last().unwrap(), "/dev/ram0");
        let slow = DiskKeys { latency_us: Some(80), ..keys("ext4", None) };
        assert!(is_refused(&slow, "only applies to null_blk"));
        let slow = DiskKeys { device: BlockDevice::NullBlk, ..slow };
        let settings = checked_disk(&slow).unwrap().unwrap().settings();
        assert!(
            settings
                .iter()
                .any(|setting| setting.0.ends_with("completion_nsec") && setting.1 == "80000")
        );
        assert_eq!(checked_disk(&keys("tmpfs", None)).unwrap(), None);
        let overlay = checked_disk(&keys("overlay", None)).unwrap().unwrap();
        assert_eq!(
            (mkfs_program(&overlay), overlay.all_modules()),
            (None, vec!["overlay".to_owned()])
        );
        let on_device = DiskKeys { device: BlockDevice::Zram, ..keys("overlay", None) };
        assert!(is_refused(&on_device, "has no block device"));
        assert_eq!(
            mkfs_program(&checked_disk(&keys("f2fs", None)).unwrap().unwrap()).unwrap().name,
            "mkfs.f2fs"
        );
    }

    #[test]
    fn options_of_mkfs_stand_before_the_device() {
        let plain = DiskKeys { mkfs: "-O '^metadata_csum'".into(), ..keys("ext4", None) };
        let command = mkfs_program(&checked_disk(&plain).unwrap().unwrap()).unwrap().command;
        assert_eq!(command[command.len() - 3..], ["-O", "^metadata_csum", "/dev/ram0"]);
        let open = DiskKeys { mkfs: "-O '".into(), ..plain };
        assert!(is_refused(&open, "is not closed"));
    }

    proptest! {
        #[test]
        fn a_printed_disk_is_parsed_as_the_same_disk(
            fs in prop::sample::select(vec!["ext4", "xfs", "btrfs"]),
            mib in 300_u32..70000,
            (options, mkfs) in ("[ -~]{0,20}", "[a-z ^=,-]{0,20}"),
            device in prop::sample::select(BlockDevice::ALL.to_vec()),
            latency_us in prop::option::of(0_u32..2_000_000),
        ) {
            let fs = fs.to_owned();
            let keys = DiskKeys { fs, mib: Some(mib), options, mkfs, device, latency_us };
            if let Ok(Some(checked)) = checked_disk(&keys) {
                let parsed = DiskKeys::parse(&checked.to_string()).unwrap();
                prop_assert_eq!(checked_disk(&parsed).unwrap(), Some(checked));
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,60}") {
            drop(DiskKeys::parse(&text));
        }
    }
}
