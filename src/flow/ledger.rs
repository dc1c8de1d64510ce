//! Several additions to one base.

use std::path::{Path, PathBuf};

use super::error::Error;
use super::kept::{LEDGER, keep};
use super::kernels::why_unbuilt;
use super::phases;
use super::remaining::Part;
use super::session::Session;
use super::store::keep_result;
use super::whole::compare_with_base_of;
use crate::analyse;
use crate::model::{Comparison, LedgerTable};
use crate::plan::{Ledger, TOGETHER};

/// What came of a ledger.
#[derive(Debug)]
pub struct Ranked {
    /// The additions by what they cost.
    pub table: LedgerTable,
    /// Each addition against the base, then all of them together.
    pub comparisons: Vec<Comparison>,
}

/// Compares each addition with the base, in a run directory of its own below `out`, where the table
/// is kept with its reports; `None` where the user stopped it.
///
/// # Errors
/// No addition can be built, or something on the host failed.
pub fn rank(ledger: &Ledger, out: &Path, session: &Session<'_>) -> Result<Option<Ranked>, Error> {
    let (mut each, mut not_built) = (Vec::new(), Vec::new());
    let mut first: Option<PathBuf> = None;
    let of = ledger.experiments.len();
    ledger.experiments.iter().try_for_each(|(_, one)| session.check_names(&one.method))?;
    for (at, (name, experiment)) in ledger.experiments.iter().enumerate() {
        session.observer.part(Part { at, of, shares_base: true });
        session.observer.note(name);
        let plan = match phases::plan(experiment, session) {
            Ok(plan) => plan,
            Err(Error::Cancelled) => return Ok(None),
            Err(error) => {
                let why = why_unbuilt(error)?;
                session.observer.note(&why);
                not_built.push((name.clone(), why));
                continue;
            }
        };
        let dir = out.join(name);
        // The first one has itself.
        let first = first.get_or_insert(dir.clone());
        match compare_with_base_of(first, &dir, plan, session)? {
            Some(comparison) => each.push((name.clone(), comparison)),
            None => return Ok(None),
        }
    }
    let last_is_together = each.last().is_some_and(|(name, _)| name == TOGETHER);
    let together = last_is_together.then(|| each.pop()).flatten().map(|(_, comparison)| comparison);
    // Otherwise a part of the sum is missing.
    let together = together.filter(|_| not_built.is_empty());
    let table = analyse::ledger(&ledger.title, &each, together.as_ref(), not_built);
    let mut table = table.ok_or(Error::NothingBuilt)?;
    table.again.clone_from(&ledger.again);
    keep(out, LEDGER, &table)?;
    keep_result(&table, session);
    let comparisons = each.into_iter().map(|(_, comparison)| comparison).chain(together).collect();
    Ok(Some(Ranked { table, comparisons }))
}
