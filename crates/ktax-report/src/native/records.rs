use crate::view::{Records, Value};
use ktax_model::{NativeTable, Summary};

const COLUMNS: [&str; 8] = ["row", "column", "unit", "median", "min", "max", "samples", "failure"];

/// One line for each row and column, with all samples; a row that failed at once has one line.
pub fn records(table: &NativeTable) -> Records {
    let cells = || table.rows.iter().flat_map(|row| &row.cells).flatten();
    let most = cells().map(|cell| cell.samples.len()).max().unwrap_or(0);
    let samples = (0..most).map(|sample| format!("sample_{sample}"));
    let mut records = Records::of(COLUMNS.map(str::to_owned).into_iter().chain(samples));
    for row in &table.rows {
        let name = || Value::from(&row.workload.row);
        let failure = row.failure.as_ref().map(ToString::to_string);
        let measured = table.columns.iter().zip(&row.cells);
        let measured = measured.filter_map(|(column, cell)| Some((column, cell.as_ref()?)));
        let mut is_there = false;
        for (column, cell) in measured {
            is_there = true;
            let fixed = [name(), (&column.name).into(), (&column.unit).into()];
            let values = fixed.into_iter().chain(summary(cell)).chain([failure.as_ref().into()]);
            records.push(values.chain(cell.samples.iter().map(|value| Value::from(*value))));
        }
        if !is_there {
            let nothing = std::iter::repeat_n(Value::Nothing, 6);
            records.push([name()].into_iter().chain(nothing).chain([failure.as_ref().into()]));
        }
    }
    records
}

fn summary(cell: &Summary) -> [Value; 4] {
    [cell.median.into(), cell.least.into(), cell.most.into(), cell.samples.len().into()]
}
