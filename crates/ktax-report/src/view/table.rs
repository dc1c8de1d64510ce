//! Tables of a page, and records for programs: lines, and for each column its head and its cell.

use crate::view::Section;
use ktax_model::Verdict;

/// Kind of a column's content, from which follows how a format shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A row's name, `fork-pages:pages=16`: where it is narrow, its parameters may stand below.
    Row,
    /// A name that readers search for, so that it stays on one line.
    Name,
    /// Words, which may wrap.
    Words,
    Number,
    /// The last column: a verdict, and what else it says.
    Verdict,
}

/// A column of a [`Table`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Noun, and its unit behind a space. A line feed says where to break it.
    pub head: String,
    pub kind: Kind,
}

impl Column {
    pub fn head_line(&self) -> String {
        self.head.replace('\n', " ")
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cell {
    /// Text as people read it; of a Verdict its word, and what follows.
    pub text: String,
    /// The Verdict that the text begins with.
    pub verdict: Option<Verdict>,
    /// Shade in formats that have colours: from -4, which saves most, to 4, which costs most; 0 of
    /// all that is no cost. The text says the same.
    pub shade: i8,
}

/// A line of a [`Table`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// Cells, one for each column.
    pub cells: Vec<Cell>,
    /// True if it belongs to the lines above it: a part of a whole, or a row that does not decide.
    pub is_part: bool,
    /// Index of the [`RowDetail`](super::RowDetail) of the page that its first cell leads to.
    pub leads_to: Option<usize>,
}

/// Lines below a header; a table whose heads are all empty has no header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    pub columns: Vec<Column>,
    pub lines: Vec<Line>,
    /// Columns that a narrow page leaves out, one group after the other.
    pub gives_way: Vec<Vec<usize>>,
    /// True if it becomes several tables, each with the first column, where it is too wide.
    pub splits: bool,
    /// Columns that only a wide page has: what they say stands elsewhere too. They are in the first
    /// groups that give way.
    pub extra: Vec<usize>,
    /// The column that wraps where nothing more can be left out.
    pub wraps: usize,
}

impl Cell {
    /// Cell of a Verdict, with what follows its word: ` (REP)`.
    pub fn verdict(verdict: Verdict, rest: &str) -> Cell {
        Cell { text: format!("{}{rest}", verdict.text()), verdict: Some(verdict), shade: 0 }
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
    /// Begins a table with a line for each of these.
    pub fn new(lines: &'a [L]) -> Columns<'a, L> {
        let empty = lines.iter().map(|_| Line::default()).collect();
        Columns { lines, table: Table { lines: empty, ..Table::default() } }
    }

    /// Adds a column: its head, and its cell in each line.
    pub fn add<T: Into<Cell>>(
        &mut self,
        kind: Kind,
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
        self.add(Kind::Row, head, cell)
    }

    pub fn name<T: Into<Cell>>(&mut self, head: &str, cell: impl Fn(L) -> T) -> &mut Self {
        self.add(Kind::Name, head, cell)
    }

    pub fn words<T: Into<Cell>>(&mut self, head: &str, cell: impl Fn(L) -> T) -> &mut Self {
        self.add(Kind::Words, head, cell)
    }

    pub fn number<T: Into<Cell>>(&mut self, head: &str, cell: impl Fn(L) -> T) -> &mut Self {
        self.add(Kind::Number, head, cell)
    }

    pub fn verdict<T: Into<Cell>>(&mut self, cell: impl Fn(L) -> T) -> &mut Self {
        self.add(Kind::Verdict, "verdict", cell)
    }

    fn last(&self) -> usize {
        self.table.columns.len() - 1
    }

    /// Lets a narrow page leave the last column out: those of a group together, group 0 first.
    pub fn away(&mut self, group: usize) -> &mut Self {
        let (last, groups) = (self.last(), &mut self.table.gives_way);
        groups.resize(groups.len().max(group + 1), Vec::new());
        groups[group].push(last);
        self
    }

    /// Sets the groups of columns that a narrow page leaves out, one after the other.
    pub fn give_way<const N: usize, const M: usize>(&mut self, groups: [&[usize; N]; M]) {
        self.table.gives_way = groups.map(|group| group.to_vec()).to_vec();
    }

    /// Shows the last column on a wide page alone: what it says stands elsewhere too.
    pub fn extra(&mut self) -> &mut Self {
        self.table.extra.push(self.last());
        self
    }

    /// Wraps the last column where nothing more can be left out; without one it is the first.
    pub fn wraps(&mut self) {
        self.table.wraps = self.last();
    }

    /// Removes the last column, unless it has something to say.
    pub fn only_if(&mut self, is_there: bool) {
        if !is_there {
            let last = self.last();
            self.table.columns.pop();
            self.table.lines.iter_mut().for_each(|line| drop(line.cells.pop()));
            self.table.extra.retain(|column| *column != last);
            self.table
                .gives_way
                .iter_mut()
                .for_each(|group| group.retain(|column| *column != last));
        }
    }

    pub fn table(mut self) -> Table {
        self.table.gives_way.retain(|group| !group.is_empty());
        self.table
    }

    /// Table with marked parts: lines that belong to those above them.
    pub fn with_parts(self, is_part: impl Fn(L) -> bool) -> Table {
        let parts: Vec<bool> = self.lines.iter().map(|line| is_part(*line)).collect();
        let mut table = self.table();
        table.lines.iter_mut().zip(parts).for_each(|(line, is_part)| line.is_part = is_part);
        table
    }
}

impl Line {
    /// Line that stands by itself.
    pub fn new<T: Into<Cell>>(cells: impl IntoIterator<Item = T>) -> Line {
        Line { cells: cells.into_iter().map(Into::into).collect(), ..Line::default() }
    }

    pub fn and(mut self, last: Cell) -> Line {
        self.cells.push(last);
        self
    }
}

impl Table {
    /// Table without lines, of which the first column wraps.
    pub fn new<'a>(columns: impl IntoIterator<Item = (&'a str, Kind)>) -> Table {
        let column = |(head, kind): (&str, Kind)| Column { head: head.to_owned(), kind };
        Table { columns: columns.into_iter().map(column).collect(), ..Table::default() }
    }

    pub fn with(self, lines: impl IntoIterator<Item = Line>) -> Table {
        Table { lines: lines.into_iter().collect(), ..self }
    }

    /// Section below a title; an empty one is not shown.
    pub fn titled(self, title: impl Into<String>) -> Section {
        Section::Table { title: title.into(), table: self, notes: Vec::new() }
    }

    /// Section below a title and above a note.
    pub fn noted(self, title: impl Into<String>, note: impl Into<String>) -> Section {
        Section::Table { title: title.into(), table: self, notes: vec![note.into()] }
    }

    /// Tells whether a column of numbers has one.
    pub fn has_numbers(&self) -> bool {
        let is_number = |(column, cell): (&Column, &Cell)| {
            column.kind == Kind::Number && cell.text.contains(|c: char| c.is_ascii_digit())
        };
        self.lines.iter().any(|line| self.columns.iter().zip(&line.cells).any(is_number))
    }

    /// Table without these columns.
    pub fn without(&self, left_out: &[usize]) -> Table {
        let is_shown = |index: &usize| !left_out.contains(index);
        let shown: Vec<usize> = (0..self.columns.len()).filter(is_shown).collect();
        let place = |column: &usize| shown.iter().position(|index| index == column);
        let still = |group: &Vec<usize>| group.iter().filter_map(place).collect::<Vec<usize>>();
        let gives_way = self.gives_way.iter().map(still).filter(|group| !group.is_empty());
        let line = |line: &Line| {
            let cells = shown.iter().filter_map(|index| line.cells.get(*index)).cloned().collect();
            Line { cells, ..*line }
        };
        Table {
            columns: shown.iter().map(|index| self.columns[*index].clone()).collect(),
            lines: self.lines.iter().map(line).collect(),
            gives_way: gives_way.collect(),
            extra: self.extra.iter().filter_map(place).collect(),
            wraps: place(&self.wraps).unwrap_or(0),
            splits: false,
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
    Nothing,
    /// Text, which may be from outside.
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
    /// Begins records with a line for each of these.
    pub fn new(lines: &'a [L]) -> Fields<'a, L> {
        Fields {
            lines,
            records: Records { header: Vec::new(), lines: vec![Vec::new(); lines.len()] },
        }
    }

    /// Adds a column: its name, and its value in each line.
    pub fn add<T: Into<Value>>(&mut self, name: impl Into<String>, value: impl Fn(L) -> T) {
        self.records.header.push(name.into());
        for (line, data) in self.records.lines.iter_mut().zip(self.lines) {
            line.push(value(*data).into());
        }
    }

    /// Adds a numbered column for each value of the longest line.
    pub fn add_all(&mut self, name: &str, values: impl Fn(L) -> &'a [f64]) {
        let most = self.lines.iter().map(|line| values(*line).len()).max().unwrap_or(0);
        for number in 0..most {
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

    /// Adds a line; missing values at its end are empty.
    pub fn push(&mut self, line: impl IntoIterator<Item = Value>) {
        let mut line: Vec<Value> = line.into_iter().collect();
        line.resize(self.header.len(), Value::Nothing);
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
        value.map_or(Value::Nothing, Into::into)
    }
}
