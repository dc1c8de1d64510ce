use super::section::Section;
use super::table::Table;
use ktax_model::Warning;

/// What a page shows, in the order in which it is read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    /// One line.
    pub title: String,
    /// The answer in a sentence; empty where there is none.
    pub headline: String,
    /// What was compared; empty where nothing was.
    pub sides: Vec<SideLine>,
    /// What [`SideLine::what`] and [`SideLine::beside`] are: `kernel`, `boot line`. The second is
    /// empty where there is nothing beside.
    pub side_heads: [&'static str; 2],
    /// How it was measured; empty where that needs no words.
    pub how: String,
    /// The programs that measured it, for pages that outlive a release; empty where they do not
    /// matter.
    pub measured_by: String,
    /// The words of the command line that measures the same again; empty where no one does.
    pub again: Vec<String>,
    /// The answer first, then what is behind it.
    pub sections: Vec<Section>,
    /// Facts to know.
    pub warnings: Vec<Warning>,
    /// What the numbers and the columns are.
    pub legend: Legend,
}

impl View {
    /// The legend of a page that has something to explain: not of a table whose rows all failed.
    pub fn shown_legend(&self) -> Legend {
        let tables = || self.sections.iter().filter_map(Section::as_table);
        match tables().next().is_none() || tables().any(Table::has_numbers) {
            true => self.legend.clone(),
            false => Legend::default(),
        }
    }
}

/// What stands at the end of a page, for whoever sees such a page for the first time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Legend {
    /// What all numbers are.
    pub sentences: Vec<String>,
    /// Words of the page, such as the head of a column, with what each means.
    pub terms: Vec<(&'static str, String)>,
}

impl Legend {
    /// Sentences alone.
    pub fn of<T: Into<String>>(sentences: impl IntoIterator<Item = T>) -> Legend {
        Legend { sentences: sentences.into_iter().map(Into::into).collect(), terms: Vec::new() }
    }

    /// The same with these words.
    pub fn with<T: Into<String>>(
        mut self,
        terms: impl IntoIterator<Item = (&'static str, T)>,
    ) -> Legend {
        self.terms.extend(terms.into_iter().map(|(term, meaning)| (term, meaning.into())));
        self
    }
}

/// One of the things that were compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideLine {
    /// `base` or `change`.
    pub side: &'static str,
    /// What it is: a kernel, a command.
    pub what: String,
    /// What it has beside that.
    pub beside: String,
}
