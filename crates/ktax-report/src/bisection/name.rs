use ktax_host::text::{counted_as, escape};
use ktax_model::{Bisection, Chain, Element};

/// How much of a commit's id is shown.
const ID_LENGTH: usize = 12;

/// What an element is called.
pub fn name(bisection: &Bisection, element: &Element) -> String {
    match bisection.chain {
        Chain::Commits => element.name.chars().take(ID_LENGTH).collect(),
        Chain::Patches => element.name.rsplit('/').next().unwrap_or_default().to_owned(),
        Chain::Options | Chain::Parameters => element.name.clone(),
    }
}

/// How many elements: `1 commit`, `2 commits`.
pub fn elements(chain: Chain, count: usize) -> String {
    let (one, several) = chain.words();
    counted_as(count, one, several)
}

/// One place of the chain, while it is measured: `4 of 16, 1a2b3c4d5e6f sys: a subject`.
pub fn place(bisection: &Bisection, place: usize) -> String {
    let element = place.checked_sub(1).and_then(|at| bisection.elements.get(at));
    let said =
        element.map_or(String::new(), |one| format!("{} {}", name(bisection, one), one.title));
    escape(format!("{place} of {}, {said}", bisection.elements.len()).trim_end())
}
