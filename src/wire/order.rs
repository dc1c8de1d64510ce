use std::fmt::Write;

use super::VERSION;
use crate::model::{Layout, Workload};

/// The order that asks for the symbol table.
pub const SYMBOLS_ORDER: &str = "ktax 1\nphase 0\nops 1\nrun symbols\nend\n";

/// The order for one Workload under one Layout.
pub fn order(workload: &Workload, layout: &Layout) -> String {
    let mut text = format!("{VERSION}\nphase {}\nops {}\n", layout.phase, workload.ops);
    text += &format!("run {}\n", workload.program);
    for (name, value) in &workload.params {
        writeln!(text, "param {name} {value}").expect("a String takes everything");
    }
    text + "end\n"
}
