use std::path::Path;

use super::exit::Exit;
use super::output::OutputArgs;
use super::stored::StoreArgs;
use crate::flow::{self, Error};
use crate::model::{Comparison, Saved, SavedResult};
use crate::report::Report;

/// Print results that were kept, by the first digits of their names.
///
/// `ktax log` lists the names. A path of a page, a file or a directory is printed as `ktax report`
/// does.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print the result whose name begins so, or the one in this file
    #[arg(value_name = "ID|PATH", required = true)]
    results: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// The exit status is that of all rows of comparisons together.
pub fn run(args: &Args) -> Result<Exit, Error> {
    let mut all: Vec<Saved> = Vec::new();
    for named in &args.results {
        let path = Path::new(named);
        // No file in the current directory hides a result.
        match args.store.open()?.result(named) {
            Err(Error::Stored(_)) if path.exists() => all.extend(flow::saved(&[path.to_owned()])?),
            result => all.push(result?),
        }
    }
    let reports: Vec<&dyn Report> = all.iter().map(|it| it as &dyn Report).collect();
    args.output.print_all(&reports)?;
    let comparisons = all.into_iter().filter_map(|saved| match saved.result {
        SavedResult::Comparison(comparison) => Some(*comparison),
        _ => None,
    });
    Ok(Exit::of_comparisons(&comparisons.collect::<Vec<Comparison>>()))
}
