use std::path::PathBuf;

use super::Exit;
use super::host::StoreArgs;
use super::output::note;
use crate::flow::Error;
use crate::text::{counted, escape_path};

/// Write pages of all results of the store, and of each row over kernels, into a directory.
///
/// The first page is index.html. Every browser opens it from the disk, and every web server can
/// serve it: nothing runs, and nothing is loaded from elsewhere.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write into this directory, which is empty or has such pages already
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
}

pub fn run(args: &Args) -> Result<Exit, Error> {
    let pages = args.store.open()?.site(&args.dir)?;
    let index = args.dir.join("index.html");
    note!("ktax: wrote {}; open {}", counted(pages, "page"), escape_path(&index));
    Ok(Exit::Ok)
}
