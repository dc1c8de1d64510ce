//! The tables of documents: which module may use which (ARCHITECTURE.md), and what each file of
//! tests is about (CONTRIBUTING.md).

use std::collections::{BTreeMap, BTreeSet};

/// The files below `tests/` that rows of a document begin with.
pub fn files_of_tests(document: &str) -> BTreeSet<String> {
    let first_cells =
        document.lines().filter_map(|line| line.strip_prefix("| ")?.split('|').next());
    let names = first_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    names.filter(|name| name.starts_with("tests/")).map(str::to_owned).collect()
}

/// A row of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct Room {
    pub name: String,
    pub uses: BTreeSet<String>,
}

/// The rows of `src/NAME/`, in their order.
pub fn rooms(document: &str) -> Vec<Room> {
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `src/"));
    let row = |row: &str| {
        let name = row.split("/`").next()?.to_owned();
        // A cell may have a link, but no bar.
        let last = row.trim_end_matches([' ', '|']).rsplit('|').next()?;
        let quoted = last.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        Some(Room { name, uses: quoted })
    };
    rows.filter_map(row).collect()
}

/// What the table says and the code does not do, and the other way round.
pub fn differences(rooms: &[Room], used: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut found = Vec::new();
    let in_table: BTreeSet<&String> = rooms.iter().map(|room| &room.name).collect();
    for name in used.keys().filter(|name| !in_table.contains(name)) {
        found.push(format!("src/{name}/ has no row in ARCHITECTURE.md"));
    }
    let mut above = BTreeSet::new();
    for Room { name, uses } in rooms {
        let Some(used) = used.get(name) else {
            found.push(format!("ARCHITECTURE.md has a row for src/{name}/, which does not exist"));
            continue;
        };
        for upwards in used.iter().filter(|other| !above.contains(other)) {
            found.push(format!("src/{name}/ uses `{upwards}`, which is not above it in the table"));
        }
        above.insert(name);
        for other in used.difference(uses) {
            found.push(format!("src/{name}/ uses `{other}`, and its row does not say so"));
        }
        for other in uses.difference(used) {
            found.push(format!("src/{name}/ does not use `{other}`, and its row says so"));
        }
    }
    found
}
