use std::path::PathBuf;

use clap::Subcommand;
use serde_json::json;

use super::exit::Exit;
use super::import;
use super::output::{shown, write_either};
use super::stored::{StoreArgs, StorePlace};
use crate::flow::{self, Added, Checked, Error};
use crate::report::whole;
use crate::text::{binary_size, counted, escape, escape_path};

/// Look after the store, which keeps what was measured.
///
/// Every exact measurement is kept there: a row of a kernel with its boot line, on one QEMU, under
/// the same layouts. `ktax compare` takes from it what is there.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

const AFTER: &str = "\
The store is $XDG_DATA_HOME/ktax/store [default: ~/.local/share/ktax/store]. KTAX_STORE or --store
names another, also on a network file system. An empty KTAX_STORE, or --no-store, uses none.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Print how many measurements there are, and their size
    Du(StorePlace),
    /// Read every measurement; move damaged ones aside
    Fsck(StorePlace),
    /// Remove what killed writers left, and what was moved aside
    Gc(StorePlace),
    /// Print the path of the index, an SQLite database of what the store has
    Index(IndexArgs),
    /// Copy all of it to another store
    Export(ExportArgs),
    Import(import::Args),
}

#[derive(Debug, clap::Args)]
struct IndexArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct ExportArgs {
    /// Copy to the store in this directory, which is made
    #[arg(value_name = "DIR", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    place: StorePlace,
}

/// The exit status is 1 where something was damaged.
pub fn run(args: &Args) -> Result<Exit, Error> {
    match &args.command {
        Command::Du(place) => du(place),
        Command::Fsck(place) => fsck(place),
        Command::Gc(place) => gc(place),
        Command::Index(args) => index(args),
        Command::Export(args) => export(args),
        Command::Import(args) => import::run(args),
    }
}

fn du(place: &StorePlace) -> Result<Exit, Error> {
    let store = place.root()?;
    let usage = flow::store_footprint(&store)?;
    let mut text = format!(
        "{}: {} in {}, {} in {}",
        escape_path(&store),
        counted(usage.objects, "measurement"),
        binary_size(usage.bytes),
        counted(usage.results, "result"),
        binary_size(usage.result_bytes)
    );
    if usage.others > 0 {
        let files = counted(usage.others, "file");
        text += &format!(
            "; {} in {files} that were moved aside or never finished; `ktax store gc` removes them",
            binary_size(usage.other_bytes)
        );
    }
    place.print(
        &text,
        json!({ "store": shown(&store), "objects": usage.objects, "bytes": usage.bytes,
                "results": usage.results, "result_bytes": usage.result_bytes,
                "others": usage.others, "other_bytes": usage.other_bytes }),
    )?;
    Ok(Exit::Ok)
}

fn fsck(place: &StorePlace) -> Result<Exit, Error> {
    let Checked { sound, damaged, unknown, others } = flow::check_store(&place.root()?)?;
    let mut text = format!("{} sound, {} damaged", whole(sound as f64), damaged.len());
    for (path, reason) in &damaged {
        text += &format!("\n{} was damaged: {reason}", escape_path(path));
    }
    for reason in &unknown {
        text += &format!("\n{}", escape(reason));
    }
    if others > 0 {
        text += &format!("\n{} of another version of ktax", counted(others, "file"));
    }
    if !damaged.is_empty() {
        text += "\nwhat was damaged is measured again when it is needed; a result is kept again by \
                 `ktax import` of its run directory";
    }
    let moved = damaged.iter();
    let moved = moved.map(|(path, reason)| json!({ "moved_to": shown(path), "reason": reason }));
    place.print(
        &text,
        json!({ "sound": sound, "damaged": moved.collect::<Vec<_>>(), "unknown": unknown,
                "of_another_version": others }),
    )?;
    Ok(if damaged.is_empty() && unknown.is_empty() { Exit::Ok } else { Exit::Internal })
}

fn gc(place: &StorePlace) -> Result<Exit, Error> {
    let removed = flow::clean_store(&place.root()?)?;
    let text = format!("removed {}", counted(removed.len(), "file"));
    place.print(&text, json!({ "removed": removed.iter().map(shown).collect::<Vec<_>>() }))?;
    Ok(Exit::Ok)
}

fn index(args: &IndexArgs) -> Result<Exit, Error> {
    let stored = args.store.open()?;
    let path = stored.index_path().ok_or_else(|| {
        Error::usage("the cache cannot be written, so that there is no file; give --cache")
    })?;
    write_either(args.json, &escape_path(path), &json!({ "index": shown(path) }))?;
    Ok(Exit::Ok)
}

fn export(args: &ExportArgs) -> Result<Exit, Error> {
    let store = args.place.root()?;
    let mut added = Added::default();
    for path in &args.paths {
        added += flow::copy_store(&store, path)?;
    }
    import::say(&args.place, "copied", &added)
}
