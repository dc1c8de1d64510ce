use std::fmt::Write;

use super::VERSION;
use ktax_model::{Layout, Workload};

/// The order that asks for the symbol table.
pub const SYMBOLS_ORDER: &str = "ktax 1\nphase 0\nops 1\nrun symbols\nend\n";

/// The order that asks for all other symbols of a kernel.
pub const VARIABLES_ORDER: &str = "ktax 1\nphase 0\nops 1\nrun symbols\nparam variables 1\nend\n";

/// The arguments of the guest program when it runs as a plain process: the same as in an order.
pub fn arguments(workload: &Workload) -> Vec<String> {
    let params = workload.params.iter().map(|(name, value)| format!("{name}={value}"));
    [workload.program.clone(), format!("ops={}", workload.ops)].into_iter().chain(params).collect()
}

/// The order for one Workload under one Layout.
pub fn order(workload: &Workload, layout: &Layout) -> String {
    let mut text = format!("{VERSION}\nphase {}\nops {}\n", layout.phase, workload.ops);
    text += &format!("run {}\n", workload.program);
    for (name, value) in &workload.params {
        writeln!(text, "param {name} {value}").expect("a String takes everything");
    }
    text + "end\n"
}
