//! The figures of the five documents: `tests/data/published/*.csv`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::figure::Figure;

/// Where the figures are.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/published")
}

/// One row: column → what is printed, empty where nothing is.
#[derive(Debug, Clone)]
pub struct Row(BTreeMap<String, String>);

impl Row {
    pub fn text(&self, column: &str) -> &str {
        self.0.get(column).unwrap_or_else(|| panic!("no column {column} in {self:?}"))
    }

    pub fn has(&self, column: &str) -> bool {
        !self.text(column).is_empty()
    }

    pub fn exact(&self, column: &str) -> Figure {
        Figure::exact(self.text(column))
    }

    pub fn rounded(&self, column: &str) -> Figure {
        Figure::rounded(self.text(column))
    }

    /// How many figures it has; what only says which row it is, is none.
    pub fn figures(&self) -> usize {
        let names = ["kernel", "processors", "users", "pages"];
        let cells = self.0.iter().filter(|(column, _)| !names.contains(&column.as_str()));
        cells.filter(|(_, text)| text.parse::<f64>().is_ok()).count()
    }

    pub fn value(&self, column: &str) -> f64 {
        self.exact(column).value
    }
}

/// All tables, by the name of their file without `.csv`.
#[derive(Debug, Clone)]
pub struct Tables(BTreeMap<String, Vec<Row>>);

impl Tables {
    pub fn read() -> Tables {
        let files = std::fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path());
        let csv = files.filter(|path| path.extension().is_some_and(|is| is == "csv"));
        let named = csv
            .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), read_rows(&path)));
        Tables(named.collect())
    }

    /// Each table with its rows.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[Row])> {
        self.0.iter().map(|(table, rows)| (table.as_str(), rows.as_slice()))
    }

    pub fn rows(&self, table: &str) -> &[Row] {
        self.0.get(table).unwrap_or_else(|| panic!("no table {table}"))
    }

    /// The only row with these words in these columns.
    pub fn row(&self, table: &str, wanted: &[(&str, &str)]) -> &Row {
        &self.rows(table)[self.position(table, wanted)]
    }

    /// A copy with another text in one place.
    pub fn with(&self, table: &str, wanted: &[(&str, &str)], column: &str, text: &str) -> Tables {
        let (mut changed, at) = (self.clone(), self.position(table, wanted));
        let row = &mut changed.0.get_mut(table).unwrap()[at];
        assert!(row.0.insert(column.to_owned(), text.to_owned()).is_some(), "no {column}");
        changed
    }

    fn position(&self, table: &str, wanted: &[(&str, &str)]) -> usize {
        let fits = |row: &Row| wanted.iter().all(|(column, text)| row.text(column) == *text);
        let rows = self.rows(table).iter().enumerate();
        let found: Vec<usize> = rows.filter(|(_, row)| fits(row)).map(|(at, _)| at).collect();
        assert_eq!(found.len(), 1, "{table} {wanted:?}");
        found[0]
    }
}

fn read_rows(path: &Path) -> Vec<Row> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_path(path).unwrap();
    let rows = reader.deserialize::<BTreeMap<String, String>>();
    rows.map(|row| Row(row.unwrap_or_else(|e| panic!("{}: {e}", path.display())))).collect()
}
