use crate::view::{Records, Report, Section, View};
use crate::{again, headline};
use ktax_model::{Comparison, SavedResult, Verdict};

/// Base against change, between which there is nothing to search for.
#[derive(Debug, Clone)]
pub struct NothingToSearch {
    comparison: Comparison,
    /// `3 parameters`; empty where nobody counted them.
    between: String,
}

impl NothingToSearch {
    /// Of a comparison of one row that is neither slower nor faster. `between` says how many
    /// elements base and change differ in: `3 parameters`.
    pub fn of(comparison: Comparison, between: String) -> NothingToSearch {
        NothingToSearch { comparison, between }
    }

    /// Base against change.
    pub fn comparison(&self) -> &Comparison {
        &self.comparison
    }

    /// What would have been searched, and how to go on.
    fn next(&self) -> String {
        let between = match self.between.as_str() {
            "" => String::new(),
            between => format!("Base and change differ in {between}. "),
        };
        let next = match self.why() {
            Some(_) => "Mend that, and type the same command with a new --out.",
            None => {
                "To find a row that is slower or faster, run `ktax compare` with the same base and \
                 change and without -w. Then search with this row."
            }
        };
        format!("{between}A search follows a row that is slower or faster. {next}")
    }

    /// Why there is no answer, if there is none.
    fn why(&self) -> Option<&'static str> {
        let verdict = self.comparison.rows.first().map(|row| row.verdict);
        match verdict? {
            Verdict::Slower | Verdict::Faster => None,
            Verdict::NoDetectedChange | Verdict::BelowThreshold => None,
            Verdict::Failed => Some("a side failed"),
            Verdict::DifferentWork => Some("base and change did different work"),
            Verdict::TooFewBoots | Verdict::Inconclusive | Verdict::OneSide => {
                Some("the comparison has no answer")
            }
        }
    }
}

impl Report for NothingToSearch {
    fn view(&self) -> View {
        let mut view = self.comparison.view();
        let rows = headline::of_rows(&self.comparison.rows);
        view.headline = match self.why() {
            Some(why) => format!("Nothing was searched, because {why}. {rows}."),
            None => format!("There is nothing to search for. {rows}."),
        };
        view.sections.push(Section::Sentences(vec![self.next()]));
        view.again = again::search_again(&self.comparison);
        view
    }

    fn records(&self) -> Records {
        self.comparison.records()
    }

    fn result(&self) -> SavedResult {
        self.comparison.result()
    }
}
