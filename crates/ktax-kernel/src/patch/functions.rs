//! Finds the functions that a patch changes, or that a C file defines. This relies on the style of
//! kernel code, in which a definition begins in the first column.

use std::collections::BTreeSet;

use super::{Diff, Hunk};

/// A function with its name in the source, and its possible symbols in the kernel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceFunction {
    /// The name for messages: `do_wp_page`, `sys_getppid`.
    pub name: String,
    /// Names in kallsyms, without suffixes such as `.isra.0`.
    pub symbols: Vec<String>,
}

impl SourceFunction {
    /// Returns the function of this name. `getppid` and `sys_getppid` also stand for the system
    /// call.
    pub fn named(name: &str) -> SourceFunction {
        let call = name.strip_prefix("sys_").unwrap_or(name);
        let symbols = std::iter::once(name.to_owned()).chain(call_symbols(call));
        SourceFunction { name: name.to_owned(), symbols: symbols.collect() }
    }

    fn plain(name: &str) -> SourceFunction {
        SourceFunction { name: name.to_owned(), symbols: vec![name.to_owned()] }
    }

    fn call(name: &str) -> SourceFunction {
        SourceFunction { name: format!("sys_{name}"), symbols: call_symbols(name).collect() }
    }
}

/// Returns the symbols that `SYSCALL_DEFINE` creates for a system call.
fn call_symbols(call: &str) -> impl Iterator<Item = String> {
    ["__x64_sys_", "__do_sys_", "__se_sys_", "ksys_"]
        .map(|prefix| format!("{prefix}{call}"))
        .into_iter()
}

impl Diff {
    /// Returns the functions in which the diff changes lines of C or assembly: functions whose
    /// definitions are in the hunks, and functions that git names after `@@`.
    pub fn functions(&self) -> BTreeSet<SourceFunction> {
        let is_code = |path: &str| [".c", ".h", ".S"].iter().any(|end| path.ends_with(end));
        let files = self.files.iter().filter(|file| is_code(&file.path));
        files.flat_map(|file| &file.hunks).flat_map(functions_of_hunk).collect()
    }
}

fn functions_of_hunk(hunk: &Hunk) -> BTreeSet<SourceFunction> {
    let lines: Vec<&str> = hunk.lines.iter().map(|(_, line)| line.as_str()).collect();
    let mut current = definition(&[&hunk.context]);
    let mut found = BTreeSet::new();
    for (index, (sign, line)) in hunk.lines.iter().enumerate() {
        if let Some(function) = definition(&lines[index..]) {
            current = Some(function);
        }
        if *sign != ' ' {
            found.extend(current.clone());
        }
        if line.starts_with('}') {
            current = None;
        }
    }
    found
}

/// Finds the functions that a C or assembly file defines.
pub fn definitions_in(text: &str) -> BTreeSet<SourceFunction> {
    let lines: Vec<&str> = text.lines().collect();
    (0..lines.len()).filter_map(|start| definition(&lines[start..])).collect()
}

/// Macros with arguments that may precede the name of a function.
const ATTRIBUTES: [&str; 10] = [
    "__attribute__",
    "__printf",
    "__scanf",
    "__aligned",
    "__section",
    "__acquires",
    "__releases",
    "__must_hold",
    "__no_sanitize",
    "__cond_acquires",
];

/// Words that precede a parenthesis in a statement.
const STATEMENTS: [&str; 9] =
    ["if", "for", "while", "switch", "return", "sizeof", "defined", "typeof", "else"];

/// The largest number of lines of a list of parameters.
const MAX_PARAMETER_LINES: usize = 30;

/// Returns the function whose definition begins on the first of these lines; `None` if none does.
fn definition(lines: &[&str]) -> Option<SourceFunction> {
    let first = lines.first()?;
    first.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_').then_some(())?;
    let head = first.split('=').next().unwrap_or_default();
    let text = std::iter::once(head).chain(lines.iter().skip(1).copied());
    let text = text.take(MAX_PARAMETER_LINES).collect::<Vec<_>>().join("\n");
    let mut rest = text.as_str();
    loop {
        // The name must be on the first line.
        let open = rest.find(['(', '\n']).filter(|position| rest[*position..].starts_with('('))?;
        let name = word_before(&rest[..open]);
        let (inside, after) = parenthesized(&rest[open..]);
        if ATTRIBUTES.contains(&name) {
            rest = after;
            continue;
        }
        if name.is_empty() || STATEMENTS.contains(&name) || after.trim_start().starts_with(';') {
            return None;
        }
        return Some(function_named(name, inside));
    }
}

/// Returns the function with this word before its parameters. The first argument of a macro is the
/// name of the function.
fn function_named(word: &str, inside: &str) -> SourceFunction {
    let is_macro = word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    let argument = inside.split([',', ')', ' ', '\n']).next().unwrap_or_default();
    match is_macro && !argument.is_empty() {
        true if word.contains("SYSCALL_DEFINE") => SourceFunction::call(argument),
        true => SourceFunction::plain(argument),
        false => SourceFunction::plain(word),
    }
}

/// Returns the word at the end of a text.
fn word_before(text: &str) -> &str {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let text = text.trim_end();
    &text[text.trim_end_matches(is_part).len()..]
}

/// Splits a text that begins with a parenthesis into the text inside and the text after it. The
/// text after it is empty if the parenthesis is never closed.
fn parenthesized(text: &str) -> (&str, &str) {
    let mut depth = 0_u32;
    for (end, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return (&text[1..end], &text[end + 1..]);
        }
    }
    (text.get(1..).unwrap_or_default(), "")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(functions: &BTreeSet<SourceFunction>) -> Vec<&str> {
        functions.iter().map(|function| function.name.as_str()).collect()
    }

    #[test]
    fn definitions_are_told_from_prototypes_and_statements() {
        let text = "\
int prototype(int a);
static int other(int a,
\t\t int b);
EXPORT_SYMBOL(exported);
static const struct ops ops = {
static int value = MACRO(3);
static inline int one(int a)
{
\tif (a)
\t\treturn called(a);
}
struct page *two(struct vm_area_struct *vma,
\t\t unsigned long (*address)(void))
{
}
SYSCALL_DEFINE1(close, unsigned int, fd)
{
}
DEFINE_IDTENTRY_RAW_ERRORCODE(exc_page_fault)
static __printf(1, 2) void three(const char *format, ...)
static void
four(void)
SYM_FUNC_START(memset)
out:
";
        let expected = ["exc_page_fault", "four", "memset", "one", "sys_close", "three", "two"];
        assert_eq!(names(&definitions_in(text)), expected);
        let close = SourceFunction::call("close");
        assert!(close.symbols.contains(&"__x64_sys_close".to_owned()));
        assert!(SourceFunction::named("close").symbols.contains(&"__do_sys_close".to_owned()));
    }

    #[test]
    fn a_patch_changes_the_functions_whose_lines_it_changes() {
        let text = "\
--- a/mm/a.c
+++ b/mm/a.c
@@ -1,4 +1,5 @@ static int before(int a)
 \tx();
+\ty();
 }

 int untouched(void)
@@ -20,6 +21,7 @@ int ended(void)
 }

 int changed(int a,
 \t    int b)
 {
+\ty();
 }
@@ -40,2 +42,6 @@ int last(void)
 \treturn 0;
 }
+
+static void added(void)
+{
+}
--- a/Documentation/a.rst
+++ b/Documentation/a.rst
@@ -1 +1 @@ int no(void)
-a
+b
";
        let diff = Diff::read(text.as_bytes()).unwrap();
        assert_eq!(names(&diff.functions()), ["added", "before", "changed"]);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[a-z_(){};=,\n\té ]{0,200}|\\PC*") {
            definitions_in(&text);
        }
    }
}
