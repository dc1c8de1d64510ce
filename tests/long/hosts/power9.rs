//! POWER9 as a hypervisor within another one, with KVM's timing of its own phases: an experiment,
//! run as a user runs it.

use ktax::kvmhost::Board;
use ktax::model::{Side, Verdict};

use super::boards::{compare, experiment, is_missing, table};
use super::count;
use crate::common::scratch;

#[test]
fn every_call_of_a_nested_guest_is_in_the_timings() {
    if is_missing(&Board::POWER9) {
        return;
    }
    let dir = scratch();
    let file = experiment(&Board::POWER9);
    let (_, rows) =
        compare(&file, &dir.path().join("out"), &["raw:hcall=1000", "raw:fault=100"], 0);
    let [calls, faults] = &rows[..] else { panic!("{rows:?}") };
    for (row, expected) in [(calls, [1001, 1]), (faults, [1, 101])] {
        assert_eq!(row.verdict, Verdict::OneSide);
        let table = table(row, Side::Base);
        assert_eq!(table.source, "book3s HV timings");
        // One more call, of the end; each goes to user space. The guest's code is one page.
        let [call, fault] = expected;
        for reason in ["hypercall", "vcpu_entry", "vcpu_exit"] {
            assert_eq!(count(table, reason), call, "{reason}: {table:?}");
        }
        assert_eq!(count(table, "page_fault"), fault, "{table:?}");
        // Interrupts of the host's end its stays in the guest too.
        let stays = count(table, "in_guest");
        assert!((call + fault..call + fault + 100).contains(&stays), "{table:?}");
        assert_eq!(count(table, "guest_exit"), stays, "{table:?}");
        assert!(table.warnings.is_empty(), "{table:?}");
    }
}
