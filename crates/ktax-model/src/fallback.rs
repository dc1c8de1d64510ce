//! Functions that a kernel uses only on a CPU that lacks a feature. Kernels choose them by other
//! features, so one version may take the slow way on a CPU on which another one does not.

use super::{Effect, Sides};

/// A slow way, with the feature that a kernel takes it without, and the ways that it replaces.
#[derive(Debug)]
pub struct Fallback {
    /// The slow way.
    pub function: &'static str,
    /// The feature that the CPU lacks.
    pub feature: &'static str,
    instead_of: &'static [&'static str],
}

/// Of x86-64, Linux 5.x and 6.x.
const FALLBACKS: [Fallback; 5] = [
    Fallback {
        function: "memset_orig",
        feature: "FSRS",
        instead_of: &["memset", "__memset", "memset_erms"],
    },
    Fallback {
        function: "memcpy_orig",
        feature: "FSRM",
        instead_of: &["memcpy", "__memcpy", "memcpy_erms"],
    },
    Fallback {
        function: "rep_movs_alternative",
        feature: "FSRM",
        instead_of: &[
            "copy_user_enhanced_fast_string",
            "copy_user_generic_string",
            "copy_user_short_string",
        ],
    },
    Fallback {
        function: "rep_stos_alternative",
        feature: "FSRS",
        instead_of: &["clear_user_erms", "clear_user_original", "clear_user_rep_good"],
    },
    Fallback {
        function: "clear_page_orig",
        feature: "ERMS",
        instead_of: &["clear_page_erms", "clear_page_rep"],
    },
];

/// Returns the feature for want of which one Side alone takes the slow way, if this function is
/// that way, or one that it replaces. `is_one_sided` tells of a function whether only one Side
/// executed it.
pub fn lacking(function: &str, is_one_sided: impl Fn(&str) -> bool) -> Option<&'static str> {
    let has = |way: &&Fallback| way.function == function || way.instead_of.contains(&function);
    let way = FALLBACKS.iter().find(has).filter(|way| is_one_sided(way.function));
    way.map(|way| way.feature)
}

/// Whether only one Side executed a function.
pub fn has_one_side(counts: &Sides<u64>) -> bool {
    (counts.base == 0) != (counts.change == 0)
}

impl Effect {
    /// The slow ways that only one Side takes, because the CPU lacks a feature.
    pub fn fallbacks(&self) -> impl Iterator<Item = &'static Fallback> {
        FALLBACKS.iter().filter(|it| self.has_one_side(it.function))
    }

    /// Returns the feature that the CPU lacks, if this function differs because only one Side takes
    /// the slow way without it.
    pub fn lacking(&self, function: &str) -> Option<&'static str> {
        lacking(function, |name| self.has_one_side(name))
    }

    fn has_one_side(&self, function: &str) -> bool {
        let found = self.functions.iter().find(|it| it.function == function);
        found.is_some_and(|it| has_one_side(&it.instructions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_way_of_one_side_and_what_it_replaces_are_for_want_of_a_feature() {
        let only = |name: &str| name == "memset_orig";
        for (function, expected) in [
            ("memset_orig", Some("FSRS")),
            ("memset_erms", Some("FSRS")),
            ("memcpy_orig", None),
            ("clear_page_erms", None),
            ("vfs_read", None),
        ] {
            assert_eq!(lacking(function, only), expected, "{function}");
        }
        // Where both take it, it says something of the kernels.
        assert_eq!(lacking("memset_orig", |_| false), None);
        assert!(!has_one_side(&Sides { base: 3, change: 4 }));
        assert!(!has_one_side(&Sides { base: 0, change: 0 }));
        assert!(has_one_side(&Sides { base: 0, change: 4 }));
    }
}
