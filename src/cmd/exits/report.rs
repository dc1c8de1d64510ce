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
    #[command(flatten)]
    print: PrintArgs,
}

/// How to print tables.
#[derive(Debug, clap::Args)]
pub struct PrintArgs {
    /// In the columns of a published table
    #[arg(long, value_enum)]
    layout: Option<Layout>,
    /// Print as JSON
    #[arg(long, conflicts_with = "layout")]
    json: bool,
}

impl PrintArgs {
    /// Prints.
    pub fn print(&self, tables: &[ExitTable]) -> anyhow::Result<()> {
        let text = match self.json {
            true => report::json(&tables)?,
            false => texts(tables, self.layout),
        };
        Ok(write_stdout(&text)?)
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Layout {
    /// Of the wiki's workloads, 2008
    Classic,
    /// Of its two tables before and after paravirtualization
    ClassicShort,
}

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    args.print.print(&tables(&args.file)?)?;
    Ok(Exit::Ok)
}

/// All tables as text.
pub fn texts(tables: &[ExitTable], layout: Option<Layout>) -> String {
    let text = |table: &ExitTable| match layout {
        None => report::exits(table, text_options()),
        Some(Layout::Classic) => report::exits_classic(table, Classic::Long),
        Some(Layout::ClassicShort) => report::exits_classic(table, Classic::Short),
    };
    tables.iter().map(text).collect::<Vec<_>>().join("\n")
}
