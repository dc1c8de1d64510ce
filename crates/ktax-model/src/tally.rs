//! How many of each of some kinds.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::{AddAssign, SubAssign};

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

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

/// How many of each kind. In files it has only those of which there are any.
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
    /// Of one kind alone.
    pub fn of(kind: K, count: u64) -> Self {
        let mut tally = Tally::default();
        for (known, to) in K::KINDS.into_iter().zip(&mut tally.counts) {
            if known == kind {
                *to = count;
            }
        }
        tally
    }

    /// How many of that kind.
    pub fn get(&self, kind: K) -> u64 {
        self.all().find(|(known, _)| *known == kind).map_or(0, |(_, count)| count)
    }

    /// What `make` makes of the count of each kind.
    #[must_use]
    pub fn map(&self, make: impl FnMut(u64) -> u64) -> Self {
        Tally { counts: self.counts.map(make), kinds: PhantomData }
    }

    /// What `make` makes of the counts of each kind of both.
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
            tally += Tally::of(kind, count);
        }
        Ok(tally)
    }
}
