// The messages say what the fields are.
#![allow(missing_docs)]

use thiserror::Error;

use crate::model::Blame;
use crate::text::{counted, escape, shell_path};

/// Why a campaign, or a shard of it, cannot go on.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum CampaignError {
    #[error(
        "{path} was planned for QEMU {planned} and the ktax of that time, and this machine has \
         QEMU {found}: counts would not compare; nothing was booted. Give it the same package, or \
         run the shard on another machine"
    )]
    OtherMachine { path: String, planned: String, found: String },
    #[error(
        "there is no shard {number}; the campaign has {}", numbered(*.shards)
    )]
    NoShard { number: usize, shards: usize },
    #[error("subject {number} is not built from source; `ktax campaign status` lists the others")]
    NotBuilt { number: usize },
    #[error(
        "the kernel of subject {number}, {kernel}, is not built yet; build it with `ktax campaign \
         run {} --build {number}`",
        shell_path(.path)
    )]
    Unbuilt { number: usize, kernel: String, path: String },
    #[error(
        "other work of a campaign runs on this machine, and times are measured alone; try again \
         when it has ended"
    )]
    NotAlone,
    #[error("{path} is measured by another machine; try again when it has ended")]
    InUse { path: String },
    #[error("{} failed because of this machine; {path} says why. Run the shard again",
        counted(*.rows, "row"))]
    HostFailed { rows: usize, path: String },
    #[error(
        "{name} is {is}; remove it from `timed`, which takes timed experiments without a sweep"
    )]
    NotTimed { name: String, is: &'static str },
    #[error("two timed experiments are called {name}; rename one of the files")]
    TwiceTimed { name: String },
    #[error("{path} is of another campaign; collect copies of {wanted} alone")]
    OtherCampaign { path: String, wanted: String },
    #[error(
        "{} not measured: {}; run {} with `ktax campaign run {} --shard N`, then collect again",
        are_missing(missing.len()),
        some(.missing),
        listed(.shards),
        shell_path(.path)
    )]
    Missing { missing: Vec<String>, shards: Vec<usize>, path: String },
}

impl CampaignError {
    /// Who can do something about it.
    pub fn blame(&self) -> Blame {
        match self {
            CampaignError::NotAlone
            | CampaignError::InUse { .. }
            | CampaignError::HostFailed { .. } => Blame::Host,
            _ => Blame::User,
        }
    }
}

fn numbered(shards: usize) -> String {
    match shards {
        0 => "none: all is measured".to_owned(),
        1 => "one, 0".to_owned(),
        _ => format!("0 to {}", shards - 1),
    }
}

fn are_missing(missing: usize) -> String {
    let are = if missing == 1 { "is" } else { "are" };
    format!("{} {are}", counted(missing, "result"))
}

/// The first names of rows, and how many more there are.
pub fn some(rows: &[String]) -> String {
    /// As many fit into two lines of a terminal.
    const SHOWN: usize = 4;
    let names = rows.iter().take(SHOWN).map(|row| escape(row)).collect::<Vec<_>>().join(", ");
    match rows.len().saturating_sub(SHOWN) {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}

/// `shards 1, 2 and 7`, as a scheduler takes them.
fn listed(shards: &[usize]) -> String {
    let all: Vec<String> = shards.iter().map(usize::to_string).collect();
    let word = if all.len() == 1 { "shard" } else { "shards" };
    format!("{word} {}", all.join(","))
}
