//! Options that several commands have, and the parsers of their values.

use std::ffi::OsStr;
use std::fmt::Display;
use std::ops::{Bound, RangeBounds};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::builder::{
    PathBufValueParser, PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser,
};
use clap::{Arg, Args, Command};
use serde_json::Value;

use super::Exit;
use super::output::{note, write_text_or_json};
use crate::flow::{
    self, Budget, Cancel, Error, ErrorContext, Limits, Observer, Session, Stored, UsedStore,
    cache_directory, qemu_program, store_directory,
};
use crate::model::Side;
use crate::plan::{self, ExperimentKey, MachineFlag};
use crate::text::escape_path;

/// Options of the machine, for commands that keep their measurements.
#[derive(Debug, Clone, Args)]
pub struct HostArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// Take measurements from the store in DIR, and keep them there
    /// [default: $XDG_DATA_HOME/ktax/store]
    #[arg(long, value_name = "DIR", help_heading = "Host")]
    pub store: Option<PathBuf>,
    /// Measure everything, and keep nothing for later
    #[arg(long, conflicts_with = "store", help_heading = "Host")]
    pub no_store: bool,
    /// Measure PERCENT of the stored rows again, and fail unless the counts are the same
    /// [default: 0]
    #[arg(long, value_name = "PERCENT", conflicts_with = "no_store", help_heading = "Host")]
    #[arg(allow_negative_numbers = true, value_parser = number(0_u8..=100))]
    pub verify_store: Option<u8>,
}

/// Options of the machine, without a store.
#[derive(Debug, Clone, Args)]
pub struct MachineArgs {
    /// Run this QEMU [default: qemu-system-x86_64]
    #[arg(long, value_name = "PROGRAM", help_heading = "Host")]
    pub qemu: Option<PathBuf>,
    /// Run N VMs at a time [default: the number of CPUs]
    #[arg(short, long, value_name = "N", allow_negative_numbers = true, help_heading = "Host")]
    #[arg(value_parser = number(1_usize..=4096))]
    pub jobs: Option<usize>,
    /// Keep kernels, snapshots and symbols in DIR [default: $XDG_CACHE_HOME/ktax]
    #[arg(long, value_name = "DIR", help_heading = "Host")]
    pub cache: Option<PathBuf>,
    /// After measuring, remove the least recently used entries until the cache has at most SIZE,
    /// such as 500M; `unlimited` removes nothing
    #[arg(long, value_name = "SIZE", env = "KTAX_CACHE_SIZE", help_heading = "Host")]
    #[arg(default_value = "20G")]
    pub cache_size: Budget,
    /// Fail a boot or a run after SECONDS of QEMU's CPU time, or of real time if it is timed
    /// [default: 180]
    #[arg(long, value_name = "SECONDS", help_heading = "Host")]
    #[arg(allow_negative_numbers = true, value_parser = number(1_u64..))]
    pub time_limit: Option<u64>,
}

impl MachineArgs {
    pub fn cache(&self) -> Result<PathBuf, Error> {
        cache_directory(self.cache.as_deref())
    }

    pub fn session<'a>(&self, observer: &'a dyn Observer) -> Result<Session<'a>, Error> {
        Ok(Session {
            qemu: qemu_program(self.qemu.as_deref()),
            jobs: self.jobs(),
            cache: self.cache()?,
            holders: Default::default(),
            store: None,
            limits: self.limits(),
            cancel: cancel()?,
            observer,
        })
    }

    /// Maximum number of VMs at a time.
    pub fn jobs(&self) -> usize {
        let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.unwrap_or_else(cpus)
    }

    pub fn limits(&self) -> Limits {
        self.time_limit.map_or_else(Limits::default, Limits::with_seconds)
    }
}

impl HostArgs {
    pub fn session<'a>(&self, observer: &'a dyn Observer) -> Result<Session<'a>, Error> {
        Ok(Session { store: self.used_store(), ..self.machine.session(observer)? })
    }

    /// Calls `measure` with a session, and cleans the cache afterwards.
    pub fn with_session<T>(
        &self,
        observer: &dyn Observer,
        measure: impl FnOnce(&Session<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let session = self.session(observer)?;
        let result = measure(&session);
        flow::keep_cache_small(&session, self.machine.cache_size);
        result
    }

    /// Store to use; `None` with `--no-store`.
    fn used_store(&self) -> Option<UsedStore> {
        let root = store_directory(self.store.as_deref()).filter(|_| !self.no_store)?;
        let verify_percent = self.verify_store.unwrap_or(0).into();
        Some(UsedStore::new(root, verify_percent))
    }
}

/// Creates the flag that Ctrl-C sets. Each command calls this function once.
pub fn cancel() -> Result<Cancel, Error> {
    Cancel::on_signals().or_host("cannot catch signals", "try again")
}

/// First name of ktax-1, ktax-2, … that no file has.
pub fn first_unused_directory() -> PathBuf {
    let mut names = (1u32..).map(|number| PathBuf::from(format!("ktax-{number}")));
    names.find(|name| !Path::exists(name)).expect("numbers do not run out")
}

/// Option of the store.
#[derive(Debug, Clone, Args)]
pub struct StoreDir {
    /// Use the store in DIR [default: $XDG_DATA_HOME/ktax/store]
    #[arg(long, value_name = "DIR", help_heading = "Host")]
    pub store: Option<PathBuf>,
}

impl StoreDir {
    /// Directory of the store; it may not exist yet.
    pub fn root(&self) -> Result<PathBuf, Error> {
        store_directory(self.store.as_deref()).ok_or_else(|| {
            Error::user("no store is in use: KTAX_STORE is empty, or HOME is not set; give --store")
        })
    }

    /// Directory of the store, for commands that read it; a note tells the user if there is none.
    pub fn root_of_reader(&self) -> Result<PathBuf, Error> {
        let root = self.root()?;
        if !root.exists() {
            let path = escape_path(&root);
            note!("ktax: there is no store in {path} yet; `ktax compare lsm` makes one");
        }
        Ok(root)
    }
}

/// Options of the store and of printing.
#[derive(Debug, Clone, Args)]
pub struct StoreJsonArgs {
    #[command(flatten)]
    pub store: StoreDir,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

impl StoreJsonArgs {
    /// Directory of the store; a note says if it does not exist.
    pub fn root(&self) -> Result<PathBuf, Error> {
        self.store.root_of_reader()
    }

    pub fn print(&self, text: &str, json: Value) -> Result<Exit, Error> {
        write_text_or_json(self.json, text, &json)
    }
}

/// Options of the store and its index.
#[derive(Debug, Clone, Args)]
pub struct StoreArgs {
    #[command(flatten)]
    dir: StoreDir,
    /// Keep the index of the store in DIR [default: $XDG_CACHE_HOME/ktax]
    #[arg(long, value_name = "DIR", help_heading = "Host")]
    cache: Option<PathBuf>,
}

impl StoreArgs {
    /// Directory of the store; a note says if it does not exist.
    pub fn root(&self) -> Result<PathBuf, Error> {
        self.dir.root_of_reader()
    }

    pub fn open(&self) -> Result<Stored, Error> {
        let cache = cache_directory(self.cache.as_deref())?;
        Stored::open(&self.dir.root_of_reader()?, &cache, &|text| note!("ktax: {text}"))
    }
}

/// Value of an option, its name, and its line of help.
pub type Choice<T> = (T, &'static str, &'static str);

pub const SIDES: [Choice<Side>; 2] = [(Side::Base, "base", ""), (Side::Change, "change", "")];

/// Parses the name of one of these values; help lists them all.
pub fn one_of<T>(choices: &'static [Choice<T>]) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    by_name(choices, |(_, name, _)| name, |(_, _, help)| help).map(|(value, ..)| value)
}

/// Parses the name of one of these values; `help` returns the line of help of a value.
pub fn by_name<T>(
    values: &'static [T],
    name: fn(&T) -> &'static str,
    help: fn(&T) -> &'static str,
) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let possible = values.iter().map(|value| match help(value) {
        "" => PossibleValue::new(name(value)),
        help => PossibleValue::new(name(value)).help(help),
    });
    PossibleValuesParser::new(possible.collect::<Vec<_>>()).map(move |text| {
        let value = values.iter().find(|value| name(value) == text);
        *value.expect("the parser accepts no other name")
    })
}

/// Parses a whole number within these bounds. The error message names the bounds.
pub fn number<T>(
    bounds: impl RangeBounds<T> + Clone + Send + Sync + 'static,
) -> impl TypedValueParser<Value = T>
where
    T: Display + FromStr + PartialOrd + Clone + Send + Sync + 'static,
{
    let mut message = "it takes a whole number".to_owned();
    if let Bound::Included(min) = bounds.start_bound() {
        message += &format!(" from {min}");
    }
    if let Bound::Included(max) = bounds.end_bound() {
        message += &format!(" to {max}");
    }
    move |text: &str| {
        let number = text.parse().ok().filter(|number| bounds.contains(number));
        number.ok_or_else(|| message.clone())
    }
}

/// Parses a share in percent, with or without its sign: `5`, `5%` and `5 %` are the same.
pub fn percent(text: &str) -> Result<f64, &'static str> {
    let number = text.trim().trim_end_matches('%').trim_end();
    let has_one_sign_at_most = text.matches('%').count() <= 1;
    let percent = number.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent
        .filter(|_| has_one_sign_at_most)
        .ok_or("it takes a number from 0 to 100, such as 0.5 or 5%")
}

/// Parser that accepts the same values as `inner`, and suggests some values for completions.
#[derive(Clone)]
pub struct SuggestingParser<P> {
    inner: P,
    suggestions: fn() -> Vec<&'static str>,
}

impl<P: TypedValueParser> TypedValueParser for SuggestingParser<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<P::Value, clap::Error> {
        self.inner.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let names = (self.suggestions)();
        match names.is_empty() {
            true => None,
            false => Some(Box::new(names.into_iter().map(PossibleValue::new))),
        }
    }
}

/// Parses a workload, a row or a group.
pub fn workload() -> SuggestingParser<StringValueParser> {
    SuggestingParser {
        inner: StringValueParser::new(),
        suggestions: || plan::workload_names().to_vec(),
    }
}

/// Parses a model, or the path of a machine.
pub fn model() -> SuggestingParser<StringValueParser> {
    let suggestions = || plan::model_names().collect();
    SuggestingParser { inner: StringValueParser::new(), suggestions }
}

/// Parses the value of a key of `[machine]`.
pub fn machine_key(
    key: &'static ExperimentKey,
    flag: &MachineFlag,
) -> SuggestingParser<impl TypedValueParser<Value = String>> {
    let inner = move |text: &str| key.check(text).map(|()| text.to_owned());
    SuggestingParser { inner, suggestions: flag.suggestions }
}

/// Parses the path of an experiment, or the name of a built-in one.
pub fn experiment() -> SuggestingParser<PathBufValueParser> {
    let suggestions = || plan::experiments().map(|file| file.name).collect();
    SuggestingParser { inner: PathBufValueParser::new(), suggestions }
}

/// Parses the path of a ledger, or the name of a built-in one.
pub fn ledger() -> SuggestingParser<PathBufValueParser> {
    let suggestions = || plan::ledgers().map(|file| file.name).collect();
    SuggestingParser { inner: PathBufValueParser::new(), suggestions }
}

/// Parses the name of a built-in experiment, ledger or machine.
pub fn built_in() -> SuggestingParser<StringValueParser> {
    let suggestions = || {
        let files = plan::experiments().chain(plan::ledgers()).chain(plan::machines());
        files.map(|file| file.name).collect()
    };
    SuggestingParser { inner: StringValueParser::new(), suggestions }
}
