//! Examples, exit statuses and references that help and manual pages print after the options.

use clap::Command;

use super::Exit;

/// Additions to the help of a command.
struct Manual {
    /// Words of the command, such as `exits record`.
    words: &'static str,
    /// Command lines; empty if its own help has examples.
    examples: &'static [&'static str],
    /// Exit statuses; empty if its own help lists them.
    statuses: &'static [(Exit, &'static str)],
    /// Commands for the same task.
    related: &'static [&'static str],
    /// Page of docs/ about it.
    page: &'static str,
}

/// Statuses of commands that print or keep results.
const PRINTS: &[(Exit, &str)] = &[
    (Exit::Ok, "done"),
    (Exit::Internal, "ktax or its host failed"),
    (Exit::Usage, "usage error, or what was named is not there"),
];

/// Statuses of commands that check files and name the damaged ones.
const CHECKS: &[(Exit, &str)] = &[
    (Exit::Ok, "all of it is sound"),
    (Exit::Internal, "something is damaged or was refused, or the host failed"),
    (Exit::Usage, "usage error"),
];

/// Statuses of commands that judge whether the change is slower.
const COMPARES: &[(Exit, &str)] = &[
    (Exit::Ok, "no slowdown detected"),
    (Exit::Internal, "ktax or its host failed"),
    (Exit::Usage, "usage or plan error"),
    (Exit::Slower, "slower by at least the threshold"),
    (Exit::Inconclusive, "inconclusive: too few boots, or different work"),
    (Exit::NotRun, "a boot or a run failed"),
    (Exit::Cancelled, "stopped by Ctrl-C; `ktax run DIR` resumes"),
];

/// Statuses of commands that measure or record without a verdict.
const MEASURES: &[(Exit, &str)] = &[
    (Exit::Ok, "done"),
    (Exit::Internal, "ktax or its host failed"),
    (Exit::Usage, "usage error"),
    (Exit::NotRun, "what was to be measured did not run, or QEMU or KVM is missing"),
    (Exit::Cancelled, "stopped by Ctrl-C"),
];

const fn manual(
    words: &'static str,
    examples: &'static [&'static str],
    statuses: &'static [(Exit, &'static str)],
    related: &'static [&'static str],
    page: &'static str,
) -> Manual {
    Manual { words, examples, statuses, related, page }
}

/// Additions of every command that help lists.
const MANUALS: &[Manual] = &[
    manual("", &[], &[], &["compare", "doctor"], "how-it-works.md"),
    manual(
        "compare",
        &[
            "ktax compare lsm",
            "ktax compare --kernel debian:cloud-amd64 --change-boot-line mitigations=off",
            "ktax compare --base ./bzImage.before --change ./bzImage.after -w fork-exit",
        ],
        COMPARES,
        &["plan", "run", "report", "bisect", "ledger", "diff"],
        "compare.md",
    ),
    manual("plan", &["ktax plan lsm --out lsm"], MEASURES, &["run", "compare"], "rundir.md"),
    manual(
        "run",
        &["ktax run lsm", "ktax run --time-limit 900 lsm"],
        COMPARES,
        &["plan", "analyse", "report"],
        "rundir.md",
    ),
    manual("analyse", &["ktax analyse lsm"], COMPARES, &["run", "report"], "rundir.md"),
    manual(
        "report",
        &[
            "ktax report lsm --format markdown",
            "ktax report lsm --explain open-close",
            "ktax report lsm --html lsm.html",
        ],
        PRINTS,
        &["compare", "show"],
        "compare.md",
    ),
    manual(
        "ledger",
        &["ktax ledger hardening-boot --out boot"],
        COMPARES,
        &["compare", "bisect"],
        "ledger.md",
    ),
    manual("bisect", &[], COMPARES, &["compare"], "bisect.md"),
    manual(
        "bisect start",
        &["ktax bisect start --tree linux --base git:v6.12.1 --change git:v6.12.9 -w fork-exit"],
        COMPARES,
        &[],
        "bisect.md",
    ),
    manual("bisect run", &["ktax bisect run ktax-1"], COMPARES, &[], "bisect.md"),
    manual("campaign", &[], MEASURES, &["history", "site"], "campaign.md"),
    manual(
        "campaign plan",
        &["ktax campaign plan kernels.toml --out C"],
        MEASURES,
        &[],
        "campaign.md",
    ),
    manual("campaign run", &["ktax campaign run C --shard 3"], MEASURES, &[], "campaign.md"),
    manual("campaign status", &["ktax campaign status C"], PRINTS, &[], "campaign.md"),
    manual("campaign collect", &["ktax campaign collect C"], MEASURES, &[], "campaign.md"),
    manual("campaign sbatch", &[], PRINTS, &[], "campaign.md"),
    manual(
        "exits",
        &["ktax exits record --pid 4711 --seconds 10", "ktax exits report trace.txt"],
        MEASURES,
        &["compare"],
        "exits.md",
    ),
    manual(
        "exits record",
        &["ktax exits record --pid 4711 --seconds 10 --json > before.json"],
        MEASURES,
        &[],
        "exits.md",
    ),
    manual("exits watch", &["ktax exits watch --vm debian"], MEASURES, &[], "exits.md"),
    manual(
        "exits report",
        &["ktax exits report trace.txt", "ktax exits report later --since earlier"],
        PRINTS,
        &[],
        "exits.md",
    ),
    manual("exits diff", &["ktax exits diff before.json after.json"], PRINTS, &[], "exits.md"),
    manual("workloads", &["ktax workloads"], PRINTS, &["compare"], "workloads.md"),
    manual("workloads show", &["ktax workloads show pipe"], PRINTS, &[], "workloads.md"),
    manual("workloads run", &[], MEASURES, &["stat"], "native.md"),
    manual(
        "experiments",
        &["ktax experiments", "ktax experiments lsm > mine.toml"],
        PRINTS,
        &["compare", "ledger"],
        "compare.md",
    ),
    manual("stat", &[], MEASURES, &["workloads-run"], "native.md"),
    manual("calibrate", &[], MEASURES, &["validate", "compare"], "estimates.md"),
    manual("validate", &[], MEASURES, &["calibrate", "compare"], "estimates.md"),
    manual(
        "log",
        &["ktax log --since 2026-01-31 -w getppid", "ktax log --subjects"],
        PRINTS,
        &["show", "diff", "store-prune"],
        "history.md",
    ),
    manual("show", &["ktax show 2a833378 --format mail"], PRINTS, &["log", "report"], "history.md"),
    manual("diff", &[], COMPARES, &["log", "tag", "compare"], "history.md"),
    manual("history", &[], PRINTS, &["diff", "site"], "history.md"),
    manual("tag", &[], PRINTS, &["log", "diff"], "history.md"),
    manual("site", &["ktax site pages"], PRINTS, &["history", "log"], "history.md"),
    manual(
        "import",
        &["ktax import lsm result.json page.html"],
        CHECKS,
        &["store", "log"],
        "store.md",
    ),
    manual("store", &["ktax store du"], PRINTS, &["log", "import", "cache"], "store.md"),
    manual("store du", &["ktax store du --guests"], PRINTS, &[], "store.md"),
    manual("store fsck", &["ktax store fsck"], CHECKS, &[], "store.md"),
    manual("store gc", &["ktax store gc"], PRINTS, &[], "store.md"),
    manual("store prune", &[], PRINTS, &["tag", "log"], "store.md"),
    manual(
        "store index",
        &["sqlite3 \"$(ktax store index)\" 'SELECT * FROM cost'"],
        PRINTS,
        &[],
        "history.md",
    ),
    manual("store export", &["ktax store export /mnt/store"], CHECKS, &[], "store.md"),
    manual("store import", &["ktax store import /mnt/store"], CHECKS, &[], "store.md"),
    manual(
        "cache",
        &["ktax cache du", "ktax cache clean --cache-size 5G"],
        PRINTS,
        &["store", "doctor"],
        "cache.md",
    ),
    manual("cache du", &["ktax cache du --json"], PRINTS, &[], "cache.md"),
    manual("cache clean", &["ktax cache clean --all"], PRINTS, &[], "cache.md"),
    manual(
        "doctor",
        &["ktax doctor", "ktax doctor --newer-qemu qemu"],
        PRINTS,
        &["cache", "compare"],
        "install.md",
    ),
    manual("completions", &["ktax completions bash > ktax.bash"], PRINTS, &["man"], "install.md"),
    manual(
        "man",
        &["ktax man exits record | man -l -", "ktax man --out man1"],
        PRINTS,
        &["completions"],
        "install.md",
    ),
];

/// Adds examples and exit statuses to the help of a command and its subcommands; `above` are its
/// words.
pub fn completed(command: Command, above: &[&str]) -> Command {
    let below: Vec<String> =
        command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    let mut command = below.iter().fold(command, |command, name| {
        let words = [above, &[name.as_str()]].concat();
        command.mut_subcommand(name, |below| completed(below, &words))
    });
    let Some(manual) = find(&above.join(" ")) else { return command };
    let mut after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let has = |heading: &str, after: &str| after.lines().any(|line| line == heading);
    if !manual.examples.is_empty() && !has("Examples:", &after) && !has("Example:", &after) {
        let lines = manual.examples.iter().map(|line| format!("\n  {line}"));
        append(&mut after, &format!("Examples:{}", lines.collect::<String>()));
    }
    if !manual.statuses.is_empty() && !has("Exit status:", &after) {
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

fn find(words: &str) -> Option<&'static Manual> {
    MANUALS.iter().find(|manual| manual.words == words)
}

/// Sections of a manual page after the options: those of the help, and references. `name` is the
/// name of the page, such as `ktax-exits-record`.
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

/// Pages of the command above, of the subcommands, and of the same task.
fn see_also(command: &Command, name: &str) -> Vec<String> {
    let words = name.split('-').skip(1).collect::<Vec<_>>().join(" ");
    let above = name.rsplit_once('-').map(|(above, _)| above.to_owned());
    let listed = command.get_subcommands().filter(|below| !below.is_hide_set());
    let below = listed.map(Command::get_name).filter(|below| *below != "help");
    let below = below.map(|below| format!("{name}-{below}"));
    let related = find(&words).map_or(&[][..], |manual| manual.related);
    let related = related.iter().map(|related| format!("ktax-{related}"));
    let mut pages: Vec<String> = above.into_iter().chain(below).chain(related).collect();
    pages.dedup();
    let pages: Vec<String> = pages.iter().map(|page| format!("{page}(1)")).collect();
    let page = find(&words).map(|manual| format!("docs/{} in the documents of ktax", manual.page));
    [Some(pages.join(", ")), page].into_iter().flatten().collect()
}
