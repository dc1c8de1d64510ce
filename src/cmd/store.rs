//! `store` and `import` manage measurements; `cache` manages entries that ktax can make again.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::{Value, json};

use super::Exit;
use super::options::{StoreArgs, StoreJsonArgs, number};
use super::output::{note, path_text, print_list, write_text_or_json};
use crate::cache::survey;
use crate::flow::{
    self, Budget, CacheKind, CacheSurvey, Cleaned, Error, ImportSummary, PrunePlan, PruneRequest,
};
use crate::model::Blame;
use crate::report::whole;
use crate::store::{Store, StoreCheck};
use crate::text::{binary_size, counted, escape, escape_path};

/// Manage the store, which keeps measurements.
///
/// The store keeps every exact measurement: a row of a kernel with its boot line, on one QEMU,
/// under the same layouts. `ktax compare` reuses stored measurements.
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
    Du(DuArgs),
    /// Read every measurement; move damaged ones aside
    Fsck(StoreJsonArgs),
    /// Remove files that killed writers left or that were moved aside
    Gc(StoreJsonArgs),
    Prune(PruneArgs),
    /// Print the path of the index, an SQLite database of the store
    Index(IndexArgs),
    /// Copy the store to another one
    Export(ExportArgs),
    Import(ImportArgs),
}

#[derive(Debug, clap::Args)]
struct DuArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// List the versions of the guest programs, with their measurements in the store
    #[arg(long)]
    guests: bool,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Remove results and measurements that nobody needs any more.
///
/// Several conditions hold together. Measurements of a tagged subject stay, unless --tagged is
/// given. Removed measurements are measured again when they are needed.
#[derive(Debug, clap::Args)]
#[command(after_help = PRUNE_EXAMPLES)]
struct PruneArgs {
    /// Remove the result or measurement with this ID or its first digits
    #[arg(value_name = "ID", conflicts_with_all = ["subject", "guest", "other_guests"])]
    #[arg(conflicts_with = "older_than")]
    ids: Vec<String>,
    /// Remove the measurements of this subject, named as for `ktax diff`
    #[arg(long, value_name = "SUBJECT")]
    subject: Option<String>,
    /// Remove the measurements by these guest programs: first digits that `ktax store du --guests`
    /// prints
    #[arg(long, value_name = "DIGITS", conflicts_with = "other_guests", value_parser = digits)]
    guest: Option<String>,
    /// Remove the measurements by all guest programs but those of this ktax
    #[arg(long)]
    other_guests: bool,
    /// Remove only what was kept more than DAYS days ago; without another condition results, too
    #[arg(long, value_name = "DAYS", allow_negative_numbers = true)]
    #[arg(value_parser = number(0..=MAX_DAYS))]
    older_than: Option<u64>,
    /// Remove also measurements of subjects that have a tag
    #[arg(long)]
    tagged: bool,
    /// Only list what would be removed, with its size, and which results depend on it
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Limit of `--older-than`: a hundred years.
const MAX_DAYS: u64 = 36_500;

const PRUNE_EXAMPLES: &str = "\
Examples:
  ktax store prune --dry-run --other-guests      # what an update of ktax has left
  ktax store prune --older-than 365
  ktax store prune 2a833378                      # a result that `ktax log` lists";

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
    store: StoreJsonArgs,
}

/// Exits with 1 if something is damaged.
pub fn run(args: &Args) -> Result<Exit, Error> {
    match &args.command {
        Command::Du(args) => du(args),
        Command::Fsck(store) => fsck(store),
        Command::Gc(store) => gc(store),
        Command::Prune(args) => prune(args),
        Command::Index(args) => index(args),
        Command::Export(args) => export(args),
        Command::Import(args) => import(args),
    }
}

/// Parses the first digits of a hash.
fn digits(text: &str) -> Result<String, &'static str> {
    let is_hash = text.len() >= 4 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match is_hash {
        true => Ok(text.to_ascii_lowercase()),
        false => Err("it takes at least 4 hexadecimal digits; `ktax store du --guests` lists them"),
    }
}

fn du(args: &DuArgs) -> Result<Exit, Error> {
    if args.guests {
        return list_guests(args);
    }
    let store = args.store.root()?;
    let usage = Store::new(store.clone()).footprint()?;
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
    write_text_or_json(
        args.json,
        &text,
        &json!({ "store": path_text(&store), "objects": usage.objects, "bytes": usage.bytes,
                "results": usage.results, "result_bytes": usage.result_bytes,
                "others": usage.others, "other_bytes": usage.other_bytes }),
    )
}

fn list_guests(args: &DuArgs) -> Result<Exit, Error> {
    print_list(
        args.json,
        &args.store.open()?.instruments()?,
        |(instrument, is_own)| {
            json!({ "guest": instrument.guest, "qemu": instrument.qemu, "is_of_this_ktax": is_own,
                    "measurements": instrument.objects.len(), "bytes": instrument.bytes,
                    "kept_at": instrument.kept_at })
        },
        (&["guest", "QEMU", "measurements", "size", "programs of"], &[1]),
        |(instrument, is_own)| {
            let owner = if *is_own { "this ktax" } else { "another ktax" };
            let guest = flow::short_guest(&instrument.guest);
            let (count, size) = (instrument.objects.len(), binary_size(instrument.bytes));
            [guest, &instrument.qemu, &count.to_string(), &size, owner].map(str::to_owned).into()
        },
    )
}

fn prune(args: &PruneArgs) -> Result<Exit, Error> {
    let order = PruneRequest {
        ids: args.ids.clone(),
        subject: args.subject.clone(),
        guest: args.guest.clone(),
        other_guests: args.other_guests,
        older_than_days: args.older_than,
        tagged: args.tagged,
    };
    if order.is_empty() {
        return Err(Error::user(
            "nothing is named; give the ID of a result or measurement, --subject, --guest, \
             --other-guests or --older-than DAYS; --dry-run lists what would be removed",
        ));
    }
    let stored = args.store.open()?;
    let mut prune = stored.prunable(&order)?;
    if !args.dry_run {
        prune.files = stored.remove(prune.files)?;
    }
    write_text_or_json(
        args.json,
        &prune_text(&prune, args.dry_run),
        &prune_json(&prune, args.dry_run),
    )
}

fn prune_text(prune: &PrunePlan, is_dry_run: bool) -> String {
    let mut lines: Vec<String> = Vec::new();
    if is_dry_run {
        lines.extend(prune.files.iter().map(|file| {
            let object = file.object.get(..12).unwrap_or_default();
            format!(
                "{:>10}  {} {object}  {}",
                binary_size(file.bytes),
                file.kind,
                escape(&file.what)
            )
        }));
    }
    let count = |kind| prune.files.iter().filter(|file| file.kind == kind).count();
    lines.push(format!(
        "{} {} and {}, {}",
        if is_dry_run { "would remove" } else { "removed" },
        counted(count("measurement"), "measurement"),
        counted(count("result"), "result"),
        binary_size(prune.bytes())
    ));
    for (tag, measurements) in &prune.kept {
        let measurements = counted(*measurements, "measurement");
        lines.push(format!("kept {measurements} of the tag {tag}; --tagged removes them, too"));
    }
    for tag in &prune.tags {
        lines.push(format!("then no measurement has the tag {tag}"));
    }
    if !prune.results.is_empty() {
        let first = prune.results[0].get(..8).unwrap_or_default();
        lines.push(format!(
            "{}, such as {first}, compared these kernels in these rows: `ktax show` still prints \
             the comparison",
            counted(prune.results.len(), "result")
        ));
    }
    lines.join("\n")
}

fn prune_json(prune: &PrunePlan, is_dry_run: bool) -> serde_json::Value {
    let files = prune.files.iter().map(|file| {
        json!({ "kind": file.kind, "id": file.object, "path": path_text(&file.path),
                "what": file.what, "bytes": file.bytes })
    });
    json!({ "dry_run": is_dry_run, "files": files.collect::<Vec<_>>(), "bytes": prune.bytes(),
            "kept_for_tags": prune.kept, "tags_without_measurement": prune.tags,
            "results_of_these": prune.results })
}

fn fsck(store: &StoreJsonArgs) -> Result<Exit, Error> {
    let StoreCheck { sound, damaged, unknown, others } = Store::new(store.root()?).check()?;
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
        text += "\ndamaged measurements are measured again when they are needed; to restore a \
                 damaged result, use `ktax import` with its run directory";
    }
    let moved = damaged
        .iter()
        .map(|(path, reason)| json!({ "moved_to": path_text(path), "reason": reason }));
    store.print(
        &text,
        json!({ "sound": sound, "damaged": moved.collect::<Vec<_>>(), "unknown": unknown,
                "of_another_version": others }),
    )?;
    Ok(if damaged.is_empty() && unknown.is_empty() { Exit::Ok } else { Exit::Internal })
}

fn gc(store: &StoreJsonArgs) -> Result<Exit, Error> {
    let removed = flow::clean_store(&store.root()?)?;
    let text = format!("removed {}", counted(removed.len(), "file"));
    store.print(&text, json!({ "removed": removed.iter().map(path_text).collect::<Vec<_>>() }))
}

fn index(args: &IndexArgs) -> Result<Exit, Error> {
    let stored = args.store.open()?;
    let path = stored.index_path().ok_or_else(|| {
        Error::user("the cache cannot be written, so there is no index file; give --cache")
    })?;
    write_text_or_json(args.json, &escape_path(path), &json!({ "index": path_text(path) }))
}

fn export(args: &ExportArgs) -> Result<Exit, Error> {
    let store = args.store.root()?;
    let mut added = ImportSummary::default();
    for path in &args.paths {
        added += flow::copy_store(&store, path)?;
    }
    print_added(&args.store, "copied", &added)
}

/// Copy results of run directories, pages, files of --json or another store into the store.
///
/// Existing entries do not change. ktax names the files that it cannot use, and copies the others.
#[derive(Debug, clap::Args)]
pub struct ImportArgs {
    /// Copy the content of this store, run directory or file
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    store: StoreJsonArgs,
}

/// Exits with 1 if something could not be kept.
pub fn import(args: &ImportArgs) -> Result<Exit, Error> {
    let store = args.store.store.root()?;
    let mut added = ImportSummary::default();
    for path in &args.paths {
        match import_path(path, &store) {
            // Among several paths a wrong one does not stop the others.
            Err(error)
                if args.paths.len() > 1 && error.blame == Blame::User && !error.is_cancelled() =>
            {
                added.refused.push(error.to_string());
            }
            result => added += result?,
        }
    }
    if added == ImportSummary::default() {
        note!("ktax: the store already had everything");
    }
    print_added(&args.store, "kept", &added)
}

fn import_path(path: &Path, store: &Path) -> Result<ImportSummary, Error> {
    match flow::is_store(path)? {
        true => flow::copy_store(path, store),
        false => flow::import(path, store),
    }
}

/// Prints what was added to a store, and why the rest was refused.
pub fn print_added(
    store: &StoreJsonArgs,
    verb: &str,
    added: &ImportSummary,
) -> Result<Exit, Error> {
    let ImportSummary { measurements, results, tags, refused } = added;
    for reason in refused {
        note!("ktax: {}", escape(reason));
    }
    let mut text = format!("{verb} {}", counted(*measurements, "new measurement"));
    if *results > 0 {
        text += &format!(" and {}", counted(*results, "new result"));
    }
    if *tags > 0 {
        text += &format!(" and {}", counted(*tags, "new tag"));
    }
    if !refused.is_empty() {
        text += &format!("; {} could not be kept", counted(refused.len(), "item"));
    }
    let json = json!({ "new": measurements, "new_results": results, "new_tags": tags,
                       "refused": refused });
    store.print(&text, json)?;
    Ok(if refused.is_empty() { Exit::Ok } else { Exit::Internal })
}

/// Show and clean the cache of kernels, builds and snapshots.
///
/// ktax can make every entry of the cache again. After each measurement it removes the least
/// recently used entries until the rest fits --cache-size. It never removes an entry that a running
/// ktax uses.
#[derive(Debug, clap::Args)]
#[command(after_help = CACHE_AFTER)]
pub struct CacheArgs {
    #[command(subcommand)]
    command: CacheCommand,
}

const CACHE_AFTER: &str = "\
The cache is $XDG_CACHE_HOME/ktax [default: ~/.cache/ktax]. KTAX_CACHE or --cache names another.
A SIZE is a number with K, M, G or T; K is 1024 bytes. Sizes are what files take on the disk.";

#[derive(Debug, Subcommand)]
enum CacheCommand {
    /// Print the number and size of the entries of each kind
    Du(CacheDirArgs),
    /// Remove the least recently used entries until the cache has at most --cache-size
    Clean(CacheCleanArgs),
}

#[derive(Debug, clap::Args)]
struct CacheDirArgs {
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
struct CacheCleanArgs {
    #[command(flatten)]
    dir: CacheDirArgs,
    /// Remove everything that no running ktax uses, whatever --cache-size is
    #[arg(long)]
    all: bool,
}

impl CacheDirArgs {
    fn root(&self) -> Result<PathBuf, Error> {
        flow::cache_directory(self.cache.as_deref())
    }

    fn print(&self, text: &str, json: &Value) -> Result<Exit, Error> {
        write_text_or_json(self.json, text, json)
    }
}

pub fn cache(args: &CacheArgs) -> Result<Exit, Error> {
    match &args.command {
        CacheCommand::Du(dir) => cache_du(dir),
        CacheCommand::Clean(args) => clean_cache(args),
    }
}

fn cache_du(dir: &CacheDirArgs) -> Result<Exit, Error> {
    let cache = dir.root()?;
    let survey = survey(&cache);
    let rows = CacheKind::ALL.into_iter().filter_map(|kind| kind_row(&survey, kind));
    let mut text: String = rows.map(|(bytes, what)| size_line(bytes, &what)).collect();
    for (bytes, what) in [
        (survey.record_bytes, "records, which map names to kernels"),
        (survey.temporary_bytes, "temporary files"),
    ] {
        text += &if bytes > 0 { size_line(bytes, what) } else { String::new() };
    }
    let (bytes, budget) = (survey.bytes(), dir.cache_size);
    text += &size_line(bytes, &format!("{}; --cache-size is {budget}", escape_path(&cache)));
    let kinds: Vec<Value> =
        CacheKind::ALL.into_iter().map(|kind| kind_json(&survey, kind)).collect();
    dir.print(
        text.trim_end(),
        &json!({ "cache": path_text(&cache), "bytes": bytes, "cache_size_bytes": budget.bytes(),
                 "kinds": kinds, "record_bytes": survey.record_bytes,
                 "temporary_bytes": survey.temporary_bytes }),
    )
}

/// Size of a kind, and its number of entries in words; `None` without entries.
fn kind_row(survey: &CacheSurvey, kind: CacheKind) -> Option<(u64, String)> {
    let entries = || survey.entries_of_kind(kind);
    let in_use = entries().filter(|entry| entry.in_use).count();
    let count = entries().count();
    let in_use_text = if in_use > 0 { format!(", {in_use} in use") } else { String::new() };
    let bytes = entries().map(|entry| entry.bytes).sum();
    (count > 0).then(|| (bytes, kind.counted(count) + &in_use_text))
}

fn size_line(bytes: u64, what: &str) -> String {
    format!("{:>10}  {what}\n", binary_size(bytes))
}

fn kind_json(survey: &CacheSurvey, kind: CacheKind) -> Value {
    let in_use = survey.entries_of_kind(kind).filter(|entry| entry.in_use).count();
    let bytes: u64 = survey.entries_of_kind(kind).map(|entry| entry.bytes).sum();
    let entries = survey.entries_of_kind(kind).count();
    json!({ "kind": kind, "entries": entries, "in_use": in_use, "bytes": bytes })
}

fn clean_cache(args: &CacheCleanArgs) -> Result<Exit, Error> {
    let dir = &args.dir;
    let budget = if args.all { Budget::Bytes(0) } else { dir.cache_size };
    let cleaned = flow::clean_cache(&dir.root()?, budget)?;
    let mut text = format!(
        "removed {}; the cache has {} now",
        flow::describe_cleaned(&cleaned),
        binary_size(cleaned.left)
    );
    if cleaned.in_use > 0 {
        text += &format!(", of which {} are in use", binary_size(cleaned.in_use));
    }
    dir.print(&text, &cleaned_json(&cleaned))
}

fn cleaned_json(cleaned: &Cleaned) -> Value {
    let removed = cleaned.removed.iter();
    let removed: Vec<Value> = removed
        .map(|entry| {
            json!({ "kind": entry.kind, "path": path_text(&entry.path),
                            "bytes": entry.bytes })
        })
        .collect();
    json!({ "removed": removed, "freed_bytes": cleaned.freed, "left_bytes": cleaned.left,
            "in_use_bytes": cleaned.in_use })
}
