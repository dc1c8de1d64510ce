//! Parses the command line, runs the command, and exits with its status.

use std::process::ExitCode;

use ktax::cmd::{self, Cli};

fn main() -> ExitCode {
    let cli = match Cli::parse_command_line() {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    match cmd::run(&cli) {
        Ok(exit) => cli.status(exit),
        Err(error) => {
            cmd::complain(&error);
            cli.error_status(&error)
        }
    }
}
