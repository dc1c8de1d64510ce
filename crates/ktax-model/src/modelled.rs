//! What is modelled while a guest is counted, and the counters of a model of a machine. Each is a
//! Metric that decides nothing: it is the model's.

use serde::{Deserialize, Serialize};

use super::MachineModel;
use super::tally::{Tallied, Tally};

/// What is modelled while a guest is counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Model {
    /// Which cache lines travel between several CPUs.
    Coherence,
    /// The caches, the translation of addresses and the prediction of branches of a machine.
    Machine(Box<MachineModel>),
}

impl Model {
    /// Its name in files and on the screen.
    pub fn name(&self) -> &str {
        match self {
            Model::Coherence => "coherence",
            Model::Machine(machine) => &machine.name,
        }
    }

    /// The machine, if it is of one.
    pub fn machine(&self) -> Option<&MachineModel> {
        match self {
            Model::Coherence => None,
            Model::Machine(machine) => Some(machine),
        }
    }
}

/// A counter of the model of a machine, as in `plugin/region.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Modelled {
    /// Lines of code that the first cache did not have.
    #[serde(rename = "model-l1i-misses")]
    L1iMisses,
    /// Loads and stores.
    #[serde(rename = "model-l1d-accesses")]
    L1dAccesses,
    /// Lines of data that the first cache did not have.
    #[serde(rename = "model-l1d-misses")]
    L1dMisses,
    /// Lines that the last cache was asked for.
    #[serde(rename = "model-cache-references")]
    CacheReferences,
    /// Lines that the last cache did not have.
    #[serde(rename = "model-cache-misses")]
    CacheMisses,
    /// Translations of code that the first TLB did not have.
    #[serde(rename = "model-itlb-misses")]
    ItlbMisses,
    /// Translations of data that the first TLB did not have.
    #[serde(rename = "model-dtlb-misses")]
    DtlbMisses,
    /// Translations that no TLB had.
    #[serde(rename = "model-page-walks")]
    PageWalks,
    /// Branches, calls and returns.
    #[serde(rename = "model-branches")]
    Branches,
    /// Those that were predicted wrong.
    #[serde(rename = "model-branch-misses")]
    BranchMisses,
}

impl Modelled {
    /// All of them, in the order in which they are printed.
    pub const ALL: [Modelled; 10] = [
        Modelled::L1iMisses,
        Modelled::L1dAccesses,
        Modelled::L1dMisses,
        Modelled::CacheReferences,
        Modelled::CacheMisses,
        Modelled::ItlbMisses,
        Modelled::DtlbMisses,
        Modelled::PageWalks,
        Modelled::Branches,
        Modelled::BranchMisses,
    ];

    /// The name in files and on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Modelled::L1iMisses => "model-l1i-misses",
            Modelled::L1dAccesses => "model-l1d-accesses",
            Modelled::L1dMisses => "model-l1d-misses",
            Modelled::CacheReferences => "model-cache-references",
            Modelled::CacheMisses => "model-cache-misses",
            Modelled::ItlbMisses => "model-itlb-misses",
            Modelled::DtlbMisses => "model-dtlb-misses",
            Modelled::PageWalks => "model-page-walks",
            Modelled::Branches => "model-branches",
            Modelled::BranchMisses => "model-branch-misses",
        }
    }

    /// The unit of one value.
    pub const fn unit(self) -> &'static str {
        match self {
            Modelled::L1dAccesses => "accesses",
            Modelled::CacheReferences => "references",
            Modelled::PageWalks => "walks",
            Modelled::Branches => "branches",
            _ => "misses",
        }
    }

    /// Whether it counts what most instructions do, so that one is no more than an instruction.
    pub const fn is_common(self) -> bool {
        matches!(self, Modelled::L1dAccesses | Modelled::Branches)
    }
}

impl Tallied<{ Modelled::ALL.len() }> for Modelled {
    const KINDS: [Modelled; Modelled::ALL.len()] = Modelled::ALL;

    fn name(self) -> &'static str {
        Modelled::name(self)
    }
}

/// How many of each.
pub type ModelledCounts = Tally<Modelled, { Modelled::ALL.len() }>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_one_name_each() {
        for counter in Modelled::ALL {
            assert_eq!(serde_json::to_value(counter).unwrap(), counter.name());
            assert_eq!(Modelled::named(counter.name()), Some(counter));
            assert!(counter.name().ends_with(counter.unit()));
        }
    }

    #[test]
    fn a_model_without_a_machine_is_a_name_in_files() {
        assert_eq!(serde_json::to_string(&Model::Coherence).unwrap(), "\"coherence\"");
    }
}
