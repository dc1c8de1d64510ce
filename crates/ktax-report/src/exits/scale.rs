use ktax_model::ExitTable;

/// What two recordings are compared by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scale {
    /// Counts and times as they are.
    Totals,
    /// For each second, of which the base and the change have so many.
    Seconds([f64; 2]),
}

impl Scale {
    /// Seconds where both tables say how long was recorded, unless totals are wanted.
    pub fn of(base: &ExitTable, change: &ExitTable, totals: bool) -> Scale {
        match base.elapsed_s().zip(change.elapsed_s()) {
            Some((base, change)) if !totals => Scale::Seconds([base, change]),
            _ => Scale::Totals,
        }
    }

    /// Counts or times of the base and of the change.
    pub fn apply(self, values: [f64; 2]) -> [f64; 2] {
        match self {
            Scale::Totals => values,
            Scale::Seconds([base, change]) => [values[0] / base, values[1] / change],
        }
    }

    /// A blank and the unit of what was a number of these: ` µs/s`; nothing where there is none.
    pub fn unit(self, of: &str) -> String {
        let per = if self == Scale::Totals { "" } else { "/s" };
        let unit = format!("{of}{per}");
        if unit.is_empty() { unit } else { format!(" {unit}") }
    }
}
