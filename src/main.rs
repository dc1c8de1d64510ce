//! Arguments → command → exit code.

use std::process::ExitCode;

use clap::Parser;
use ktax::cmd::{self, Cli};

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cmd::run(&cli) {
        Ok(exit) => cli.status(exit),
        Err(error) => {
            cmd::complain(&error);
            cli.status(cmd::Exit::of_error(&error))
        }
    }
}
