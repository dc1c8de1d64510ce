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
    /// A number.
    Number,
    /// The last column: a verdict, and what else it says.
    Verdict,
}

/// A column of a [`Table`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Noun, and its unit behind a space. A line feed says where to break it.
    pub head: String,
    /// Kind of the content.
    pub kind: Kind,
}

impl Column {
    /// Returns the head on one line.
    pub fn head_line(&self) -> String {
        self.head.replace('\n', " ")
    }
}

/// Cell of a table.
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
    /// Whether it belongs to the lines above it: a part of a whole, or a row that does not decide.
    pub is_part: bool,
    /// Index of the [`RowDetail`](super::RowDetail) of the page that its first cell leads to.
    pub leads_to: Option<usize>,
}

/// Lines below a header; a table whose heads are all empty has no header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// Columns from left to right.
    pub columns: Vec<Column>,
    /// Lines from top to bottom.
    pub lines: Vec<Line>,
    /// Columns that a narrow page leaves out, one group after the other.
    pub gives_way: Vec<Vec<usize>>,
    /// Whether it becomes several tables where it is wider than the page, each with the first
    /// column.
    pub splits: bool,
    /// Columns that only a wide page has: what they say stands elsewhere too. They are in the first
    /// groups that give way.
    pub extra: Vec<usize>,
    /// The column that wraps where nothing more can be left out.
    pub wraps: usize,
}

impl Cell {
    /// Returns the cell of a Verdict, with what follows its word: ` (REP)`.
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

impl Line {
    /// Returns a line that stands by itself.
    pub fn new<T: Into<Cell>>(cells: impl IntoIterator<Item = T>) -> Line {
        Line { cells: cells.into_iter().map(Into::into).collect(), ..Line::default() }
    }

    /// Appends a last cell.
    pub fn and(mut self, last: Cell) -> Line {
        self.cells.push(last);
        self
    }
}

impl Table {
    /// Returns a table without lines, of which the first column wraps.
    pub fn new<'a>(columns: impl IntoIterator<Item = (&'a str, Kind)>) -> Table {
        let column = |(head, kind): (&str, Kind)| Column { head: head.to_owned(), kind };
        Table { columns: columns.into_iter().map(column).collect(), ..Table::default() }
    }

    /// Sets the lines.
    pub fn with(self, lines: impl IntoIterator<Item = Line>) -> Table {
        Table { lines: lines.into_iter().collect(), ..self }
    }

    /// Tells whether a column of numbers has one.
    pub fn has_numbers(&self) -> bool {
        let is_number = |(column, cell): (&Column, &Cell)| {
            column.kind == Kind::Number && cell.text.contains(|c: char| c.is_ascii_digit())
        };
        self.lines.iter().any(|line| self.columns.iter().zip(&line.cells).any(is_number))
    }

    /// Removes these columns and their cells.
    pub fn without(&self, left_out: &[usize]) -> Table {
        let is_shown = |index: &usize| !left_out.contains(index);
        let shown: Vec<usize> = (0..self.columns.len()).filter(is_shown).collect();
        let line = |line: &Line| Line {
            cells: shown.iter().filter_map(|index| line.cells.get(*index)).cloned().collect(),
            is_part: line.is_part,
            leads_to: line.leads_to,
        };
        let place = |column: &usize| shown.iter().position(|index| index == column);
        let still = |group: &Vec<usize>| group.iter().filter_map(place).collect::<Vec<usize>>();
        let gives_way = self.gives_way.iter().map(still).filter(|group| !group.is_empty());
        Table {
            columns: shown.iter().map(|index| self.columns[*index].clone()).collect(),
            lines: self.lines.iter().map(line).collect(),
            gives_way: gives_way.collect(),
            splits: false,
            extra: self.extra.iter().filter_map(place).collect(),
            wraps: shown.iter().position(|index| *index == self.wraps).unwrap_or(0),
        }
    }

    /// Removes the columns that only a wide page has.
    pub fn without_extra(mut self) -> Table {
        let extra = std::mem::take(&mut self.extra);
        self.gives_way.retain(|group| !group.iter().any(|column| extra.contains(column)));
        self.without(&extra)
    }

    /// Tells whether a column is one that only a wide page has.
    pub fn is_extra(&self, column: usize) -> bool {
        self.extra.contains(&column)
    }

    /// Tells whether the table has a header.
    pub fn has_header(&self) -> bool {
        self.columns.iter().any(|column| !column.head.is_empty())
    }
}
