//! The picture of call paths on a page: found, zoomed, and there without scripts.

use super::{Page, is_missing, look};
use crate::golden::paths;

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
    let (said, _) = look(&[page], "width=1040", "", USED);
    let expected = [
        "found security_hook security_file_permission",
        "found 0",
        "100% wide: all entry_SYSCALL_64 ksys_read vfs_read security_hook iov_iter_init",
        "all again",
    ];
    assert_eq!(said, expected.map(|line| format!("paths: {line}")));
}

#[test]
fn without_scripts_each_bar_has_its_name_and_its_numbers() {
    let page = paths::page();
    for name in ["vfs_read", "security_hook", "security_file_permission"] {
        let said = page.split(&format!("<title>{name}: ")).nth(1).unwrap_or_default();
        let said = said.split("</title>").next().unwrap_or_default();
        assert!(said.contains(" → ") && said.contains("called"), "{name}: {said:?}");
    }
}
