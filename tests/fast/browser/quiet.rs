//! A page asks for nothing and complains of nothing.

use super::{Page, all, is_missing, look};

/// What pages or their policies said.
fn complaints(said: &str) -> Vec<&str> {
    said.lines().filter(|line| line.contains(":CONSOLE")).collect()
}

/// What was loaded, and whether the script ran: it shows the tools where there are rows.
const LOADED: &str = "
    const doc = page.document;
    for (const one of page.performance.getEntriesByType('resource')) say('loads ' + one.name);
    const hasRows = doc.querySelectorAll('details.row').length > 1;
    const tools = doc.getElementById('tools');
    if (tools && tools.hidden === hasRows) say('the script did not run');";

/// Also what the policy would stop is asked for without it.
fn without_policy((name, page): &Page) -> Page {
    (name.clone(), page.replace("Content-Security-Policy", "X"))
}

#[test]
fn nothing_is_loaded_and_no_error_is_said() {
    if is_missing() {
        return;
    }
    let (said, console) = look(&all(), "", "", LOADED);
    assert_eq!((said, complaints(&console)), (vec![], vec![]));
    let free: Vec<Page> = all().iter().map(without_policy).collect();
    let (said, console) = look(&free, "", "", LOADED);
    assert_eq!((said, complaints(&console)), (vec![], vec![]));
}

#[test]
fn a_planted_image_and_a_planted_script_are_stopped_and_said() {
    if is_missing() {
        return;
    }
    let (_, page) = all().remove(0);
    let planted = [
        ("image", "<img src=\"http://127.0.0.1:9/x.png\">"),
        ("script", "<script>throw 'planted'</script>"),
    ];
    let planted = planted
        .map(|(name, text)| (name.to_owned(), page.replace("<main>", &format!("<main>{text}"))));
    let (_, console) = look(&planted, "", "", LOADED);
    assert_eq!(complaints(&console).len(), 2, "{console}");
    let (said, console) = look(&planted.each_ref().map(without_policy), "", "", LOADED);
    assert!(said.len() + complaints(&console).len() >= 2, "{said:?}{console}");
}
