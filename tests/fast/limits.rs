//! The page of limits has the numbers of the program, and every other page that is about them links
//! to it.

use std::fs;

use ktax::flow::{Limit, limits};

const HEAD: &str = "| What | Bounds | Default |\n|---|---|---|\n";

#[test]
fn the_page_of_limits_is_the_table_of_the_program() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/limits.md");
    let page = fs::read_to_string(path).unwrap();
    let row = |it: Limit| format!("| {} | {} | {} |\n", it.what, it.bounds, it.usual);
    let rows: String = limits().into_iter().map(row).collect();
    let (before, rest) = page.split_once(HEAD).unwrap();
    let (_, after) = rest.split_once("\n\n").unwrap_or_else(|| rest.split_once('\n').unwrap());
    let wanted = format!("{before}{HEAD}{rows}\n{after}");
    if std::env::var_os("BLESS").is_some() {
        fs::write(path, &wanted).unwrap();
    }
    let page = fs::read_to_string(path).unwrap();
    assert!(page == wanted, "type: BLESS=1 cargo test --test fast -- limits::\n{wanted}");
}

#[test]
fn pages_about_limits_link_to_theirs() {
    for page in ["compare.md", "store.md", "cpus.md", "campaign.md", "time.md"] {
        let text = fs::read_to_string(format!("{}/docs/{page}", env!("CARGO_MANIFEST_DIR")));
        assert!(text.unwrap().contains("(limits.md)"), "{page}");
    }
}
