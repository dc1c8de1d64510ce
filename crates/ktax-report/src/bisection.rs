//! Report of a bisection: which elements of a chain (commits, patches …) carry a difference.

use crate::view::{
    ChainCosts, Columns, Details, Fields, Picture, Records, Report, Section, Table, View,
};
use crate::{number, words};
use ktax_host::text::{counted_as, escape};
use ktax_model::{
    Bisection, Carrier, Chain, Comparison, Element, Point, SavedResult, Verdict, metric,
};

impl Report for Bisection {
    fn view(&self) -> View {
        let found = self.carriers.as_deref().unwrap_or_default();
        View {
            title: self.title.clone(),
            headline: headline(self, found),
            how: total_difference(self).unwrap_or_default(),
            again: self.again.clone(),
            sections: vec![
                steps_picture(self, found),
                Section::table(carriers_table(self, found)),
                Section::sentences(rest_sentence(self, found)),
                Section::sentences(unfinished_sentence(self)),
                Section::sentences(spread_sentence(self)),
                merge_command(self, found),
                Section::Items {
                    title: format!("These {} could not be measured:", self.chain.nouns().1),
                    items: skipped_elements(self),
                },
            ],
            ..View::default()
        }
    }

    fn records(&self) -> Records {
        // Point N is the base with the first N elements of the chain.
        let points: Vec<usize> = (0..=self.elements.len()).collect();
        let element = |point: usize| self.elements.get(point.checked_sub(1)?);
        let carries = |carrier: &Carrier, point| {
            (carrier.count_before + 1..=carrier.count_with).contains(&point)
        };
        let carrier =
            |point| self.carriers.iter().flatten().find(|carrier| carries(carrier, point));
        let mut fields = Fields::new(&points);
        fields.add("point", |point| point);
        fields.add("element", |point| element(point).map(|element| &element.name));
        fields.add("title", |point| element(point).map(|element| &element.title));
        fields.add("row", |_| &self.row);
        fields.add("metric", |_| &self.metric);
        fields.add("cost", |point| self.cost(point));
        fields.add("delta", |point| carrier(point).map(|carrier| carrier.delta));
        fields.add("share_percent", |point| carrier(point).map(|carrier| carrier.share_percent));
        fields.add("skipped", |point| match self.points.get(&point) {
            Some(Point::Skipped(why)) => Some(why),
            _ => None,
        });
        fields.records()
    }

    fn result(&self) -> SavedResult {
        SavedResult::Bisection(Box::new(self.clone()))
    }
}

/// Answer: the carriers and their shares. If the search could not separate a carrier from elements
/// before it, the answer counts these elements.
fn headline(bisection: &Bisection, found: &[Carrier]) -> String {
    let ends = bisection.ends().filter(|_| bisection.carriers.is_some());
    let Some((base, change)) = ends else {
        return format!(
            "The search is not finished: {} of {} points were measured or skipped.",
            bisection.points.len(),
            bisection.elements.len() + 1
        );
    };
    let (delta, all) = (change - base, elements(bisection.chain, bisection.elements.len()));
    let unit = metric(&bisection.metric).map_or("", |metric| metric.unit);
    let total = format!("{} {unit} ({})", number::delta(delta), bisection.row);
    let share = |percent: f64| format!("{percent:.1} %");
    let carrier_text = |carrier: &Carrier| {
        let element = bisection.elements.get(carrier.count_with.checked_sub(1)?)?;
        let others = match carrier.count_with - carrier.count_before - 1 {
            0 => String::new(),
            1 => " or the one before it".to_owned(),
            others => format!(" or one of the {others} before it"),
        };
        let carried = share(carrier.share_percent);
        Some(format!("{}{others} {carried}", element_name(bisection, element)))
    };
    let carriers: Vec<String> = found.iter().filter_map(carrier_text).collect();
    match carriers.len() {
        0 => format!(
            "None of {all} carries at least {} of {total}: the difference is spread over several.",
            number::count(bisection.negligible)
        ),
        count => {
            let sum = share(found.iter().map(|carrier| carrier.share_percent).sum());
            let verb = if count == 1 { "carries" } else { "carry" };
            format!("{count} of {all} {verb} {sum} of {total}: {}", carriers.join(", "))
        }
    }
}

fn total_difference(bisection: &Bisection) -> Option<String> {
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

/// Picture of the measured costs along the chain.
fn steps_picture(bisection: &Bisection, found: &[Carrier]) -> Section {
    let cost = |(index, point): (&usize, &Point)| match point {
        Point::Cost(cost) => Some((*index, *cost)),
        Point::Skipped(_) => None,
    };
    let skipped =
        |(index, point): (&usize, &Point)| matches!(point, Point::Skipped(_)).then_some(*index);
    let carrier = |carrier: &Carrier| {
        let element = bisection.elements.get(carrier.count_with.checked_sub(1)?)?;
        Some((carrier.count_with, element_name(bisection, element)))
    };
    let elements = bisection.chain.nouns().1;
    Section::Picture {
        title: format!("Cost of one operation along the {elements}"),
        picture: Picture::Steps(ChainCosts {
            unit: metric(&bisection.metric).map_or("", |metric| metric.unit),
            elements,
            last: bisection.elements.len(),
            points: bisection.points.iter().filter_map(cost).collect(),
            skipped: bisection.points.iter().filter_map(skipped).collect(),
            carriers: found.iter().filter_map(carrier).collect(),
        }),
        how: format!(
            "Each mark is a measured point: the base with this number of {elements}. A cross is a \
             point that could not be measured. A label names the element that carries a step."
        ),
    }
}

/// Table with a line for each element of a carrier: the carrier, and the elements before it that
/// the search could not separate from it.
fn carriers_table(bisection: &Bisection, found: &[Carrier]) -> Table {
    let lines = found.iter().flat_map(|carrier| {
        let elements =
            bisection.elements.get(carrier.count_before..carrier.count_with).unwrap_or_default();
        elements.iter().rev().enumerate().map(move |(index, element)| (carrier, index, element))
    });
    let lines: Vec<(&Carrier, usize, &Element)> = lines.collect();
    let first = |index, text: String, other: &str| if index == 0 { text } else { other.to_owned() };
    let delta = format!("delta\n{}", words::unit(&bisection.metric));
    let mut columns = Columns::new(&lines);
    columns.number(delta.trim_end(), |(carrier, index, _)| {
        first(index, number::delta(carrier.delta), "or")
    });
    columns.number("share %", |(carrier, index, _)| {
        first(index, format!("{:.1}", carrier.share_percent), "one of")
    });
    columns.name(bisection.chain.nouns().0, |(.., element)| element_name(bisection, element));
    columns.words("", |(.., element)| &element.title).wrap_last();
    columns.table()
}

/// Sentence with the cost of all other elements; `None` until both ends of the chain are measured.
fn rest_sentence(bisection: &Bisection, found: &[Carrier]) -> Option<String> {
    let (base, change) = bisection.ends()?;
    let rest = change - base - found.iter().map(|carrier| carrier.delta).sum::<f64>();
    let costs = bisection.points.values().filter(|point| matches!(point, Point::Cost(_))).count();
    let others = if found.is_empty() { "All" } else { "All other" };
    Some(format!(
        "{others} {} together: {}. {costs} of {} points were measured, each once. Differences of \
         up to {} were not searched.",
        bisection.chain.nouns().1,
        number::delta(rest),
        bisection.elements.len() + 1,
        number::count(bisection.negligible),
    ))
}

fn unfinished_sentence(bisection: &Bisection) -> Option<String> {
    let sentence = "The search is not finished; `ktax bisect run DIR` resumes it.";
    bisection.carriers.is_none().then(|| sentence.to_owned())
}

/// Advice if no element carries enough of the difference.
fn spread_sentence(bisection: &Bisection) -> Option<String> {
    let elements = bisection.chain.nouns().1;
    bisection.carriers.as_ref()?.is_empty().then(|| {
        format!(
            "To search further, start again with fewer {elements} between base and change: the \
             search finds smaller costs if the total difference is smaller."
        )
    })
}

/// Command that searches within the first carrier that is a merge; empty if no carrier is a merge.
fn merge_command(bisection: &Bisection, found: &[Carrier]) -> Section {
    let element = |carrier: &Carrier| bisection.elements.get(carrier.count_with.checked_sub(1)?);
    let merge = found.iter().filter_map(element).find(|element| element.is_merge);
    let (sentence, command) = match merge.map(|element| element_name(bisection, element)) {
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

fn skipped_elements(bisection: &Bisection) -> Vec<String> {
    let skipped = bisection.points.iter().filter_map(|(index, point)| match point {
        Point::Skipped(why) => Some((bisection.elements.get(index.checked_sub(1)?)?, why)),
        Point::Cost(_) => None,
    });
    skipped.map(|(element, why)| format!("{}: {why}", element_name(bisection, element))).collect()
}

/// Number of digits of a commit's id that are shown.
const ID_LENGTH: usize = 12;

fn element_name(bisection: &Bisection, element: &Element) -> String {
    match bisection.chain {
        Chain::Commits => element.name.chars().take(ID_LENGTH).collect(),
        Chain::Patches => element.name.rsplit('/').next().unwrap_or_default().to_owned(),
        Chain::Options | Chain::Parameters => element.name.clone(),
    }
}

/// Counts elements in words: `1 commit`, `2 commits`.
pub fn elements(chain: Chain, count: usize) -> String {
    let (one, several) = chain.nouns();
    counted_as(count, one, several)
}

/// Names a point of the chain while it is measured: `4 of 16, 1a2b3c4d5e6f sys: a subject`.
pub fn point_name(bisection: &Bisection, point: usize) -> String {
    let element = point.checked_sub(1).and_then(|index| bisection.elements.get(index));
    let shown = element.map_or(String::new(), |element| {
        format!("{} {}", element_name(bisection, element), element.title)
    });
    escape(format!("{point} of {}, {shown}", bisection.elements.len()).trim_end())
}

/// Comparison of base and change without a difference that a bisection could search for.
#[derive(Debug, Clone)]
pub struct NothingToSearch {
    comparison: Comparison,
    /// Number of elements in which base and change differ, `3 parameters`; empty if unknown.
    elements: String,
}

impl NothingToSearch {
    /// `elements` is the number of elements in which base and change differ: `3 parameters`.
    pub fn new(comparison: Comparison, elements: String) -> NothingToSearch {
        NothingToSearch { comparison, elements }
    }

    pub fn comparison(&self) -> &Comparison {
        &self.comparison
    }

    /// Returns sentences about the elements that would have been searched, and the next step.
    fn next_step(&self) -> String {
        let elements = match self.elements.as_str() {
            "" => String::new(),
            elements => format!("Base and change differ in {elements}. "),
        };
        let next_step = match self.missing_answer() {
            Some(_) => "Fix the cause, and run the same command with a new --out.",
            None => {
                "To find a row that is slower or faster, run `ktax compare` with the same base and \
                 change and without -w. Then search with this row."
            }
        };
        format!("{elements}A search needs a row that is slower or faster. {next_step}")
    }

    /// Returns why the comparison has no answer; `None` if it has one.
    fn missing_answer(&self) -> Option<&'static str> {
        let verdict = self.comparison.rows.first().map(|row| row.verdict);
        match verdict? {
            Verdict::Slower | Verdict::Faster => None,
            Verdict::NoDetectedChange | Verdict::BelowThreshold => None,
            Verdict::Failed => Some("a side failed"),
            Verdict::DifferentWork => Some("base and change did different work"),
            Verdict::TooFewBoots | Verdict::Inconclusive | Verdict::OneSide => {
                Some("the comparison has no answer")
            }
        }
    }
}

impl Report for NothingToSearch {
    fn view(&self) -> View {
        let mut view = self.comparison.view();
        let rows = words::headline(&self.comparison.rows);
        view.headline = match self.missing_answer() {
            Some(why) => format!("Nothing was searched, because {why}. {rows}."),
            None => format!("There is nothing to search for. {rows}."),
        };
        view.sections.push(Section::Sentences(vec![self.next_step()]));
        view.again = ktax_plan::search_command(&self.comparison);
        view
    }

    fn details(&self) -> Details {
        self.comparison.details()
    }

    fn records(&self) -> Records {
        self.comparison.records()
    }

    fn result(&self) -> SavedResult {
        self.comparison.result()
    }
}
