//! Model-specific registers, which `wrmsr` and `rdmsr` access by their numbers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The number of one, in files and on the screen as the kernel's sources write it: `0xc0000102`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Msr(pub u32);

impl fmt::Display for Msr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl From<Msr> for String {
    fn from(msr: Msr) -> String {
        msr.to_string()
    }
}

impl TryFrom<String> for Msr {
    type Error = String;

    fn try_from(text: String) -> Result<Msr, String> {
        let number = text.strip_prefix("0x").and_then(|hex| u32::from_str_radix(hex, 16).ok());
        let msr = number.map(Msr).filter(|msr| msr.to_string() == text);
        msr.ok_or_else(|| format!("{text:?} is no number of a register, such as \"0x1b\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_comes_back_as_it_was_written_and_no_other_way() {
        let text = "\"0xc0000102\"";
        let msr: Msr = serde_json::from_str(text).unwrap();
        assert_eq!((msr, serde_json::to_string(&msr).unwrap().as_str()), (Msr(0xc000_0102), text));
        for other in ["0xC0000102", "c0000102", "0x", "0x+1", "0x01", "0x1c0000102", "\\u001b"] {
            let error = serde_json::from_str::<Msr>(&format!("\"{other}\"")).unwrap_err();
            assert!(error.to_string().contains("is no number of a register"), "{error}");
        }
    }
}
