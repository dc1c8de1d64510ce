//! Table of the kernel functions that each row executes, counted on one kernel and built into ktax.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use flate2::read::GzDecoder;

/// The built-in table. `make functions` counts all rows and writes it.
const BUILT_IN_TABLE: &[u8] =
    include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads/functions.gz"));

/// Maximum size of the table in bytes. A kernel has about 100 000 functions, and ktax some hundred
/// rows.
const MAX_BYTES: u64 = 16 << 20;

/// Functions that each row executes, with their shares of the instructions of the row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TouchedTable {
    /// Release of the counted kernel.
    pub kernel: String,
    /// Share of each function in millionths, by row. The names have no compiler suffixes.
    pub rows: BTreeMap<String, BTreeMap<String, u32>>,
}

/// A row that executes requested functions.
#[derive(Debug, Clone, PartialEq)]
pub struct TouchingRow {
    pub row: String,
    /// Share of the functions in the row's instructions, in percent.
    pub percent: f64,
    /// The functions that the row executes, the largest share first.
    pub functions: Vec<String>,
}

impl TouchedTable {
    /// The built-in table.
    pub fn built_in() -> TouchedTable {
        let mut text = String::new();
        let read = GzDecoder::new(BUILT_IN_TABLE).take(MAX_BYTES).read_to_string(&mut text);
        let table = read.ok().and_then(|_| TouchedTable::parse(&text));
        table.expect("a test reads the built-in table")
    }

    /// Parses the text of a table; `None` if it is malformed.
    pub fn parse(text: &str) -> Option<TouchedTable> {
        let mut lines = text.lines();
        (lines.next()? == "ktax-functions 1").then_some(())?;
        let mut table = TouchedTable::default();
        let mut functions: Vec<&str> = Vec::new();
        for line in lines {
            match line.split_once(' ')? {
                ("kernel", release) => table.kernel = release.to_owned(),
                ("f", name) => functions.push(name),
                ("r", rest) => {
                    let (row, shares) = rest.split_once(' ')?;
                    let mut index = 0_usize;
                    let mut touched = BTreeMap::new();
                    for pair in shares.split(' ') {
                        let (step, millionths) = pair.split_once(':')?;
                        index = index.checked_add(step.parse().ok()?)?;
                        let function = *functions.get(index)?;
                        touched.insert(function.to_owned(), millionths.parse().ok()?);
                    }
                    table.rows.insert(row.to_owned(), touched);
                }
                _ => return None,
            }
        }
        Some(table)
    }

    /// Text of the table: a line for each name, then a line for each row with pairs of the distance
    /// to the next name and its share. Distances compress better than names.
    pub fn text(&self) -> String {
        let names: BTreeSet<&String> = self.rows.values().flat_map(BTreeMap::keys).collect();
        let indices: BTreeMap<&String, usize> = names.iter().copied().zip(0..).collect();
        let mut text = format!("ktax-functions 1\nkernel {}\n", self.kernel);
        names.iter().for_each(|name| text += &format!("f {name}\n"));
        for (row, touched) in &self.rows {
            let mut last = 0;
            let pairs = touched.iter().map(|(name, millionths)| {
                let step = indices[name] - last;
                last = indices[name];
                format!("{step}:{millionths}")
            });
            text += &format!("r {row} {}\n", pairs.collect::<Vec<_>>().join(" "));
        }
        text
    }

    /// Adds the instructions that a row executed, by function.
    pub fn add(&mut self, row: &str, counts: &BTreeMap<String, u64>) {
        let total: u64 = counts.values().sum();
        let mut touched: BTreeMap<String, u64> = BTreeMap::new();
        for (name, count) in counts.iter().filter(|(name, _)| !name.starts_with('[')) {
            *touched.entry(without_suffix(name).to_owned()).or_default() += count;
        }
        let millionths = |count: u64| {
            let millionths = u128::from(count) * 1_000_000 / u128::from(total.max(1));
            two_significant_digits(u32::try_from(millionths).unwrap_or(1_000_000))
        };
        let shares = touched.into_iter().map(|(name, count)| (name, millionths(count)));
        // Functions below a millionth belong to the code before and after the row.
        let shares: BTreeMap<String, u32> = shares.filter(|(_, share)| *share > 0).collect();
        if !shares.is_empty() {
            self.rows.insert(row.to_owned(), shares);
        }
    }

    /// Returns true if any row executes this function.
    pub fn has_function(&self, symbol: &str) -> bool {
        self.rows.values().any(|touched| touched.contains_key(symbol))
    }

    /// Names of all functions in the table.
    pub fn functions(&self) -> BTreeSet<&str> {
        self.rows.values().flat_map(|touched| touched.keys().map(String::as_str)).collect()
    }

    /// Rows that execute one of these symbols, the largest share first.
    pub fn rows_touching(&self, symbols: &BTreeSet<String>) -> Vec<TouchingRow> {
        let touching_row = |(row, touched): (&String, &BTreeMap<String, u32>)| {
            let executed = touched.iter().filter(|(name, _)| symbols.contains(*name));
            let mut executed: Vec<(&String, u32)> =
                executed.map(|(name, share)| (name, *share)).collect();
            executed.sort_by_key(|(name, share)| (std::cmp::Reverse(*share), *name));
            let millionths: u32 = executed.iter().map(|(_, share)| share).sum();
            (millionths > 0).then(|| TouchingRow {
                row: row.clone(),
                percent: f64::from(millionths) / 10_000.0,
                functions: executed.into_iter().map(|(name, _)| name.clone()).collect(),
            })
        };
        let mut rows: Vec<TouchingRow> = self.rows.iter().filter_map(touching_row).collect();
        rows.sort_by(|a, b| b.percent.total_cmp(&a.percent));
        rows
    }
}

/// Removes the compiler's suffixes from a symbol: `.isra.0`, `.constprop.0`, `.part.0`, `.cold`.
fn without_suffix(symbol: &str) -> &str {
    symbol.split('.').next().unwrap_or(symbol)
}

/// Rounds a number down to two significant digits, because further digits differ between kernels.
fn two_significant_digits(number: u32) -> u32 {
    let mut unit = 1;
    while number / unit >= 100 {
        unit *= 10;
    }
    number / unit * unit
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table() -> TouchedTable {
        let mut table = TouchedTable { kernel: "6.1".into(), ..TouchedTable::default() };
        let counts = |pairs: &[(&str, u64)]| {
            pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        table.add("a", &counts(&[("[user]", 600), ("f.isra.0", 123), ("f", 77), ("g", 200)]));
        table.add("b:x=1,y=2", &counts(&[("g", 1), ("h", 1_999_999)]));
        table.add("c", &counts(&[("rare", 1), ("h", 10_000_000)]));
        table
    }

    #[test]
    fn rows_that_execute_a_function_are_sorted_by_its_share() {
        let table = table();
        let symbols = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let rows = table.rows_touching(&symbols(&["g", "f"]));
        let names: Vec<&str> = rows.iter().map(|row| row.row.as_str()).collect();
        // b executes g for less than a millionth of its instructions.
        assert_eq!((names, rows[0].percent), (vec!["a"], 40.0));
        assert_eq!(rows[0].functions, ["f", "g"]);
        assert!(!table.has_function("rare") && table.has_function("h"));
    }

    #[test]
    fn the_built_in_table_has_the_rows_that_execute_well_known_functions() {
        let table = TouchedTable::built_in();
        assert_eq!(TouchedTable::parse(&table.text()).as_ref(), Some(&table));
        let first = |symbol: &str| table.rows_touching(&[symbol.to_owned()].into())[0].row.clone();
        assert!(first("__do_sys_getppid").contains("getppid"), "{}", first("__do_sys_getppid"));
        assert!(first("handle_mm_fault").contains("fault"), "{}", first("handle_mm_fault"));
        assert!(table.has_function("pipe_write") && table.has_function("copy_page_range"));
    }

    proptest! {
        #[test]
        fn a_written_table_is_read_back(
            rows in prop::collection::btree_map(
                "[a-z:=,0-9]{1,9}",
                prop::collection::btree_map("[a-z_]{1,4}", 1..9_000_000_u64, 1..5),
                0..5,
            ),
        ) {
            let mut table = TouchedTable { kernel: "x".into(), ..TouchedTable::default() };
            rows.iter().for_each(|(row, counts)| table.add(row, counts));
            prop_assert_eq!(TouchedTable::parse(&table.text()), Some(table));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "(ktax-functions 1\n)?([kfr] [a-z0-9: \n]*)*") {
            TouchedTable::parse(&text);
        }
    }
}
