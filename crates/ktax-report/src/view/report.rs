use super::page::View;
use super::records::Records;
use ktax_model::{FORMAT, Saved, SavedResult};

/// A result that can be shown in every format.
pub trait Report {
    /// What people see.
    fn view(&self) -> View;

    /// What programs that read tables get.
    fn records(&self) -> Records;

    /// Everything.
    fn result(&self) -> SavedResult;

    /// The same as it is kept on disk, with its answer in a sentence.
    fn saved(&self) -> Saved {
        let headline = self.view().headline;
        Saved { format: FORMAT, name: String::new(), headline, dir: None, result: self.result() }
    }
}
