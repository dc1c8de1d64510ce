//! The functions and variables of a Kernel. ktax asks the running kernel once and keeps the answer
//! in the cache.

use std::fs;

use super::frozen::{ExactBoot, SymbolFile};
use super::snapshot::{self, lock};
use super::tools::Tools;
use crate::contract::Request;
use crate::stop::{Stop, host};
use crate::wire::{SYMBOLS_ORDER, VARIABLES_ORDER, WireError, parse_symbols, parse_variables};
use ktax_host::cache::Holder;
use ktax_host::disk::write_atomically;
use ktax_model::Failure;

type Parse = fn(&[u8]) -> Result<String, WireError>;

/// What a symbol file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Symbols {
    Functions,
    /// For the model of coherence.
    Variables,
}

/// The symbol file of the Kernel that `boot` runs. The boot line always has `nokaslr`, so the
/// addresses depend on the image alone, unless the guest loads modules, or code by a hook.
pub(super) fn obtain(
    tools: &Tools,
    request: &Request,
    boot: &ExactBoot,
    which: Symbols,
) -> Result<SymbolFile, Stop> {
    let dir = tools.cache.join("symbols");
    fs::create_dir_all(&dir).map_err(host("cannot create the symbol cache"))?;
    let name = match Tools::loads_code(request) {
        true => snapshot::key(tools, request),
        false => request.image_sha256.clone(),
    };
    let (name, order, parse) = match which {
        Symbols::Functions => (name, SYMBOLS_ORDER, parse_symbols as Parse),
        Symbols::Variables => (format!("{name}.data"), VARIABLES_ORDER, parse_variables as Parse),
    };
    let path = dir.join(&name);
    let _lock = lock(&dir.join(format!("{name}.lock")), tools)?;
    loop {
        if let Some(holder) = Holder::of(&path).map_err(host("cannot read the symbols"))? {
            return Ok(SymbolFile::new(path, holder));
        }
        let answer = boot.resume(order, None, tools.limits.symbols_bytes)?;
        let symbols =
            parse(&answer.wire).map_err(|error| Failure::Garbled { reason: error.to_string() })?;
        write_atomically(&path, symbols.as_bytes()).map_err(host("cannot keep the symbols"))?;
    }
}
