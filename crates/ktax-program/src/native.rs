//! Programs that run on the running kernel, where they are: the files that `guest/program.c` reads
//! there, without a root directory.

use std::fs;
use std::path::Path;

use super::error::ProgramError;
use super::{needs, pack, start, traced};
use ktax_host::cache::Scratch;
use ktax_host::disk::{sha256_of_file, sha256_of_parts};
use ktax_model::UserProgram;

/// Programs that are ready to run natively; the files go when it is dropped.
#[derive(Debug)]
pub struct NativePrograms {
    /// SHA-256 of the programs, their arguments with the files that they name, and their standard
    /// input.
    pub sha256: String,
    scratch: Scratch,
}

impl NativePrograms {
    /// Where the guest program finds them.
    pub fn directory(&self) -> &Path {
        self.scratch.path()
    }
}

/// Looks programs up from the directory `here`, and writes how each starts into the cache. They
/// have the environment of ktax.
///
/// # Errors
/// A program is missing or cannot be executed, or the cache cannot be written.
pub fn native(
    programs: &[UserProgram],
    here: &Path,
    cache: &Path,
) -> Result<NativePrograms, ProgramError> {
    let scratch = Scratch::create(&cache.join("runs")).map_err(ProgramError::Cache)?;
    let mut parts = Vec::new();
    for (number, program) in programs.iter().enumerate() {
        let path = needs::executable(program.command.first().map_or("", String::as_str), here)?;
        let own_hash = sha256_of_file(&path).map_err(ProgramError::unreadable(&path))?;
        let (words, stdin) = (start::words(program, &path), pack::stdin(program, here)?);
        let given = start::environment(&[], program)?;
        for argument in program.command.iter().skip(1).map(|argument| here.join(argument)) {
            if argument.is_file() {
                let unreadable = ProgramError::unreadable(&argument);
                parts.push(sha256_of_file(&argument).map_err(unreadable)?);
            }
        }
        parts.push(sha256_of_parts(&[own_hash.as_bytes(), &words, &stdin, &given]));
        let directory = scratch.path().join(number.to_string());
        let files = [("words", words), ("stdin", stdin), ("env", given)];
        fs::create_dir_all(directory.join("out")).map_err(ProgramError::Cache)?;
        for (name, content) in files {
            fs::write(directory.join(name), content).map_err(ProgramError::Cache)?;
        }
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    Ok(NativePrograms { sha256: sha256_of_parts(&parts), scratch })
}

/// Writes into the cache how a program starts in a guest, for a run on this machine: its path is
/// that of this machine.
///
/// # Errors
/// The program is missing or cannot be executed, or the cache cannot be written.
pub fn to_trace(
    program: &UserProgram,
    here: &Path,
    cache: &Path,
) -> Result<NativePrograms, ProgramError> {
    let scratch = Scratch::create(&cache.join("runs")).map_err(ProgramError::Cache)?;
    let command = program.command.first().map_or("", String::as_str);
    let path = traced::in_sandbox(&needs::executable(command, here)?, here);
    let directory = scratch.path().join("0");
    let hook = |text: &Option<String>| {
        text.as_ref().map(|text| start::shell(Path::new(needs::SHELL), text))
    };
    let files = [
        ("words", Some(start::words(program, &path))),
        ("env", Some(start::environment(&start::USUAL, program)?)),
        ("stdin", Some(pack::stdin(program, here)?)),
        ("setup", hook(&program.setup)),
        ("prepare", hook(&program.prepare)),
    ];
    for below in ["out", "root"] {
        fs::create_dir_all(directory.join(below)).map_err(ProgramError::Cache)?;
    }
    for (name, content) in files {
        if let Some(content) = content {
            fs::write(directory.join(name), content).map_err(ProgramError::Cache)?;
        }
    }
    Ok(NativePrograms { sha256: String::new(), scratch })
}
