use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::store::Store;

/// The store of a session.
#[derive(Debug, Clone)]
pub struct UsedStore {
    /// Where it is.
    pub store: Store,
    /// Of what it has, so many percent are measured again and have to come out the same.
    pub verify_percent: f64,
    /// Whether it was said that it cannot be used.
    is_said: Arc<AtomicBool>,
}

impl UsedStore {
    /// The store in a directory, which need not exist yet.
    pub fn new(root: PathBuf, verify_percent: f64) -> UsedStore {
        let is_said = Arc::default();
        UsedStore { store: Store::new(root), verify_percent, is_said }
    }

    /// Whether that it cannot be used is said now for the first time.
    pub(super) fn is_news(&self) -> bool {
        !self.is_said.swap(true, Ordering::Relaxed)
    }
}

/// The store's directory: as named, else that of `KTAX_STORE`, else below that of the user. `None`
/// where `KTAX_STORE` is empty, or the user has no directory.
pub fn store_directory(named: Option<&Path>) -> Option<PathBuf> {
    let from = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    match (named, std::env::var_os("KTAX_STORE")) {
        (Some(named), _) => std::path::absolute(named).ok(),
        (None, Some(of_environment)) if of_environment.is_empty() => None,
        (None, Some(of_environment)) => std::path::absolute(of_environment).ok(),
        (None, None) => from("XDG_DATA_HOME")
            .or_else(|| from("HOME").map(|home| home.join(".local/share")))
            .map(|data| data.join("ktax/store")),
    }
}
