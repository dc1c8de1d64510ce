//! What has to be the same for a result's numbers to come out again.

use super::formats::Page;
use super::options::TextOptions;
use ktax_host::text::short_hashes;
use ktax_model::{ComparisonMethod, Identity, SavedResult, Side};

/// The guest programs, QEMU and the kernels that a comparison of exact counts or of guests was made
/// with, ending in a newline; `None` of other results.
pub fn versions(result: &SavedResult, options: TextOptions) -> Option<String> {
    let SavedResult::Comparison(comparison) = result else { return None };
    let (key, kernels) = match &comparison.method {
        ComparisonMethod::Counts(counts) => {
            let of = |side: Side| (side.name(), &counts.subjects.get(side).kernel);
            (&counts.key, Side::BOTH.map(of).to_vec())
        }
        ComparisonMethod::Guests(guests) => {
            let plan = &guests.plan;
            let of = |side: Side| Some((side.name(), plan.side(side)?.kernel.as_ref()?));
            let sides = Side::BOTH.into_iter().filter_map(of);
            (&plan.key, [("host", &plan.host_kernel)].into_iter().chain(sides).collect())
        }
        ComparisonMethod::Times(_) => return None,
    };
    let guest = ("guest", short_hashes(&key.guest));
    let rows = [guest, ("QEMU", key.qemu.clone())];
    let kernels = kernels.into_iter().map(|(name, identity)| (name, kernel(identity)));
    let cells = rows.into_iter().chain(kernels).map(|(name, what)| [name.to_owned(), what]);
    Some(Page::new(options).columns(&cells.collect::<Vec<_>>()))
}

/// A package's version stands in its source; the image is known by its hash alone.
fn kernel(identity: &Identity) -> String {
    let (source, image) = (&identity.source, short_hashes(&identity.sha256));
    let release = identity.release.iter().map(|release| format!("{release}, "));
    let date = identity.package_date.iter().map(|date| format!(", of {date}"));
    let [release, date] = [release.collect::<String>(), date.collect()];
    format!("{source}, {release}image {image}{date}")
}
