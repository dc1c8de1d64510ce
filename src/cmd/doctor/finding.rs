use serde::Serialize;

/// What one look found.
#[derive(Debug, Serialize)]
pub struct Check {
    pub what: &'static str,
    /// Whether ktax can do its main job with it as it is.
    pub ok: bool,
    pub found: String,
    /// What fixes it; empty where nothing needs to be.
    pub mend: String,
}

/// What is as it should be.
pub fn good(what: &'static str, found: String) -> Check {
    Check { what, ok: true, found, mend: String::new() }
}

/// What is in the way, and what fixes it.
pub fn bad(what: &'static str, found: String, mend: &str) -> Check {
    Check { what, ok: false, found, mend: mend.to_owned() }
}
