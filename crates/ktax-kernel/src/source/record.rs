//! The cache's records of builds, by key.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::cache::{Cache, Kernel};
use crate::error::KernelError;
use ktax_host::disk::is_sha256;
use ktax_host::disk::read_own;

const RECORD_MAX: u64 = 4 << 10;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    image_sha256: String,
    config_sha256: String,
}

fn path(cache: &Cache<'_>, key: &str) -> PathBuf {
    cache.builds().join("by-recipe").join(format!("{key}.json"))
}

/// The Kernel that was built under this key, if the cache has it whole.
pub(super) fn find(
    cache: &Cache<'_>,
    key: &str,
    source: &str,
) -> Result<Option<Kernel>, KernelError> {
    let bytes = read_own(&path(cache, key), RECORD_MAX).unwrap_or_default();
    let Ok(record) = serde_json::from_slice::<Record>(&bytes) else { return Ok(None) };
    if !is_sha256(&record.image_sha256) || !is_sha256(&record.config_sha256) {
        return Ok(None);
    }
    cache.find(&record.image_sha256, Some(&record.config_sha256), source)
}

/// Writes a record, so that [`find`] finds it.
pub(super) fn remember(cache: &Cache<'_>, key: &str, kernel: &Kernel) -> Result<(), KernelError> {
    let record = Record {
        image_sha256: kernel.identity.sha256.clone(),
        config_sha256: kernel.identity.config_sha256.clone().unwrap_or_default(),
    };
    cache.write_json(&path(cache, key), &record)
}
