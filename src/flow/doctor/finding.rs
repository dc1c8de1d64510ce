use serde::Serialize;

/// What one look found.
#[derive(Debug, Serialize)]
pub struct Check {
    /// What was looked at.
    pub what: &'static str,
    /// Whether ktax can do its main job with it as it is.
    pub ok: bool,
    /// In words.
    pub found: String,
    /// What fixes it; empty where nothing needs to be.
    pub fix: String,
}

/// What is as it should be.
pub(super) fn good(what: &'static str, found: String) -> Check {
    Check { what, ok: true, found, fix: String::new() }
}

/// What is in the way, and what fixes it.
pub(super) fn bad(what: &'static str, found: String, fix: &str) -> Check {
    Check { what, ok: false, found, fix: fix.to_owned() }
}
