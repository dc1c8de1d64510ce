use super::steps::{CostStep, short, steps};
use crate::number;
use crate::view::{KernelLevel, KernelPoint, Levels, Picture, Section};
use ktax_model::{AgainstBefore, History, HistoryLine, HistoryPoint, metric};

/// What a row costs over kernels.
pub fn picture(history: &History, lines: &[HistoryLine]) -> Section {
    let mut kernels: Vec<(usize, String)> = lines
        .iter()
        .flat_map(|line| {
            let name = |point: &HistoryPoint| short(line, &point.kernel).to_owned();
            line.points.iter().map(move |point| (point.place, name(point)))
        })
        .collect();
    kernels.sort();
    kernels.dedup_by_key(|(place, _)| *place);
    let place =
        |wanted: usize| kernels.iter().position(|(place, _)| *place == wanted).unwrap_or_default();
    let level = |line: &HistoryLine| KernelLevel {
        points: line
            .points
            .iter()
            .map(|point| {
                let step = steps(line).find(|step| step.point.place == point.place);
                KernelPoint {
                    place: place(point.place),
                    cost: point.cost(line.ops),
                    step: step.map(|step| step.verdict),
                    label: step.map(|step| label(&step)).unwrap_or_default(),
                    hover: hover(line, point, step),
                }
            })
            .collect(),
    };
    let levels = lines.iter().map(level).collect();
    let breaks = match lines.len() {
        1 => "",
        _ => " Where a line ends, another QEMU, guest or machine begins: the lines do not compare.",
    };
    Section::Picture {
        title: format!("{} over kernels", lines[0].row),
        picture: Picture::Levels(Levels {
            unit: metric(&history.metric).map_or("", |metric| metric.unit),
            levels,
            kernels: kernels.into_iter().map(|(_, kernel)| kernel).collect(),
        }),
        how: format!("Each dot is a kernel; a mark with a name is a step.{breaks}"),
    }
}

/// `6.1.0-50 +1.22 %`.
fn label(step: &CostStep<'_>) -> String {
    format!("{} {}", short(step.line, &step.point.kernel), step.shown_percent())
}

/// `6.1.0-50: 330.03, +0.31 % to the kernel before, MDE 0.10 %; do_statx +8.00`.
fn hover(line: &HistoryLine, point: &HistoryPoint, step: Option<CostStep<'_>>) -> String {
    let cost = number::count(point.cost(line.ops));
    let mut text = format!("{}: {cost}", short(line, &point.kernel));
    if let Some(AgainstBefore { percent, detectable_percent, .. }) = &point.before {
        text += &format!(", {} % to the kernel before", number::percent(*percent));
        if let Some(least) = detectable_percent {
            text += &format!(", MDE {} %", number::limit(*least));
        }
    }
    match step.map(|step| step.carried_by(2)).filter(|functions| !functions.is_empty()) {
        Some(functions) => format!("{text}; {functions}"),
        None => text,
    }
}
