use std::path::{Path, PathBuf};

use serde_json::json;

use super::Exit;
use super::host::StorePlace;
use super::output::note;
use crate::flow::{self, Added, Error};
use crate::model::Blame;
use crate::text::{counted, escape};

/// Keep in the store what run directories, pages, files of --json or another store have.
///
/// What is there already is not changed. Files that cannot be used are named, and the others are
/// kept all the same.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Keep what is in this directory of a store or of a run, or in this file
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    place: StorePlace,
}

/// Exits with 1 if something could not be kept.
pub fn run(args: &Args) -> Result<Exit, Error> {
    let store = args.place.store.root()?;
    let mut added = Added::default();
    for path in &args.paths {
        match added_from(path, &store) {
            // Among several paths a wrong one does not stop the others.
            Err(error)
                if args.paths.len() > 1 && error.blame == Blame::User && !error.is_cancelled() =>
            {
                added.refused.push(error.to_string());
            }
            added_from => added += added_from?,
        }
    }
    if added == Added::default() {
        note!("ktax: the store had all of it");
    }
    say(&args.place, "kept", &added)
}

fn added_from(path: &Path, store: &Path) -> Result<Added, Error> {
    match flow::is_store(path)? {
        true => flow::copy_store(path, store),
        false => flow::import(path, store),
    }
}

/// Prints what was added to a store, and why the rest was refused.
pub fn say(place: &StorePlace, did: &str, added: &Added) -> Result<Exit, Error> {
    let Added { measurements, results, tags, refused } = added;
    for reason in refused {
        note!("ktax: {}", escape(reason));
    }
    let mut text = format!("{did} {}", counted(*measurements, "new measurement"));
    if *results > 0 {
        text += &format!(" and {}", counted(*results, "new result"));
    }
    if *tags > 0 {
        text += &format!(" and {}", counted(*tags, "new tag"));
    }
    if !refused.is_empty() {
        text += &format!("; {} could not be kept", counted(refused.len(), "thing"));
    }
    let json = json!({ "new": measurements, "new_results": results, "new_tags": tags,
                       "refused": refused });
    place.print(&text, json)?;
    Ok(if refused.is_empty() { Exit::Ok } else { Exit::Internal })
}
