//! Real KVM of other architectures, within QEMU: guests that leave a known number of times, and
//! what `ktax exits` says of what the kernel wrote about them. `make test-hosts` runs these.

mod again;
mod boards;
mod e500v2;
mod power9;
mod traced;

use crate::common::{Ran, ktax, run};
pub use again::ANSWERS;
use ktax::model::ExitTable;

fn exits(arguments: &[&str]) -> Ran {
    let ran = run(ktax().arg("exits").args(arguments));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    ran
}

fn count(table: &ExitTable, reason: &str) -> u64 {
    table.row(reason).unwrap_or_else(|| panic!("no {reason}: {table:?}")).count
}

/// Every exit has its entry, but for those after which there was none.
fn assert_whole(table: &ExitTable) {
    let (guest, others): (Vec<_>, Vec<_>) = table.rows.iter().partition(|row| row.is_guest);
    let open = table.account.as_ref().map_or(0, |account| account.open.len() as u64);
    assert_eq!(guest[0].count, others.iter().map(|row| row.count).sum::<u64>() + open, "{table:?}");
}
