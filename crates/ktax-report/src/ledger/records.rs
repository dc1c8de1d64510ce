use super::of_guests;
use crate::verdict;
use crate::view::{Records, Value};
use ktax_model::{
    LedgerCost, LedgerEntry, LedgerMethod, LedgerRow, LedgerTable, LowHigh, METRICS, TIME, Verdict,
};

const COLUMNS: [&str; 22] = [
    "workload",
    "added",
    "base",
    "delta",
    "percent",
    "detectable",
    "verdict",
    "decided_by",
    "rep_base",
    "rep_delta",
    "rep_percent",
    "rep_verdict",
    "costly",
    "machine",
    "cycles_min",
    "cycles_max",
    "cycles_percent_min",
    "cycles_percent_max",
    "not_timed",
    "interaction",
    "rep_interaction",
    "why",
];

type Record = fn(&LedgerRow, &LedgerEntry) -> Vec<Value>;
type Beyond = fn(&LedgerRow) -> Vec<Value>;

/// One line for each Workload and addition, which is a place of the matrix; all of them together
/// with the name `together`.
pub fn records(ledger: &LedgerTable) -> Records {
    let (columns, of, beyond): (&[&str], Record, Beyond) = match &ledger.method {
        LedgerMethod::Counts { .. } => {
            (&COLUMNS, record, |row| vec![beyond(row, METRICS[0].name), beyond(row, verdict::REP)])
        }
        LedgerMethod::Guests(_) => {
            (&of_guests::FIELDS, of_guests::record, |row| vec![beyond(row, TIME)])
        }
    };
    let mut records = Records::of(columns.iter().copied());
    for row in &ledger.rows {
        for entry in &row.entries {
            records.push(of(row, entry));
        }
        if let Some(together) = &row.together {
            records.push(of(row, together).into_iter().chain(beyond(row)));
        }
    }
    for (name, why) in &ledger.not_built {
        let mut line = vec![Value::Nothing, name.into()];
        line.resize(columns.len() - 1, Value::Nothing);
        records.push(line.into_iter().chain([format!("not built: {why}").as_str().into()]));
    }
    records
}

fn record(row: &LedgerRow, entry: &LedgerEntry) -> Vec<Value> {
    let costs = entry.costs.as_ref().filter(|_| entry.verdict != Verdict::Failed);
    let [instructions, rep] =
        [METRICS[0].name, verdict::REP].map(|name| costs.and_then(|costs| costs.metric(name)));
    let estimate = costs.and_then(|costs| costs.estimate.as_ref());
    let end = |ends: Option<LowHigh>, at: usize| Value::from(ends.map(|ends| ends[at]));
    let (cycles, percent) =
        (estimate.map(|it| it.delta), estimate.and_then(|estimate| estimate.percent));
    let costly =
        costs.map(|costs| deltas(costs.costly.iter().map(|(kind, delta)| (kind.name(), *delta))));
    let not_timed = estimate.map(|estimate| {
        deltas(estimate.left_out.iter().map(|(kind, delta)| (kind.as_str(), *delta)))
    });
    vec![
        (&row.row).into(),
        (&entry.name).into(),
        of(instructions, |it| Some(it.base)),
        of(instructions, |it| Some(it.delta)),
        of(instructions, |it| it.percent),
        of(instructions, |it| it.detectable),
        entry.verdict.text().into(),
        (&entry.decided_by).into(),
        of(rep, |it| Some(it.base)),
        of(rep, |it| Some(it.delta)),
        of(rep, |it| it.percent),
        rep.map(|it| it.verdict.text()).into(),
        costly.as_deref().into(),
        estimate.map(|it| it.machine.as_str()).into(),
        end(cycles, 0),
        end(cycles, 1),
        end(percent, 0),
        end(percent, 1),
        not_timed.as_deref().into(),
    ]
}

/// `cr3-write:+2 verw:+1`.
fn deltas<'a>(each: impl Iterator<Item = (&'a str, f64)>) -> String {
    each.map(|(kind, delta)| format!("{kind}:{delta:+}")).collect::<Vec<_>>().join(" ")
}

/// One value of a cost, if there is that cost.
fn of(which: Option<&LedgerCost>, value: fn(&LedgerCost) -> Option<f64>) -> Value {
    Value::from(which.and_then(value))
}

/// What is beyond the sum, if that is more than noise.
fn beyond(row: &LedgerRow, metric: &str) -> Value {
    let changes = row.interactions.iter().filter(|one| one.beyond.verdict.is_change());
    let mut of = changes.filter(|one| one.metric == metric);
    of.next().map(|one| one.beyond.delta).into()
}
