//! Lists the patches of experiments, which become part of ktax.

use ktax_build::{files, list_texts, watch};

fn main() {
    let directory = "kernels/patches";
    list_texts("patches.rs", &files(directory, "patch"));
    watch(&[directory]);
}
