use clap::ValueEnum;

use super::file::tables;
use crate::cmd::exit::Exit;
use crate::cmd::output::{text_options, write_stdout};
use crate::model::ExitTable;
use crate::report::{self, Classic};

/// Print the tables of a file
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What a kernel wrote
    #[arg(value_name = "FILE[#NUMBER]")]
    file: String,
    /// In the columns of a published table
    #[arg(long, value_enum)]
    layout: Option<Layout>,
    /// Print as JSON
    #[arg(long, conflicts_with = "layout")]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Layout {
    /// Of the wiki's workloads, 2008
    Classic,
    /// Of its two tables before and after paravirtualization
    ClassicShort,
}

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let tables = tables(&args.file)?;
    let text = |table: &ExitTable| match args.layout {
        None => report::exits(table, text_options()),
        Some(Layout::Classic) => report::exits_classic(table, Classic::Long),
        Some(Layout::ClassicShort) => report::exits_classic(table, Classic::Short),
    };
    let text = match args.json {
        true => report::json(&tables)?,
        false => tables.iter().map(text).collect::<Vec<_>>().join("\n"),
    };
    write_stdout(&text)?;
    Ok(Exit::Ok)
}
