//! Finds the rows that execute a function, or the functions that a patch changes.

use std::collections::BTreeSet;
use std::path::Path;

use super::Error;
use super::results::unreadable;
use crate::kernel;
use crate::model::Subject;
use crate::patch::{self, SourceFunction};
use crate::plan::{ExperimentFile, TouchedTable, TouchingRow};
use crate::text::{counted, did_you_mean, escape, nearest};

/// Selector for `-w`: the rows that execute functions which a patch changes.
pub const TOUCHING: &str = "@touching";

/// Share in percent below which a row cannot show a change of the functions.
const MIN_PERCENT: f64 = 0.01;

/// Rows that execute some functions.
#[derive(Debug)]
pub struct Touched {
    /// Release of the kernel on which the rows were counted.
    pub kernel: String,
    /// Functions that a row executes.
    pub functions: Vec<String>,
    /// Functions that no row executes, or that the compiler inlines.
    pub not_executed: Vec<String>,
    /// Rows, the largest share first.
    pub rows: Vec<TouchingRow>,
}

impl Touched {
    fn by_functions(functions: BTreeSet<SourceFunction>) -> Touched {
        let table = TouchedTable::built_in();
        let is_executed = |function: &SourceFunction| {
            function.symbols.iter().any(|symbol| table.has_function(symbol))
        };
        let symbols = functions.iter().flat_map(|function| function.symbols.clone()).collect();
        let rows = table.rows_touching(&symbols);
        let (functions, not_executed) = functions.into_iter().partition::<Vec<_>, _>(is_executed);
        let names = |functions: Vec<SourceFunction>| {
            functions.into_iter().map(|function| escape(&function.name)).collect()
        };
        let kernel = table.kernel.clone();
        Touched { kernel, functions: names(functions), not_executed: names(not_executed), rows }
    }

    /// Names of the rows that can show a change of the functions.
    fn sensitive_rows(&self) -> Vec<String> {
        let sensitive = self.rows.iter().filter(|row| row.percent >= MIN_PERCENT);
        sensitive.map(|row| row.row.clone()).collect()
    }
}

/// Rows that execute functions: `name` is that of a function, or the path of a patch that changes
/// functions or of a C file that defines them.
pub fn touching(name: &str) -> Result<Touched, Error> {
    let path = Path::new(name);
    let is_c =
        path.extension().is_some_and(|extension| ["c", "h", "S"].iter().any(|c| extension == *c));
    let is_file = path.exists() || kernel::is_built_in(path) || name.contains(['/', '.']);
    if !is_file {
        return touched_by_name(name);
    }
    let read = || {
        kernel::read_patch(path).map_err(|reason| unreadable(path, "a patch or a C file", reason))
    };
    Ok(Touched::by_functions(match is_c {
        true => patch::definitions_in(&String::from_utf8_lossy(&read()?)),
        false => changed_functions(name, &read()?)?,
    }))
}

fn touched_by_name(name: &str) -> Result<Touched, Error> {
    let touched = Touched::by_functions([SourceFunction::named(name)].into());
    if touched.rows.is_empty() {
        let table = TouchedTable::built_in();
        let near = did_you_mean(nearest(name, table.functions()));
        return Err(Error::user(format!(
            "no row executes a function {name:?}{near} on {}, where the compiler may have inlined \
             it",
            touched.kernel
        ))
        .next("name a function that calls it, or a patch or a C file"));
    }
    Ok(touched)
}

fn changed_functions(path: &str, bytes: &[u8]) -> Result<BTreeSet<SourceFunction>, Error> {
    let patches = patch::read(bytes).map_err(|reason| {
        let message = format!("cannot use the patch {}: {}", escape(path), reason.message());
        Error::user(message).next(reason.next_step())
    })?;
    Ok(patches.iter().flat_map(|patch| patch.diff.functions()).collect())
}

/// Rows that execute functions which these patches change.
fn touched_by_patches(patches: &[String]) -> Result<Touched, Error> {
    let mut functions = BTreeSet::new();
    for named in patches {
        let path = Path::new(named);
        let bytes =
            kernel::read_patch(path).map_err(|reason| unreadable(path, "a patch", reason))?;
        functions.extend(changed_functions(named, &bytes)?);
    }
    Ok(Touched::by_functions(functions))
}

/// Replaces `@touching` by the rows that execute functions which the change's patches change.
pub fn expand_touching(file: &mut ExperimentFile) -> Result<(), Error> {
    let Some(rows) = file.workloads.clone().filter(|rows| rows.iter().any(|row| row == TOUCHING))
    else {
        return Ok(());
    };
    let patches = file.change.as_ref().map(|change| change.patches.clone()).unwrap_or_default();
    if patches.is_empty() {
        return Err(Error::user(format!(
            "{TOUCHING} selects the rows that execute what a patch changes, but the change has no \
             patch"
        ))
        .next("give it with --patch, or choose other rows with -w"));
    }
    let touched = touched_by_patches(&patches)?;
    let sensitive = touched.sensitive_rows();
    if sensitive.is_empty() {
        let functions = names_in_parentheses(&touched.not_executed);
        let patches = escape(&patches.join(", "));
        return Err(Error::user(format!(
            "no row has at least {MIN_PERCENT} % of its instructions in what {patches} \
             changes{functions}"
        ))
        .next("choose rows with -w, or measure a program of your own behind --"));
    }
    let mut expanded: Vec<String> = Vec::new();
    for row in rows {
        let selected = if row == TOUCHING { sensitive.clone() } else { vec![row] };
        expanded
            .extend(selected.into_iter().filter(|row| !expanded.contains(row)).collect::<Vec<_>>());
    }
    file.workloads = Some(expanded);
    Ok(())
}

/// Sentence about the rows of a comparison that execute functions which its patches change. `None`
/// without patches.
pub(super) fn patches_remark(change: &Subject, rows: &[String]) -> Result<Option<String>, Error> {
    if change.patches.is_empty() {
        return Ok(None);
    }
    let touched = touched_by_patches(&change.patches)?;
    let sensitive = touched.sensitive_rows();
    let count = rows.iter().filter(|row| sensitive.contains(row)).count();
    let (rows, patches) = (counted(rows.len(), "row"), change.patches.join(", "));
    let (executed, not_executed) = (&touched.functions, &touched.not_executed);
    Ok(Some(match sensitive.is_empty() {
        true => format!(
            "no row is known to have at least {MIN_PERCENT} % of its instructions in what \
             {patches} changes{}; the comparison may not show its cost",
            names_in_parentheses(not_executed)
        ),
        false => format!(
            "{count} of {rows} execute what {patches} changes{}; -w {TOUCHING} measures exactly \
             the rows that do",
            names_in_parentheses(executed)
        ),
    }))
}

/// Up to five names in parentheses, with a leading space; empty without names.
fn names_in_parentheses(names: &[String]) -> String {
    const MAX_NAMES: usize = 5;
    match names {
        [] => String::new(),
        names if names.len() > MAX_NAMES => {
            format!(" ({} and {} more)", names[..MAX_NAMES].join(", "), names.len() - MAX_NAMES)
        }
        names => format!(" ({})", names.join(", ")),
    }
}
