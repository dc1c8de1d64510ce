//! What a ktax that was killed has left changed.

use super::finding::{Check, bad, good};
use crate::cmd::exit::Exit;
use crate::cmd::output::write_stdout;
use crate::engine::host::journal::{self, Look};
use crate::flow::Error;
use crate::report;

pub(super) fn look() -> Check {
    let dir = journal::state_dir();
    match journal::look(&dir) {
        Ok(Look::Nothing) => good("settings", "nothing of this machine is left changed".into()),
        Ok(Look::InUse) => good("settings", "a ktax that runs changes them, and puts back".into()),
        Ok(Look::Left) => {
            let found = format!("changed by a ktax that was killed; a journal is in {dir:?}");
            // sudo keeps no variable that it is not asked to keep.
            let mend = match std::env::var_os("KTAX_STATE") {
                None => "sudo ktax doctor --restore",
                Some(_) => "sudo --preserve-env=KTAX_STATE ktax doctor --restore",
            };
            bad("settings", found, mend)
        }
        Err(error) => bad("settings", error.to_string(), "look at KTAX_STATE"),
    }
}

pub(super) fn restore(json: bool) -> Result<Exit, Error> {
    let replayed = journal::replay(&journal::state_dir())?;
    write_stdout(&match json {
        true => report::to_json(&replayed)?,
        false => format!("{replayed}\n"),
    })?;
    Ok(Exit::Ok)
}
