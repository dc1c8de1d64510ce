use serde::{Deserialize, Serialize};

/// A file system in the guest's memory, on which workloads and programs have their files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Its type: `ext4`, `xfs` or `btrfs`.
    pub fs: String,
    /// Its size in MiB; memory is taken only for what is written.
    pub mib: u32,
    /// Mount options, separated by commas.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub options: String,
}

impl Disk {
    /// Its size unless another one is asked for.
    pub const USUAL_MIB: u32 = 320;
}
