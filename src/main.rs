//! Arguments → command → exit code.

use std::process::ExitCode;

use clap::Parser;
use ktax::cmd::{self, Cli};

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cmd::run(&cli) {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("ktax: {error:#}");
            cmd::Exit::of_error(&error).into()
        }
    }
}
