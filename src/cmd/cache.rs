use std::path::PathBuf;

use clap::Subcommand;
use serde_json::{Value, json};

use super::Exit;
use super::output::{shown, write_either};
use crate::flow::{self, Budget, CacheKind, CacheSurvey, Cleaned, Error};
use crate::text::{binary_size, escape_path};

/// Show and clean the cache of kernels, builds and snapshots.
///
/// ktax can make again all that is in the cache. After each measurement it removes what was not
/// used for longest, until the rest fits --cache-size, and never what a running ktax uses.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

const AFTER: &str = "\
The cache is $XDG_CACHE_HOME/ktax [default: ~/.cache/ktax]. KTAX_CACHE or --cache names another.
A SIZE is a number with K, M, G or T; K is 1024 bytes. Sizes are what files take on the disk.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Print what the cache has, and its size
    Du(PlaceArgs),
    /// Remove what was not used for longest until the cache has at most --cache-size
    Clean(CleanArgs),
}

#[derive(Debug, clap::Args)]
struct PlaceArgs {
    /// Use the cache in DIR [default: $XDG_CACHE_HOME/ktax]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// The size that the cache may have, such as 500M; `unlimited` sets no limit
    #[arg(long, value_name = "SIZE", env = "KTAX_CACHE_SIZE", default_value = "20G")]
    cache_size: Budget,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct CleanArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Remove everything that no running ktax uses, whatever --cache-size is
    #[arg(long)]
    all: bool,
}

impl PlaceArgs {
    fn root(&self) -> Result<PathBuf, Error> {
        flow::cache_directory(self.cache.as_deref())
    }

    fn print(&self, text: &str, json: &Value) -> Result<Exit, Error> {
        write_either(self.json, text, json)?;
        Ok(Exit::Ok)
    }
}

pub fn run(args: &Args) -> Result<Exit, Error> {
    match &args.command {
        Command::Du(place) => du(place),
        Command::Clean(args) => clean(args),
    }
}

fn du(place: &PlaceArgs) -> Result<Exit, Error> {
    let cache = place.root()?;
    let survey = flow::cache_contents(&cache);
    let rows = CacheKind::ALL.into_iter().filter_map(|kind| row(&survey, kind));
    let mut text: String = rows.map(|(bytes, what)| line(bytes, &what)).collect();
    for (bytes, what) in [
        (survey.record_bytes, "records, which say which kernel a name is"),
        (survey.temporary_bytes, "temporary files"),
    ] {
        text += &if bytes > 0 { line(bytes, what) } else { String::new() };
    }
    let (bytes, budget) = (survey.bytes(), place.cache_size);
    text += &line(bytes, &format!("{}; --cache-size is {budget}", escape_path(&cache)));
    let kinds: Vec<Value> = CacheKind::ALL.into_iter().map(|kind| json_of(&survey, kind)).collect();
    place.print(
        text.trim_end(),
        &json!({ "cache": shown(&cache), "bytes": bytes, "cache_size_bytes": budget.bytes(),
                 "kinds": kinds, "record_bytes": survey.record_bytes,
                 "temporary_bytes": survey.temporary_bytes }),
    )
}

/// Size of a kind, and its number of entries in words; `None` without entries.
fn row(survey: &CacheSurvey, kind: CacheKind) -> Option<(u64, String)> {
    let entries = || survey.entries_of_kind(kind);
    let in_use = entries().filter(|entry| entry.in_use).count();
    let count = entries().count();
    let used = if in_use > 0 { format!(", {in_use} in use") } else { String::new() };
    let bytes = entries().map(|entry| entry.bytes).sum();
    (count > 0).then(|| (bytes, kind.counted(count) + &used))
}

fn line(bytes: u64, what: &str) -> String {
    format!("{:>10}  {what}\n", binary_size(bytes))
}

fn json_of(survey: &CacheSurvey, kind: CacheKind) -> Value {
    let in_use = survey.entries_of_kind(kind).filter(|entry| entry.in_use).count();
    let bytes: u64 = survey.entries_of_kind(kind).map(|entry| entry.bytes).sum();
    let entries = survey.entries_of_kind(kind).count();
    json!({ "kind": kind, "entries": entries, "in_use": in_use, "bytes": bytes })
}

fn clean(args: &CleanArgs) -> Result<Exit, Error> {
    let place = &args.place;
    let budget = if args.all { Budget::Bytes(0) } else { place.cache_size };
    let cleaned = flow::clean_cache(&place.root()?, budget)?;
    let mut text = format!(
        "removed {}; the cache has {} now",
        flow::describe_cleaned(&cleaned),
        binary_size(cleaned.left)
    );
    if cleaned.in_use > 0 {
        text += &format!(", of which {} are in use", binary_size(cleaned.in_use));
    }
    place.print(&text, &json_of_cleaned(&cleaned))
}

fn json_of_cleaned(cleaned: &Cleaned) -> Value {
    let removed = cleaned.removed.iter();
    let removed: Vec<Value> = removed
        .map(
            |entry| json!({ "kind": entry.kind, "path": shown(&entry.path), "bytes": entry.bytes }),
        )
        .collect();
    json!({ "removed": removed, "freed_bytes": cleaned.freed, "left_bytes": cleaned.left,
            "in_use_bytes": cleaned.in_use })
}
