//! Compiles the guest, the plugin and the program that tests it, which become part of ktax.

use std::path::PathBuf;
use std::{env, fs};

use ktax_build::{compile, files, guest_sources, watch};

#[allow(dead_code)]
#[path = "../ktax-model/src/counters/table.rs"]
mod table;

/// Flags for a guest without a kernel: the output is the bytes of its memory.
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
    compile("KTAX_GUEST", "ktax-guest", &guest_sources(), &["-static", "-O2", "-s"]);
    let hello = ["guest/hello.c".into()];
    compile("KTAX_HELLO", "ktax-hello", &hello, &["-static", "-nostdlib", "-Os", "-s"]);
    let self_test =
        ["start.S", "work.S", "main.c"].map(|file| format!("guest/self-test/{file}").into());
    compile("KTAX_SELF_TEST", "ktax-self-test", &self_test, SELF_TEST);
    // A callback for each call and each iteration of REP: no call in it goes through a table, and
    // small functions of other files are part of it.
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("counters-table.h"), table::plugin_header()).expect("OUT_DIR is writable");
    let include = format!("-I{}", out.display());
    let plugin = ["-shared", "-fPIC", "-O2", "-flto", "-fvisibility=hidden", &include];
    compile("KTAX_PLUGIN", "ktax-plugin.so", &files("plugin", "c"), &plugin);
    watch(&["guest", "plugin"]);
}
