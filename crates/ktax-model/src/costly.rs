//! Instructions that cost many times as much as others. Each kind is a Metric that decides nothing:
//! the cost of one depends on the machine. Also counts by kind, and model-specific registers.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{AddAssign, SubAssign};

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

named_enum! {
    /// A kind, as in `plugin/costly.h`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum Costly {
        /// A load of CR3: another address space, or a flush of this one.
        Cr3Write = "cr3-write",
        /// `invlpg`.
        Invlpg = "invlpg",
        /// `invpcid`.
        Invpcid = "invpcid",
        /// `wrmsr`, of any register.
        Wrmsr = "wrmsr",
        /// `rdmsr`, of any register.
        Rdmsr = "rdmsr",
        /// `swapgs`.
        Swapgs = "swapgs",
        /// `verw`, which clears buffers.
        Verw = "verw",
        /// Instructions with a `lock` prefix, and exchanges with memory.
        Locked = "locked",
        /// `lfence`, `mfence`, `sfence`.
        Fence = "fence",
        /// `cpuid`, `wbinvd`, `serialize`, loads of CR0 and CR4.
        Serializing = "serializing",
        /// `syscall`, `sysenter`.
        Syscall = "syscall",
        /// `sysret`, `sysexit`.
        Sysret = "sysret",
        /// `iret`.
        Iret = "iret",
        /// `int`, `int3`.
        Int = "int",
        /// `cli`, `sti`, `popf`.
        InterruptFlag = "interrupt-flag",
        /// `in`, `out`, `ins`, `outs`.
        Port = "port",
        /// An access to memory that is a device's. Counted only where a machine is modelled.
        Mmio = "mmio",
        /// `hlt`, `mwait`.
        Hlt = "hlt",
        /// `pause`.
        Pause = "pause",
        /// `xsave`, `xrstor`, `fxsave`, `fxrstor`, of any kind.
        Xsave = "xsave",
        /// `clflush`, `clflushopt`, `clwb`.
        Clflush = "clflush",
        /// `rdtsc`, `rdtscp`, `rdpmc`.
        Rdtsc = "rdtsc",
        /// `rdrand`, `rdseed`.
        Rdrand = "rdrand",
        /// A call or jump to an address in a register or in memory, also through a retpoline.
        Indirect = "indirect",
        /// A return that jumps to a thunk.
        ReturnThunk = "return-thunk",
        /// A start of `rep stosb`, which clears or fills memory; its iterations are counted apart.
        RepStosb = "rep-stosb",
        /// A start of `rep stosw`, `rep stosl` or `rep stosq`.
        RepStos = "rep-stos",
        /// A start of `rep movsb`, which copies memory.
        RepMovsb = "rep-movsb",
        /// A start of `rep movsw`, `rep movsl` or `rep movsq`.
        RepMovs = "rep-movs",
    }
}

impl Costly {
    /// Starts of repeated string instructions.
    pub const STRINGS: [Costly; 4] =
        [Costly::RepStosb, Costly::RepStos, Costly::RepMovsb, Costly::RepMovs];
}

impl Tallied<{ Costly::ALL.len() }> for Costly {
    const KINDS: [Costly; Costly::ALL.len()] = Costly::ALL;

    fn name(self) -> &'static str {
        Costly::name(self)
    }
}

/// Counts by kind.
pub type CostlyCounts = Tally<Costly, { Costly::ALL.len() }>;

/// Kinds of what is counted, `N` of them.
pub trait Tallied<const N: usize>: Copy + Eq + 'static {
    /// All of them, in the order in which they are printed.
    const KINDS: [Self; N];

    /// The name in files and on the screen.
    fn name(self) -> &'static str;

    /// The kind of that name.
    fn named(name: &str) -> Option<Self> {
        Self::KINDS.into_iter().find(|kind| kind.name() == name)
    }
}

/// Counts by kind. In files it has only those of which there are any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally<K, const N: usize> {
    counts: [u64; N],
    kinds: PhantomData<K>,
}

impl<K, const N: usize> Default for Tally<K, N> {
    fn default() -> Self {
        Tally { counts: [0; N], kinds: PhantomData }
    }
}

impl<K: Tallied<N>, const N: usize> Tally<K, N> {
    /// A count of one kind alone.
    pub fn single(kind: K, count: u64) -> Self {
        let mut tally = Tally::default();
        for (known, to) in K::KINDS.into_iter().zip(&mut tally.counts) {
            if known == kind {
                *to = count;
            }
        }
        tally
    }

    /// Count of one kind.
    pub fn get(&self, kind: K) -> u64 {
        self.all().find(|(known, _)| *known == kind).map_or(0, |(_, count)| count)
    }

    /// Applies `make` to the count of each kind.
    #[must_use]
    pub fn map(&self, make: impl FnMut(u64) -> u64) -> Self {
        Tally { counts: self.counts.map(make), kinds: PhantomData }
    }

    /// Applies `make` to the counts of each kind of both.
    #[must_use]
    pub fn with(&self, other: &Self, mut make: impl FnMut(u64, u64) -> u64) -> Self {
        let mut counts = self.counts;
        for (count, other) in counts.iter_mut().zip(other.counts) {
            *count = make(*count, other);
        }
        Tally { counts, kinds: PhantomData }
    }

    /// None of any kind.
    pub fn is_zero(&self) -> bool {
        self.counts.iter().all(|count| *count == 0)
    }

    /// The kinds of which there are any.
    pub fn iter(&self) -> impl Iterator<Item = (K, u64)> {
        self.all().filter(|(_, count)| *count > 0)
    }

    fn all(&self) -> impl Iterator<Item = (K, u64)> {
        K::KINDS.into_iter().zip(self.counts)
    }
}

impl<K: Tallied<N>, const N: usize> AddAssign for Tally<K, N> {
    fn add_assign(&mut self, more: Self) {
        for (count, more) in self.counts.iter_mut().zip(more.counts) {
            *count = count.saturating_add(more);
        }
    }
}

impl<K: Tallied<N>, const N: usize> SubAssign for Tally<K, N> {
    fn sub_assign(&mut self, less: Self) {
        for (count, less) in self.counts.iter_mut().zip(less.counts) {
            *count = count.saturating_sub(less);
        }
    }
}

impl<K: Tallied<N>, const N: usize> Serialize for Tally<K, N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(kind, count)| (kind.name(), count)))
    }
}

impl<'de, K: Tallied<N>, const N: usize> Deserialize<'de> for Tally<K, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut tally = Tally::default();
        for (name, count) in BTreeMap::<String, u64>::deserialize(deserializer)? {
            let kind = K::named(&name).ok_or_else(|| {
                D::Error::custom(format_args!("unknown variant `{}`", name.escape_debug()))
            })?;
            tally += Tally::single(kind, count);
        }
        Ok(tally)
    }
}

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
    fn kinds_are_in_the_order_of_their_numbers_and_come_back_by_their_names() {
        for (number, kind) in Costly::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
            assert_eq!(Costly::named(kind.name()), Some(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        assert_eq!(Costly::named("none"), None);
    }

    #[test]
    fn only_what_there_is_is_written_and_an_unknown_kind_is_refused() {
        let mut counts = CostlyCounts::single(Costly::Cr3Write, 2);
        counts += CostlyCounts::single(Costly::Locked, 7);
        let text = serde_json::to_string(&counts).unwrap();
        assert_eq!(text, r#"{"cr3-write":2,"locked":7}"#);
        assert_eq!(serde_json::from_str::<CostlyCounts>(&text).unwrap(), counts);
        let error = serde_json::from_str::<CostlyCounts>(r#"{"a\u001bb":1}"#).unwrap_err();
        assert!(error.to_string().starts_with("unknown variant `a\\u{1b}b`"), "{error}");
    }

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
