//! On paper: every row is there, opened.

use std::process::Command;

use ktax::model::SavedResult;

use super::{chromium, is_missing, write};
use crate::common::{run, scratch};
use crate::golden::{every, page_of};

/// Results with rows that are folded on a screen, and words that stand in each of them.
const FOLDED: [(&str, &str); 3] = [
    ("changes", "All that was counted"),
    ("timed", "Pairs in the order of time"),
    ("guests", "Where the time of the vCPUs went"),
];

#[test]
fn every_row_is_on_paper_with_what_is_behind_it() {
    if is_missing() {
        return;
    }
    for (name, opened) in FOLDED {
        let (_, result) = every().find(|(found, _)| *found == name).unwrap();
        let dir = scratch();
        let (path, pdf) = (write(&dir, &page_of(&result)), dir.path().join("page.pdf"));
        let print = format!("--print-to-pdf={}", pdf.display());
        chromium(dir.path(), &[&print, "--no-pdf-header-footer"], &path);
        let text = run(Command::new("pdftotext").arg("-layout").arg(&pdf).arg("-")).stdout;
        let about = run(Command::new("pdfinfo").arg(&pdf)).stdout;
        assert!(about.contains("(A4)"), "{name}: {about}");
        let SavedResult::Comparison(comparison) = &result.result else { panic!("{name}") };
        let dense = |text: &str| text.split_whitespace().collect::<String>();
        for row in &comparison.rows {
            assert!(dense(&text).contains(&dense(&row.row)), "{name}: no {} in {text}", row.row);
        }
        assert!(dense(&text).matches(&dense(opened)).count() > 1, "{name}: {text}");
    }
}
