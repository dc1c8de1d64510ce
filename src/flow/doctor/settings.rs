//! What a ktax that was killed has left changed.

use super::finding::{Check, bad, good};
use crate::engine::host::journal::Replayed;
use crate::engine::host::journal::{self, Look};
use crate::flow::error::Error;

pub(super) fn look() -> Check {
    let dir = journal::state_dir();
    match journal::look(&dir) {
        Ok(Look::Nothing) => good("settings", "no setting of this machine is left changed".into()),
        Ok(Look::InUse) => {
            good("settings", "a running ktax changes them, and will restore them".into())
        }
        Ok(Look::Left) => {
            let found = format!("left changed by a killed ktax; the journal is in {dir:?}");
            // sudo keeps no variable that it is not asked to keep.
            let fix = match std::env::var_os("KTAX_STATE") {
                None => "sudo ktax doctor --restore",
                Some(_) => "sudo --preserve-env=KTAX_STATE ktax doctor --restore",
            };
            bad("settings", found, fix)
        }
        Err(error) => bad(
            "settings",
            error.to_string(),
            "set KTAX_STATE to a directory that only you can write",
        ),
    }
}

/// Restores the settings that a killed ktax left changed.
///
/// # Errors
/// Another ktax changes settings, or one cannot be restored.
pub fn restore() -> Result<Replayed, Error> {
    Ok(journal::replay(&journal::state_dir())?)
}
