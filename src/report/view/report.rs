use super::page::View;
use super::records::Records;
use crate::model::Saved;

/// A result that can be shown in every format.
pub trait Report {
    /// What people see.
    fn view(&self) -> View;

    /// What programs that read tables get.
    fn records(&self) -> Records;

    /// Everything, as it is kept on disk.
    fn saved(&self) -> Saved;
}
