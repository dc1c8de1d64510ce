use crate::view::SideLine;
use ktax_host::text::short_hashes;
use ktax_model::{CountsComparison, Identity, Side};

/// What was compared.
pub fn sides(counts: &CountsComparison) -> Vec<SideLine> {
    let line = |side: Side| SideLine {
        side: side.name(),
        what: kernel(counts, side),
        beside: counts.subjects.get(side).subject.beside_kernel(),
    };
    Side::BOTH.map(line).to_vec()
}

/// A side's Kernel; with its revision, or a piece of its hash, where the two have one name and are
/// not the same.
fn kernel(counts: &CountsComparison, side: Side) -> String {
    let identity = |side| -> &Identity { &counts.subjects.get(side).kernel };
    let (base, change, own) = (identity(Side::Base), identity(Side::Change), identity(side));
    if base.name() != change.name() || base.sha256 == change.sha256 {
        return short_hashes(own.name());
    }
    match counts.subjects.get(side).subject.revision() {
        Some(revision) => format!("{} (git {revision})", own.name()),
        None => {
            let start: String = own.sha256.chars().take(12).collect();
            format!("{} (sha256 {start})", own.name())
        }
    }
}
