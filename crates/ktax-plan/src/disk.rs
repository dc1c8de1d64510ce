//! The disk of a guest: a file system on a block device in memory.

use serde::Deserialize;

use super::error::{Error, printable_line, range};
use ktax_model::{BlockDevice, Disk, UserProgram};

/// File systems that can be made, and their smallest sizes in MiB.
const KNOWN: [(&str, u32); 5] =
    [("ext4", 16), ("xfs", 300), ("btrfs", 128), ("f2fs", 64), (Disk::OVERLAY, 16)];
/// File system of files without a disk.
const MEMORY: &str = "tmpfs";
const MOST_MIB: u32 = 65536;
const MOST_LATENCY_US: u32 = 1_000_000;

/// UUID that makes a file system the same each time.
const UUID: &str = "6b746178-0000-4000-8000-000000000001";
/// 2020-01-01, the guest's own date.
const EPOCH: &str = "1577836800";

/// Keys of a disk in a file or on the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DiskKeys {
    /// Type of the file system.
    pub fs: String,
    pub mib: Option<u32>,
    /// Mount options, separated by commas.
    pub options: String,
    /// More options for mkfs, as a shell takes them.
    pub mkfs: String,
    /// Block device below the file system: `brd`, `null_blk` or `zram`.
    pub device: BlockDevice,
    /// Latency of each request in microseconds, for `null_blk`.
    pub latency_us: Option<u32>,
}

impl DiskKeys {
    /// Parses the value of `--disk`: `ext4`, or `ext4 mib=64 options=noatime`, split like a shell
    /// splits it.
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
                    let known = |device: &BlockDevice| device.name() == value;
                    let found = BlockDevice::ALL.into_iter().find(known);
                    let unknown = || refuse("device must be brd, null_blk or zram");
                    keys.device = found.ok_or_else(unknown)?;
                }
                _ => {
                    let known = "mib, options, mkfs, device and latency_us";
                    return Err(refuse(&format!("{word:?} is none of its keys, {known}")));
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

/// Checked disk; `None` for `tmpfs`, where files are in memory.
pub(super) fn checked_disk(keys: &DiskKeys) -> Result<Option<Disk>, Error> {
    if *keys == (DiskKeys { fs: MEMORY.into(), ..DiskKeys::default() }) {
        return Ok(None);
    }
    let DiskKeys { fs, mib, options, mkfs, device, latency_us } = keys.clone();
    let known = KNOWN.iter().find(|(name, _)| *name == fs);
    let (_, least) = known.ok_or_else(|| {
        Error::user(format!("a guest cannot have the file system {fs:?}"))
            .next("choose ext4, xfs, btrfs, f2fs, overlay or tmpfs")
    })?;
    let mib = mib.unwrap_or(Disk::USUAL_MIB);
    range("disk.mib", mib, *least..=MOST_MIB)?;
    printable_line("--disk (disk.options)", &options)?;
    printable_line("--disk (disk.mkfs)", &mkfs)?;
    if shlex::split(&mkfs).is_none() {
        return Err(disk_error(&mkfs, "a quote in mkfs is not closed"));
    }
    let latency_us = latency_us.unwrap_or(0);
    range("disk.latency_us", latency_us, 0..=MOST_LATENCY_US)?;
    let has_device = device != BlockDevice::default() || latency_us > 0 || !mkfs.is_empty();
    if fs == Disk::OVERLAY && has_device {
        let reason = "an overlay lies on tmpfs; remove mkfs, device and latency_us";
        return Err(disk_error(&fs, reason));
    }
    match latency_us > 0 && device != BlockDevice::NullBlk {
        true => {
            Err(Error::user("disk.latency_us is of null_blk alone")
                .next("write device = \"null_blk\""))
        }
        false => Ok(Some(Disk { fs, mib, options, mkfs, device, latency_us })),
    }
}

/// Program that makes the file system; `None` for an overlay, which is only mounted.
pub fn mkfs(disk: &Disk) -> Option<UserProgram> {
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
        "f2fs" => &["-q", "-f", "-t", "0", "-U", UUID, "-T", EPOCH],
        _ => &["-q", "-f", "-K", "-U", UUID],
    };
    let options = options.iter().copied().map(str::to_owned);
    let more = shlex::split(&disk.mkfs).unwrap_or_default();
    let command = [program.clone()].into_iter().chain(options).chain(more);
    Some(UserProgram {
        name: program,
        command: command.chain([disk.device.path().to_owned()]).collect(),
        env: vec![format!("E2FSPROGS_FAKE_TIME={EPOCH}"), format!("SOURCE_DATE_EPOCH={EPOCH}")],
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
    fn a_disk_is_of_a_known_kind_and_brings_its_modules() {
        let xfs = checked_disk(&keys("xfs", None)).unwrap().unwrap();
        let modules = Disk::with_modules(Some(&xfs), &["xfs".into(), "nf_tables".into()]);
        assert_eq!(modules[1..], ["xfs", "nf_tables"]);
        assert!(modules[0].starts_with("brd ") && modules[0].ends_with("rd_size=327680"));
        assert!(is_refused(&keys("ext5", None), "cannot have the file system"));
        assert!(is_refused(&keys("xfs", Some(64)), "must be 300 to"));
        assert_eq!(mkfs(&xfs).unwrap().command.last().unwrap(), "/dev/ram0");
        let slow = DiskKeys { latency_us: Some(80), ..keys("ext4", None) };
        assert!(is_refused(&slow, "of null_blk alone"));
        let slow = DiskKeys { device: BlockDevice::NullBlk, ..slow };
        let settings = checked_disk(&slow).unwrap().unwrap().settings();
        assert!(
            settings
                .iter()
                .any(|setting| setting.0.ends_with("completion_nsec") && setting.1 == "80000")
        );
        assert_eq!(checked_disk(&keys("tmpfs", None)).unwrap(), None);
        let overlay = checked_disk(&keys("overlay", None)).unwrap().unwrap();
        assert_eq!((mkfs(&overlay), overlay.all_modules()), (None, vec!["overlay".to_owned()]));
        let on_device = DiskKeys { device: BlockDevice::Zram, ..keys("overlay", None) };
        assert!(is_refused(&on_device, "lies on tmpfs"));
        assert_eq!(
            mkfs(&checked_disk(&keys("f2fs", None)).unwrap().unwrap()).unwrap().name,
            "mkfs.f2fs"
        );
    }

    #[test]
    fn options_of_mkfs_stand_before_the_device() {
        let plain = DiskKeys { mkfs: "-O '^metadata_csum'".into(), ..keys("ext4", None) };
        let command = mkfs(&checked_disk(&plain).unwrap().unwrap()).unwrap().command;
        assert_eq!(command[command.len() - 3..], ["-O", "^metadata_csum", "/dev/ram0"]);
        let open = DiskKeys { mkfs: "-O '".into(), ..plain };
        assert!(is_refused(&open, "is not closed"));
    }

    proptest! {
        #[test]
        fn what_a_disk_prints_is_parsed_as_the_same_disk(
            fs in prop::sample::select(vec!["ext4", "xfs", "btrfs"]),
            mib in 300_u32..70000,
            (options, mkfs) in ("[ -~]{0,20}", "[a-z ^=,-]{0,20}"),
            device in prop::sample::select(BlockDevice::ALL.to_vec()),
            latency_us in prop::option::of(0_u32..2_000_000),
        ) {
            let fs = fs.to_owned();
            let asked = DiskKeys { fs, mib: Some(mib), options, mkfs, device, latency_us };
            if let Ok(Some(checked)) = checked_disk(&asked) {
                let parsed = DiskKeys::parse(&checked.to_string()).unwrap();
                prop_assert_eq!(checked_disk(&parsed).unwrap(), Some(checked));
            }
        }

        #[test]
        fn whatever_is_typed_is_parsed_or_refused(text in "\\PC{0,60}") {
            drop(DiskKeys::parse(&text));
        }
    }
}
