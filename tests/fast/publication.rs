//! The project's own publication, `docs/published/debian-12.html`: what it has, and that each of
//! its numbers has the command that counts it again. `tests/long/publication.rs` types some.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use ktax::model::{History, Saved, SavedResult, read_results};
use ktax::plan::{Campaign, Experiment, ExperimentMethod, definitions, select_rows};
use ktax::report::results_of_page;

use crate::common::{Need, printed, require};
use crate::golden::page_of;

const MOST_BYTES: u64 = 64 << 20;

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/published/debian-12.html")
}

/// Whether the tree has the page: it is measured anew when the guest programs change.
#[track_caller]
fn is_there() -> bool {
    require(Need::Publication, path().exists(), "docs/published/debian-12.html is not measured yet")
}

fn page() -> String {
    fs::read_to_string(path()).unwrap()
}

/// The page, for `tests/fast/browser.rs`.
pub fn pages() -> Option<(String, String)> {
    path().exists().then(|| ("publication".to_owned(), page()))
}

fn saved() -> Saved {
    let text = results_of_page(&page(), MOST_BYTES).unwrap().unwrap();
    let [saved] = <[Saved; 1]>::try_from(read_results(&text).unwrap()).unwrap();
    saved
}

fn history() -> History {
    printed::history(&results_of_page(&page(), MOST_BYTES).unwrap().unwrap())
}

/// The packages of the campaign, in its order.
fn packages() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("campaigns/debian-12.toml");
    let file = Campaign::read(&fs::read_to_string(path).unwrap(), "debian-12").unwrap();
    let campaign = Campaign::from_file(&file, "debian-12").unwrap();
    campaign.subjects.into_iter().map(|subject| subject.method.asked.subjects.base.kernel).collect()
}

/// `BLESS=1` writes it as this ktax does, from its own numbers.
#[test]
fn the_page_is_what_ktax_makes_of_its_numbers() {
    if !is_there() {
        return;
    }
    let mut saved = saved();
    let SavedResult::History(history) = &mut saved.result else { panic!("no history") };
    // The page is older than the comparison with the kernel before.
    ktax::analyse::add_previous_differences(history);
    let made = page_of(&saved);
    if std::env::var_os("BLESS").is_some() {
        fs::write(path(), &made).unwrap();
    }
    assert!(made == page(), "BLESS=1 makes it again; then look at it");
}

#[test]
fn every_kernel_of_the_campaign_is_there_with_every_default_row() {
    if !is_there() {
        return;
    }
    let history = history();
    let rows: BTreeSet<String> = history.lines.iter().map(|line| line.row.clone()).collect();
    let default = select_rows(&definitions().unwrap(), None).unwrap();
    let default: BTreeSet<String> = default.into_iter().map(|row| row.row).collect();
    assert_eq!(rows, default);
    for row in &rows {
        let points = history.lines.iter().filter(|line| line.row == *row);
        let found =
            points.flat_map(|line| &line.points).filter_map(|point| point.package.as_deref());
        let found: Vec<&str> = found.map(|package| package.split('=').next().unwrap()).collect();
        assert_eq!(found, packages(), "{row}");
    }
}

#[test]
fn each_number_has_a_command_that_counts_it_again() {
    if !is_there() {
        return;
    }
    let (page, history) = (page().replace("<wbr>", "").replace('\'', ""), history());
    let mut commands = 0;
    for line in &history.lines {
        for pair in line.points.windows(2) {
            let [base, change] =
                [&pair[0], &pair[1]].map(|point| point.package.as_deref().unwrap());
            let words = format!("ktax compare --base {base} --change {change} -w {}", line.row);
            assert!(page.contains(&words), "{words}");
            commands += 1;
        }
        // The first of a line is counted with the second.
        assert!(line.points.len() > 1, "{}", line.row);
        assert!(page.contains(&format!("`ktax history {}`", line.row)) || page.contains(&line.row));
    }
    assert!(commands > 500, "{commands}");
    // As the commands ask for it, the kernels' names are packages that ktax knows.
    let first = &history.lines[0];
    let text = format!(
        "title = \"t\"\nbase = {{ kernel = \"{}\" }}\nchange = {{ kernel = \"{}\" }}",
        first.points[0].package.as_ref().unwrap(),
        first.points[1].package.as_ref().unwrap()
    );
    let experiment = Experiment::parse(&text, "of a command").unwrap();
    let ExperimentMethod::Counts(counts) = experiment.method else { panic!("not counts") };
    let asked = first.asked.as_ref().unwrap();
    assert_eq!(
        (counts.asked.machine, counts.layouts as usize),
        (asked.machine.clone(), asked.layouts)
    );
    assert_eq!(experiment.seed, asked.seed);
}

#[test]
fn the_page_loads_nothing_and_runs_from_a_file() {
    if !is_there() {
        return;
    }
    let page = page();
    assert!(page.contains("Content-Security-Policy"));
    for word in ["src=\"http", "href=\"http", "url(http", "@import", "<link"] {
        assert!(!page.contains(word), "{word}");
    }
}
