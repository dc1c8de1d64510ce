use crate::view::{Records, Value};
use ktax_model::Validation;

const COLUMNS: [&str; 8] = [
    "machine",
    "row",
    "predicted_low_percent",
    "predicted_high_percent",
    "measured_percent",
    "measured_low_percent",
    "measured_high_percent",
    "covered",
];

/// One line for each row.
pub fn records(validation: &Validation) -> Records {
    let mut records = Records::of(COLUMNS.map(str::to_owned));
    for row in &validation.rows {
        let ([low, high], [from, to]) = (row.predicted_percent, row.measured_interval);
        let machine = Value::from(&validation.machine);
        let covered = if row.is_covered { "yes" } else { "no" };
        let measured = row.measured_percent.into();
        let cells = [low.into(), high.into(), measured, from.into(), to.into(), covered.into()];
        records.push([machine, (&row.row).into()].into_iter().chain(cells));
    }
    records
}
