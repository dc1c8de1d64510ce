use serde::Serialize;

/// What one look found.
#[derive(Debug, Serialize)]
pub struct Check {
    /// What was looked at.
    pub what: &'static str,
    /// Whether it works as it is.
    pub ok: bool,
    /// Whether ktax cannot do its main job without it.
    pub needed: bool,
    /// In words.
    pub found: String,
    /// What fixes it; empty where nothing needs to be.
    pub fix: String,
}

impl Check {
    /// Whether it is in the way of ktax's main job.
    pub fn is_bad(&self) -> bool {
        self.needed && !self.ok
    }
}

/// What is as it should be.
pub(super) fn good(what: &'static str, found: String) -> Check {
    Check { what, ok: true, needed: true, found, fix: String::new() }
}

/// What is in the way, and what fixes it.
pub(super) fn bad(what: &'static str, found: String, fix: &str) -> Check {
    Check { what, ok: false, needed: true, found, fix: fix.to_owned() }
}

/// What only some commands need: whether it works, and what fixes it if not.
pub(super) fn optional(what: &'static str, ok: bool, found: String, fix: &str) -> Check {
    Check { what, ok, needed: false, found, fix: fix.to_owned() }
}
