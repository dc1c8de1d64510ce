//! A kernel's modules as an archive, which the guest loads before its freeze.

use std::path::Path;

use super::error::ProgramError;
use super::pack::{PackedPrograms, pack_with};

/// The modules of a kernel, in the cache.
#[derive(Debug, Clone)]
pub struct PackedModules {
    /// What the guest unpacks behind its own files; it has no functions of user mode.
    pub packed: PackedPrograms,
    /// What is in it, in the order in which it is loaded.
    pub names: Vec<String>,
}

/// A module that a guest loads.
#[derive(Debug, Clone)]
pub struct LoadedModule {
    /// What the kernel calls it.
    pub name: String,
    /// Its parameters, separated by spaces.
    pub parameters: String,
    /// Whether it is only for some CPUs: on another one it is not loaded, and nothing fails.
    pub is_of_cpu: bool,
    /// Its file, not compressed.
    pub content: Vec<u8>,
}

/// Packs modules, in the order in which they are loaded.
///
/// # Errors
///
/// The cache cannot be written.
pub fn pack_modules(modules: &[LoadedModule], cache: &Path) -> Result<PackedModules, ProgramError> {
    let packed = pack_with(cache, false, |archive| {
        archive.directory("modules")?;
        for (place, module) in modules.iter().enumerate() {
            let name = format!("modules/{place}");
            archive.text(&name, 0o444, &module.content)?;
            archive.text(&format!("{name}.parameters"), 0o444, module.parameters.as_bytes())?;
            if module.is_of_cpu {
                archive.text(&format!("{name}.cpu"), 0o444, b"")?;
            }
        }
        Ok(Vec::new())
    })?;
    let names = modules.iter().map(|module| module.name.clone()).collect();
    Ok(PackedModules { packed, names })
}
