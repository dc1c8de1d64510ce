//! Functions for this workspace's build scripts: they compile C, and list files that become part of
//! ktax.
//!
//! All paths are relative to the workspace's root. Compilers run in that directory, so that a tree
//! gives the same bytes in any directory.
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

/// Compiles `sources` into the program `name` in the build directory. Sets the crate's environment
/// variable `variable` to the program's path, and `variable` with the suffix `_Z` to the path of a
/// copy that is compressed with zlib, which halves a statically linked program.
///
/// # Panics
/// Panics if there is no C compiler, or if the sources do not compile.
pub fn compile(variable: &str, name: &str, sources: &[PathBuf], flags: &[&str]) {
    let output = out_dir().join(name);
    let compiler = cc::Build::new().cargo_metadata(false).get_compiler();
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
        Ok(status) => panic!("{} does not compile: {status}", output.display()),
        Err(error) => panic!(
            "cannot run {}: {error}; install a C compiler with `make setup`",
            compiler.path().display()
        ),
    }
    let compressed = output.with_extension("z");
    compress(&output, &compressed)
        .unwrap_or_else(|error| panic!("{}: {error}", compressed.display()));
    println!("cargo::rustc-env={variable}={}", output.display());
    println!("cargo::rustc-env={variable}_Z={}", compressed.display());
}

fn compress(file: &Path, compressed: &Path) -> io::Result<()> {
    let mut encoder = ZlibEncoder::new(File::create(compressed)?, Compression::default());
    io::copy(&mut File::open(file)?, &mut encoder)?;
    encoder.finish().map(drop)
}

/// Writes the Rust file `name` in the build directory: an array with the path and text of each
/// file.
///
/// # Panics
/// Panics if the build directory cannot be written.
pub fn list_texts(name: &str, files: &[PathBuf]) {
    let mut list = String::from("&[\n");
    for path in files {
        let full = root().join(path);
        writeln!(list, "    ({:?}, include_str!({:?})),", path.display().to_string(), full)
            .expect("writing to a String never fails");
    }
    fs::write(out_dir().join(name), list + "]\n").expect("OUT_DIR is writable");
}

/// Makes cargo run the build script again when a file in these directories changes.
pub fn watch(dirs: &[&str]) {
    for dir in dirs {
        println!("cargo::rerun-if-changed={}", root().join(dir).display());
    }
}

/// Returns the C files of the guest's main program: all of `guest/` but hosts of other
/// architectures and separate programs. Workloads and their tools come first: a child process of a
/// workload takes a page fault for each 64 KiB of code that it executes, so this code is linked
/// together.
pub fn guest_sources() -> Vec<PathBuf> {
    let separate = ["guest/hello.c", "guest/hosts", "guest/mark", "guest/self-test", "guest/vm"];
    let executed_by_children = ["guest/tools.c", "guest/workloads"];
    let is_below = |path: &Path, names: &[&str]| names.iter().any(|name| path.starts_with(name));
    let mut sources = files("guest", "c");
    sources.retain(|path| !is_below(path, &separate));
    sources.sort_by_key(|path| !is_below(path, &executed_by_children));
    sources
}

/// Returns the files below `dir` with this extension, sorted, so that a tree always gives the same
/// bytes.
///
/// # Panics
/// Panics if a directory cannot be read.
pub fn files(dir: &str, extension: &str) -> Vec<PathBuf> {
    let (mut paths, mut dirs) = (Vec::new(), vec![PathBuf::from(dir)]);
    while let Some(dir) = dirs.pop() {
        let entries = fs::read_dir(root().join(&dir))
            .unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
        for entry in entries.flatten() {
            let path = dir.join(entry.file_name());
            match path.extension() {
                _ if entry.path().is_dir() => dirs.push(path),
                Some(found_extension) if found_extension == extension => paths.push(path),
                _ => {}
            }
        }
    }
    paths.sort();
    paths
}

/// Returns the workspace's root, two directories above each crate.
fn root() -> PathBuf {
    let crate_dir = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    Path::new(&crate_dir).ancestors().nth(2).expect("a crate is in crates/NAME").to_owned()
}

fn out_dir() -> PathBuf {
    PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"))
}
