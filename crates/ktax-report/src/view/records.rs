/// Unrounded lines for programs that read tables.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Records {
    /// The columns.
    pub header: Vec<String>,
    /// One value for each column.
    pub lines: Vec<Vec<Value>>,
}

/// What stands in a place of [`Records`].
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// There is none.
    Nothing,
    /// A text, which may be from outside.
    Text(String),
    /// A count.
    Count(u64),
    /// A number.
    Number(f64),
    /// Yes or no.
    Flag(bool),
}

impl Records {
    /// No lines yet.
    pub fn of<T: Into<String>>(header: impl IntoIterator<Item = T>) -> Records {
        Records { header: header.into_iter().map(Into::into).collect(), lines: Vec::new() }
    }

    /// Adds a line; what it lacks at its end is nothing.
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
