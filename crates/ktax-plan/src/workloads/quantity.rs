use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

/// A number that may depend on the Run: `0`, `"ops"`, `"groups*400*loops"`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "Written")]
pub struct Quantity(Vec<Factor>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Factor {
    Number(u64),
    Name(String),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(u64),
    Product(String),
}

impl From<Written> for Quantity {
    fn from(written: Written) -> Quantity {
        match written {
            Written::Number(number) => Quantity(vec![Factor::Number(number)]),
            Written::Product(text) => {
                let factor = |word: &str| match word.trim().parse() {
                    Ok(number) => Factor::Number(number),
                    Err(_) => Factor::Name(word.trim().to_owned()),
                };
                Quantity(text.split('*').map(factor).collect())
            }
        }
    }
}

impl Quantity {
    /// The product; `None` beyond 63 bits, which is what files can hold, or with a name that is
    /// not in `params`.
    pub fn value(&self, ops: u64, params: &BTreeMap<String, u64>) -> Option<u64> {
        let product = self.0.iter().try_fold(1u64, |product, factor| {
            product.checked_mul(match factor {
                Factor::Number(number) => *number,
                Factor::Name(name) if name == "ops" => ops,
                Factor::Name(name) => *params.get(name)?,
            })
        })?;
        i64::try_from(product).is_ok().then_some(product)
    }

    /// The first name that is neither `ops` nor known.
    pub fn unknown(&self, known: impl Fn(&str) -> bool) -> Option<&str> {
        self.0.iter().find_map(|factor| match factor {
            Factor::Name(name) if name != "ops" && !known(name) => Some(name.as_str()),
            _ => None,
        })
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, factor) in self.0.iter().enumerate() {
            let between = if at == 0 { "" } else { " × " };
            match factor {
                Factor::Number(number) => write!(f, "{between}{number}")?,
                Factor::Name(name) => write!(f, "{between}{name}")?,
            }
        }
        Ok(())
    }
}
