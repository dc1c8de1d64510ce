use super::page::View;
use super::records::Records;

/// A result that can be shown in every format.
pub trait Report {
    /// What people see.
    fn view(&self) -> View;

    /// What programs that read tables get.
    fn records(&self) -> Records;

    /// Everything, as it is kept on disk.
    ///
    /// # Errors
    /// A number is not finite, or the like; no result that ktax makes is.
    fn json(&self) -> serde_json::Result<String>;
}
