//! What the commands that ask the store have in common.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use super::output::write_either;
use crate::cmd::note::note;
use crate::flow::{Error, Stored, cache_directory, store_directory};
use crate::text::escape_path;

/// Which store.
#[derive(Debug, Clone, Args)]
pub struct StoreDir {
    /// Use the store in DIR [default: $XDG_DATA_HOME/ktax/store]
    #[arg(long, value_name = "DIR", help_heading = "Host")]
    pub store: Option<PathBuf>,
}

impl StoreDir {
    /// Its directory, which need not exist.
    pub fn root(&self) -> Result<PathBuf, Error> {
        store_directory(self.store.as_deref()).ok_or_else(|| {
            Error::usage(
                "no store is in use: KTAX_STORE is empty, or HOME is not set; give --store",
            )
        })
    }

    /// The same for who reads: it is said where there is none.
    pub fn existing(&self) -> Result<PathBuf, Error> {
        let root = self.root()?;
        if !root.exists() {
            let path = escape_path(&root);
            note!("ktax: there is no store in {path} yet; `ktax compare lsm` makes one");
        }
        Ok(root)
    }
}

/// Which store, and how to print what is said of it.
#[derive(Debug, Clone, Args)]
pub struct StorePlace {
    #[command(flatten)]
    pub store: StoreDir,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

impl StorePlace {
    /// Its directory; it is said where there is none.
    pub fn root(&self) -> Result<PathBuf, Error> {
        self.store.existing()
    }

    /// Prints one or the other.
    pub fn print(&self, text: &str, json: Value) -> Result<(), Error> {
        write_either(self.json, text, &json)
    }
}

/// Which store, and where its index is.
#[derive(Debug, Clone, Args)]
pub struct StoreArgs {
    #[command(flatten)]
    dir: StoreDir,
    /// Keep the index of the store in DIR [default: $XDG_CACHE_HOME/ktax]
    #[arg(long, value_name = "DIR", help_heading = "Host")]
    cache: Option<PathBuf>,
}

impl StoreArgs {
    /// Its directory; it is said where there is none.
    pub fn root(&self) -> Result<PathBuf, Error> {
        self.dir.existing()
    }

    /// The store with its index.
    pub fn open(&self) -> Result<Stored, Error> {
        let cache = cache_directory(self.cache.as_deref())?;
        Stored::open(&self.dir.existing()?, &cache, &|text| note!("ktax: {text}"))
    }
}
