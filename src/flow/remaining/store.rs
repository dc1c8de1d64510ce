//! What earlier runs taught, in the state directory. It only makes estimates better: without it, or
//! where it cannot be kept, everything else is the same.

use std::path::PathBuf;

use super::rates::Rates;
use crate::disk::{read_own_text, write_atomically};
use crate::engine::host::journal::state_dir;

/// More rows than anybody has; a file beyond that begins anew.
const RUNS_MAX: usize = 4096;

/// The file may not be larger.
const BYTES_MAX: u64 = 1 << 20;

/// The state directory; of an ordinary user one of their own, unless another is named.
fn path() -> Option<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let is_named = std::env::var_os("KTAX_STATE").is_some_and(|named| !named.is_empty());
    let dir = match is_named || rustix::process::geteuid().is_root() {
        true => Some(state_dir()),
        false => absolute("XDG_STATE_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
            .map(|state| state.join("ktax")),
    };
    dir.map(|dir| dir.join("rates.json"))
}

/// What is known; nothing where there is no file, or none of this ktax.
pub fn learned() -> Rates {
    let text = path().and_then(|path| read_own_text(&path, BYTES_MAX).ok());
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// Keeps it, beside what other runs learned in the meantime.
pub fn learn(new: &Rates) {
    let mut all = learned();
    all.boots.extend(new.boots.clone());
    all.tasks.extend(new.tasks.clone());
    if all.runs.len() > RUNS_MAX {
        all.runs.clear();
    }
    all.runs.extend(new.runs.clone());
    let Some((path, text)) = path().zip(serde_json::to_string(&all).ok()) else { return };
    if let Some(dir) = path.parent() {
        let _ = std::fs::create_dir_all(dir);
    }
    let _ = write_atomically(&path, text.as_bytes());
}
