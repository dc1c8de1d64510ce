use std::ffi::OsStr;
use std::fmt::Display;
use std::ops::{Bound, RangeBounds};
use std::str::FromStr;

use clap::builder::{
    PathBufValueParser, PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser,
};
use clap::{Arg, Command};

use crate::model::Side;
use crate::plan;

/// Value of an option, its name, and its line of help.
pub type Choice<T> = (T, &'static str, &'static str);

pub const SIDES: [Choice<Side>; 2] = [(Side::Base, "base", ""), (Side::Change, "change", "")];

/// Parses the name of one of these values; help lists them all.
pub fn one_of<T>(choices: &'static [Choice<T>]) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    named(choices, |(_, name, _)| name, |(_, _, help)| help).map(|(value, ..)| value)
}

/// Parses one of these values by its name; `help` gives its line of help.
pub fn named<T>(
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
        let chosen = values.iter().find(|value| name(value) == text);
        *chosen.expect("the parser accepts no other name")
    })
}

/// Parses a whole number within these bounds. The message names them.
pub fn number<T>(
    bounds: impl RangeBounds<T> + Clone + Send + Sync + 'static,
) -> impl TypedValueParser<Value = T>
where
    T: Display + FromStr + PartialOrd + Clone + Send + Sync + 'static,
{
    let mut takes = "it takes a whole number".to_owned();
    if let Bound::Included(least) = bounds.start_bound() {
        takes += &format!(" from {least}");
    }
    if let Bound::Included(most) = bounds.end_bound() {
        takes += &format!(" to {most}");
    }
    move |text: &str| {
        let number = text.parse().ok().filter(|number| bounds.contains(number));
        number.ok_or_else(|| takes.clone())
    }
}

/// Parses a share in percent, with or without its sign: `5`, `5%` and `5 %` are the same.
pub fn percent(text: &str) -> Result<f64, &'static str> {
    let number = text.trim().trim_end_matches('%').trim_end();
    let is_one_sign = text.matches('%').count() <= 1;
    let percent = number.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent.filter(|_| is_one_sign).ok_or("it takes a number from 0 to 100, such as 0.5 or 5%")
}

/// Parses anything that `inner` does, and names some values for completions.
#[derive(Clone)]
pub struct Suggesting<P> {
    inner: P,
    names: fn() -> Vec<&'static str>,
}

impl<P: TypedValueParser> TypedValueParser for Suggesting<P> {
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
        Some(Box::new((self.names)().into_iter().map(PossibleValue::new)))
    }
}

/// Parses a workload, a row or a group.
pub fn workload() -> Suggesting<StringValueParser> {
    Suggesting { inner: StringValueParser::new(), names: || plan::names().to_vec() }
}

/// Parses a model, or the path of a machine.
pub fn model() -> Suggesting<StringValueParser> {
    let names = || plan::model_names().collect();
    Suggesting { inner: StringValueParser::new(), names }
}

/// Parses the path of an experiment, or the name of a built-in one.
pub fn experiment() -> Suggesting<PathBufValueParser> {
    let names = || plan::experiments().map(|file| file.name).collect();
    Suggesting { inner: PathBufValueParser::new(), names }
}

/// Parses the path of a ledger, or the name of a built-in one.
pub fn ledger() -> Suggesting<PathBufValueParser> {
    let names = || plan::ledgers().map(|file| file.name).collect();
    Suggesting { inner: PathBufValueParser::new(), names }
}

/// Parses the name of a built-in experiment, ledger or machine.
pub fn built_in() -> Suggesting<StringValueParser> {
    let names = || {
        let files = plan::experiments().chain(plan::ledgers()).chain(plan::machines());
        files.map(|file| file.name).collect()
    };
    Suggesting { inner: StringValueParser::new(), names }
}
