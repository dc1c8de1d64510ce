use std::fmt;

use serde::{Deserialize, Serialize};

/// A file system in the guest's memory, on which workloads and programs have their files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Its type: `ext4`, `xfs`, `btrfs` or `f2fs`; or `overlay`, which lies on tmpfs.
    pub fs: String,
    /// Its size in MiB; memory is taken only for what is written.
    pub mib: u32,
    /// Mount options, separated by commas.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub options: String,
    /// More options of the program that makes it, as a shell takes them: `-O ^metadata_csum`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mkfs: String,
    /// What it lies on.
    #[serde(default, skip_serializing_if = "BlockDevice::is_usual")]
    pub device: BlockDevice,
    /// Microseconds of the guest's clock that each request takes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub latency_us: u32,
}

/// The words that `--disk` takes: the type, then `KEY=VALUE` for each key that is not as usual.
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

/// A block device in the guest's memory, by the name of its driver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockDevice {
    /// A RAM disk.
    #[default]
    Brd,
    /// One with queues and, if asked for, a latency.
    NullBlk,
    /// One that compresses.
    Zram,
}

impl BlockDevice {
    /// All of them.
    pub const ALL: [BlockDevice; 3] = [BlockDevice::Brd, BlockDevice::NullBlk, BlockDevice::Zram];

    /// Its file in the guest.
    pub fn path(self) -> &'static str {
        match self {
            BlockDevice::Brd => "/dev/ram0",
            BlockDevice::NullBlk => "/dev/nullb0",
            BlockDevice::Zram => "/dev/zram0",
        }
    }

    /// Its driver.
    pub fn name(self) -> &'static str {
        match self {
            BlockDevice::Brd => "brd",
            BlockDevice::NullBlk => "null_blk",
            BlockDevice::Zram => "zram",
        }
    }

    fn is_usual(&self) -> bool {
        *self == BlockDevice::Brd
    }
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

impl Disk {
    /// The type that lies on tmpfs and no device.
    pub const OVERLAY: &str = "overlay";

    /// The driver's modules, each with its parameters.
    pub fn modules(&self) -> Vec<String> {
        if self.fs == Disk::OVERLAY {
            return Vec::new();
        }
        let kib = u64::from(self.mib) << 10;
        let all: &[&str] = match self.device {
            BlockDevice::Brd => &[&format!("brd rd_nr=1 max_part=0 rd_size={kib}")],
            BlockDevice::NullBlk => &["null_blk nr_devices=0"],
            // It asks for its compressor by another name than that of the module.
            BlockDevice::Zram => &["lzo-rle", "zram num_devices=1"],
        };
        all.iter().map(|module| (*module).to_owned()).collect()
    }

    /// The modules of a disk, if there is one, then more, each once.
    pub fn with_modules(disk: Option<&Disk>, more: &[String]) -> Vec<String> {
        let mut all: Vec<String> = disk.map_or_else(Vec::new, Disk::all_modules);
        let new: Vec<String> = more.iter().filter(|name| !all.contains(name)).cloned().collect();
        all.extend(new);
        all
    }

    /// The modules of the driver and of the file system.
    pub fn all_modules(&self) -> Vec<String> {
        self.modules().into_iter().chain([self.fs.clone()]).collect()
    }

    /// What makes the device: files of the guest and what is written to each, in this order; a
    /// directory has nothing.
    pub fn settings(&self) -> Vec<(String, String)> {
        const NULL: &str = "/sys/kernel/config/nullb/nullb0";
        let null = |name: &str, value: String| (format!("{NULL}/{name}"), value);
        match self.device {
            BlockDevice::Brd => Vec::new(),
            BlockDevice::Zram => {
                vec![("/sys/block/zram0/disksize".to_owned(), format!("{}M", self.mib))]
            }
            BlockDevice::NullBlk => {
                let mut all = vec![
                    (NULL.to_owned(), String::new()),
                    null("size", self.mib.to_string()),
                    null("memory_backed", "1".to_owned()),
                ];
                if self.latency_us > 0 {
                    let nanoseconds = u64::from(self.latency_us) * 1000;
                    all.push(null("irqmode", "2".to_owned()));
                    all.push(null("completion_nsec", nanoseconds.to_string()));
                }
                all.push(null("power", "1".to_owned()));
                all
            }
        }
    }

    /// Its size unless another one is asked for.
    pub const USUAL_MIB: u32 = 320;
}
