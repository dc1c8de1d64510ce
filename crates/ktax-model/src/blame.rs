/// Who can do something about an error. The exit status follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The user: the command line, a file that the user wrote, or a run directory is wrong.
    User,
    /// The guest: its kernel cannot be built or booted, or nothing here can run a guest.
    Guest,
    /// The host: ktax itself, a full disk, a permission, another process.
    Host,
}
