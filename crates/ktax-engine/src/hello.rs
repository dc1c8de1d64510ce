use std::fs;
use std::path::Path;

use super::console::read_tail;
use super::vm::Rest;
use crate::wire::{self, Hello};
use ktax_model::Failure;

/// Reads what a guest said before it came to rest; it has had no order yet.
pub(super) fn read_hello(rest: &Rest, wire: &Path, console: &Path) -> Result<Hello, Failure> {
    let console = read_tail(console);
    let said = fs::read(wire).unwrap_or_default();
    match (wire::parse_hello(&said), wire::panic_message(&console)) {
        (_, Some(message)) => Err(Failure::Panic { message }),
        (Ok(hello), None) if *rest == Rest::Paused => Ok(hello),
        (Err(error), None) if !said.is_empty() => {
            Err(Failure::Garbled { reason: error.to_string() })
        }
        _ => {
            let silent = Failure::Silent { console: wire::tail(&console) };
            Err(if console.is_empty() && said.is_empty() { silent.mute() } else { silent })
        }
    }
}
