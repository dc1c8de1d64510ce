//! Lists the patches that experiments need, which become part of ktax.

use ktax_build::{files, list_texts, watch};

fn main() {
    let patches = "kernels/patches";
    list_texts("patches.rs", &files(patches, "patch"));
    watch(&[patches]);
}
