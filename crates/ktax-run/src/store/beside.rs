//! Profiles of several layouts as one: a function's line has the numbers of all of them. They
//! hardly differ, so that this halves an object.

use std::collections::HashMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

/// Texts, line beside line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Beside {
    /// Each line, with `#` for each number.
    lines: Vec<String>,
    /// Of each line one column for each number; of a line without numbers one of zeros.
    columns: Vec<Vec<Column>>,
}

impl Beside {
    /// At least as many bytes as this number of texts takes.
    pub(super) fn most_bytes(&self, texts: usize) -> u64 {
        /// Digits of the largest number.
        const DIGITS: usize = 20;
        let lines: usize = self.lines.iter().map(|line| line.len() + 1).sum();
        let numbers: usize = self.columns.iter().map(Vec::len).sum();
        let each = lines.saturating_add(numbers.saturating_mul(DIGITS));
        each.saturating_mul(texts) as u64
    }
}

/// A number in each text: the first, and how much the others are more; `None` of a text without
/// this line. Once where all have the same.
type Column = Vec<Option<i64>>;

/// The texts, line beside line.
pub(super) fn beside(texts: &[&str]) -> Beside {
    let parsed: Vec<Vec<(String, Vec<u64>)>> =
        texts.iter().map(|text| text.split('\n').map(parse).collect()).collect();
    let lines = in_common(&parsed);
    let mut numbers: Vec<Vec<Option<Vec<u64>>>> = vec![vec![None; texts.len()]; lines.len()];
    for (text, own) in parsed.into_iter().enumerate() {
        let mut at = 0;
        for (line, found) in own {
            // Each text's lines are there, in their order.
            while lines[at] != line {
                at += 1;
            }
            numbers[at][text] = Some(found);
            at += 1;
        }
    }
    Beside { lines, columns: numbers.iter().map(|each| columns(each)).collect() }
}

/// The numbers of a line, text by text, as columns.
fn columns(texts: &[Option<Vec<u64>>]) -> Vec<Column> {
    let many = texts.iter().flatten().map(Vec::len).max().unwrap_or(0).max(1);
    let column = |number: usize| {
        let of = |text: &Option<Vec<u64>>| {
            text.as_ref().map(|numbers| numbers.get(number).copied().unwrap_or(0))
        };
        let values: Vec<Option<u64>> = texts.iter().map(of).collect();
        let first = values.iter().copied().flatten().next().unwrap_or(0);
        if values.iter().all(|value| *value == Some(first)) {
            return vec![Some(first as i64)];
        }
        let mut base = None;
        let mut less = |value: u64| match base {
            Some(base) => value.wrapping_sub(base) as i64,
            None => *base.insert(value) as i64,
        };
        values.into_iter().map(|value| value.map(&mut less)).collect()
    };
    (0..many).map(column).collect()
}

/// The texts again, of which there were so many.
pub(super) fn apart(all: &Beside, texts: usize) -> Vec<String> {
    let mut apart: Vec<Option<String>> = vec![None; texts];
    for (line, columns) in all.lines.iter().zip(&all.columns) {
        let values: Vec<Vec<Option<u64>>> = columns.iter().map(|it| values(it, texts)).collect();
        for (text, whole) in apart.iter_mut().enumerate() {
            if values.iter().any(|column| column[text].is_none()) {
                continue;
            }
            match whole {
                Some(whole) => whole.push('\n'),
                None => *whole = Some(String::new()),
            }
            let numbers = values.iter().filter_map(|column| column[text]);
            fill(line, numbers, whole.get_or_insert_default());
        }
    }
    apart.into_iter().map(Option::unwrap_or_default).collect()
}

/// The number in each text.
fn values(column: &Column, texts: usize) -> Vec<Option<u64>> {
    if let [all] = column.as_slice() {
        return vec![all.map(|it| it as u64); texts];
    }
    let mut first: Option<u64> = None;
    let value = |more: Option<i64>| {
        let more = more? as u64;
        Some(match first {
            Some(first) => first.wrapping_add(more),
            None => *first.insert(more),
        })
    };
    column.iter().copied().map(value).chain(std::iter::repeat(None)).take(texts).collect()
}

/// Lines of all texts such that those of each are a part of them, in their order.
fn in_common(texts: &[Vec<(String, Vec<u64>)>]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for text in texts {
        let mut known: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, shape) in all.iter().enumerate() {
            known.entry(shape).or_default().push(at);
        }
        let (mut merged, mut next) = (Vec::new(), 0);
        for (shape, _) in text {
            let found = known.get(shape.as_str()).and_then(|at| at.iter().find(|at| **at >= next));
            match found {
                Some(found) => {
                    merged.extend_from_slice(&all[next..=*found]);
                    next = found + 1;
                }
                None => merged.push(shape.clone()),
            }
        }
        merged.extend_from_slice(&all[next..]);
        all = merged;
    }
    all
}

/// A line without its numbers, and they. What would not be written the same again is no number.
fn parse(line: &str) -> (String, Vec<u64>) {
    let mut numbers = Vec::new();
    let fields: Vec<&str> = line
        .split('\t')
        .map(|field| match field.parse::<u64>() {
            Ok(number) if number.to_string() == field => {
                numbers.push(number);
                "#"
            }
            _ => field,
        })
        .collect();
    // A field that is `#` itself would be taken for a number: the line is kept as it is, marked by
    // a line feed, which no line has.
    match line.split('\t').any(|field| field == "#") {
        true => (format!("{line}\n"), Vec::new()),
        false => (fields.join("\t"), numbers),
    }
}

/// Writes a line with its numbers.
fn fill(line: &str, mut numbers: impl Iterator<Item = u64>, whole: &mut String) {
    if let Some(line) = line.strip_suffix('\n') {
        return whole.push_str(line);
    }
    for (at, field) in line.split('\t').enumerate() {
        if at > 0 {
            whole.push('\t');
        }
        match field {
            // Writing to a String cannot fail.
            "#" => drop(numbers.next().map(|number| write!(whole, "{number}"))),
            other => whole.push_str(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_that_all_have_is_there_once() {
        let texts = ["a\t1\nfn\t5\tx\nend\n", "a\t1\nfn\t7\tx\nfn\t1\ty\nend\n"];
        let all = beside(&texts);
        assert_eq!(all.lines, ["a\t#", "fn\t#\tx", "fn\t#\ty", "end", ""]);
        let columns: Vec<Column> = all.columns.iter().map(|it| it[0].clone()).collect();
        let of_y = vec![None, Some(1)];
        assert_eq!(columns[..3], [vec![Some(1)], vec![Some(5), Some(2)], of_y]);
        assert_eq!(apart(&all, 2), texts);
    }

    proptest! {
        #[test]
        fn whatever_the_texts_are_they_come_out_again(
            texts in prop::collection::vec(
                "([a-c#]|[0-9]{1,3}|18446744073709551615|\t|\n|-|\\PC){0,40}",
                1..6,
            ),
        ) {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let all = beside(&texts);
            prop_assert_eq!(apart(&all, texts.len()), texts);
        }
    }
}
