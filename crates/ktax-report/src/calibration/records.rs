use super::view::iteration;
use crate::view::{Records, Value};
use ktax_model::{CYCLES, CalibrationTable};

const COLUMNS: [&str; 7] = ["machine", "kind", "of", "unit", "low", "high", "measured"];

/// One line for each costly instruction, each constant and each row; a row's interval is what it
/// should have taken by a fit to the other groups.
pub fn records(table: &CalibrationTable) -> Records {
    let mut records = Records::of(COLUMNS.map(str::to_owned));
    let calibration = &table.calibration;
    let mut line = |kind: &'static str, name: &str, [low, high]: [f64; 2], measured: Value| {
        let machine = Value::from(&table.machine);
        let name = Value::from(&name.to_owned());
        records.push([
            machine,
            kind.into(),
            name,
            CYCLES.into(),
            low.into(),
            high.into(),
            measured,
        ]);
    };
    for (kind, interval) in &calibration.operations {
        line("costly", kind.name(), *interval, Value::Nothing);
    }
    if let Some(interval) = calibration.rep_iteration {
        line("costly", "rep-iteration", interval, Value::Nothing);
    }
    for (kind, interval) in &calibration.iterations {
        line("costly", iteration(*kind), *interval, Value::Nothing);
    }
    if let Some(fit) = &calibration.fit {
        for thing in fit.cycles.keys() {
            line("fitted", thing.name(), fit.cost(*thing), Value::Nothing);
        }
        for row in &table.rows {
            line("row", &row.row, row.predicted.unwrap_or_default(), row.cycles.into());
        }
    }
    records
}
