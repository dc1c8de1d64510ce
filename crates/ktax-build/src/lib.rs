//! What build scripts of this workspace do: compile C, and list files that become part of ktax.
//!
//! Paths are those of the workspace's root, where the C, workloads and kernels' files stand. A
//! compiler runs there, too, so that the same tree gives the same bytes wherever it is.
//!
//! ```no_run
//! use ktax_build::{files, list_texts, watch};
//!
//! list_texts("machines.rs", &files("machines", "toml"));
//! watch(&["machines"]);
//! ```

use std::env;
use std::fmt::Write;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;
use flate2::write::ZlibEncoder;

/// Compiles `sources` into the file `name` below the build's directory. The variable `variable` of
/// the compiled crate has its path, and `variable` with `_Z` that of the file as zlib packs it:
/// most of a static program is the C library, which becomes half as large.
///
/// # Panics
/// There is no C compiler, or the sources do not compile.
pub fn compile(variable: &str, name: &str, sources: &[PathBuf], flags: &[&str]) {
    let output = out_dir().join(name);
    let compiler = cc::Build::new().cargo_metadata(false).opt_level(2).get_compiler();
    let status = Command::new(compiler.path())
        .current_dir(root())
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Iguest", "-fno-ident", "-Wl,--build-id=none"])
        .args(flags)
        .arg("-o")
        .arg(&output)
        .args(sources)
        .status();
    match status {
        Ok(status) if status.success() => {}
        other => panic!(
            "{} does not compile ({other:?}); install a C compiler with `make setup`",
            output.display()
        ),
    }
    let packed = output.with_extension("z");
    pack(&output, &packed).unwrap_or_else(|error| panic!("{}: {error}", packed.display()));
    println!("cargo::rustc-env={variable}={}", output.display());
    println!("cargo::rustc-env={variable}_Z={}", packed.display());
}

fn pack(file: &Path, packed: &Path) -> io::Result<()> {
    let mut to = ZlibEncoder::new(File::create(packed)?, Compression::default());
    io::copy(&mut File::open(file)?, &mut to)?;
    to.finish().map(drop)
}

/// Writes `name` below the build's directory: an array of each file's path and text.
///
/// # Panics
/// The build's directory cannot be written.
pub fn list_texts(name: &str, files: &[PathBuf]) {
    let mut list = String::from("&[\n");
    for path in files {
        let full = root().join(path);
        writeln!(list, "    ({:?}, include_str!({:?})),", path.display().to_string(), full)
            .expect("a String takes everything");
    }
    fs::write(out_dir().join(name), list + "]\n").expect("OUT_DIR is writable");
}

/// Builds again when something below these directories changes.
pub fn watch(dirs: &[&str]) {
    for dir in dirs {
        println!("cargo::rerun-if-changed={}", root().join(dir).display());
    }
}

/// The C files of the guest that ktax compiles into one program: without those of hosts, which
/// are for other machines, and of programs of their own. A child of a workload takes a page fault
/// for each 64 KiB of code that it executes, so this code is linked first, and lies together.
pub fn guest_sources() -> Vec<PathBuf> {
    let own = ["guest/hello.c", "guest/hosts", "guest/mark", "guest/self-test", "guest/vm"];
    let executed_by_children = ["guest/tools.c", "guest/workloads"];
    let is_below = |path: &Path, names: &[&str]| names.iter().any(|name| path.starts_with(name));
    let mut sources = files("guest", "c");
    sources.retain(|path| !is_below(path, &own));
    sources.sort_by_key(|path| !is_below(path, &executed_by_children));
    sources
}

/// The files below `dir` with that extension, sorted, so that the same tree gives the same bytes.
///
/// # Panics
/// A directory cannot be read.
pub fn files(dir: &str, extension: &str) -> Vec<PathBuf> {
    let (mut found, mut dirs) = (Vec::new(), vec![PathBuf::from(dir)]);
    while let Some(dir) = dirs.pop() {
        let entries = fs::read_dir(root().join(&dir))
            .unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
        for entry in entries.flatten() {
            let path = dir.join(entry.file_name());
            match path.extension() {
                _ if entry.path().is_dir() => dirs.push(path),
                Some(is) if is == extension => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

/// The workspace's root, two directories above each of its crates.
fn root() -> PathBuf {
    let own = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    Path::new(&own).ancestors().nth(2).expect("a crate is in crates/NAME").to_owned()
}

fn out_dir() -> PathBuf {
    PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"))
}
