use crate::model::{History, HistoryLine, metric};
use crate::report::view::{KernelLevel, KernelPoint, Levels, Picture, Section};

/// The lines of a row that are about the same kernels, and were measured in different ways.
pub fn lineages(lines: &[HistoryLine]) -> impl Iterator<Item = &[HistoryLine]> {
    lines.chunk_by(|one, other| one.row == other.row && one.lineage == other.lineage)
}

/// What a row costs over kernels.
pub fn picture(history: &History, lines: &[HistoryLine]) -> Section {
    let mut kernels: Vec<(usize, String)> = lines
        .iter()
        .flat_map(|line| line.points.iter().map(|point| (point.place, point.kernel.clone())))
        .collect();
    kernels.sort();
    kernels.dedup_by_key(|(place, _)| *place);
    let place = |of: usize| kernels.iter().position(|(place, _)| *place == of).unwrap_or(0);
    let level = |line: &HistoryLine| KernelLevel {
        points: line
            .points
            .iter()
            .map(|point| KernelPoint {
                place: place(point.place),
                cost: point.cost(line.ops),
                step: point.against.as_ref().filter(|it| it.is_step()).map(|it| it.verdict),
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
        how: format!("Each dot is a kernel; a mark is a step.{breaks}"),
    }
}
