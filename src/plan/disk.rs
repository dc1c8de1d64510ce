//! The disk of a guest: a file system on a block device in memory.

use serde::Deserialize;

use super::error::{PlanError, printable_line};
use crate::model::{BlockDevice, Disk, UserProgram};

/// What can be made, and how large it must be at least, in MiB.
const KNOWN: [(&str, u32); 3] = [("ext4", 16), ("xfs", 300), ("btrfs", 128)];
const MOST_MIB: u32 = 65536;
const MOST_LATENCY_US: u32 = 1_000_000;

/// What makes a file system the same each time.
const UUID: &str = "6b746178-0000-4000-8000-000000000001";
/// 2020-01-01, the guest's own date.
const EPOCH: &str = "1577836800";

/// The disk as a file or the command line says it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DiskKeys {
    /// Type of the file system.
    pub fs: String,
    /// Size in MiB.
    pub mib: Option<u32>,
    /// Mount options, separated by commas.
    pub options: String,
    /// What it lies on: `brd`, `null_blk` or `zram`.
    pub device: BlockDevice,
    /// Microseconds that each request takes, of `null_blk`.
    pub latency_us: Option<u32>,
}

/// The disk, checked.
pub(super) fn disk(keys: &DiskKeys) -> Result<Disk, PlanError> {
    let DiskKeys { fs, mib, options, device, latency_us } = keys.clone();
    let known = KNOWN.iter().find(|(name, _)| *name == fs);
    let least = known.ok_or_else(|| PlanError::FileSystem { fs: fs.clone() })?.1;
    let mib = mib.unwrap_or(Disk::USUAL_MIB);
    if !(least..=MOST_MIB).contains(&mib) {
        return Err(PlanError::Range { key: "disk.mib", value: mib, least, most: MOST_MIB });
    }
    printable_line("--disk (disk.options)", &options)?;
    let latency_us = latency_us.unwrap_or(0);
    if latency_us > MOST_LATENCY_US {
        let (key, most) = ("disk.latency_us", MOST_LATENCY_US);
        return Err(PlanError::Range { key, value: latency_us, least: 0, most });
    }
    match latency_us > 0 && device != BlockDevice::NullBlk {
        true => Err(PlanError::Latency),
        false => Ok(Disk { fs, mib, options, device, latency_us }),
    }
}

/// The modules that a disk needs, before those of the user.
pub(super) fn modules(disk: Option<&Disk>, more: &[String]) -> Vec<String> {
    let of_disk = disk.into_iter().flat_map(|disk| {
        let of_device = disk.modules();
        of_device.into_iter().chain([disk.fs.clone()])
    });
    let mut all: Vec<String> = of_disk.collect();
    let new: Vec<String> = more.iter().filter(|name| !all.contains(name)).cloned().collect();
    all.extend(new);
    all
}

/// What makes the file system.
pub(crate) fn mkfs(disk: &Disk) -> UserProgram {
    let program = format!("mkfs.{}", disk.fs);
    let seed = format!("hash_seed={UUID},lazy_itable_init=0,nodiscard");
    let uuid = format!("uuid={UUID}");
    let options: &[&str] = match disk.fs.as_str() {
        "ext4" => &["-q", "-F", "-U", UUID, "-E", &seed],
        "xfs" => &["-q", "-f", "-K", "-m", &uuid],
        _ => &["-q", "-f", "-K", "-U", UUID],
    };
    let words =
        [program.as_str()].into_iter().chain(options.iter().copied()).chain([disk.device.path()]);
    UserProgram {
        name: program.clone(),
        command: words.map(str::to_owned).collect(),
        env: vec![format!("E2FSPROGS_FAKE_TIME={EPOCH}"), format!("SOURCE_DATE_EPOCH={EPOCH}")],
        ..UserProgram::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_of_a_known_kind_and_brings_its_modules() {
        let keys = |fs: &str, mib| DiskKeys { fs: fs.into(), mib, ..DiskKeys::default() };
        let xfs = disk(&keys("xfs", None)).unwrap();
        let modules = modules(Some(&xfs), &["xfs".into(), "nf_tables".into()]);
        assert_eq!(modules[1..], ["xfs", "nf_tables"]);
        assert!(modules[0].starts_with("brd ") && modules[0].ends_with("rd_size=327680"));
        assert!(matches!(disk(&keys("ext5", None)), Err(PlanError::FileSystem { .. })));
        assert!(matches!(disk(&keys("xfs", Some(64))), Err(PlanError::Range { .. })));
        assert_eq!(mkfs(&xfs).command.last().unwrap(), "/dev/ram0");
        let slow = DiskKeys { latency_us: Some(80), ..keys("ext4", None) };
        assert!(matches!(disk(&slow), Err(PlanError::Latency)));
        let slow = DiskKeys { device: BlockDevice::NullBlk, ..slow };
        let settings = disk(&slow).unwrap().settings();
        assert!(settings.iter().any(|it| it.0.ends_with("completion_nsec") && it.1 == "80000"));
    }
}
