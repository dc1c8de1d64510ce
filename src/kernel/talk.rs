//! How a long task talks to its user.

/// Who is told what is going on.
pub struct Talk<'a> {
    /// In one line each, what the user should know: a download, a build, a damaged cache entry, a
    /// fall-back to the cache.
    pub note: &'a dyn Fn(&str),
    /// How far a build is; empty when it is over.
    pub status: &'a dyn Fn(&str),
    /// Asked whether to stop.
    pub is_cancelled: &'a dyn Fn() -> bool,
}
