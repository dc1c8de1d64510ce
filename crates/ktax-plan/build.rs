//! Lists workloads, experiments, ledgers and machines, which become part of ktax.

use ktax_build::{files, list_texts, watch};

fn main() {
    let lists = ["workloads", "experiments", "ledgers", "machines"];
    for list in lists {
        list_texts(&format!("{list}.rs"), &files(list, "toml"));
    }
    watch(&lists);
}
