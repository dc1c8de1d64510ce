use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::text::{binary_size, escape};

/// How large the cache may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// So many bytes on the disk.
    Bytes(u64),
    Unlimited,
}

/// What is no size.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("`{}` is not a size; write a number with K, M, G or T, such as 20G, or `unlimited`",
    escape(.0))]
pub struct SizeError(String);

/// Less than a tenth of a laptop's disk of 256 GB. A kernel version that is built from source takes
/// up to 3 GiB for its lane, all versions together 1.6 GiB and more for their trees, and ccache up
/// to 2 GiB. A boot of the exact engine takes 40 to 120 MiB, so a comparison under five layouts
/// about 1 GiB. So there is room for three versions and for the last ten comparisons.
const USUAL_GIB: u64 = 20;

impl Default for Budget {
    fn default() -> Budget {
        Budget::Bytes(USUAL_GIB << 30)
    }
}

impl Budget {
    /// The bytes that there may be; `None` where there is no limit.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Budget::Bytes(bytes) => Some(bytes),
            Budget::Unlimited => None,
        }
    }
}

impl FromStr for Budget {
    type Err = SizeError;

    /// `20G`, `20GiB`, `500m`, `0`, `unlimited`. The units are binary ones: K is 1024. Nothing is
    /// the usual size: an empty environment variable is as good as none.
    fn from_str(text: &str) -> Result<Budget, SizeError> {
        let wrong = || SizeError(text.to_owned());
        if text.is_empty() {
            return Ok(Budget::default());
        }
        if text.eq_ignore_ascii_case("unlimited") {
            return Ok(Budget::Unlimited);
        }
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let shift = match unit.to_ascii_lowercase().trim_end_matches("ib") {
            "" if unit.is_empty() => 0,
            "k" => 10,
            "m" => 20,
            "g" => 30,
            "t" => 40,
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        number.checked_mul(1 << shift).map(Budget::Bytes).ok_or_else(wrong)
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Budget::Bytes(bytes) => f.write_str(&binary_size(*bytes)),
            Budget::Unlimited => f.write_str("unlimited"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_and_what_is_none_is_refused() {
        for (text, bytes) in [
            ("0", 0),
            ("1048576", 1 << 20),
            ("20G", 20 << 30),
            ("500m", 500 << 20),
            ("3KiB", 3 << 10),
            ("2T", 2 << 40),
        ] {
            assert_eq!(text.parse(), Ok(Budget::Bytes(bytes)), "{text}");
        }
        assert_eq!("Unlimited".parse(), Ok(Budget::Unlimited));
        assert_eq!("".parse(), Ok(Budget::default()));
        for text in ["G", "iB", "-1G", "1.5G", "20 G", "20X", "20GG", "99999999999T"] {
            let error = text.parse::<Budget>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{text}` is not a size; write ")), "{error}");
        }
        assert_eq!(Budget::default().to_string(), "20.0 GiB");
    }
}
