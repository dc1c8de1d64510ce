use crate::model::{LedgerCost, LedgerEntry, LedgerRow, LedgerTable, Verdict};
use crate::report::verdict;
use crate::report::view::{Records, Value};

const COLUMNS: [&str; 17] = [
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
    "cost",
    "cost_percent",
    "interaction",
    "rep_interaction",
    "why",
];

/// One line for each Workload and addition, which is a place of the matrix; all of them together
/// with the name `together`.
pub fn records(ledger: &LedgerTable) -> Records {
    let mut records = Records::of(COLUMNS);
    for row in &ledger.rows {
        for entry in &row.entries {
            records.push(record(row, entry));
        }
        if let Some(together) = &row.together {
            let line = record(row, together).into_iter();
            records.push(line.chain([beyond(row, false), beyond(row, true)]));
        }
    }
    for (name, why) in &ledger.not_built {
        let mut line = vec![Value::Nothing, name.into()];
        line.resize(COLUMNS.len() - 1, Value::Nothing);
        records.push(line.into_iter().chain([format!("not built: {why}").as_str().into()]));
    }
    records
}

fn record(row: &LedgerRow, entry: &LedgerEntry) -> [Value; 14] {
    let costs = entry.costs.as_ref().filter(|_| entry.verdict != Verdict::Failed);
    let of = |which: Option<&LedgerCost>, value: fn(&LedgerCost) -> Option<f64>| {
        Value::from(which.and_then(value))
    };
    let (instructions, rep, all) = (
        costs.map(|costs| &costs.instructions),
        costs.map(|costs| &costs.rep_iterations),
        costs.map(|costs| &costs.all),
    );
    [
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
        of(all, |it| Some(it.delta)),
        of(all, |it| it.percent),
    ]
}

/// What is beyond the sum, if that is more than noise.
fn beyond(row: &LedgerRow, is_rep: bool) -> Value {
    let changes = row.interactions.iter().filter(|one| one.beyond.verdict.is_change());
    let mut of = changes.filter(|one| (one.metric == verdict::REP) == is_rep);
    of.next().map(|one| one.beyond.delta).into()
}
