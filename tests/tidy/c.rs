//! Which C file uses which: by its includes, and by the functions and variables that it names.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::Uses;
use super::tokens::{Token, tokens};

/// The headers that each file includes: beside it, or the only one of that name.
pub fn includes(files: &BTreeMap<String, String>) -> Uses {
    let mut uses = Uses::new();
    for (path, text) in files {
        for line in text.lines() {
            let name = line.strip_prefix("#include \"").and_then(|rest| rest.split('"').next());
            let Some(name) = name else { continue };
            let beside = format!("{}/{name}", path.rsplit_once('/').unwrap_or_default().0);
            let elsewhere = || files.keys().find(|other| other.ends_with(&format!("/{name}")));
            let header = files.get_key_value(&beside).map(|(path, _)| path).or_else(elsewhere);
            let header = header.unwrap_or_else(|| panic!("{path}: {name} is not there"));
            uses.entry(path.clone()).or_default().insert(header.clone(), name.to_owned());
        }
    }
    uses
}

/// What a file has.
#[derive(Default)]
struct Unit {
    /// Functions and variables that other files see.
    defined: BTreeSet<String>,
    /// The names in its code, but for those of its own variables.
    named: BTreeSet<String>,
    /// The names in the body of each macro and of each function that a header defines.
    expanded: BTreeMap<String, BTreeSet<String>>,
    /// Functions that a header declares for their callers: another file defines them.
    hooks: BTreeSet<String>,
}

/// Which file names what which other file defines. A macro, or a function in a header, stands for
/// what is in it. A `HOOK` is no use of the file that defines it.
pub fn names(files: &BTreeMap<String, String>) -> Uses {
    let units: BTreeMap<&String, Unit> =
        files.iter().map(|(path, text)| (path, unit(text, path.ends_with(".h")))).collect();
    let expanded: BTreeMap<&String, &BTreeSet<String>> =
        units.values().flat_map(|unit| &unit.expanded).collect();
    let hooks: BTreeSet<&String> = units.values().flat_map(|unit| &unit.hooks).collect();
    let mut uses = Uses::new();
    for (path, unit) in units.iter().filter(|(path, _)| path.ends_with(".c")) {
        let mut todo: Vec<&String> = unit.named.iter().collect();
        let mut seen = BTreeSet::new();
        while let Some(name) = todo.pop() {
            if hooks.contains(name) || !seen.insert(name) {
                continue;
            }
            todo.extend(expanded.get(name).into_iter().flat_map(|inside| inside.iter()));
            let owner = units.iter().find(|(_, unit)| unit.defined.contains(name));
            if let Some((owner, _)) = owner.filter(|(owner, _)| *owner != path) {
                let of_file = uses.entry((*path).clone()).or_default();
                of_file.insert((*owner).clone(), name.clone());
            }
        }
    }
    uses
}

fn unit(text: &str, is_header: bool) -> Unit {
    let mut unit = Unit::default();
    let (code, macros) = without_directives(text);
    for definition in macros {
        let body = tokens(&definition);
        if let Some(name) = body.first().and_then(Token::word) {
            let inside = body[1..].iter().filter_map(Token::word).map(str::to_owned).collect();
            unit.expanded.insert(name.to_owned(), inside);
        }
    }
    let code = without_attributes(&tokens(&code));
    let local = declared(&code);
    for (head, body) in pieces(&code) {
        let inside = named(body, &local);
        let is_private =
            |token: &Token| ["static", "extern", "typedef"].iter().any(|word| token.is_word(word));
        // A function without a body is only declared.
        let is_declared = is_function(&head) && body.is_empty();
        let is_hook = head.iter().any(|token| token.is_word("HOOK"));
        for name in defined(&head) {
            if is_hook {
                unit.hooks.insert(name);
            } else if is_header {
                unit.expanded.insert(name, inside.clone());
            } else if !is_declared && !head.iter().any(is_private) {
                unit.defined.insert(name);
            }
        }
        unit.named.extend(inside);
        let value = head.iter().position(|token| token.is_sign('=')).unwrap_or(head.len());
        unit.named.extend(named(&head[value..], &local));
    }
    unit
}

/// The code, and what follows each `#define`.
fn without_directives(text: &str) -> (String, Vec<String>) {
    let joined = text.replace("\\\n", " ");
    let (directives, code): (Vec<&str>, Vec<&str>) =
        joined.lines().partition(|line| line.trim_start().starts_with('#'));
    let macros = directives.iter().filter_map(|line| line.trim_start().strip_prefix("#define "));
    (code.join("\n"), macros.map(str::to_owned).collect())
}

fn without_attributes(all: &[Token]) -> Vec<Token> {
    let (mut left, mut at) = (Vec::new(), 0);
    while at < all.len() {
        if all[at].is_word("__attribute__") {
            at = closing(all, at + 1, '(', ')');
        } else {
            left.push(all[at].clone());
        }
        at += 1;
    }
    left
}

/// Where the bracket that opens at `at` closes.
fn closing(all: &[Token], at: usize, opens: char, closes: char) -> usize {
    let mut depth = 0;
    for (here, token) in all.iter().enumerate().skip(at) {
        depth += i32::from(token.is_sign(opens)) - i32::from(token.is_sign(closes));
        if depth == 0 {
            return here;
        }
    }
    all.len()
}

/// The declarations and definitions of a file: what stands outside its braces, and what in them.
fn pieces(all: &[Token]) -> Vec<(Vec<Token>, &[Token])> {
    let (mut pieces, mut head, mut body, mut at) = (Vec::new(), Vec::new(), &all[..0], 0);
    while at < all.len() {
        let mut is_over = all[at].is_sign(';');
        if all[at].is_sign('{') {
            let end = closing(all, at, '{', '}').min(all.len() - 1);
            body = &all[at..end];
            at = end;
            // What follows the brace of a struct is its variable.
            is_over = is_function(&head);
        } else if !is_over {
            head.push(all[at].clone());
        }
        if is_over {
            pieces.push((std::mem::take(&mut head), std::mem::replace(&mut body, &all[..0])));
        }
        at += 1;
    }
    pieces
}

fn is_function(head: &[Token]) -> bool {
    let has = |sign: char| head.iter().any(|token| token.is_sign(sign));
    has('(') && !has('=')
}

/// The names that a piece defines: of a function the one before the bracket, else those before a
/// `=`, `[` or `,` and at the end.
fn defined(head: &[Token]) -> Vec<String> {
    let name = |part: &[Token]| part.iter().rev().find_map(Token::word).map(str::to_owned);
    if is_function(head) {
        let end = head.iter().position(|token| token.is_sign('(')).unwrap_or(head.len());
        return name(&head[..end]).into_iter().collect();
    }
    let before = |part: &[Token]| {
        let end = part.iter().position(|token| token.is_sign('=') || token.is_sign('['));
        name(&part[..end.unwrap_or(part.len())])
    };
    head.split(|token| token.is_sign(',')).filter_map(before).collect()
}

/// The names of a body: of functions by their call, of others unless the file declares them.
fn named(body: &[Token], local: &BTreeSet<String>) -> BTreeSet<String> {
    let words = body.iter().enumerate().filter_map(|(at, token)| {
        let word = token.word()?;
        let is_call = body.get(at + 1).is_some_and(|next| next.is_sign('('));
        (is_call || !local.contains(word)).then(|| word.to_owned())
    });
    words.collect()
}

/// What has a type or a star before it.
fn declared(all: &[Token]) -> BTreeSet<String> {
    const NO_TYPES: [&str; 6] = ["return", "else", "case", "goto", "sizeof", "do"];
    let is_type = |token: &Token| {
        token.is_sign('*') || token.word().is_some_and(|word| !NO_TYPES.contains(&word))
    };
    let pairs = all.windows(2).filter(|pair| is_type(&pair[0]));
    pairs.filter_map(|pair| pair[1].word().map(str::to_owned)).collect()
}
