//! How a page looks and is used: in narrow and wide windows, by keyboard, for a screen reader.

use std::fs;
use std::path::Path;

use super::{Page, all, is_missing, look};
use crate::common::{Need, require};

/// What is wider than the window, unless it is within something that scrolls by itself, and cells
/// whose column is so narrow that words are torn into letters.
const WIDE_OR_TORN: &str = "
    const doc = page.document, root = doc.documentElement, width = root.clientWidth;
    doc.querySelectorAll('details').forEach((one) => { one.open = true; });
    if (root.scrollWidth > width) say('scrolls ' + root.scrollWidth + ' > ' + width);
    for (const one of doc.querySelectorAll('h1, h2, h3, p, li, td, th, summary, dd, svg')) {
        if (one.closest('.wide, .hidden, .marks') || one.ownerSVGElement) continue;
        const box = one.getBoundingClientRect();
        if (box.width && box.right > width + 1) say(one.tagName + ' ' + one.textContent);
    }
    const range = doc.createRange();
    for (const one of doc.querySelectorAll('td, th')) {
        range.selectNodeContents(one);
        const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size;
        const letters = one.textContent.trim().length;
        if (lines > 2 && letters / lines < 4) say('torn: ' + one.textContent);
    }";

#[test]
fn no_window_is_too_narrow() {
    if is_missing() {
        return;
    }
    for attributes in ["width=360", "width=720", "width=1040"] {
        let (said, _) = look(&all(), attributes, "", WIDE_OR_TORN);
        assert_eq!(said, Vec::<String>::new(), "{attributes}");
    }
    let planted = |style: &str| {
        let table = format!("<!DOCTYPE html><table><td style='{style}'>a function's name</table>");
        [("planted".to_owned(), table)]
    };
    let planted = [planted("min-width:500px"), planted("max-width:1em;overflow-wrap:anywhere")];
    // The page scrolls, its cell is too wide; the other cell is torn.
    assert_eq!(look(&planted.concat(), "width=360", "", WIDE_OR_TORN).0.len(), 3);
}

const KEYS: &str = "
    const doc = page.document, rows = [...doc.querySelectorAll('details.row')];
    const tell = (one, what) => one.dispatchEvent(new page.Event(what));
    const press = (key) => doc.activeElement.dispatchEvent(
        new page.KeyboardEvent('keydown', { key, bubbles: true }));
    const at = () => rows.indexOf(doc.activeElement.closest('details.row'));
    const left = () => rows.filter((row) => !row.classList.contains('gone')).length;
    press('j'); say('j ' + at()); press('j'); say('j ' + at()); press('k'); say('k ' + at());
    doc.activeElement.click(); say('open ' + rows[at()].open);
    press('/'); say(doc.activeElement.id);
    const find = doc.activeElement; find.value = 'FORK'; tell(find, 'input');
    say(left() + ' found, ' + doc.getElementById('count').textContent);
    find.value = ''; tell(find, 'input'); find.blur();
    const only = doc.getElementById('only'); only.value = 'slower'; tell(only, 'change');
    say(left() + ' slower'); only.value = ''; tell(only, 'change');
    const help = doc.getElementById('help');
    press('?'); say('help ' + help.open); help.close();
    const heads = [...doc.querySelectorAll('.forest th')];
    const head = heads.find((th) => th.textContent === 'delta %');
    for (const which of ['first', 'then']) {
        head.querySelector('button').click();
        const row = doc.querySelector('.forest tbody th').textContent;
        say(which + ' ' + row + ' ' + head.getAttribute('aria-sort'));
    }
    const used = [...doc.querySelectorAll('summary, a, button, input, select')];
    say(used.filter((one) => one.tabIndex < 0).length + ' not reachable');
    const links = [...doc.querySelectorAll('.forest a')];
    const lead = links.filter((a) => doc.querySelector(a.getAttribute('href')));
    say(links.length + ' links, ' + lead.length + ' lead somewhere');";

#[test]
fn a_page_is_used_by_keyboard() {
    if is_missing() {
        return;
    }
    let changes = all().remove(0);
    let (said, _) = look(&[changes], "width=1040", "", KEYS);
    let expected = [
        "j 0",
        "j 1",
        "k 0",
        "open true",
        "find",
        "1 found, 1 of 5 rows",
        "2 slower",
        "help true",
        "first stat descending",
        "then context-switch:pages=4,procs=2 ascending",
        "0 not reachable",
        "5 links, 5 lead somewhere",
    ];
    assert_eq!(said, expected.map(|line| format!("changes: {line}")));
}

const FIND: &str = "
    const doc = page.document, rows = [...doc.querySelectorAll('details.row')];
    const count = () => doc.getElementById('count').textContent;
    const tell = (one, what) => one.dispatchEvent(new page.Event(what));
    if (rows.length) {
        const all = rows.length + ' of ' + rows.length + ' rows', find = doc.getElementById('find');
        if (count() !== all) say('at first ' + count());
        find.value = rows[0].querySelector('summary').textContent.trim().split(/\\s/)[0];
        tell(find, 'input');
        if (count().startsWith('0 ') || rows[0].classList.contains('gone')) say(count());
        find.value = 'no such row'; tell(find, 'input');
        if (!count().startsWith('0 of')) say('nothing ' + count());
    }";

#[test]
fn every_page_says_how_many_of_its_rows_are_shown() {
    if is_missing() {
        return;
    }
    assert_eq!(look(&all(), "width=1040", "", FIND).0, Vec::<String>::new());
}

const AXE: &str = "
    const doc = page.document;
    doc.querySelectorAll('details').forEach((one) => { one.open = true; });
    const script = doc.createElement('script');
    script.textContent = document.getElementById('more').textContent;
    doc.head.append(script);
    const found = await page.axe.run(doc, { resultTypes: ['violations'] });
    for (const one of found.violations) {
        const places = one.nodes.map((node) => node.html.slice(0, 80));
        say(one.id + ': ' + places.slice(0, 3).join(' | '));
    }";

#[test]
fn no_rule_of_accessibility_is_broken() {
    if is_missing() {
        return;
    }
    let axe = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../browser/package/axe.min.js");
    let why = "axe-core is missing; scripts/setup-browser.sh fetches it where npm is";
    if !require(Need::Axe, axe.is_file(), why) {
        return;
    }
    let axe = fs::read_to_string(axe).unwrap();
    // The rules need a script within the page, which its own policy forbids.
    let open = |(name, page): Page| (name, page.replace("Content-Security-Policy", "X"));
    let pages: Vec<Page> = all().into_iter().map(open).collect();
    let (said, _) = look(&pages, "width=1040", &axe, AXE);
    assert_eq!(said, Vec::<String>::new());
    let (name, first) = &pages[0];
    let planted = (name.clone(), first.replace("<main>", "<main><img src=\"data:,\">"));
    assert_eq!(look(&[planted], "width=1040", &axe, AXE).0.len(), 1);
}
