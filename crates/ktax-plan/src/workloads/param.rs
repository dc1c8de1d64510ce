use std::fmt;

use crate::error::PlanError;
use serde::{Deserialize, Serialize};

/// A parameter of a Workload: a number within bounds, or one of some words.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Param {
    /// What it is where nothing else is said.
    pub default: ParamValue,
    /// What it means.
    pub about: String,
    /// Of a number.
    #[serde(default)]
    pub unit: String,
    /// The smallest number that makes sense.
    #[serde(default)]
    pub min: u64,
    /// The largest that any machine is asked for.
    #[serde(default)]
    pub max: u64,
    /// Whether only powers of two make sense.
    #[serde(default, rename = "power-of-two", skip_serializing_if = "is_false")]
    pub power_of_two: bool,
    /// The decimal digits that it may have, where not all make sense.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digits: String,
    /// Whether no guest understands anything but the default.
    #[serde(default, rename = "native-only", skip_serializing_if = "is_false")]
    pub native_only: bool,
    /// The words; a guest gets the position of the word, from 0.
    #[serde(default)]
    pub choices: Vec<String>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// What stands for a parameter in a file or on the command line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(untagged)]
pub enum ParamValue {
    /// Of a parameter with bounds.
    Number(u64),
    /// Of a parameter with choices.
    Word(String),
}

impl fmt::Display for ParamValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParamValue::Number(number) => write!(f, "{number}"),
            ParamValue::Word(word) => write!(f, "{word}"),
        }
    }
}

impl ParamValue {
    /// What a command line says.
    pub fn of(text: &str) -> ParamValue {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(number) if digits => ParamValue::Number(number),
            _ => ParamValue::Word(text.to_owned()),
        }
    }
}

impl Param {
    /// What a guest is told.
    pub fn number(&self, workload: &str, name: &str, value: &ParamValue) -> Result<u64, PlanError> {
        let number = match value {
            ParamValue::Number(number) if self.choices.is_empty() => {
                self.admits(*number).then_some(*number)
            }
            // A word may be one of digits.
            _ => {
                let word = value.to_string();
                self.choices.iter().zip(0..).find(|(choice, _)| **choice == word).map(|(_, at)| at)
            }
        };
        number.ok_or_else(|| PlanError::ParameterValue {
            workload: workload.to_owned(),
            name: name.to_owned(),
            value: value.to_string(),
            range: self.range(),
        })
    }

    fn admits(&self, number: u64) -> bool {
        let has_digit = |digit: char| self.digits.is_empty() || self.digits.contains(digit);
        (self.min..=self.max).contains(&number)
            && (!self.power_of_two || number.is_power_of_two())
            && number.to_string().chars().all(has_digit)
    }

    /// What may be said: `16 to 32768 pages`, or the words.
    pub fn range(&self) -> String {
        if !self.choices.is_empty() {
            return self.choices.join(", ");
        }
        let range = format!("{} to {} {}", self.min, self.max, self.unit);
        let power = if self.power_of_two { ", a power of two" } else { "" };
        let digits = match self.digits.as_str() {
            "" => String::new(),
            digits => format!(", of the digits {digits}"),
        };
        format!("{}{power}{digits}", range.trim_end())
    }

    /// Whether a file that says this makes sense.
    pub fn check(&self, name: &str) -> Result<(), String> {
        let of_number = self.choices.is_empty();
        if of_number && self.min > self.max {
            return Err(format!("parameter {name:?} needs `min` and `max`, or `choices`"));
        }
        if !of_number && (self.min != 0 || self.max != 0) {
            return Err(format!("parameter {name:?} has choices and bounds"));
        }
        if of_number && !matches!(self.default, ParamValue::Number(number) if self.admits(number)) {
            return Err(format!("parameter {name:?} does not take its own default"));
        }
        if self.about.is_empty() {
            return Err(format!("parameter {name:?} says nothing about itself"));
        }
        Ok(())
    }
}
