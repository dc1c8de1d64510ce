//! Counts of shipped experiments that must stay the same to the last digit. They are those of one
//! kernel, one QEMU and one guest under the first layout; beside others the test is skipped, and
//! says so. A change of the guest's programs may change them, too: the test prints what they are.

use crate::common::{Need, ktax, printed, require, run, scratch};

const KERNEL: &str = "debian:linux-image-6.1.0-57-cloud-amd64=6.1.192-3";
const QEMU: &str = "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)";

/// An experiment, one of its rows, and the instructions in process context of the whole region: of
/// the base and of the change. Most share their boots with pages of the documents.
const DIGITS: [(&str, &str, [u64; 2]); 5] = [
    ("lsm", "open-close", [9_746_968, 11_169_030]),
    ("mitigations", "pipe", [25_617_411, 26_028_225]),
    ("memcg", "page-fault", [9_806_565, 11_515_867]),
    ("audit", "getppid", [19_861_483, 29_582_949]),
    ("init-on-alloc", "fork-exit", [13_133_958, 13_176_551]),
];

#[test]
fn shipped_experiments_count_the_same_digits() {
    let dir = scratch();
    let mut found = Vec::new();
    for (experiment, row, _) in DIGITS {
        let out = dir.path().join(experiment);
        let args = ["compare", experiment, "-w", row, "--layouts", "1", "--json", "--out"];
        let ran = run(ktax().args(args).arg(&out));
        assert!(!ran.stdout.is_empty(), "{}", ran.stderr);
        let comparison = printed::comparison(&ran.stdout);
        let counts = comparison.counts().unwrap();
        let here = (&*counts.kernels.base.source, &*counts.key.qemu);
        let why = format!("the digits are of {KERNEL} on QEMU {QEMU}, and this is {here:?}");
        if !require(Need::Versions, here == (KERNEL, QEMU), why) {
            return;
        }
        let samples = &comparison.rows[0].effects()[0].samples;
        found.push((experiment, row, [samples.base[0], samples.change[0]]));
    }
    assert_eq!(found, DIGITS, "a change of output: say so in CHANGELOG.md, and why");
}
