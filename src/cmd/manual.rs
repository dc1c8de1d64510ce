//! `completions` and `man`, and the sections after the options in help and manual pages: examples,
//! exit statuses and references.

use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::Shell;

use super::Exit;
use super::output::write_stdout;
use crate::flow::Error;
use crate::model::ErrorContext;
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
    let lines = fish_arguments(&command, &[]);
    clap_complete::generate(args.shell, &mut command, "ktax", &mut script);
    let script = String::from_utf8_lossy(&script);
    write_stdout(&match args.shell {
        Shell::Zsh => offer_files(&script),
        Shell::Fish => format!("{script}{lines}"),
        _ => script.into_owned(),
    })?;
    Ok(Exit::Ok)
}

/// Completions for fish of arguments without an option, for which clap_complete only offers files.
fn fish_arguments(command: &Command, parents: &[&str]) -> String {
    let names = command.get_positionals().flat_map(|argument| argument.get_possible_values());
    let names: Vec<String> = names.map(|name| name.get_name().to_owned()).collect();
    let mut lines = match (parents, names.as_slice()) {
        ([], _) | (_, []) => String::new(),
        ([first, rest @ ..], _) => {
            let rest = rest.iter().map(|name| format!("; and __fish_seen_subcommand_from {name}"));
            let condition =
                format!("__fish_ktax_using_subcommand {first}") + &rest.collect::<String>();
            format!("complete -c ktax -n \"{condition}\" -a \"{}\"\n", names.join(" "))
        }
    };
    for subcommand in command.get_subcommands() {
        lines += &fish_arguments(subcommand, &[parents, &[subcommand.get_name()]].concat());
    }
    lines
}

/// Makes zsh offer files beside the names of experiments and ledgers, which can be files.
fn offer_files(script: &str) -> String {
    let names = |files: Vec<plan::BuiltIn>| {
        files.iter().map(|file| file.name).collect::<Vec<_>>().join(" ")
    };
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
        let problem = || format!("cannot write manual pages to {}", out.display());
        let next_step = "give --out another directory";
        std::fs::create_dir_all(out).or_host(problem(), next_step)?;
        write_pages(&command, "ktax", out).or_host(problem(), next_step)?;
        return Ok(Exit::Ok);
    }
    let (mut command, mut page_name) = (command, "ktax".to_owned());
    for name in &args.command {
        let unknown = || {
            Error::user(format!(
                "there is no command {name:?}; `ktax help` lists the commands, and `ktax help \
                 COMMAND` its subcommands"
            ))
        };
        let subcommand = command
            .get_subcommands()
            .find(|subcommand| subcommand.get_name() == name && !subcommand.is_hide_set());
        command = subcommand.cloned().ok_or_else(unknown)?;
        page_name += &format!("-{name}");
    }
    write_stdout(&String::from_utf8_lossy(&page(&command, &page_name)?))?;
    Ok(Exit::Ok)
}

/// Writes the page of a command and of its listed subcommands.
fn write_pages(command: &Command, name: &str, out: &Path) -> std::io::Result<()> {
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        write_pages(subcommand, &format!("{name}-{}", subcommand.get_name()), out)?;
    }
    std::fs::write(out.join(format!("{name}.1")), page(command, name)?)
}

/// Manual page of a command. clap would put everything after the options into one section.
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
    if command.get_subcommands().any(|subcommand| !subcommand.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    for (heading, lines) in sections(command, name) {
        // Print examples exactly.
        let lines: Vec<String> = lines.iter().map(|line| escape_roff(line)).collect();
        page.extend(format!(".SH \"{heading}\"\n.nf\n{}\n.fi\n", lines.join("\n")).bytes());
    }
    if command.get_version().is_some() {
        man.render_version_section(&mut page)?;
    }
    Ok(page)
}

/// Escapes a line, so that roff finds no request in the line and keeps its hyphens.
fn escape_roff(line: &str) -> String {
    let escaped = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    if escaped.starts_with('.') { format!("\\&{escaped}") } else { escaped }
}

/// Additions to the help of a command.
struct Manual {
    /// Words of the command, such as `exits record`.
    words: &'static str,
    /// Exit statuses; unused if the help of the command lists its own.
    statuses: &'static [(Exit, &'static str)],
    /// Pages of commands for the same task, such as `store-prune`.
    related: &'static str,
    /// Page of docs/ about the command; empty for the page of its parent command.
    page: &'static str,
}

/// Statuses of commands that print or keep results.
const PRINT_STATUSES: &[(Exit, &str)] = &[
    (Exit::Ok, "done"),
    (Exit::Internal, "ktax or its host failed"),
    (Exit::Usage, "usage error, or a named file or result does not exist"),
];

/// Statuses of commands that check files and name the damaged ones.
const CHECK_STATUSES: &[(Exit, &str)] = &[
    (Exit::Ok, "everything is sound"),
    (Exit::Internal, "something is damaged or was refused, or the host failed"),
    (Exit::Usage, "usage error"),
];

/// Statuses of commands that judge whether the change is slower.
const COMPARE_STATUSES: &[(Exit, &str)] = &[
    (Exit::Ok, "no slowdown detected"),
    (Exit::Internal, "ktax or its host failed"),
    (Exit::Usage, "usage or plan error"),
    (Exit::Slower, "slower by at least the threshold"),
    (Exit::Inconclusive, "inconclusive: too few boots, or different work"),
    (Exit::NotRun, "a boot or a run failed"),
    (Exit::Cancelled, "stopped by Ctrl-C; `ktax run DIR` resumes"),
];

/// Statuses of commands that measure or record without a verdict.
const MEASURE_STATUSES: &[(Exit, &str)] = &[
    (Exit::Ok, "done"),
    (Exit::Internal, "ktax or its host failed"),
    (Exit::Usage, "usage error"),
    (Exit::NotRun, "nothing was measured: a boot or a run failed, or QEMU or KVM is missing"),
    (Exit::Cancelled, "stopped by Ctrl-C"),
];

/// Statuses of `ktax` itself, which its help lists.
const NO_STATUSES: &[(Exit, &str)] = &[];

const fn manual(
    words: &'static str,
    statuses: &'static [(Exit, &'static str)],
    related: &'static str,
    page: &'static str,
) -> Manual {
    Manual { words, statuses, related, page }
}

/// Additions of every command that help lists.
const MANUALS: &[Manual] = &[
    manual("", NO_STATUSES, "compare doctor", "how-it-works.md"),
    manual("compare", COMPARE_STATUSES, "plan run report bisect ledger diff", "compare.md"),
    manual("plan", MEASURE_STATUSES, "run compare", "rundir.md"),
    manual("run", COMPARE_STATUSES, "plan analyse report", "rundir.md"),
    manual("analyse", COMPARE_STATUSES, "run report", "rundir.md"),
    manual("report", PRINT_STATUSES, "compare show", "compare.md"),
    manual("ledger", COMPARE_STATUSES, "compare bisect", "ledger.md"),
    manual("bisect", COMPARE_STATUSES, "compare", "bisect.md"),
    manual("bisect start", COMPARE_STATUSES, "", ""),
    manual("bisect run", COMPARE_STATUSES, "", ""),
    manual("campaign", MEASURE_STATUSES, "history site", "campaign.md"),
    manual("campaign plan", MEASURE_STATUSES, "", ""),
    manual("campaign run", MEASURE_STATUSES, "", ""),
    manual("campaign status", PRINT_STATUSES, "", ""),
    manual("campaign collect", MEASURE_STATUSES, "", ""),
    manual("campaign sbatch", PRINT_STATUSES, "", ""),
    manual("exits", MEASURE_STATUSES, "compare", "exits.md"),
    manual("exits record", MEASURE_STATUSES, "", ""),
    manual("exits watch", MEASURE_STATUSES, "", ""),
    manual("exits report", PRINT_STATUSES, "", ""),
    manual("exits diff", PRINT_STATUSES, "", ""),
    manual("workloads", PRINT_STATUSES, "compare", "workloads.md"),
    manual("workloads show", PRINT_STATUSES, "", ""),
    manual("workloads run", MEASURE_STATUSES, "stat", "native.md"),
    manual("experiments", PRINT_STATUSES, "compare ledger", "compare.md"),
    manual("stat", MEASURE_STATUSES, "workloads-run", "native.md"),
    manual("calibrate", MEASURE_STATUSES, "validate compare", "estimates.md"),
    manual("validate", MEASURE_STATUSES, "calibrate compare", "estimates.md"),
    manual("log", PRINT_STATUSES, "show diff store-prune", "history.md"),
    manual("show", PRINT_STATUSES, "log report", "history.md"),
    manual("diff", COMPARE_STATUSES, "log tag compare", "history.md"),
    manual("history", PRINT_STATUSES, "diff site", "history.md"),
    manual("tag", PRINT_STATUSES, "log diff", "history.md"),
    manual("site", PRINT_STATUSES, "history log", "history.md"),
    manual("import", CHECK_STATUSES, "store log", "store.md"),
    manual("store", PRINT_STATUSES, "log import cache", "store.md"),
    manual("store du", PRINT_STATUSES, "", ""),
    manual("store fsck", CHECK_STATUSES, "", ""),
    manual("store gc", PRINT_STATUSES, "", ""),
    manual("store prune", PRINT_STATUSES, "tag log", ""),
    manual("store index", PRINT_STATUSES, "", "history.md"),
    manual("store export", CHECK_STATUSES, "", ""),
    manual("store import", CHECK_STATUSES, "", ""),
    manual("cache", PRINT_STATUSES, "store doctor", "cache.md"),
    manual("cache du", PRINT_STATUSES, "", ""),
    manual("cache clean", PRINT_STATUSES, "", ""),
    manual("doctor", PRINT_STATUSES, "cache compare", "install.md"),
    manual("completions", PRINT_STATUSES, "man", "install.md"),
    manual("man", PRINT_STATUSES, "completions", "install.md"),
];

/// Command and line of each example, for commands whose own help has no examples.
const EXAMPLES: &[(&str, &str)] = &[
    ("compare", "ktax compare lsm"),
    ("compare", "ktax compare --kernel debian:cloud-amd64 --change-boot-line mitigations=off"),
    ("compare", "ktax compare --base ./bzImage.before --change ./bzImage.after -w fork-exit"),
    ("plan", "ktax plan lsm --out lsm"),
    ("run", "ktax run lsm"),
    ("run", "ktax run --time-limit 900 lsm"),
    ("analyse", "ktax analyse lsm"),
    ("report", "ktax report lsm --format markdown"),
    ("report", "ktax report lsm --explain open-close"),
    ("report", "ktax report lsm --html lsm.html"),
    ("ledger", "ktax ledger hardening-boot --out boot"),
    (
        "bisect start",
        "ktax bisect start --tree linux --base git:v6.12.1 --change git:v6.12.9 -w fork-exit",
    ),
    ("bisect run", "ktax bisect run ktax-1"),
    ("campaign plan", "ktax campaign plan kernels.toml --out C"),
    ("campaign run", "ktax campaign run C --shard 3"),
    ("campaign status", "ktax campaign status C"),
    ("campaign collect", "ktax campaign collect C"),
    ("exits", "ktax exits record --pid 4711 --seconds 10"),
    ("exits", "ktax exits report trace.txt"),
    ("exits record", "ktax exits record --pid 4711 --seconds 10 --json > before.json"),
    ("exits watch", "ktax exits watch --vm debian"),
    ("exits report", "ktax exits report trace.txt"),
    ("exits report", "ktax exits report later --since earlier"),
    ("exits diff", "ktax exits diff before.json after.json"),
    ("workloads", "ktax workloads"),
    ("workloads show", "ktax workloads show pipe"),
    ("experiments", "ktax experiments"),
    ("experiments", "ktax experiments lsm > mine.toml"),
    ("log", "ktax log --since 2026-01-31 -w getppid"),
    ("log", "ktax log --subjects"),
    ("show", "ktax show 2a833378 --format mail"),
    ("site", "ktax site pages"),
    ("import", "ktax import lsm result.json page.html"),
    ("store", "ktax store du"),
    ("store du", "ktax store du --guests"),
    ("store fsck", "ktax store fsck"),
    ("store gc", "ktax store gc"),
    ("store index", "sqlite3 \"$(ktax store index)\" 'SELECT * FROM cost'"),
    ("store export", "ktax store export /mnt/store"),
    ("store import", "ktax store import /mnt/store"),
    ("cache", "ktax cache du"),
    ("cache", "ktax cache clean --cache-size 5G"),
    ("cache du", "ktax cache du --json"),
    ("cache clean", "ktax cache clean --all"),
    ("doctor", "ktax doctor"),
    ("doctor", "ktax doctor --newer-qemu qemu"),
    ("completions", "ktax completions bash > ktax.bash"),
    ("man", "ktax man exits record | man -l -"),
    ("man", "ktax man --out man1"),
];

/// Adds examples and exit statuses to the help of a command and its subcommands. `words` are the
/// words of the command without `ktax`.
pub fn add_manuals(command: Command, words: &[&str]) -> Command {
    let names: Vec<String> =
        command.get_subcommands().map(|subcommand| subcommand.get_name().to_owned()).collect();
    let mut command = names.iter().fold(command, |command, name| {
        let words = [words, &[name.as_str()]].concat();
        command.mut_subcommand(name, |subcommand| add_manuals(subcommand, &words))
    });
    let Some(manual) = find_manual(&words.join(" ")) else { return command };
    let mut after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let has_heading = |heading: &str, text: &str| text.lines().any(|line| line == heading);
    let examples = EXAMPLES.iter().filter(|(words, _)| *words == manual.words);
    let examples: String = examples.map(|(_, line)| format!("\n  {line}")).collect();
    if !examples.is_empty() && !has_heading("Examples:", &after) && !has_heading("Example:", &after)
    {
        append(&mut after, &format!("Examples:{examples}"));
    }
    if !manual.statuses.is_empty() && !has_heading("Exit status:", &after) {
        let line = |(exit, meaning): &(Exit, &str)| format!("\n  {:<3} {meaning}", *exit as u8);
        let lines: String = manual.statuses.iter().map(line).collect();
        append(&mut after, &format!("Exit status:{lines}"));
    }
    if !after.is_empty() {
        command = command.after_help(after);
    }
    command
}

fn append(text: &mut String, section: &str) {
    if !text.is_empty() {
        *text += "\n\n";
    }
    *text += section;
}

fn find_manual(words: &str) -> Option<&'static Manual> {
    MANUALS.iter().find(|manual| manual.words == words)
}

/// Sections of a manual page after the options: the sections of the help, and references. `name` is
/// the name of the page, such as `ktax-exits-record`.
pub fn sections(command: &Command, name: &str) -> Vec<(String, Vec<String>)> {
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut sections: Vec<(String, Vec<String>)> = Vec::new();
    for line in after.lines() {
        let heading = line.strip_suffix(':').filter(|text| text.starts_with(char::is_uppercase));
        match heading.filter(|heading| heading.split(' ').count() <= 3) {
            Some("Example") => sections.push(("EXAMPLES".to_owned(), Vec::new())),
            Some(heading) => sections.push((heading.to_uppercase(), Vec::new())),
            // A paragraph outside of all sections.
            None if !line.is_empty() && !line.starts_with(' ') => {
                match sections.last_mut().filter(|(heading, _)| heading == "NOTES") {
                    Some((_, lines)) => lines.push(line.to_owned()),
                    None => sections.push(("NOTES".to_owned(), vec![line.to_owned()])),
                }
            }
            None => {
                if let Some((_, lines)) = sections.last_mut() {
                    lines.push(line.to_owned());
                }
            }
        }
    }
    for (_, lines) in &mut sections {
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
    }
    sections.push(("SEE ALSO".to_owned(), see_also(command, name)));
    sections
}

/// Pages of the parent command, of the subcommands, and of commands for the same task.
fn see_also(command: &Command, name: &str) -> Vec<String> {
    let words = name.split('-').skip(1).collect::<Vec<_>>().join(" ");
    let parent = name.rsplit_once('-').map(|(parent, _)| parent.to_owned());
    let listed = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    let subcommands = listed.map(Command::get_name).filter(|subcommand| *subcommand != "help");
    let subcommands = subcommands.map(|subcommand| format!("{name}-{subcommand}"));
    let related = find_manual(&words).map_or("", |manual| manual.related);
    let related = related.split_whitespace().map(|related| format!("ktax-{related}"));
    let mut pages: Vec<String> = parent.into_iter().chain(subcommands).chain(related).collect();
    pages.dedup();
    let pages: Vec<String> = pages.iter().map(|page| format!("{page}(1)")).collect();
    let group = words.split(' ').next().unwrap_or_default();
    let pages_of_docs = [find_manual(&words), find_manual(group)].into_iter().flatten();
    let page = pages_of_docs.map(|manual| manual.page).find(|page| !page.is_empty());
    let page = page.map(|page| format!("docs/{page} in the documents of ktax"));
    [Some(pages.join(", ")), page].into_iter().flatten().collect()
}
