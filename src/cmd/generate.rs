use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::Shell;

use super::Exit;
use super::manual::sections;
use super::output::write_stdout;
use crate::flow::{Error, OrHost};
use crate::plan;

/// Print a completion script for a shell.
#[derive(Debug, clap::Args)]
pub struct CompletionArgs {
    /// Shell to complete in
    shell: Shell,
}

/// Print the manual page of a command, or write those of all commands.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Print the page of this command, such as `exits record` [default: that of ktax itself]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Write a page for each command to this directory, such as /usr/local/share/man/man1
    #[arg(short, long, value_name = "DIR", conflicts_with = "command")]
    out: Option<PathBuf>,
}

pub fn completions(args: &CompletionArgs, mut command: Command) -> Result<Exit, Error> {
    let mut script = Vec::new();
    command.build();
    let names = arguments(&command, &[]);
    clap_complete::generate(args.shell, &mut command, "ktax", &mut script);
    let script = String::from_utf8_lossy(&script);
    write_stdout(&match args.shell {
        Shell::Zsh => with_files(&script),
        Shell::Fish => format!("{script}{names}"),
        _ => script.into_owned(),
    })?;
    Ok(Exit::Ok)
}

/// Completions for fish of arguments without an option, for which clap_complete only offers files.
fn arguments(command: &Command, above: &[&str]) -> String {
    let names = command.get_positionals().flat_map(|argument| argument.get_possible_values());
    let names: Vec<String> = names.map(|name| name.get_name().to_owned()).collect();
    let mut lines = match (above, names.as_slice()) {
        ([], _) | (_, []) => String::new(),
        ([first, rest @ ..], _) => {
            let below = rest.iter().map(|name| format!("; and __fish_seen_subcommand_from {name}"));
            let here = format!("__fish_ktax_using_subcommand {first}") + &below.collect::<String>();
            format!("complete -c ktax -n \"{here}\" -a \"{}\"\n", names.join(" "))
        }
    };
    for below in command.get_subcommands() {
        lines += &arguments(below, &[above, &[below.get_name()]].concat());
    }
    lines
}

/// Adds files to the names that zsh offers: experiments and ledgers can be files.
fn with_files(script: &str) -> String {
    let names =
        |all: Vec<plan::BuiltIn>| all.iter().map(|file| file.name).collect::<Vec<_>>().join(" ");
    let lists = [plan::experiments().collect(), plan::ledgers().collect()].map(names);
    lists.into_iter().fold(script.to_owned(), |script, list| {
        script.replace(&format!(":({list})"), &format!(":{{compadd {list}; _files}}"))
    })
}

pub fn man(args: &ManArgs, command: Command) -> Result<Exit, Error> {
    // clap's own `help` has no page.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    if let Some(out) = &args.out {
        let what = || format!("cannot write manual pages to {}", out.display());
        let next = "give --out another directory";
        std::fs::create_dir_all(out).context(what(), next)?;
        write_pages(&command, "ktax", out).context(what(), next)?;
        return Ok(Exit::Ok);
    }
    let (mut named, mut page_name) = (command, "ktax".to_owned());
    for name in &args.command {
        let unknown = || {
            Error::user(format!(
                "there is no command {name:?}; `ktax help` lists them, and `ktax help COMMAND` \
                 those below a command"
            ))
        };
        let below =
            named.get_subcommands().find(|below| below.get_name() == name && !below.is_hide_set());
        named = below.cloned().ok_or_else(unknown)?;
        page_name += &format!("-{name}");
    }
    write_stdout(&String::from_utf8_lossy(&page(&named, &page_name)?))?;
    Ok(Exit::Ok)
}

/// Writes the page of a command and of its listed subcommands.
fn write_pages(command: &Command, name: &str, out: &Path) -> std::io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below, &format!("{name}-{}", below.get_name()), out)?;
    }
    std::fs::write(out.join(format!("{name}.1")), page(command, name)?)
}

/// Manual page of a command. clap would put everything behind the options into one section.
fn page(command: &Command, name: &str) -> std::io::Result<Vec<u8>> {
    let man = clap_mangen::Man::new(command.clone());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.get_subcommands().any(|below| !below.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    for (heading, lines) in sections(command, name) {
        // Print examples exactly.
        let lines: Vec<String> = lines.iter().map(|line| roff(line)).collect();
        page.extend(format!(".SH \"{heading}\"\n.nf\n{}\n.fi\n", lines.join("\n")).bytes());
    }
    if command.get_version().is_some() {
        man.render_version_section(&mut page)?;
    }
    Ok(page)
}

/// Escapes a line, so that roff finds no request in it and keeps its hyphens.
fn roff(line: &str) -> String {
    let escaped = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    if escaped.starts_with('.') { format!("\\&{escaped}") } else { escaped }
}
