use crate::model::{History, HistoryLine, HistoryPoint};
use crate::report::number::percent;
use crate::stats::tables::change_percent;
use crate::text::{counted, counted_as};

/// How much more the last point costs than another, in percent.
pub fn percent_over(line: &HistoryLine, from: &HistoryPoint) -> Option<f64> {
    change_percent(from.cost(line.ops), line.points.last()?.cost(line.ops))
}

/// The cheapest point; of several the first.
pub fn cheapest(line: &HistoryLine) -> Option<&HistoryPoint> {
    let by_cost = |one: &&HistoryPoint, other: &&HistoryPoint| {
        one.cost(line.ops).total_cmp(&other.cost(line.ops))
    };
    line.points.iter().min_by(by_cost)
}

/// `fork-exit over 12 kernels: 3 steps; 6.12.5 costs +8.10 % of 6.1.0`; of several rows how many
/// step, and the one that rose most.
pub fn headline(history: &History) -> String {
    let long = || history.lines.iter().filter(|line| line.points.len() > 1);
    let whose = history.function.as_ref().map_or(String::new(), |name| format!("{name} in "));
    match history.lines.as_slice() {
        [] => String::new(),
        lines if long().next().is_none() => format!(
            "{}: there is nothing to compare yet; --along names subjects to compare.",
            match lines {
                [one] => format!("{whose}{}: one kernel", one.row),
                several => format!("{}, each of one kernel", counted(several.len(), "line")),
            }
        ),
        lines => match long().collect::<Vec<_>>().as_slice() {
            [line] => format!("{whose}{} over {}", line.row, answer(line)),
            long => {
                let steps = |line: &&&HistoryLine| line.points.iter().any(HistoryPoint::is_step);
                let stepping = long.iter().filter(steps).count();
                let worst = long.iter().filter_map(|it| Some((*it, risen(it)?)));
                let worst = worst.max_by(|one, other| one.1.total_cmp(&other.1));
                let worst = worst.filter(|(_, risen)| *risen > 0.0).map(|(line, risen)| {
                    format!("; worst {} {} %", line.row, percent(Some(risen)))
                });
                let of = counted_as(lines.len(), "line", "lines");
                format!("{whose}{stepping} of {of} step{}", worst.unwrap_or_default())
            }
        },
    }
}

/// From the first point to the last, in percent.
fn risen(line: &HistoryLine) -> Option<f64> {
    percent_over(line, line.points.first()?)
}

/// `12 kernels: 3 steps; +8.10 % from 6.1.0 to 6.12.5`.
pub fn answer(line: &HistoryLine) -> String {
    let kernels = counted(line.points.len(), "kernel");
    let steps = match line.points.iter().filter(|it| it.is_step()).count() {
        0 => "no step".to_owned(),
        count => counted(count, "step"),
    };
    let (first, last) = (line.points.first(), line.points.last());
    let change = first.zip(last).map(|(first, last)| {
        let change = match percent_over(line, first) {
            None => "new".to_owned(),
            change => format!("{} %", percent(change)),
        };
        format!("; {change} from {} to {}", first.kernel, last.kernel)
    });
    let best = cheapest(line).filter(|best| Some(best.place) != first.map(|it| it.place));
    let best = best.and_then(|best| {
        let over = percent_over(line, best).filter(|over| *over > 0.0)?;
        Some(format!(", {} % over the cheapest, {}", percent(Some(over)), best.kernel))
    });
    format!("{kernels}: {steps}{}{}", change.unwrap_or_default(), best.unwrap_or_default())
}
