use clap::Command;
use clap_complete::Shell;

use super::exit::Exit;
use super::output::write_stdout;
use crate::flow::Error;

/// Print a completion script for a shell.
#[derive(Debug, clap::Args)]
pub struct CompletionArgs {
    /// Shell to complete in
    shell: Shell,
}

pub fn completions(args: &CompletionArgs, mut command: Command) -> Result<Exit, Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "ktax", &mut script);
    write_stdout(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Ok)
}

/// The page of ktax and, after it, one section for each command.
pub fn man(mut command: Command) -> Result<Exit, Error> {
    let mut page = Vec::new();
    command.build();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let man = clap_mangen::Man::new(sub.clone());
        page.extend(format!(".SH KTAX {}\n", sub.get_name().to_uppercase()).bytes());
        man.render_description_section(&mut page)?;
        man.render_options_section(&mut page)?;
    }
    write_stdout(&String::from_utf8_lossy(&page))?;
    Ok(Exit::Ok)
}
