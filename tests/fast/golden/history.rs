//! Rows over kernels: one whose QEMU changed on the way, and several.

use ktax::analyse::{PointCounts, against_anchors, against_before};
use ktax::model::{
    History, HistoryAsked, HistoryLine, HistoryPoint, METRICS, Machine, StepFunction,
};
use ktax::report::{Listed, site_index};

/// A line from this place of the lineage on.
fn line(row: &str, measured: &str, first: usize, costs: &[u64]) -> HistoryLine {
    let ops = 400;
    let point = |cost: &u64| {
        let raw: Vec<u64> = (0..5).map(|layout| cost * ops + layout).collect();
        PointCounts { whole: raw.clone(), raw, signature: String::new() }
    };
    let points: Vec<PointCounts> = costs.iter().map(point).collect();
    let against = against_anchors(&points, ops, 0.1);
    let before = against_before(&points, ops, 0.1);
    let compared = against.into_iter().zip(before);
    let points = points.into_iter().zip(compared).enumerate().map(|(at, (point, compared))| {
        let (against, before) = compared;
        let is_step = against.as_ref().is_some_and(|against| against.is_step());
        let carried = |&(function, delta): &(&str, f64)| StepFunction {
            function: function.to_owned(),
            delta,
        };
        let functions = [("vfs_open", 60.0), ("</td>\u{1b}[2J", -2.5)].iter().map(carried);
        let kernel = format!("6.1.{}-cloud-amd64", first + at);
        HistoryPoint {
            place: first + at,
            name: kernel.clone(),
            package: (at != 2).then(|| format!("debian:linux-image-{kernel}=6.1.{at}-1")),
            boot_line: if row == "stat" { "lsm=capability".into() } else { String::new() },
            kernel,
            tags: if at == 1 { vec!["before".into(), "\u{1b}[2J".into()] } else { vec![] },
            values: point.raw,
            against,
            before,
            functions: functions.filter(|_| is_step).collect(),
        }
    });
    HistoryLine {
        row: row.into(),
        operation: "one call".into(),
        ops,
        lineage: "cloud-amd64".into(),
        measured: measured.into(),
        asked: Some(HistoryAsked { machine: Machine::default(), layouts: 5, seed: 1 }),
        points: points.collect(),
    }
}

fn of(lines: Vec<HistoryLine>) -> History {
    let metric = METRICS[0].name.into();
    History { metric, function: None, threshold_percent: 0.1, lines }
}

pub fn one() -> History {
    let old = "QEMU 7.2.22, guest 59c92e380b82, 512 MiB, CPU max, 5 layouts";
    let new = "QEMU 10.0.2, guest 59c92e380b82, 512 MiB, CPU max, 5 layouts";
    of(vec![
        line("fork-exit", old, 0, &[100_000, 100_060, 100_120, 108_000, 108_000]),
        line("fork-exit", new, 4, &[90_000, 90_000, 88_000]),
    ])
}

pub fn many() -> History {
    let measured = "QEMU 7.2.22, guest 59c92e380b82, 512 MiB, CPU max, 5 layouts";
    let costs: [(&str, Vec<u64>); 8] = [
        ("fork-pages:bytes=10240,pages=16", (0..50).map(|at| 10_000 + at).collect()),
        ("getppid", vec![300; 5]),
        ("pipe", vec![1_000, 900, 900]),
        ("stat", vec![700, 700, 770]),
        ("one</td>", vec![5]),
        ("open-close", vec![5_000, 5_100]),
        ("read-1", vec![500, 501]),
        ("write-1", vec![500, 620]),
    ];
    of(costs.iter().map(|(row, costs)| line(row, measured, 0, costs)).collect())
}

/// The first page of a site.
pub fn site() -> String {
    let listed = |file: &str, title: &str, answer: &str, beside: &str| Listed {
        file: file.into(),
        title: title.into(),
        answer: answer.into(),
        beside: beside.into(),
    };
    site_index(
        &[listed("results/0.html", "What does audit cost?", "1 of 2 rows slower", "2026-01-31")],
        &[listed("history/getppid.html", "getppid", "getppid over 2 kernels: no step", "▁▁")],
    )
}
