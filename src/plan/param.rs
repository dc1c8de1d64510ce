use std::fmt;

use serde::{Deserialize, Serialize};

use super::PlanError;

/// A parameter of a Workload: a number within bounds, or one of some words.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Param {
    /// What it is where nothing else is said.
    pub default: Value,
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
    /// The words; a guest gets the position of the word, from 0.
    #[serde(default)]
    pub choices: Vec<String>,
}

/// What stands for a parameter in a file or on the command line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// Of a parameter with bounds.
    Number(u64),
    /// Of a parameter with choices.
    Word(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => write!(f, "{number}"),
            Value::Word(word) => write!(f, "{word}"),
        }
    }
}

impl Value {
    /// What a command line says.
    pub fn of(text: &str) -> Value {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(number) if digits => Value::Number(number),
            _ => Value::Word(text.to_owned()),
        }
    }
}

impl Param {
    /// What a guest is told.
    pub fn number(&self, workload: &str, name: &str, value: &Value) -> Result<u64, PlanError> {
        let number = match value {
            Value::Number(number) if self.choices.is_empty() => {
                (self.min..=self.max).contains(number).then_some(*number)
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

    /// What may be said: `16 to 32768 pages`, or the words.
    pub fn range(&self) -> String {
        if self.choices.is_empty() {
            format!("{} to {} {}", self.min, self.max, self.unit).trim_end().to_owned()
        } else {
            self.choices.join(", ")
        }
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
        if self.about.is_empty() {
            return Err(format!("parameter {name:?} says nothing about itself"));
        }
        Ok(())
    }
}
