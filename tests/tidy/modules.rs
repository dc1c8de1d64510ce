//! What each module of a crate defines, imports and names.

use std::collections::BTreeMap;

use super::tokens::{Token, tokens};

/// A module: of a file, or within one.
#[derive(Debug, Default)]
pub struct Module {
    pub file: String,
    /// The module that it is in; the root is in itself.
    pub parent: usize,
    pub children: BTreeMap<String, usize>,
    /// Functions, types, constants, macros.
    pub items: Vec<String>,
    /// Macros, which the modules below see too.
    pub macros: Vec<String>,
    pub imports: Vec<Import>,
    /// Paths that the code names, each as its parts; a macro by its name alone has a `!`.
    pub named: Vec<Vec<String>>,
}

/// One name of a `use`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    pub path: Vec<String>,
    /// What it is called here; `*` where all names are taken.
    pub name: String,
    pub is_public: bool,
}

pub const ROOT: usize = 0;

const KINDS: [&str; 9] =
    ["fn", "struct", "enum", "trait", "type", "const", "static", "union", "macro_rules"];

/// The modules of the crate whose root is `root`; `files` has the text of each file by its path.
///
/// # Errors
///
/// A module whose file is not there.
pub fn modules(root: &str, files: &BTreeMap<String, String>) -> Result<Vec<Module>, String> {
    let mut all = vec![Module { file: root.to_owned(), ..Module::default() }];
    let mut todo = vec![ROOT];
    while let Some(module) = todo.pop() {
        let file = all[module].file.clone();
        let text = files.get(&file).ok_or_else(|| format!("{file} is not there"))?;
        let mut reader = Reader { tokens: tokens(text), at: 0, all: &mut all, files, todo };
        reader.module(module, &directory(&file))?;
        todo = reader.todo;
    }
    Ok(all)
}

/// Where the files of a file's modules are.
fn directory(file: &str) -> String {
    let (parent, name) = file.rsplit_once('/').unwrap_or(("", file));
    match name {
        "mod.rs" | "lib.rs" | "main.rs" => parent.to_owned(),
        name => format!("{parent}/{}", name.trim_end_matches(".rs")),
    }
}

struct Reader<'a> {
    tokens: Vec<Token>,
    at: usize,
    all: &'a mut Vec<Module>,
    files: &'a BTreeMap<String, String>,
    todo: Vec<usize>,
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.at + ahead)
    }

    fn word(&self, ahead: usize) -> Option<&str> {
        self.peek(ahead)?.word()
    }

    fn is_sign(&self, ahead: usize, sign: char) -> bool {
        self.peek(ahead).is_some_and(|token| token.is_sign(sign))
    }

    /// Whether this word follows `::` or a dot; two dots are a range or the rest of a struct.
    fn is_within_a_path(&self) -> bool {
        let before = |back: usize| self.at.checked_sub(back).map(|at| &self.tokens[at]);
        let is_dot = |back| before(back).is_some_and(|token| token.is_sign('.'));
        before(1) == Some(&Token::Path) || (is_dot(1) && !is_dot(2))
    }

    /// Reads to the end of a module: the brace that closes it, or the end of the file.
    fn module(&mut self, module: usize, directory: &str) -> Result<(), String> {
        let (mut depth, mut path_attribute, mut is_public) = (0, None, false);
        while let Some(token) = self.peek(0).cloned() {
            match &token {
                Token::Sign('{') => depth += 1,
                Token::Sign('}') if depth == 0 => return Ok(()),
                Token::Sign('}') => depth -= 1,
                Token::Text(text) if self.is_path_attribute() => {
                    path_attribute = Some(text.clone());
                }
                Token::Word(_) if self.is_within_a_path() => {}
                Token::Word(word) if word == "pub" => {
                    is_public = true;
                    self.at += 1;
                    if self.is_sign(0, '(') {
                        self.skip_to(')');
                        self.at += 1;
                    }
                    continue;
                }
                Token::Word(word) if word == "use" && !self.is_sign(1, '<') => {
                    self.at += 1;
                    self.import(module, &[], is_public);
                }
                Token::Word(word) if word == "mod" && self.word(1).is_some() => {
                    self.child(module, directory, path_attribute.take())?;
                }
                Token::Word(word) => {
                    if depth == 0 && KINDS.contains(&word.as_str()) {
                        self.item(module);
                    }
                    self.name(module);
                }
                _ => {}
            }
            is_public = false;
            self.at += 1;
        }
        Ok(())
    }

    fn skip_to(&mut self, sign: char) {
        while self.peek(0).is_some_and(|token| !token.is_sign(sign)) {
            self.at += 1;
        }
    }

    /// `#[path = "…"]`
    fn is_path_attribute(&self) -> bool {
        self.at >= 2
            && self.tokens[self.at - 1].is_sign('=')
            && self.tokens[self.at - 2].is_word("path")
    }

    /// `const NAME`, `macro_rules! NAME`; a `const fn` is a function.
    fn item(&mut self, module: usize) {
        let ahead = if self.is_sign(1, '!') { 2 } else { 1 };
        if let Some(name) = self.word(ahead).filter(|name| !KINDS.contains(name)) {
            let name = name.to_owned();
            if ahead == 2 {
                self.all[module].macros.push(name.clone());
            }
            self.all[module].items.push(name);
        }
    }

    /// A path such as `a::b`, at its first part.
    fn name(&mut self, module: usize) {
        let mut path = vec![self.word(0).unwrap_or_default().to_owned()];
        while self.peek(1) == Some(&Token::Path) && self.word(2).is_some() {
            self.at += 2;
            path.push(self.word(0).unwrap_or_default().to_owned());
        }
        if path.len() == 1 && self.is_sign(1, '!') && !self.is_sign(2, '=') {
            path[0].push('!');
        }
        self.all[module].named.push(path);
    }

    /// One branch of the tree of a `use`, up to its end.
    fn import(&mut self, module: usize, before: &[String], is_public: bool) {
        let mut path = before.to_vec();
        let mut name = None;
        while let Some(token) = self.peek(0).cloned() {
            match token {
                Token::Word(word) if word == "as" => {
                    self.at += 1;
                    name = self.word(0).map(str::to_owned);
                }
                Token::Word(word) => path.push(word),
                Token::Sign('*') => name = Some("*".to_owned()),
                Token::Sign('{') => {
                    self.at += 1;
                    while self.peek(0).is_some_and(|token| !token.is_sign('}')) {
                        self.import(module, &path, is_public);
                        self.at += usize::from(self.is_sign(0, ','));
                    }
                    self.at += 1;
                    return;
                }
                Token::Sign(',' | '}' | ';') => break,
                _ => {}
            }
            self.at += 1;
        }
        if path.len() == before.len() && name.is_none() {
            return;
        }
        // `use a::{self}`
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let name = name.or_else(|| path.last().cloned()).unwrap_or_default();
        self.all[module].imports.push(Import { path, name, is_public });
    }

    /// `mod name;` or `mod name {`
    fn child(
        &mut self,
        module: usize,
        directory: &str,
        path: Option<String>,
    ) -> Result<(), String> {
        self.at += 1;
        let name = self.word(0).unwrap_or_default().to_owned();
        self.at += 1;
        let child = self.all.len();
        let file = self.all[module].file.clone();
        self.all[module].children.insert(name.clone(), child);
        self.all.push(Module { file: file.clone(), parent: module, ..Module::default() });
        let below = format!("{directory}/{name}");
        if self.is_sign(0, '{') {
            self.at += 1;
            return self.module(child, &below);
        }
        let places = match path {
            Some(path) => vec![format!("{}/{path}", file.rsplit_once('/').unwrap_or_default().0)],
            None => vec![format!("{below}.rs"), format!("{below}/mod.rs")],
        };
        let place = places.into_iter().find(|place| self.files.contains_key(place));
        self.all[child].file = place.ok_or_else(|| format!("{file}: mod {name} has no file"))?;
        self.todo.push(child);
        Ok(())
    }
}
