use super::name::{elements, name};
use crate::view::{Kind, Line, Picture, Section, Steps, Table, View};
use crate::{number, words};
use ktax_model::{Bisection, Carrier, Element, Point, metric};

/// The elements that carry the difference, the largest first; what is left; what was skipped.
pub fn view(bisection: &Bisection) -> View {
    let found = bisection.found.as_deref().unwrap_or_default();
    View {
        title: bisection.title.clone(),
        headline: headline(bisection, found),
        how: whole(bisection).unwrap_or_default(),
        again: bisection.again.clone(),
        sections: vec![
            steps(bisection, found),
            Section::table(table(bisection, found)),
            Section::Sentences(left(bisection, found).into_iter().collect()),
            Section::Sentences(unfinished(bisection).into_iter().collect()),
            Section::Sentences(spread(bisection).into_iter().collect()),
            merge(bisection, found),
            Section::Items {
                title: format!("These {} could not be measured:", bisection.chain.words().1),
                items: skipped(bisection),
            },
        ],
        ..View::default()
    }
}

/// `2 of 16 commits carry 98.0 % of +25.50 instructions (getppid): 700000000000 78.4 %, …`; one
/// that was not told apart from its neighbours stands for them.
fn headline(bisection: &Bisection, found: &[Carrier]) -> String {
    let ends = bisection.ends().filter(|_| bisection.found.is_some());
    let Some((base, change)) = ends else {
        return format!(
            "The search is not finished: {} of {} points are known.",
            bisection.points.len(),
            bisection.elements.len() + 1
        );
    };
    let (delta, all) = (change - base, elements(bisection.chain, bisection.elements.len()));
    let unit = metric(&bisection.metric).map_or("", |metric| metric.unit);
    let whole = format!("{} {unit} ({})", number::delta(delta), bisection.row);
    let share = |percent: f64| format!("{percent:.1} %");
    let named = |carrier: &Carrier| {
        let element = bisection.elements.get(carrier.at.checked_sub(1)?)?;
        let others = match carrier.at - carrier.after - 1 {
            0 => String::new(),
            1 => " or the one before it".to_owned(),
            others => format!(" or one of the {others} before it"),
        };
        let carried = share(carrier.share_percent);
        Some(format!("{}{others} {carried}", name(bisection, element)))
    };
    let carriers: Vec<String> = found.iter().filter_map(named).collect();
    match carriers.len() {
        0 => format!(
            "None of {all} carries at least {} of {whole}: the difference is spread over them.",
            number::count(bisection.negligible)
        ),
        count => {
            let sum = share(found.iter().map(|carrier| carrier.share_percent).sum());
            let verb = if count == 1 { "carries" } else { "carry" };
            format!("{count} of {all} {verb} {sum} of {whole}: {}", carriers.join(", "))
        }
    }
}

fn whole(bisection: &Bisection) -> Option<String> {
    let (base, change) = bisection.ends()?;
    let unit = metric(&bisection.metric).map_or("", |metric| metric.unit);
    let delta = change - base;
    let percent = (base != 0.0).then(|| delta / base * 100.0);
    Some(format!(
        "{}: {} → {} {unit} per operation, {} ({} %), over {}.",
        bisection.row,
        number::count(base),
        number::count(change),
        number::delta(delta),
        number::percent(percent),
        elements(bisection.chain, bisection.elements.len()),
    ))
}

/// The cost along the chain, as far as it was measured.
fn steps(bisection: &Bisection, found: &[Carrier]) -> Section {
    let cost = |(at, point): (&usize, &Point)| match point {
        Point::Cost(cost) => Some((*at, *cost)),
        Point::Skipped(_) => None,
    };
    let is_skipped =
        |(at, point): (&usize, &Point)| matches!(point, Point::Skipped(_)).then_some(*at);
    let carrier = |one: &Carrier| {
        let element = bisection.elements.get(one.at.checked_sub(1)?)?;
        Some((one.at, name(bisection, element)))
    };
    let elements = bisection.chain.words().1;
    Section::Picture {
        title: format!("Cost of one operation along the {elements}"),
        picture: Picture::Steps(Steps {
            unit: metric(&bisection.metric).map_or("", |metric| metric.unit),
            elements,
            last: bisection.elements.len(),
            points: bisection.points.iter().filter_map(cost).collect(),
            skipped: bisection.points.iter().filter_map(is_skipped).collect(),
            carriers: found.iter().filter_map(carrier).collect(),
        }),
        how: format!(
            "Each mark is a measured point: the base with so many {elements}. A cross could not \
             be measured. Where the cost steps, the picture names what carries the step."
        ),
    }
}

fn table(bisection: &Bisection, found: &[Carrier]) -> Table {
    let delta = format!("delta\n{}", words::unit(&bisection.metric));
    let columns = [
        (delta.trim_end(), Kind::Number),
        ("share %", Kind::Number),
        (bisection.chain.words().0, Kind::Name),
        ("", Kind::Words),
    ];
    let lines = found.iter().flat_map(|carrier| lines(bisection, carrier));
    Table { wraps: 3, ..Table::of(columns) }.with(lines)
}

/// A line for each element: one, or those that could not be told apart.
fn lines(bisection: &Bisection, carrier: &Carrier) -> Vec<Line> {
    let line = |(at, element): (usize, &Element)| {
        let [delta, share] = match at {
            0 => [number::delta(carrier.delta), format!("{:.1}", carrier.share_percent)],
            _ => ["or".to_owned(), "one of".to_owned()],
        };
        Line::of([delta, share, name(bisection, element), element.title.clone()])
    };
    let elements = bisection.elements.get(carrier.after..carrier.at).unwrap_or_default();
    elements.iter().rev().enumerate().map(line).collect()
}

/// What the found ones leave, and how many places were measured for it.
fn left(bisection: &Bisection, found: &[Carrier]) -> Option<String> {
    let (base, change) = bisection.ends()?;
    let left = change - base - found.iter().map(|carrier| carrier.delta).sum::<f64>();
    let costs = bisection.points.values().filter(|point| matches!(point, Point::Cost(_))).count();
    let others = if found.is_empty() { "All" } else { "All other" };
    Some(format!(
        "{others} {} together: {}. {costs} of {} points were measured, each once. Differences of \
         up to {} were not searched.",
        bisection.chain.words().1,
        number::delta(left),
        bisection.elements.len() + 1,
        number::count(bisection.negligible),
    ))
}

fn unfinished(bisection: &Bisection) -> Option<String> {
    let more = "The search is not finished; `ktax bisect run DIR` resumes it.";
    bisection.found.is_none().then(|| more.to_owned())
}

/// What to do where nothing carries enough.
fn spread(bisection: &Bisection) -> Option<String> {
    let several = bisection.chain.words().1;
    bisection.found.as_ref()?.is_empty().then(|| {
        format!(
            "To search further, start again with fewer {several} between base and change: of a \
             smaller difference smaller shares are searched."
        )
    })
}

/// What to do about a merge.
fn merge(bisection: &Bisection, found: &[Carrier]) -> Section {
    let element = |carrier: &Carrier| bisection.elements.get(carrier.at.checked_sub(1)?);
    let merge = found.iter().filter_map(element).find(|element| element.is_merge);
    let (sentence, command) = match merge.map(|element| name(bisection, element)) {
        None => Default::default(),
        Some(id) => (
            format!(
                "{id} is a merge. To search the commits that it merges, run `ktax bisect start` \
                 with"
            ),
            format!("--base git:$(git merge-base {id}^1 {id}^2) --change git:{id}^2"),
        ),
    };
    Section::Command { sentence, command }
}

fn skipped(bisection: &Bisection) -> Vec<String> {
    let skipped = bisection.points.iter().filter_map(|(at, point)| match point {
        Point::Skipped(why) => Some((bisection.elements.get(at.checked_sub(1)?)?, why)),
        Point::Cost(_) => None,
    });
    skipped.map(|(element, why)| format!("{}: {why}", name(bisection, element))).collect()
}
