use super::Exit;
use super::choice::{percent, workload};
use super::host::StoreArgs;
use super::output::OutputArgs;
use crate::flow::{Error, HistoryOrder};
use crate::model::METRICS;
use crate::plan::bounds::THRESHOLD_PERCENT;

/// Show what a row costs over kernels, and where the cost steps, without a boot.
///
/// Kernels stand in the order of their versions. Each flavour and each boot line has a line of its
/// own. Measurements of another QEMU or guest do not compare, so they begin a new line. A step is
/// found against the last step, so that small changes that add up are one, too.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// Show these rows [default: a line for each row of the store]
    #[arg(value_name = "ROW", value_parser = workload(), hide_possible_values = true)]
    rows: Vec<String>,
    /// Follow what this function executes itself, instead of the whole row
    #[arg(long, value_name = "NAME")]
    function: Option<String>,
    /// Follow this metric: instructions, rep-iterations, interrupt or kthread
    #[arg(long, value_name = "NAME", default_value = METRICS[0].name)]
    metric: String,
    /// Show these subjects in this order, named as for `ktax diff`, with commas between them or
    /// each with an --along of its own
    #[arg(long, value_name = "SUBJECTS")]
    along: Vec<String>,
    /// Show only subjects with this boot line; '' is none
    #[arg(long, value_name = "LINE", conflicts_with = "along")]
    boot_line: Option<String>,
    /// Give no step to changes below PERCENT
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
  ktax history
  ktax history fork-exit --html fork.html
  ktax history open-close --function __fput --along v6.1,v6.6,v6.12";

pub fn run(args: &Args) -> Result<Exit, Error> {
    let history = args.store.open()?.history(&HistoryOrder {
        rows: args.rows.clone(),
        function: args.function.clone(),
        metric: args.metric.clone(),
        along: args.along.clone(),
        boot_line: args.boot_line.clone(),
        threshold_percent: args.threshold,
    })?;
    args.output.print(&history)?;
    Ok(Exit::Ok)
}
