//! The answers of experiments about hosts of other architectures: one row of each is measured anew.

use ktax::kvmhost::Board;

use super::boards::is_missing;
use crate::answers::row_comes_out_again;

/// A test for each file.
macro_rules! come_out_again {
    ($($test:ident $board:ident $file:literal)*) => {
        pub const ANSWERS: &[&str] = &[$($file),*];
        $(#[test]
        fn $test() {
            if !is_missing(&Board::$board) {
                row_comes_out_again($file);
            }
        })*
    };
}

come_out_again! {
    exit_cost_arm64 ARM64 "experiments/exit-cost-arm64.toml"
    exit_cost_power9 POWER9 "experiments/exit-cost-power9.toml"
    exit_cost_riscv64 RISCV64 "experiments/exit-cost-riscv64.toml"
    magic_page E500V2 "experiments/magic-page.toml"
}
