//! Compiles the C programs that become part of ktax: the guest, the plugin and the guest of the
//! self-test.

use std::path::PathBuf;
use std::{env, fs};

use ktax_build::{compile, files, guest_sources, watch};

#[allow(dead_code)]
#[path = "../ktax-model/src/counters/table.rs"]
mod table;

/// Compiler flags for the guest of the self-test, which has no kernel: the output is the content of
/// the guest's memory.
const SELF_TEST_FLAGS: &[&str] = &[
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
    compile("KTAX_SELF_TEST", "ktax-self-test", &self_test, SELF_TEST_FLAGS);
    // QEMU calls the plugin at each call and at each iteration of REP, so its callbacks must be
    // fast: hidden symbols are not called through the PLT, and LTO inlines functions of other
    // files.
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("counters-table.h"), table::plugin_header()).expect("OUT_DIR is writable");
    let include = format!("-I{}", out.display());
    let plugin = ["-shared", "-fPIC", "-O2", "-flto", "-fvisibility=hidden", &include];
    compile("KTAX_PLUGIN", "ktax-plugin.so", &files("plugin", "c"), &plugin);
    watch(&["guest", "plugin"]);
}
