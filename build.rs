//! Compiles the guest programs and the plugin, and lists workloads, experiments, ledgers,
//! machines and patches, all of which become part of the one file that ktax is.

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Patches that experiments need.
const PATCHES: &str = "kernels/patches";

/// How a guest without a kernel is compiled: as the bytes that are in its memory.
const SELF_TEST: &[&str] = &[
    "-static",
    "-nostdlib",
    "-no-pie",
    "-fno-pic",
    "-Os",
    "-ffreestanding",
    "-fno-stack-protector",
    "-fcf-protection=none",
    "-mno-red-zone",
    "-mgeneral-regs-only",
    "-Wl,--oformat=binary",
    "-Wl,-T,guest/self-test/layout.ld",
];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for (name, path, sources, flags) in [
        ("KTAX_GUEST", "ktax-guest", guest_sources(), &["-static", "-O2", "-s"][..]),
        (
            "KTAX_HELLO",
            "ktax-hello",
            vec!["guest/hello.c".into()],
            &["-static", "-nostdlib", "-Os", "-s"],
        ),
        (
            "KTAX_MARK",
            "ktax-mark",
            vec!["guest/mark/mark.c".into()],
            &["-static", "-nostdlib", "-Os", "-s", "-fno-stack-protector"],
        ),
        ("KTAX_VM_INIT", "ktax-vm-init", vec!["guest/vm/init.c".into()], &["-static", "-Os", "-s"]),
        (
            "KTAX_FREEZE",
            "ktax-freeze",
            ["vm/freeze", "quiet", "standstill"].map(|it| format!("guest/{it}.c").into()).to_vec(),
            &["-static", "-Os", "-s"],
        ),
        (
            "KTAX_SELF_TEST",
            "ktax-self-test",
            ["start.S", "work.S", "main.c"]
                .map(|it| format!("guest/self-test/{it}").into())
                .to_vec(),
            SELF_TEST,
        ),
        (
            "KTAX_PLUGIN",
            "ktax-plugin.so",
            sources("plugin"),
            // A callback for each call and each iteration of REP: no call in it goes through a
            // table, and small functions of other files are part of it.
            &["-shared", "-fPIC", "-O2", "-flto", "-fvisibility=hidden"],
        ),
    ] {
        let path = out.join(path);
        compile(&path, &sources, flags);
        println!("cargo::rustc-env={name}={}", path.display());
    }
    for list in ["workloads", "experiments", "ledgers", "machines"] {
        fs::write(out.join(format!("{list}.rs")), texts(list, "toml"))
            .expect("OUT_DIR is writable");
    }
    fs::write(out.join("patches.rs"), texts(PATCHES, "patch")).expect("OUT_DIR is writable");
    let guest = guest_sources().into_iter().chain(files("guest", "h"));
    fs::write(out.join("guest.rs"), texts_of(guest)).expect("OUT_DIR is writable");
    for watched in ["guest", "plugin", "workloads", "experiments", "ledgers", "machines", PATCHES] {
        println!("cargo::rerun-if-changed={watched}");
    }
}

fn compile(output: &Path, sources: &[PathBuf], flags: &[&str]) {
    let compiler = cc::Build::new().cargo_metadata(false).opt_level(2).get_compiler();
    let status = Command::new(compiler.path())
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Iguest", "-fno-ident", "-Wl,--build-id=none"])
        .args(flags)
        .arg("-o")
        .arg(output)
        .args(sources)
        .status();
    match status {
        Ok(status) if status.success() => {}
        other => panic!(
            "{} does not compile ({other:?}); install a C compiler with `make setup`",
            output.display()
        ),
    }
}

fn sources(dir: &str) -> Vec<PathBuf> {
    files(dir, "c")
}

fn guest_sources() -> Vec<PathBuf> {
    let mut sources = sources("guest");
    // Those of hosts are for other machines: who has a compiler for them compiles them.
    let is_else = |path: &PathBuf| {
        path.ends_with("hello.c")
            || ["guest/vm", "guest/mark", "guest/self-test"].iter().any(|of| path.starts_with(of))
    };
    sources.retain(|path| !is_else(path) && !path.starts_with("guest/hosts"));
    sources
}

/// The path, as experiments name it, and the text of each file.
fn texts(dir: &str, extension: &str) -> String {
    texts_of(files(dir, extension))
}

fn texts_of(files: impl IntoIterator<Item = PathBuf>) -> String {
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let mut list = String::from("&[\n");
    for path in files {
        let full = Path::new(&root).join(&path);
        writeln!(list, "    ({:?}, include_str!({:?})),", path.display().to_string(), full)
            .expect("a String takes everything");
    }
    list + "]\n"
}

/// Below `dir` too, and sorted, so that the same tree gives the same bytes.
fn files(dir: &str, extension: &str) -> Vec<PathBuf> {
    let (mut found, mut dirs) = (Vec::new(), vec![PathBuf::from(dir)]);
    while let Some(dir) = dirs.pop() {
        let entries =
            fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
        for path in entries.flatten().map(|entry| entry.path()) {
            match path.extension() {
                _ if path.is_dir() => dirs.push(path),
                Some(is) if is == extension => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found
}
