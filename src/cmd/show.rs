use std::path::Path;

use super::Exit;
use super::host::StoreArgs;
use super::output::OutputArgs;
use crate::flow::{self, Error};
use crate::model::Saved;

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

/// Prints results. The exit status does not depend on the rows.
pub fn run(args: &Args) -> Result<Exit, Error> {
    let mut all: Vec<Saved> = Vec::new();
    let mut stored = None;
    for named in &args.results {
        let path = Path::new(named);
        // A name with a slash is a path, which needs no store.
        if named.contains('/') {
            all.extend(flow::saved(&[path.to_owned()])?);
            continue;
        }
        let stored = match &mut stored {
            Some(stored) => stored,
            none => none.insert(args.store.open()?),
        };
        // Look in the store first, so that no file hides a result.
        match stored.result(named) {
            Err(_) if path.exists() => all.extend(flow::saved(&[path.to_owned()])?),
            result => all.push(result?),
        }
    }
    args.output.print_saved(&all)?;
    Ok(Exit::Ok)
}
