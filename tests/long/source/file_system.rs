//! A patch in the write path of ext4, built into the kernel: every row that writes to it pays, and
//! no other.

use std::fs;

use ktax::model::Verdict;

use super::SOURCE;
use crate::common::{ktax, printed, run, scratch};

const FUNCTION: &str = "ext4_buffered_write_iter";

/// A hundred instructions more in each write.
const PATCH: &str = "--- a/fs/ext4/file.c\n+++ b/fs/ext4/file.c\n@@ -288,5 +288,6 @@\n \
    \tssize_t ret;\n \tstruct inode *inode = file_inode(iocb->ki_filp);\n\
    +\tasm volatile(\".rept 100\\n\\tnop\\n\\t.endr\");\n \n \
    \tif (iocb->ki_flags & IOCB_NOWAIT)\n \t\treturn -EOPNOTSUPP;\n";

const OPTIONS: [&str; 6] = [
    "CONFIG_BLOCK=y",
    "CONFIG_BLK_DEV=y",
    "CONFIG_BLK_DEV_RAM=y",
    "CONFIG_BLK_DEV_RAM_COUNT=1",
    "CONFIG_BLK_DEV_RAM_SIZE=131072",
    "CONFIG_EXT4_FS=y",
];

#[test]
fn a_patch_of_ext4_is_found_in_the_rows_that_write_and_nowhere_else() {
    let dir = scratch();
    fs::write(dir.path().join("ext4.patch"), PATCH).unwrap();
    let subject = format!("kernel = \"{SOURCE}\", config = {OPTIONS:?}");
    let rows = r#"["@file-systems", "getppid", "open-close", "stat", "pipe", "fork-exit"]"#;
    let text = format!(
        "title = \"t\"\nworkloads = {rows}\ndisk = {{ fs = \"ext4\" }}\n\
         base = {{ {subject} }}\nchange = {{ {subject}, patches = [\"ext4.patch\"] }}\n"
    );
    fs::write(dir.path().join("e.toml"), text).unwrap();
    let args = ["compare", "e.toml", "--json", "--out", "out"];
    let ran = run(ktax().current_dir(dir.path()).args(args));
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    let comparison = printed::comparison(&ran.stdout);
    for row in &comparison.rows {
        let effect = &row.effects()[0];
        let carried = effect.functions.iter().find(|one| one.function == FUNCTION);
        let delta = carried.map(|one| one.delta);
        let (wanted, verdict) = match row.row.as_str() {
            "fs-append:fsync=0" | "fs-append:fsync=1" => (Some(100.0), Verdict::Slower),
            // One write among all that is cut off again.
            "fs-truncate" => (None, Verdict::BelowThreshold),
            _ => (None, Verdict::NoDetectedChange),
        };
        assert_eq!((delta, row.verdict), (wanted, verdict), "{}: {effect:?}", row.row);
    }
    assert_eq!(comparison.rows.len(), 10);
}
