//! Models of machines: caches, TLBs, predictors of branches, and the coherence of caches. Each
//! counter of a model is a Metric that decides nothing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A machine that is modelled: a file of `machines/`, or one like it. Lines have 64 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MachineModel {
    /// File name; built-in machines have no `.toml`.
    #[serde(default)]
    pub name: String,
    /// Full name for people; only in the machine's file, since no count depends on it.
    #[serde(default, skip_serializing)]
    pub title: String,
    /// Sources of its sizes; only in the machine's file.
    #[serde(default, skip_serializing)]
    pub sources: Vec<String>,
    pub l1i: CacheSize,
    pub l1d: CacheSize,
    pub l2: CacheSize,
    /// Absent without a third level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llc: Option<CacheSize>,
    pub itlb: TlbSize,
    pub dtlb: TlbSize,
    /// Second level for code alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub itlb2: Option<TlbSize>,
    /// Second level for data alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtlb2: Option<TlbSize>,
    /// Second level for both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stlb: Option<TlbSize>,
    pub branches: Branches,
}

/// The size of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheSize {
    pub kib: u32,
    /// Lines of each set.
    pub ways: u32,
}

/// The size of a TLB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlbSize {
    /// Translations of pages of 4 KiB; of all pages, if large ones have none of their own.
    pub entries: u32,
    /// Small translations of each set.
    pub ways: u32,
    /// Translations of pages of 2 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub large_entries: Option<u32>,
    /// Large translations of each set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub large_ways: Option<u32>,
}

/// A textbook predictor: gshare, and a stack of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Branches {
    /// Number of branches that the predictor remembers.
    pub history: u32,
    /// Binary logarithm of the number of counters, and of targets.
    pub table: u32,
    /// Number of calls that the predictor remembers.
    pub returns: u32,
}

const LINE: u64 = 64;

/// Limits of `plugin/machine.c`.
const MOST_SETS: u64 = 1 << 20;
const MOST_TLB_SETS: u64 = 1 << 12;
const MOST_WAYS: u64 = 64;

/// Sets and ways.
type Sets = (u64, u64);

impl MachineModel {
    /// Most guest memory, in MiB, when a machine is modelled: it must be in one piece.
    pub const MOST_MEMORY_MIB: u32 = 2048;

    /// File that the plugin reads (`docs/wire.md`); the error says why there can be no such
    /// machine.
    pub fn wire(&self) -> Result<String, String> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if self.name.is_empty() || self.name.len() > 32 || !self.name.bytes().all(is_plain) {
            return Err("a name has 1 to 32 letters, digits, '-', '_' and '.'".to_owned());
        }
        if self.stlb.is_some() && (self.itlb2.is_some() || self.dtlb2.is_some()) {
            return Err("stlb is behind both TLBs, so remove itlb2 and dtlb2, or stlb".to_owned());
        }
        let caches = [
            ("l1i", Some(self.l1i)),
            ("l1d", Some(self.l1d)),
            ("l2", Some(self.l2)),
            ("llc", self.llc),
        ];
        let tlbs = [
            ("itlb", Some(self.itlb)),
            ("dtlb", Some(self.dtlb)),
            ("itlb2", self.itlb2),
            ("dtlb2", self.dtlb2),
            ("stlb", self.stlb),
        ];
        let mut text = String::new();
        for (name, size) in caches.into_iter().filter_map(|(name, size)| Some((name, size?))) {
            let (sets, ways) = size.sets().ok_or_else(|| no_sets(name, MOST_SETS))?;
            text += &format!("{name} {sets} {ways}\n");
        }
        for (name, size) in tlbs.into_iter().filter_map(|(name, size)| Some((name, size?))) {
            let [(sets, ways), (large_sets, large_ways)] =
                size.sets().ok_or_else(|| no_sets(name, MOST_TLB_SETS))?;
            text += &format!("{name} {sets} {ways} {large_sets} {large_ways}\n");
        }
        let Branches { history, table, returns } = self.branches;
        if history > table || table > 24 || !(1..=64).contains(&returns) {
            return Err("branches needs a history up to table, a table up to 24, and 1 to 64 \
                        returns"
                .to_owned());
        }
        Ok(text + &format!("branches {history} {table} {returns}\n"))
    }
}

fn no_sets(name: &str, most: u64) -> String {
    format!(
        "{name} must have a power of two sets, at most {most}, of 1 to {MOST_WAYS} ways; \
         large_entries and large_ways go together"
    )
}

impl CacheSize {
    fn sets(self) -> Option<Sets> {
        sets(u64::from(self.kib) * 1024 / LINE, u64::from(self.ways), MOST_SETS)
    }
}

impl TlbSize {
    /// Sets and ways for small and for large pages; (0, 0) where large pages share the small
    /// entries.
    fn sets(self) -> Option<[Sets; 2]> {
        let large = match (self.large_entries, self.large_ways) {
            (None, None) => (0, 0),
            (Some(entries), Some(ways)) => sets(entries.into(), ways.into(), MOST_TLB_SETS)?,
            _ => return None,
        };
        Some([sets(self.entries.into(), self.ways.into(), MOST_TLB_SETS)?, large])
    }
}

/// Sets and ways of a number of entries; `None` unless it is a power of two sets and not too large.
fn sets(entries: u64, ways: u64, most: u64) -> Option<Sets> {
    let sets = entries.checked_div(ways)?;
    let is_whole = sets * ways == entries && sets.is_power_of_two();
    (is_whole && sets <= most && ways <= MOST_WAYS).then_some((sets, ways))
}

/// Kinds of models that run while a guest is counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Model {
    /// Which cache lines travel between several CPUs.
    Coherence,
    /// The caches, the translation of addresses and the prediction of branches of a machine.
    Machine(Box<MachineModel>),
}

impl Model {
    /// Name in files and on the screen.
    pub fn name(&self) -> &str {
        match self {
            Model::Coherence => "coherence",
            Model::Machine(machine) => &machine.name,
        }
    }

    pub fn machine(&self) -> Option<&MachineModel> {
        match self {
            Model::Coherence => None,
            Model::Machine(machine) => Some(machine),
        }
    }
}

named_enum! {
    /// Part of a guest's memory.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[derive(JsonSchema)]
    pub enum Memory {
        /// The kernel's variables, and those of its modules.
        Data = "data",
        /// Variables of which each CPU has one.
        Percpu = "percpu",
        /// Allocated by the kernel in its map of all memory: slab objects, page tables, page cache.
        Direct = "direct",
        /// Mapped by the kernel page by page: kernel stacks, `vmalloc`.
        Vmalloc = "vmalloc",
        /// The kernel's descriptions of pages, `struct page`.
        Pages = "pages",
        User = "user",
        Other = "other",
    }
}

impl Memory {
    /// True if lines of this memory are named by variable; others have the name of the function
    /// that most often gets them from another CPU.
    pub fn has_symbols(self) -> bool {
        matches!(self, Memory::Data | Memory::Percpu)
    }
}

/// Cache lines of one name, and how often they travelled from one CPU to another in a Region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheLine {
    pub memory: Memory,
    /// The variable, or two that share the line (`a,b`), or a function: see
    /// [`Memory::has_symbols`].
    pub name: String,
    /// Bytes from the variable's beginning to the line's.
    pub offset: u64,
    /// Number of accesses that found it with another CPU.
    pub transfers: u64,
    /// Number of lines of this name.
    pub lines: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_without_a_machine_is_a_name_in_files() {
        assert_eq!(serde_json::to_string(&Model::Coherence).unwrap(), "\"coherence\"");
    }
}
