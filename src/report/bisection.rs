//! What `ktax bisect` prints.

use super::text::{paragraph, table_of_numbers};
use super::{TextOptions, number};
use crate::model::{Bisection, Carrier, Chain, Element, Point, metric};
use crate::text::escape;

/// How much of a commit's id is shown.
const ID_LENGTH: usize = 12;

/// The elements that carry the difference, the largest first; what is left; what was skipped.
pub fn bisection(bisection: &Bisection, options: TextOptions) -> String {
    let mut text = paragraph(&escape(&bisection.title), options);
    text += &format!("\n{}", paragraph(&whole(bisection), options));
    let found = bisection.found.as_deref().unwrap_or_default();
    if !found.is_empty() {
        let rows = found.iter().flat_map(|carrier| rows(bisection, carrier)).collect();
        let header = ["delta", "share", bisection.chain.words().0, ""];
        text += &format!("\n{}", table_of_numbers(&header, rows, 0..2, options));
    }
    if let Some(sentence) = left(bisection, found) {
        text += &format!("\n{}", paragraph(&sentence, options));
    }
    text += &merges(bisection, found, options).unwrap_or_default();
    let skipped = skipped(bisection);
    if !skipped.is_empty() {
        text += &format!("\n{}", paragraph("Could not be measured:", options));
        text += &skipped.iter().map(|line| paragraph(line, options)).collect::<String>();
    }
    text
}

/// One place of the chain, while it is measured: `4 of 16, 1a2b3c4d5e6f sys: a subject`.
pub fn place(bisection: &Bisection, place: usize) -> String {
    let element = place.checked_sub(1).and_then(|at| bisection.elements.get(at));
    let said =
        element.map_or(String::new(), |one| format!("{} {}", name(bisection, one), one.title));
    escape(format!("{place} of {}, {said}", bisection.elements.len()).trim_end())
}

fn whole(bisection: &Bisection) -> String {
    let Some((base, change)) = bisection.ends() else { return String::new() };
    let unit = metric(&bisection.metric).map_or("", |metric| metric.unit);
    let delta = change - base;
    let percent = (base != 0.0).then(|| delta / base * 100.0);
    let said = format!(
        "{}: {} → {} {unit} per operation, {} ({} %), over {} {}.",
        bisection.row,
        number::count(base),
        number::count(change),
        number::delta(delta),
        number::percent(percent),
        bisection.elements.len(),
        bisection.chain.words().1,
    );
    escape(&said)
}

/// A line for each element: one, or those that could not be told apart.
fn rows(bisection: &Bisection, carrier: &Carrier) -> Vec<Vec<String>> {
    let element = |(at, element): (usize, &Element)| {
        let numbers = match at {
            0 => [number::delta(carrier.delta), format!("{:.1} %", carrier.share_percent)],
            _ => ["or".to_owned(), "one of".to_owned()],
        };
        numbers.into_iter().chain([name(bisection, element), element.title.clone()]).collect()
    };
    let elements = bisection.elements.get(carrier.after..carrier.at).unwrap_or_default();
    elements.iter().rev().enumerate().map(element).collect()
}

fn name(bisection: &Bisection, element: &Element) -> String {
    match bisection.chain {
        Chain::Commits => element.name.chars().take(ID_LENGTH).collect(),
        Chain::Patches => element.name.rsplit('/').next().unwrap_or_default().to_owned(),
        _ => element.name.clone(),
    }
}

/// What the found ones leave, and how many places were measured for it.
fn left(bisection: &Bisection, found: &[Carrier]) -> Option<String> {
    let (base, change) = bisection.ends()?;
    let left = change - base - found.iter().map(|carrier| carrier.delta).sum::<f64>();
    let costs = bisection.points.values().filter(|point| matches!(point, Point::Cost(_))).count();
    Some(format!(
        "All others together: {}. Of {} places between them {} were measured, each once; \
         differences of up to {} were not looked into.",
        number::delta(left),
        bisection.elements.len() + 1,
        costs,
        number::count(bisection.negligible),
    ))
}

/// What to do about a merge; the arguments in one line, to be copied.
fn merges(bisection: &Bisection, found: &[Carrier], options: TextOptions) -> Option<String> {
    let elements = || found.iter().filter_map(|carrier| bisection.elements.get(carrier.at - 1));
    let id = name(bisection, elements().find(|element| element.is_merge)?);
    let said = format!("{id} is a merge. The commits that it brings are searched with");
    let arguments = format!("--base git:$(git merge-base {id}^1 {id}^2) --change git:{id}^2");
    Some(format!("\n{}  {arguments}\n", paragraph(&said, options)))
}

fn skipped(bisection: &Bisection) -> Vec<String> {
    let skipped = bisection.points.iter().filter_map(|(at, point)| match point {
        Point::Skipped(why) => Some((bisection.elements.get(at.checked_sub(1)?)?, why)),
        Point::Cost(_) => None,
    });
    skipped
        .map(|(element, why)| escape(&format!("- {}: {why}", name(bisection, element))))
        .collect()
}
