//! Pages in a real browser: headless Chromium, which `make test` installs.
//!
//! A page is looked at from outside, as the `srcdoc` of a frame of the width that is wanted: the
//! page itself, with its policy, stays as it is. What the look finds is written into the document
//! around it, which Chromium prints.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ktax::model::SavedResult;
use ktax::report::TEXT;
use tempfile::TempDir;

use crate::common::{Need, Ran, assert_has, require, run, scratch};
use crate::golden::{every, page_of, paths, results, shown_wide};
use crate::publication;

/// A page with its name.
type Page = (String, String);

/// The pages of all results.
fn all_pages() -> Vec<Page> {
    let results = every().map(|(name, result)| (name.to_owned(), page_of(&result)));
    let site = [("site", results::site()), ("paths", paths::page())];
    let site = site.map(|(name, page)| (name.to_owned(), page));
    results.chain(site).chain(publication::pages()).collect()
}

/// Whether there is a browser, and a reader of what it prints.
#[track_caller]
fn is_missing() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &&str| std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    let missing: Vec<&str> =
        ["chromium", "pdftotext"].into_iter().filter(|program| !is_there(program)).collect();
    let why = format!("{} missing; scripts/setup-browser.sh installs it", missing.join(" and "));
    !require(Need::Browser, missing.is_empty(), why)
}

/// Chromium with a profile of its own, on a file. It finds no other machine, whatever it asks for.
fn chromium(dir: &Path, options: &[&str], page: &Path) -> Ran {
    let profile = format!("--user-data-dir={}", dir.join("profile").display());
    let mut command = Command::new("chromium");
    // Root has no sandbox; the pages are our own.
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-sync",
    ]);
    command.args(["--host-resolver-rules=MAP * ~NOTFOUND", "--disable-background-networking"]);
    command.args(["--enable-logging=stderr", "--virtual-time-budget=3000"]);
    command.arg(profile).args(options).arg(format!("file://{}", page.display()));

    run(&mut command).exits(0)
}

fn write(dir: &TempDir, html: &str) -> PathBuf {
    let path = dir.path().join("page.html");
    fs::write(&path, html).unwrap();
    path
}

/// Output of a script for each page, after the page's name, and the console. The script has the
/// page's window as `page`, and `say(text)`; `attributes` are of the frame; `more` is a script that
/// it needs.
fn look(pages: &[Page], attributes: &str, more: &str, script: &str) -> (Vec<String>, String) {
    let frame = |(name, html): &Page| {
        let srcdoc = html.replace('&', "&amp;").replace('"', "&quot;");
        format!("<iframe {attributes} height=900 title=\"{name}\" srcdoc=\"{srcdoc}\"></iframe>\n")
    };
    let frames: String = pages.iter().map(frame).collect();
    let around = AROUND.replace("SCRIPT", script);
    let document = format!("<!DOCTYPE html><body>{frames}<script id=more>{more}</script>{around}");
    let dir = scratch();
    let ran = chromium(dir.path(), &["--dump-dom"], &write(&dir, &document));
    let (_, list) = ran.stdout.rsplit_once("<ol id=\"said\">").expect(&ran.stderr);
    let items = list.split_once("</ol>").unwrap().0.split("<li>").skip(1);
    let text = |item: &str| {
        let text = item.trim_end().trim_end_matches("</li>");
        text.replace("&gt;", ">").replace("&lt;", "<").replace("&nbsp;", " ").replace("&amp;", "&")
    };
    let mut findings: Vec<String> = items.map(text).collect();
    assert_eq!(findings.pop().as_deref(), Some("end"), "{findings:?} {}", ran.stderr);
    (findings, ran.stderr)
}

const AROUND: &str = "<ol id=said></ol><script>
    const line = (text) => {
        const li = document.createElement('li');
        li.textContent = text;
        document.getElementById('said').append(li);
    };
    addEventListener('load', async () => {
        for (const frame of document.querySelectorAll('iframe')) {
            const page = frame.contentWindow, say = (text) => line(frame.title + ': ' + text);
            try { SCRIPT } catch (error) { say('error: ' + error); }
        }
        line('end');
    });
    </script>";

// The picture of call paths on a page: found, zoomed, and there without scripts.

const USED: &str = "
    const doc = page.document, picture = doc.querySelector('svg.flame');
    doc.querySelectorAll('details').forEach((one) => { one.open = true; });
    const bars = [...picture.querySelectorAll(':scope > svg')];
    const name = (bar) => bar.querySelector('title').textContent.split(':')[0];
    const named = (wanted) => bars.find((bar) => name(bar) === wanted);
    const click = (bar) => bar.firstElementChild.dispatchEvent(
        new page.MouseEvent('click', { bubbles: true }));
    const shown = () => bars.filter((bar) => bar.style.display !== 'none').map(name).join(' ');
    const find = doc.getElementById('find'), whole = shown();
    find.value = 'SECURITY'; find.dispatchEvent(new page.Event('input'));
    say('found ' + bars.filter((bar) => bar.classList.contains('found')).map(name).join(' '));
    find.value = ''; find.dispatchEvent(new page.Event('input'));
    say('found ' + bars.filter((bar) => bar.classList.contains('found')).length);
    click(named('vfs_read'));
    say(named('vfs_read').getAttribute('width') + ' wide: ' + shown());
    click(bars[0]);
    say(shown() === whole ? 'all again' : shown());";

#[test]
fn a_function_is_found_and_gets_the_whole_width() {
    if is_missing() {
        return;
    }
    let page: Page = ("paths".into(), paths::page());
    let (findings, _) = look(&[page], "width=1040", "", USED);
    let expected = [
        "found security_hook security_file_permission",
        "found 0",
        "100% wide: all entry_SYSCALL_64 ksys_read vfs_read security_hook iov_iter_init",
        "all again",
    ];
    assert_eq!(findings, expected.map(|line| format!("paths: {line}")));
}

#[test]
fn without_scripts_each_bar_has_its_name_and_its_numbers() {
    let page = paths::page();
    for name in ["vfs_read", "security_hook", "security_file_permission"] {
        let after_title = page.split(&format!("<title>{name}: ")).nth(1).unwrap_or_default();
        let title = after_title.split("</title>").next().unwrap_or_default();
        assert!(title.contains(" → ") && title.contains("called"), "{name}: {title:?}");
    }
}

// How a page looks and is used: in narrow and wide windows, by keyboard, for a screen reader.

/// Finds elements that are wider than the window, unless something around them scrolls, and cells
/// so narrow that words are torn into letters.
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
        let (findings, _) = look(&all_pages(), attributes, "", WIDE_OR_TORN);
        assert_eq!(findings, Vec::<String>::new(), "{attributes}");
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
    let changes = all_pages().remove(0);
    let (findings, _) = look(&[changes], "width=1040", "", KEYS);
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
    assert_eq!(findings, expected.map(|line| format!("changes: {line}")));
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
    assert_eq!(look(&all_pages(), "width=1040", "", FIND).0, Vec::<String>::new());
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
    let pages: Vec<Page> = all_pages().into_iter().map(open).collect();
    let (findings, _) = look(&pages, "width=1040", &axe, AXE);
    assert_eq!(findings, Vec::<String>::new());
    let (name, first) = &pages[0];
    let planted = (name.clone(), first.replace("<main>", "<main><img src=\"data:,\">"));
    assert_eq!(look(&[planted], "width=1040", &axe, AXE).0.len(), 1);
}

// A page has all numbers of the text report, with scripts and without.

/// The words of a page, however deep they are folded.
const WORDS: &str = "
    const body = page.document.body;
    body.querySelectorAll('script, style').forEach((one) => one.remove());
    body.querySelectorAll('td, th, p, li, text, figcaption').forEach((one) => one.append(' '));
    say(body.textContent.replace(/\\s+/g, ' '));";

/// The digits of all numbers, in parts: `9 178.25` is `9` and `178.25`.
fn numbers(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_digit() && c != '.');
    let words = words.map(|word| word.trim_matches('.'));
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Text of a report without the sums of omitted functions: a page omits others.
fn told(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.contains(" more function"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_number_of_the_text_is_on_the_page_with_and_without_scripts() {
    if is_missing() {
        return;
    }
    // The second kind of frame runs no script.
    for attributes in ["", "sandbox=allow-same-origin"] {
        let (findings, _) = look(&all_pages(), attributes, "", WORDS);
        for ((name, result), words) in every().zip(&findings) {
            let (_, words) = words.split_once(": ").unwrap();
            let (expected, found) = (numbers(&told(&shown_wide(&result, TEXT))), numbers(words));
            let missing: Vec<&String> = expected.difference(&found).collect();
            assert!(missing.is_empty(), "{name} {attributes}: {missing:?}");
        }
    }
}

#[test]
fn a_number_is_taken_apart_at_its_blanks() {
    assert_eq!(numbers("+9 178.25 of 7."), ["7", "9", "178.25"].map(str::to_owned).into());
}

// On paper: every row is there, opened.

/// Results with rows that are folded on a screen, and words that stand in each of them.
const FOLDED: [(&str, &str); 3] = [
    ("changes", "All counts"),
    ("timed", "Pairs in the order of time"),
    ("guests", "Where the time of the vCPUs went"),
];

#[test]
fn every_row_is_printed_with_its_details() {
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
        assert_has(run(Command::new("pdfinfo").arg(&pdf)).stdout, "(A4)");
        let SavedResult::Comparison(comparison) = &result.result else { panic!("{name}") };
        let dense = |text: &str| text.split_whitespace().collect::<String>();
        for row in &comparison.rows {
            assert!(dense(&text).contains(&dense(&row.row)), "{name}: no {} in {text}", row.row);
        }
        assert!(dense(&text).matches(&dense(opened)).count() > 1, "{name}: {text}");
    }
}

// A page asks for nothing and complains of nothing.

/// Lines of the console that pages or their policies wrote.
fn complaints(console: &str) -> Vec<&str> {
    console.lines().filter(|line| line.contains(":CONSOLE")).collect()
}

/// Lists loaded resources, and whether the script ran: it shows the tools where there are rows.
const LOADED: &str = "
    const doc = page.document;
    for (const one of page.performance.getEntriesByType('resource')) say('loads ' + one.name);
    const hasRows = doc.querySelectorAll('details.row').length > 1;
    const tools = doc.getElementById('tools');
    if (tools && tools.hidden === hasRows) say('the script did not run');";

/// Page without the policy, which would stop requests.
fn without_policy((name, page): &Page) -> Page {
    (name.clone(), page.replace("Content-Security-Policy", "X"))
}

#[test]
fn a_page_loads_nothing_and_reports_no_error() {
    if is_missing() {
        return;
    }
    let (findings, console) = look(&all_pages(), "", "", LOADED);
    assert_eq!((findings, complaints(&console)), (vec![], vec![]));
    let free: Vec<Page> = all_pages().iter().map(without_policy).collect();
    let (findings, console) = look(&free, "", "", LOADED);
    assert_eq!((findings, complaints(&console)), (vec![], vec![]));
}

#[test]
fn planted_images_and_scripts_are_blocked_and_reported() {
    if is_missing() {
        return;
    }
    let (_, page) = all_pages().remove(0);
    let planted = [
        ("image", "<img src=\"http://127.0.0.1:9/x.png\">"),
        ("script", "<script>throw 'planted'</script>"),
    ];
    let planted = planted
        .map(|(name, text)| (name.to_owned(), page.replace("<main>", &format!("<main>{text}"))));
    let (_, console) = look(&planted, "", "", LOADED);
    assert_eq!(complaints(&console).len(), 2, "{console}");
    let (findings, console) = look(&planted.each_ref().map(without_policy), "", "", LOADED);
    assert!(findings.len() + complaints(&console).len() >= 2, "{findings:?}{console}");
}
