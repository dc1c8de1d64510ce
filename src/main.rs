//! Arguments → command → exit code.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use ktax::cmd::{self, Cli};

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cmd::run(&cli) {
        Ok(exit) => cli.status(exit),
        Err(error) => {
            // Nobody may be listening any more.
            let _ = writeln!(std::io::stderr(), "ktax: {error:#}");
            cli.status(cmd::Exit::of_error(&error))
        }
    }
}
