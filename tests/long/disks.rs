//! Costs of file systems, with the code that a real machine uses.

use std::path::Path;

use crate::common::{KERNEL, ktax, row, run, scratch};

const ROWS: [&str; 3] = ["fs-rename", "create-delete:bytes=0", "create-delete:bytes=10240"];

/// Compares ext4 with and without its checksums; the instructions that each row of [`ROWS`] saves.
fn saved_without_checksums(dir: &Path, out: &str, words: &[&str]) -> [f64; 3] {
    let comparison = run(ktax()
        .current_dir(dir)
        .args(["compare", "--kernel", KERNEL, "--layouts", "1", "--json", "--out", out])
        .args(["--base-disk", "ext4", "--change-disk", "ext4 mkfs='-O ^metadata_csum'"])
        .args(ROWS.iter().flat_map(|row| ["-w", row]))
        .args(words))
    .comparison();
    ROWS.map(|name| -row(&comparison, name).effects()[0].delta)
}

/// Loads modules for the CPU's instructions unasked, as udev does on a real machine.
#[test]
fn checksums_of_ext4_cost_what_they_cost_with_the_instruction_for_them() {
    let dir = scratch();
    let dir = dir.path();
    let found = saved_without_checksums(dir, "found", &[]);
    let words = ["--base-module", "crc32c-intel", "--change-module", "crc32c-intel"];
    let loaded = saved_without_checksums(dir, "loaded", &words);
    let none = "module_blacklist=crc32c_intel";
    let plain = saved_without_checksums(
        dir,
        "plain",
        &["--base-boot-line", none, "--change-boot-line", none],
    );
    for (place, name) in ROWS.into_iter().enumerate() {
        let [found, loaded, plain] = [found, loaded, plain].map(|saved| saved[place]);
        println!("{name}: {found}, loaded {loaded}, in plain C {plain}");
        assert!(loaded > 0.0 && (found / loaded - 1.0).abs() < 0.1, "{name}: {found} {loaded}");
        assert!(plain > 2.0 * loaded, "{name}: {plain} in plain C, {loaded} with the instruction");
    }
}
