//! Which file uses which: a file uses another if it names an item that the other defines.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{Import, Module, ROOT};

/// For each file the files that it uses, each with an item as an example.
pub type Uses = BTreeMap<String, BTreeMap<String, String>>;

/// What a path leads to.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// The module that defines it.
    Item(usize),
    Module(usize),
    /// It is not of this crate, or a local variable.
    Foreign,
    /// It begins in this crate and leads nowhere.
    Nothing,
}

/// The modules of a crate.
pub struct Crate<'a> {
    pub modules: &'a [Module],
    /// What the crate is called from outside; `main.rs` is outside.
    pub name: &'a str,
}

/// More steps than any path has: a re-export that leads to itself ends.
const STEPS: usize = 40;

impl Crate<'_> {
    /// What uses what, and complaints about paths of this crate that lead nowhere.
    pub fn uses(&self) -> (Uses, Vec<String>) {
        let (mut uses, mut complaints) = (Uses::new(), Vec::new());
        for (at, module) in self.modules.iter().enumerate() {
            let is_facade = module.file.ends_with("/mod.rs");
            let imports = module.imports.iter();
            let imports = imports.map(|import| {
                // What is only passed on is not used.
                (&import.path, is_facade && import.is_public)
            });
            let named = module.named.iter().map(|path| (path, false));
            for (path, is_passed_on) in imports.chain(named) {
                match self.find(at, path, STEPS) {
                    Found::Item(owner) if !is_passed_on => {
                        let (from, to) = (&module.file, &self.modules[owner].file);
                        if from != to {
                            let of_file = uses.entry(from.clone()).or_default();
                            of_file.entry(to.clone()).or_insert_with(|| path.join("::"));
                        }
                    }
                    Found::Nothing => {
                        let path = path.join("::");
                        complaints.push(format!("{}: {path} cannot be followed", module.file));
                    }
                    _ => {}
                }
            }
        }
        (uses, complaints)
    }

    /// The modules below the root that a room names, by the room's name.
    pub fn rooms(&self) -> BTreeMap<String, BTreeSet<String>> {
        self.rooms_by(|_, room| room.to_owned())
    }

    /// The same, by the file.
    pub fn rooms_of_files(&self) -> BTreeMap<String, BTreeSet<String>> {
        self.rooms_by(|module, _| module.file.clone())
    }

    fn rooms_by(
        &self,
        key: impl Fn(&Module, &str) -> String,
    ) -> BTreeMap<String, BTreeSet<String>> {
        let mut rooms = BTreeMap::new();
        for (at, module) in self.modules.iter().enumerate() {
            let Some(room) = self.room(at) else { continue };
            let used: &mut BTreeSet<String> = rooms.entry(key(module, &room)).or_default();
            let imported = module.imports.iter().map(|import| &import.path);
            // A name that is imported leads where its import leads, which is counted already.
            let is_import = |name: &String| module.imports.iter().any(|it| it.name == *name);
            let named = module.named.iter().filter(|path| !path.first().is_some_and(is_import));
            for path in imported.chain(named) {
                used.extend(self.first_room(at, path).filter(|used| *used != room));
            }
        }
        rooms
    }

    /// The module below the root that a module is in.
    fn room(&self, module: usize) -> Option<String> {
        let mut at = module;
        while at != ROOT && self.modules[at].parent != ROOT {
            at = self.modules[at].parent;
        }
        let children = &self.modules[ROOT].children;
        children.iter().find(|(_, child)| **child == at).map(|(name, _)| name.clone())
    }

    /// The room that a path leads into first.
    fn first_room(&self, module: usize, path: &[String]) -> Option<String> {
        (1..=path.len()).find_map(|length| match self.find(module, &path[..length], STEPS) {
            Found::Module(ROOT) | Found::Foreign | Found::Nothing => None,
            Found::Module(found) | Found::Item(found) => self.room(found),
        })
    }

    fn find(&self, module: usize, path: &[String], steps: usize) -> Found {
        let Some((first, rest)) = path.split_first() else { return Found::Module(module) };
        match first.as_str() {
            "self" if !rest.is_empty() => self.descend(module, rest, steps),
            "super" => self.descend(self.modules[module].parent, rest, steps),
            "crate" => self.descend(ROOT, rest, steps),
            name if name == self.name => self.descend(ROOT, rest, steps),
            name if name.ends_with('!') => self.find_macro(module, name.trim_end_matches('!')),
            _ => self.step(module, first, rest, steps).unwrap_or(Found::Foreign),
        }
    }

    /// A macro is seen below the module that defines it.
    fn find_macro(&self, module: usize, name: &str) -> Found {
        let here = &self.modules[module];
        match here.macros.iter().any(|defined| defined == name) {
            true => Found::Item(module),
            false if module == ROOT => Found::Foreign,
            false => self.find_macro(here.parent, name),
        }
    }

    /// From a module down; each part must be there.
    fn descend(&self, module: usize, path: &[String], steps: usize) -> Found {
        match path.split_first() {
            None => Found::Module(module),
            Some((first, rest)) if first == "super" => {
                self.descend(self.modules[module].parent, rest, steps)
            }
            Some((first, rest)) => self.step(module, first, rest, steps).unwrap_or(Found::Nothing),
        }
    }

    /// One name in a module. A module and a function can have the same one: what follows says which
    /// is meant.
    fn step(&self, module: usize, name: &str, rest: &[String], steps: usize) -> Option<Found> {
        let steps = steps.checked_sub(1)?;
        let here = &self.modules[module];
        let child = || here.children.get(name).map(|child| self.descend(*child, rest, steps));
        let item = || here.items.iter().any(|item| item == name).then_some(Found::Item(module));
        let import = || self.imported(module, name, rest, steps);
        match rest.is_empty() {
            true => item().or_else(import).or_else(child),
            false => child().filter(|found| *found != Found::Nothing).or_else(item).or_else(import),
        }
    }

    fn imported(&self, module: usize, name: &str, rest: &[String], steps: usize) -> Option<Found> {
        let here = &self.modules[module];
        let follow = |import: &Import| {
            // `pub use a::a` begins with the module `a`, not with itself.
            let path: Vec<String> = import.path.iter().chain(rest).cloned().collect();
            match import.path.first().is_some_and(|first| first == name) {
                true => self.child_or_foreign(module, &path, steps),
                false => Some(self.find(module, &path, steps)),
            }
        };
        let by_name = here.imports.iter().filter(|import| import.name == name);
        let found = by_name.filter_map(follow).find(|found| *found != Found::Nothing);
        found.or_else(|| {
            let globs = here.imports.iter().filter(|import| import.name == "*");
            let within = globs.filter_map(|glob| match self.find(module, &glob.path, steps) {
                Found::Module(from) if from != module => self.step(from, name, rest, steps),
                _ => None,
            });
            within.into_iter().next()
        })
    }

    fn child_or_foreign(&self, module: usize, path: &[String], steps: usize) -> Option<Found> {
        let child = self.modules[module].children.get(&path[0])?;
        Some(self.descend(*child, &path[1..], steps))
    }
}
