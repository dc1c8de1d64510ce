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
        instead_of: &["copy_user_enhanced_fast_string", "copy_user_generic_string"],
    },
    Fallback {
        function: "rep_stos_alternative",
        feature: "FSRS",
        instead_of: &["clear_user_erms", "clear_user_rep_good"],
    },
    Fallback {
        function: "clear_page_orig",
        feature: "ERMS",
        instead_of: &["clear_page_erms", "clear_page_rep"],
    },
];

/// Whether a function differs because one Side alone takes the slow way: it is that way, or one
/// that it replaces. `is_one_sided` says of a function whether only one Side executed it.
pub fn is_artefact(function: &str, is_one_sided: impl Fn(&str) -> bool) -> bool {
    let of = |it: &&Fallback| it.function == function || it.instead_of.contains(&function);
    FALLBACKS.iter().find(of).is_some_and(|it| is_one_sided(it.function))
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

    /// Whether this function differs because only one Side takes a slow way.
    pub fn is_artefact(&self, function: &str) -> bool {
        is_artefact(function, |name| self.has_one_side(name))
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
    fn a_slow_way_of_one_side_and_what_it_replaces_are_artefacts() {
        let only = |name: &str| name == "memset_orig";
        for (function, expected) in [
            ("memset_orig", true),
            ("memset_erms", true),
            ("memcpy_orig", false),
            ("clear_page_erms", false),
            ("vfs_read", false),
        ] {
            assert_eq!(is_artefact(function, only), expected, "{function}");
        }
        // Where both take it, it says something of the kernels.
        assert!(!is_artefact("memset_orig", |_| false));
        assert!(!has_one_side(&Sides { base: 3, change: 4 }));
        assert!(!has_one_side(&Sides { base: 0, change: 0 }));
        assert!(has_one_side(&Sides { base: 0, change: 4 }));
    }
}
