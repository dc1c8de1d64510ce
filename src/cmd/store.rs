use std::path::PathBuf;

use clap::Subcommand;
use serde_json::json;

use super::exit::Exit;
use super::output::write_stdout;
use crate::cmd::note::note;
use crate::flow::{self, Error};
use crate::report::{to_json, whole};
use crate::text::{counted, escape_path};

/// Look after the store of measurements, from which nothing is measured twice.
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
    Du(Where),
    /// Read every measurement; move damaged ones aside
    Fsck(Where),
    /// Remove what killed writers left, and what was moved aside
    Gc(Where),
    /// Copy all measurements to another store
    Export(Paths),
    /// Keep the measurements of run directories, or of another store
    Import(Paths),
}

#[derive(Debug, clap::Args)]
struct Where {
    /// Use the store in DIR
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Paths {
    /// A directory: of a store; to import, also of a run
    #[arg(value_name = "DIR", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    place: Where,
}

impl Where {
    fn root(&self) -> Result<PathBuf, Error> {
        let root = flow::store_directory(self.store.as_deref());
        root.ok_or_else(|| {
            Error::usage(
                "no store is in use: KTAX_STORE is empty, or HOME is not set; give --store",
            )
        })
    }

    fn print(&self, text: &str, json: serde_json::Value) -> Result<(), Error> {
        Ok(write_stdout(&if self.json { to_json(&json)? } else { format!("{text}\n") })?)
    }
}

/// The exit status is 1 where something was damaged.
pub fn run(args: &Args) -> Result<Exit, Error> {
    match &args.command {
        Command::Du(place) => du(place),
        Command::Fsck(place) => fsck(place),
        Command::Gc(place) => gc(place),
        Command::Export(args) => export(args),
        Command::Import(args) => import(args),
    }
}

fn du(place: &Where) -> Result<Exit, Error> {
    let store = place.root()?;
    let usage = flow::store_footprint(&store)?;
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let mut text = format!(
        "{}: {} in {}",
        escape_path(&store),
        counted(usage.objects, "measurement"),
        mib(usage.bytes)
    );
    if usage.others > 0 {
        let files = counted(usage.others, "file");
        text += &format!(
            "; {} in {files} that were moved aside or never finished; `ktax store gc` removes them",
            mib(usage.other_bytes)
        );
    }
    place.print(
        &text,
        json!({ "store": store, "objects": usage.objects, "bytes": usage.bytes,
                "others": usage.others, "other_bytes": usage.other_bytes }),
    )?;
    Ok(Exit::Ok)
}

fn fsck(place: &Where) -> Result<Exit, Error> {
    let checked = flow::check_store(&place.root()?)?;
    let damaged = checked.damaged.iter();
    let lines = damaged.clone().map(|(path, reason)| {
        format!(
            "\n{} was damaged: {reason}; it is measured again when it is needed",
            escape_path(path)
        )
    });
    let sound = whole(checked.sound as f64);
    let text =
        format!("{sound} sound, {} damaged{}", checked.damaged.len(), lines.collect::<String>());
    let damaged = damaged.map(|(path, reason)| json!({ "moved_to": path, "reason": reason }));
    let damaged: Vec<_> = damaged.collect();
    place.print(&text, json!({ "sound": checked.sound, "damaged": damaged }))?;
    Ok(if checked.damaged.is_empty() { Exit::Ok } else { Exit::Internal })
}

fn gc(place: &Where) -> Result<Exit, Error> {
    let removed = flow::clean_store(&place.root()?)?;
    let text = format!("removed {}", counted(removed.len(), "file"));
    place.print(&text, json!({ "removed": removed }))?;
    Ok(Exit::Ok)
}

fn export(args: &Paths) -> Result<Exit, Error> {
    let store = args.place.root()?;
    let mut new = 0;
    for path in &args.paths {
        new += flow::copy_store(&store, path)?;
    }
    args.place
        .print(&format!("copied {}", counted(new, "new measurement")), json!({ "new": new }))?;
    Ok(Exit::Ok)
}

fn import(args: &Paths) -> Result<Exit, Error> {
    let store = args.place.root()?;
    let mut new = 0;
    for path in &args.paths {
        new += match path.join("objects").is_dir() {
            true => flow::copy_store(path, &store)?,
            false => flow::import_run(path, &store)?,
        };
    }
    if new == 0 {
        note!("ktax: the store had all of it");
    }
    args.place
        .print(&format!("kept {}", counted(new, "new measurement")), json!({ "new": new }))?;
    Ok(Exit::Ok)
}
