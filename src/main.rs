//! Arguments → command → exit code.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use ktax::cmd::{self, Cli};
use ktax::text::escape_lines;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cmd::run(&cli) {
        Ok(exit) => cli.status(exit),
        Err(error) => {
            // Nobody may be listening any more; what is said may come from files.
            let text = escape_lines(&error.to_string());
            let _ = writeln!(std::io::stderr(), "ktax: {text}");
            cli.status(cmd::Exit::of_error(&error))
        }
    }
}
