//! What the commands that ask the store have in common.

use std::path::PathBuf;

use clap::Args;

use crate::cmd::note::note;
use crate::flow::{Error, Stored, cache_directory, store_directory};

/// Which store, and where its index is.
#[derive(Debug, Clone, Args)]
pub struct StoreArgs {
    /// Use the store in DIR [default: $XDG_DATA_HOME/ktax/store]
    #[arg(long, value_name = "DIR", help_heading = "Host")]
    pub store: Option<PathBuf>,
    /// Keep the index of the store in DIR [default: $XDG_CACHE_HOME/ktax]
    #[arg(long, value_name = "DIR", env = "KTAX_CACHE", help_heading = "Host")]
    pub cache: Option<PathBuf>,
}

impl StoreArgs {
    /// The store's directory.
    pub fn root(&self) -> Result<PathBuf, Error> {
        store_directory(self.store.as_deref()).ok_or_else(|| {
            Error::usage(
                "no store is in use: KTAX_STORE is empty, or HOME is not set; give --store",
            )
        })
    }

    /// The store with its index.
    pub fn open(&self) -> Result<Stored, Error> {
        let cache = cache_directory(self.cache.as_deref())?;
        Stored::open(&self.root()?, &cache, &|text| note!("ktax: {text}"))
    }
}
