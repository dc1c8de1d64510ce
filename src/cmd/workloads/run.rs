use super::super::exit::Exit;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The workload, as `ktax workloads` lists it
    name: String,
}

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let _ = &args.name;
    Ok(Exit::Ok)
}
