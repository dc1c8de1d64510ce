//! Published tables: they have no place for every row, and say so.

use ktax::model::Comparison;
use ktax::report::{Shape, TextOptions};

use super::cases;

const OMITTED: &str = "Omitted, because these tables have no place for them: ";
const NEXT: &str = ". To print all rows, type `ktax report` without --layout.";

/// What a table of this shape says that it lacks.
fn omitted(shape: Shape, comparison: &Comparison) -> Option<String> {
    let text = shape.render(comparison, TextOptions::default());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.matches(OMITTED).count() <= 1, "{text}");
    let (_, said) = text.split_once(OMITTED)?;
    Some(said.strip_suffix(NEXT).unwrap_or_else(|| panic!("{said}")).to_owned())
}

#[test]
fn a_published_table_says_which_rows_it_has_no_place_for() {
    let mut changes = cases::changes();
    let lacks = "fork-pages:pages=16, context-switch:pages=4,procs=2";
    assert_eq!(omitted(Shape::Lmbench, &changes).as_deref(), Some(lacks));
    assert_eq!(omitted(Shape::Counters, &changes), None);
    // A mean of two rows of which one is missing.
    changes.rows[0].row = "read-1".into();
    let lacks = format!("read-1, {lacks}");
    assert_eq!(omitted(Shape::Lmbench, &changes), Some(lacks));
    changes.rows[4].row = "write-1".into();
    assert_eq!(omitted(Shape::Lmbench, &changes).as_deref(), Some("fork-pages:pages=16"));
}

#[test]
fn counters_that_a_model_has_are_called_the_models() {
    let of = |name: &str| &cases::all().iter().find(|(known, _)| *known == name).unwrap().1;
    let lines = |name: &str| -> Vec<String> {
        let text = Shape::Counters.render(of(name), TextOptions::default());
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        text.lines().map(words).collect()
    };
    let modelled = lines("machine");
    // 400 operations.
    for line in [
        "800 800 0% cache references (model core2-extreme)",
        "0 0 0% cache misses (model core2-extreme)",
        "24 000 24 000 0% branches (model core2-extreme)",
        "0 800 branch misses (model core2-extreme)",
    ] {
        assert!(modelled.iter().any(|found| found == line), "{line}: {modelled:#?}");
    }
    assert!(lines("costly").iter().all(|line| !line.contains("branch")));
}

#[test]
fn a_table_by_pages_has_the_families_that_have_a_row_without() {
    let mut changes = cases::changes();
    for (at, pages) in [(0, 0), (2, 16), (3, 8)] {
        changes.rows[at].row = format!("fork-pages:pages={pages}");
        changes.rows[at].params.insert("pages".into(), pages);
    }
    let lacks = "stat, context-switch:pages=4,procs=2";
    assert_eq!(omitted(Shape::Pages, &changes).as_deref(), Some(lacks));
    changes.rows[0].row = "other:pages=0".into();
    let lacks = "stat, fork-pages:pages=16, fork-pages:pages=8, context-switch:pages=4,procs=2";
    assert_eq!(omitted(Shape::Pages, &changes).as_deref(), Some(lacks));
}
