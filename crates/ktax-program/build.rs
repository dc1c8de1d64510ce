//! Compiles the program that marks the start of the user's, and lists the guest's C, with which
//! workloads of the user's are compiled.

use ktax_build::{compile, files, guest_sources, list_texts, watch};

fn main() {
    let flags = ["-static", "-nostdlib", "-Os", "-s", "-fno-stack-protector"];
    compile("KTAX_MARK", "ktax-mark", &["guest/mark/mark.c".into()], &flags);
    let guest: Vec<_> = guest_sources().into_iter().chain(files("guest", "h")).collect();
    list_texts("guest.rs", &guest);
    watch(&["guest"]);
}
