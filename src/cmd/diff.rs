use super::Exit;
use super::choice::{percent, workload};
use super::host::StoreArgs;
use super::output::{OutputArgs, note};
use crate::flow::{DiffOrder, Error};
use crate::model::Sides;
use crate::plan::bounds::THRESHOLD_PERCENT;

/// Compare two subjects of the store, without a boot.
///
/// A subject is a kernel with a boot line. It is named by a tag, its release, its package or that
/// package's version, a commit, the first digits of its image's hash, or the path of its image; by
/// NAME@BOOT LINE where it was measured with a boot line. `ktax log --subjects` lists the names.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// Compare with this subject
    #[arg(value_name = "BASE")]
    base: String,
    /// Compare this subject
    #[arg(value_name = "CHANGE")]
    change: String,
    /// Compare this workload, row or group [default: all rows that both have]
    #[arg(short, long, value_name = "ROW", value_parser = workload())]
    #[arg(hide_possible_values = true)]
    workload: Vec<String>,
    /// Give no verdict to changes below PERCENT
    #[arg(long, value_name = "PERCENT", default_value_t = THRESHOLD_PERCENT)]
    #[arg(allow_negative_numbers = true, value_parser = percent)]
    threshold: f64,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

const EXAMPLE: &str = "\
Examples:
  ktax diff 6.1.0-55-cloud-amd64 6.1.0-56-cloud-amd64
  ktax diff v6.12 v6.12@mitigations=off -w fork-exit";

/// Exits as `ktax compare` does, but with 4 if nothing is slower and a wanted row is not measured.
pub fn run(args: &Args) -> Result<Exit, Error> {
    let order = DiffOrder {
        subjects: Sides { base: args.base.clone(), change: args.change.clone() },
        rows: (!args.workload.is_empty()).then(|| args.workload.clone()),
        threshold_percent: args.threshold,
    };
    let (comparison, missing) = args.store.open()?.diff(&order, &|text| note!("ktax: {text}"))?;
    args.output.print(&comparison)?;
    Ok(match Exit::from_comparisons(&[comparison]) {
        Exit::Ok if !missing.is_empty() => Exit::Inconclusive,
        exit => exit,
    })
}
