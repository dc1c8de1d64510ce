//! Call paths of a row for other programs: a file for each form, whose names and numbers are what
//! those programs read. Names of functions have letters, digits and `_.$[]+-` alone.
//!
//! A new form is a file with an `EXPORT` in it, and a line in the list below.

mod callgrind;
mod export;
mod folded;
mod lkp;
mod pprof;
mod stacks;
mod svg;

pub use export::Export;

/// All forms.
pub const EXPORTS: [Export; 5] =
    [folded::EXPORT, pprof::EXPORT, callgrind::EXPORT, lkp::EXPORT, svg::EXPORT];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{METRICS, RowPaths};

    #[test]
    fn a_form_without_what_decides_the_row_says_so() {
        let of = |metric: &str| {
            let paths = RowPaths {
                row: "stat".to_owned(),
                ops: 1,
                operation: "one".to_owned(),
                metric: metric.to_owned(),
                spread: 0.0,
                contexts: Default::default(),
            };
            EXPORTS.map(|form| (form.name, form.remark(&paths).is_some()))
        };
        assert!(of(METRICS[0].name).iter().all(|(_, is_said)| !is_said));
        let said: Vec<&str> =
            of("rep-iterations").iter().filter(|it| it.1).map(|it| it.0).collect();
        assert_eq!(said, ["folded", "lkp"]);
    }
}
