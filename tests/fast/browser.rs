//! Pages in a real browser: headless Chromium, which `make test` installs.
//!
//! A page is looked at from outside, as the `srcdoc` of a frame of the width that is wanted: the
//! page itself, with its policy, stays as it is. What the look finds is written into the document
//! around it, which Chromium prints.

mod flames;
mod looks;
mod numbers;
mod paper;
mod quiet;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::common::{Need, Ran, require, run, scratch};
use crate::golden::{every, history, page_of, paths};
use crate::publication;

/// A page with its name.
type Page = (String, String);

/// The pages of all results.
fn all() -> Vec<Page> {
    let results = every().map(|(name, result)| (name.to_owned(), page_of(&result)));
    let site = [("site", history::site()), ("paths", paths::page())];
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
    // As root there is no sandbox; the pages are our own.
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
    let ran = run(&mut command);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    ran
}

fn write(dir: &TempDir, html: &str) -> PathBuf {
    let path = dir.path().join("page.html");
    fs::write(&path, html).unwrap();
    path
}

/// What a script says of each page, behind the page's name, and what the console says. The script
/// has the page's window as `page`, and `say(text)`; `attributes` are of the frame; `more` is a
/// script that it needs.
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
    let (_, said) = ran.stdout.rsplit_once("<ol id=\"said\">").expect(&ran.stderr);
    let items = said.split_once("</ol>").unwrap().0.split("<li>").skip(1);
    let text = |item: &str| {
        let text = item.trim_end().trim_end_matches("</li>");
        text.replace("&gt;", ">").replace("&lt;", "<").replace("&nbsp;", " ").replace("&amp;", "&")
    };
    let mut said: Vec<String> = items.map(text).collect();
    assert_eq!(said.pop().as_deref(), Some("end"), "{said:?} {}", ran.stderr);
    (said, ran.stderr)
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
