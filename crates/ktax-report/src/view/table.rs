//! Tables of a page, and records for programs. Both are built column by column.

use crate::view::Section;
use ktax_model::Verdict;

/// Kind of a column's content. It decides how a format shows the column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// A row's name, `fork-pages:pages=16`. A narrow page may show the parameters on lines of
    /// their own.
    Row,
    /// A name that readers search for, such as a function: formats keep it on one line.
    Name,
    /// Words, which may wrap.
    Words,
    Number,
    /// A verdict, and text that follows it, such as ` (REP)`. It is the last column.
    Verdict,
}

/// A column of a [`Table`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Noun, a space and the unit. A line feed marks where the head may be broken.
    pub head: String,
    pub kind: ColumnKind,
}

impl Column {
    pub fn head_line(&self) -> String {
        self.head.replace('\n', " ")
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cell {
    /// Text that people read. The text of a Verdict is its word, and what follows the word.
    pub text: String,
    /// The Verdict that the text begins with; `None` for other text.
    pub verdict: Option<Verdict>,
    /// Shade in formats that have colours: from -4 (saves most) to 4 (costs most); 0 if the cell is
    /// no cost.
    pub shade: i8,
}

/// A line of a [`Table`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// Cells, one for each column.
    pub cells: Vec<Cell>,
    /// True if the line belongs to the line above: a part of a total, or a secondary row.
    pub is_part: bool,
    /// Index of the [`RowDetail`](super::RowDetail) that the first cell links to.
    pub linked_detail: Option<usize>,
}

/// Table of a page. If all heads are empty, it has no header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    pub columns: Vec<Column>,
    pub lines: Vec<Line>,
    /// Groups of columns that a narrow page leaves out: the first group first, then the next, until
    /// the table fits.
    pub drop_groups: Vec<Vec<usize>>,
    /// True if a table that is too wide becomes several tables, each with the first column.
    pub can_split: bool,
    /// Columns that only a wide page shows, because the page repeats their content elsewhere. They
    /// are in the first of the `drop_groups`, and a page does not list them as omitted.
    pub wide_only_columns: Vec<usize>,
    /// The column that wraps if the table is too wide without all `drop_groups`.
    pub wrapped_column: usize,
}

impl Cell {
    /// Returns the cell of a Verdict; `suffix` follows its word: ` (REP)`.
    pub fn verdict(verdict: Verdict, suffix: &str) -> Cell {
        Cell { text: format!("{}{suffix}", verdict.text()), verdict: Some(verdict), shade: 0 }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell { text, ..Cell::default() }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::from(text.to_owned())
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Cell {
        Cell::from(text.to_owned())
    }
}

impl From<usize> for Cell {
    fn from(count: usize) -> Cell {
        Cell::from(count.to_string())
    }
}

impl From<Verdict> for Cell {
    fn from(verdict: Verdict) -> Cell {
        Cell::verdict(verdict, "")
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(cell: Option<T>) -> Cell {
        cell.map_or_else(Cell::default, Into::into)
    }
}

/// Builder of a table, column by column.
pub struct Columns<'a, L> {
    lines: &'a [L],
    table: Table,
}

impl<'a, L: Copy> Columns<'a, L> {
    /// Begins a table with one line for each element of `lines`.
    pub fn new(lines: &'a [L]) -> Columns<'a, L> {
        let empty = lines.iter().map(|_| Line::default()).collect();
        Columns { lines, table: Table { lines: empty, ..Table::default() } }
    }

    /// Adds a column; `cell` returns its cell in a line.
    pub fn add<T: Into<Cell>>(
        &mut self,
        kind: ColumnKind,
        head: impl Into<String>,
        cell: impl Fn(L) -> T,
    ) -> &mut Self {
        self.table.columns.push(Column { head: head.into(), kind });
        for (line, data) in self.table.lines.iter_mut().zip(self.lines) {
            line.cells.push(cell(*data).into());
        }
        self
    }

    pub fn row<T: Into<Cell>>(&mut self, head: &str, cell: impl Fn(L) -> T) -> &mut Self {
        self.add(ColumnKind::Row, head, cell)
    }

    pub fn name<T: Into<Cell>>(&mut self, head: &str, cell: impl Fn(L) -> T) -> &mut Self {
        self.add(ColumnKind::Name, head, cell)
    }

    pub fn words<T: Into<Cell>>(&mut self, head: &str, cell: impl Fn(L) -> T) -> &mut Self {
        self.add(ColumnKind::Words, head, cell)
    }

    pub fn number<T: Into<Cell>>(&mut self, head: &str, cell: impl Fn(L) -> T) -> &mut Self {
        self.add(ColumnKind::Number, head, cell)
    }

    pub fn verdict<T: Into<Cell>>(&mut self, cell: impl Fn(L) -> T) -> &mut Self {
        self.add(ColumnKind::Verdict, "verdict", cell)
    }

    fn last(&self) -> usize {
        self.table.columns.len() - 1
    }

    /// Lets a narrow page leave the last column out. Columns with the same number are left out
    /// together, those with number 0 first.
    pub fn drop_order(&mut self, group: usize) -> &mut Self {
        let (last, groups) = (self.last(), &mut self.table.drop_groups);
        groups.resize(groups.len().max(group + 1), Vec::new());
        groups[group].push(last);
        self
    }

    /// Sets the groups of columns that a narrow page leaves out, in this order.
    pub fn set_drop_groups<const N: usize, const M: usize>(&mut self, groups: [&[usize; N]; M]) {
        self.table.drop_groups = groups.map(|group| group.to_vec()).to_vec();
    }

    /// Shows the last column only on a wide page, because the page repeats its content elsewhere.
    pub fn wide_only(&mut self) -> &mut Self {
        self.table.wide_only_columns.push(self.last());
        self
    }

    /// Lets the last column wrap if the table is too wide without all columns that may be left out.
    /// By default the first column wraps.
    pub fn wrap_last(&mut self) {
        self.table.wrapped_column = self.last();
    }

    /// Removes the last column if the condition is false.
    pub fn keep_if(&mut self, is_kept: bool) {
        if !is_kept {
            let last = self.last();
            self.table.columns.pop();
            self.table.lines.iter_mut().for_each(|line| drop(line.cells.pop()));
            self.table.wide_only_columns.retain(|column| *column != last);
            self.table
                .drop_groups
                .iter_mut()
                .for_each(|group| group.retain(|column| *column != last));
        }
    }

    pub fn table(mut self) -> Table {
        self.table.drop_groups.retain(|group| !group.is_empty());
        self.table
    }

    /// Returns the table, in which the lines that `is_part` selects belong to the line above.
    pub fn with_parts(self, is_part: impl Fn(L) -> bool) -> Table {
        let parts: Vec<bool> = self.lines.iter().map(|line| is_part(*line)).collect();
        let mut table = self.table();
        table.lines.iter_mut().zip(parts).for_each(|(line, is_part)| line.is_part = is_part);
        table
    }
}

impl Line {
    /// Returns a line that is no part of another.
    pub fn new<T: Into<Cell>>(cells: impl IntoIterator<Item = T>) -> Line {
        Line { cells: cells.into_iter().map(Into::into).collect(), ..Line::default() }
    }

    /// Appends a cell.
    pub fn with_cell(mut self, last: Cell) -> Line {
        self.cells.push(last);
        self
    }
}

impl Table {
    /// Returns a table without lines. Its first column wraps.
    pub fn new<'a>(columns: impl IntoIterator<Item = (&'a str, ColumnKind)>) -> Table {
        let column = |(head, kind): (&str, ColumnKind)| Column { head: head.to_owned(), kind };
        Table { columns: columns.into_iter().map(column).collect(), ..Table::default() }
    }

    pub fn with_lines(self, lines: impl IntoIterator<Item = Line>) -> Table {
        Table { lines: lines.into_iter().collect(), ..self }
    }

    /// Returns a section with this table below a title, which may be empty.
    pub fn with_title(self, title: impl Into<String>) -> Section {
        Section::Table { title: title.into(), table: self, notes: Vec::new() }
    }

    /// Returns a section with this table below a title, which may be empty, and above a note.
    pub fn with_note(self, title: impl Into<String>, note: impl Into<String>) -> Section {
        Section::Table { title: title.into(), table: self, notes: vec![note.into()] }
    }

    /// Tells whether any cell in a column of numbers has a digit.
    pub fn has_numbers(&self) -> bool {
        let is_number = |(column, cell): (&Column, &Cell)| {
            column.kind == ColumnKind::Number && cell.text.contains(|c: char| c.is_ascii_digit())
        };
        self.lines.iter().any(|line| self.columns.iter().zip(&line.cells).any(is_number))
    }

    /// Returns the table without these columns.
    pub fn without_columns(&self, left_out: &[usize]) -> Table {
        let is_shown = |index: &usize| !left_out.contains(index);
        let shown: Vec<usize> = (0..self.columns.len()).filter(is_shown).collect();
        let new_index = |column: &usize| shown.iter().position(|index| index == column);
        let new_group =
            |group: &Vec<usize>| group.iter().filter_map(new_index).collect::<Vec<usize>>();
        let drop_groups = self.drop_groups.iter().map(new_group).filter(|group| !group.is_empty());
        let line = |line: &Line| {
            let cells = shown.iter().filter_map(|index| line.cells.get(*index)).cloned().collect();
            Line { cells, ..*line }
        };
        Table {
            columns: shown.iter().map(|index| self.columns[*index].clone()).collect(),
            lines: self.lines.iter().map(line).collect(),
            drop_groups: drop_groups.collect(),
            wide_only_columns: self.wide_only_columns.iter().filter_map(new_index).collect(),
            wrapped_column: new_index(&self.wrapped_column).unwrap_or(0),
            can_split: false,
        }
    }

    pub fn has_header(&self) -> bool {
        self.columns.iter().any(|column| !column.head.is_empty())
    }
}

/// Unrounded lines for programs that read tables.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Records {
    pub header: Vec<String>,
    /// Lines, with one value for each column.
    pub lines: Vec<Vec<Value>>,
}

/// Value in a column of [`Records`].
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// No value.
    Empty,
    /// Text, which may come from outside of ktax.
    Text(String),
    Count(u64),
    Number(f64),
    Flag(bool),
}

/// Builder of records, column by column.
pub struct Fields<'a, L> {
    lines: &'a [L],
    records: Records,
}

impl<'a, L: Copy> Fields<'a, L> {
    /// Begins records with one line for each element of `lines`.
    pub fn new(lines: &'a [L]) -> Fields<'a, L> {
        Fields {
            lines,
            records: Records { header: Vec::new(), lines: vec![Vec::new(); lines.len()] },
        }
    }

    /// Adds a column; `value` returns its value in a line.
    pub fn add<T: Into<Value>>(&mut self, name: impl Into<String>, value: impl Fn(L) -> T) {
        self.records.header.push(name.into());
        for (line, data) in self.records.lines.iter_mut().zip(self.lines) {
            line.push(value(*data).into());
        }
    }

    /// Adds columns `NAME_0`, `NAME_1` …: as many as the line with the most values has.
    pub fn add_all(&mut self, name: &str, values: impl Fn(L) -> &'a [f64]) {
        let count = self.lines.iter().map(|line| values(*line).len()).max().unwrap_or(0);
        for number in 0..count {
            self.add(format!("{name}_{number}"), |line| values(line).get(number).copied());
        }
    }

    pub fn records(self) -> Records {
        self.records
    }
}

impl Records {
    pub fn new<T: Into<String>>(header: impl IntoIterator<Item = T>) -> Records {
        Records { header: header.into_iter().map(Into::into).collect(), lines: Vec::new() }
    }

    /// Adds a line. If it is shorter than the header, its last values are empty.
    pub fn push(&mut self, line: impl IntoIterator<Item = Value>) {
        let mut line: Vec<Value> = line.into_iter().collect();
        line.resize(self.header.len(), Value::Empty);
        self.lines.push(line);
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Value {
        Value::Text(text.clone())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Value {
        Value::Count(count)
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Value {
        Value::Count(count as u64)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Number(number)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Value {
        Value::Flag(flag)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Empty, Into::into)
    }
}
