//! Lists the commits between two revisions of the user's repository.

use std::path::Path;

use super::tree::{ask_repository, repository, resolve};
use ktax_host::text::{escape, escape_path};
use ktax_model::{Element, Error, Result};

/// A function that more files mention is too common to narrow a search.
const FILES_MAX: usize = 50;

/// The id of `base`, and the commits after it up to `change` along first parents, oldest first.
pub fn commits(tree: &Path, base: &str, change: &str) -> Result<(String, Vec<Element>)> {
    let tree = repository(tree)?;
    let (first, last) = (resolve(&tree, base, "commit")?, resolve(&tree, change, "commit")?);
    let range = format!("{first}..{last}");
    let log =
        ["log", "--first-parent", "--reverse", "--no-show-signature", "--format=%H%x09%P%x09%s"];
    let text = ask_repository(&tree, &[&log[..], &[&range, "--"]].concat(), "list the commits")?;
    let commits: Vec<(Element, &str)> = text.lines().filter_map(parse_commit).collect();
    let is_whole = commits.last().is_some_and(|(element, _)| element.name == last)
        && commits.len() == text.lines().count();
    match commits.first() {
        Some((_, parents)) if is_whole && parents.split(' ').next() == Some(&first) => {
            Ok((first, commits.into_iter().map(|(element, _)| element).collect()))
        }
        _ => {
            let (base, change) = (escape(base), escape(change));
            let problem = format!("{base} is not a first-parent ancestor of {change}");
            Err(Error::user(problem).next(format!(
                "give a commit that `git -C {} log --first-parent {change}` lists",
                escape_path(&tree)
            )))
        }
    }
}

/// The commit in one line of the log, and its parents.
fn parse_commit(line: &str) -> Option<(Element, &str)> {
    let mut fields = line.splitn(3, '\t');
    let (id, parents, subject) = (fields.next()?, fields.next()?, fields.next()?);
    let is_merge = parents.contains(' ');
    Some((Element { name: id.to_owned(), title: subject.to_owned(), is_merge }, parents))
}

/// The places, from 1, of the commits whose patches seem to change one of these functions. A wrong
/// guess only costs a search some time.
pub fn that_touch(tree: &Path, commits: &[Element], functions: &[&str]) -> Result<Vec<usize>> {
    let tree = repository(tree)?;
    let (Some(first), Some(last)) = (commits.first(), commits.last()) else { return Ok(vec![]) };
    let range = format!("{}^..{}", first.name, last.name);
    let mut touching = Vec::new();
    for function in functions.iter().map(|name| stem(name)).filter(|name| !name.is_empty()) {
        let grep =
            ["grep", "-l", "-w", "-F", "-e", function, &last.name, "--", "*.c", "*.h", "*.S"];
        // grep fails if no file mentions the function.
        let files = ask_repository(&tree, &grep, "search the tree").unwrap_or_default();
        let paths: Vec<&str> =
            files.lines().filter_map(|line| Some(line.split_once(':')?.1)).collect();
        if paths.is_empty() || paths.len() > FILES_MAX {
            continue;
        }
        let log = ["log", "--first-parent", "-m", "-p", "--no-color", "--no-ext-diff"];
        let format = ["--no-textconv", "--no-show-signature", "--format=%x00%H", &range, "--"];
        let text =
            ask_repository(&tree, &[&log[..], &format, &paths].concat(), "read the patches")?;
        touching.extend(text.split('\0').filter_map(|patch| {
            let (id, patch) = patch.split_once('\n')?;
            let position = commits.iter().position(|commit| commit.name == id)?;
            mentions_function(patch, function).then_some(position + 1)
        }));
    }
    touching.sort_unstable();
    touching.dedup();
    Ok(touching)
}

/// Whether a hunk of a patch mentions the function: in a changed line, near one, or in the head of
/// the hunk, where git writes the name of the function around it.
fn mentions_function(patch: &str, function: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mentions = |line: &str| line.split(|c| !is_word(c)).any(|word| word == function);
    patch.lines().any(|line| line.starts_with(['@', '+', '-', ' ']) && mentions(line))
}

/// The name in the source, for example `getppid` for `__do_sys_getppid`; empty for `[user]`.
fn stem(symbol: &str) -> &str {
    let wrappers = ["__x64_sys_", "__ia32_sys_", "__se_sys_", "__do_sys_"];
    let stem = wrappers.iter().find_map(|wrapper| symbol.strip_prefix(wrapper)).unwrap_or(symbol);
    let is_name = stem.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_name { stem } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_changes_the_function_around_its_hunk_and_those_in_its_lines() {
        let patch = "diff --git a/f.c b/f.c\n@@ -1,2 +1,2 @@ SYSCALL_DEFINE0(getppid)\n \
                     \tint other = idle();\n+\tbusy(1);\n";
        for (function, touched) in
            [("getppid", true), ("busy", true), ("idle", true), ("diff", false)]
        {
            assert_eq!(mentions_function(patch, function), touched, "{function}");
        }
        assert_eq!(
            [stem("__x64_sys_getppid"), stem("[user]"), stem("fput")],
            ["getppid", "", "fput"]
        );
    }
}
