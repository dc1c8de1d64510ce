use crate::view::Records;
use ktax_model::{Bisection, Carrier, Point};

const COLUMNS: [&str; 8] =
    ["point", "element", "title", "row", "metric", "cost", "delta", "share_percent"];

/// One line for each place of the chain, the base first: what it costs where that was measured, and
/// what its element carries.
pub fn records(bisection: &Bisection) -> Records {
    let mut records = Records::of(COLUMNS.into_iter().chain(["skipped"]));
    for place in 0..=bisection.elements.len() {
        let element = place.checked_sub(1).and_then(|at| bisection.elements.get(at));
        let skipped = match bisection.points.get(&place) {
            Some(Point::Skipped(why)) => Some(why),
            _ => None,
        };
        let carries = |carrier: &&Carrier| (carrier.after + 1..=carrier.at).contains(&place);
        let carrier = bisection.found.iter().flatten().find(carries);
        records.push([
            place.into(),
            element.map(|element| &element.name).into(),
            element.map(|element| &element.title).into(),
            (&bisection.row).into(),
            (&bisection.metric).into(),
            bisection.cost(place).into(),
            carrier.map(|carrier| carrier.delta).into(),
            carrier.map(|carrier| carrier.share_percent).into(),
            skipped.into(),
        ]);
    }
    records
}
