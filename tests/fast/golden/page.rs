//! Pages for a browser. What is expected of them is kept without the style, the script and the
//! compressed data, which are the same in all or say what the rest says.

use ktax::model::{Comparison, Error, PathDelta, Row, Saved, Sides, read_results};
use ktax::report::view::{Bridge, Picture, Section};
use ktax::report::{Document, HTML, JSON, Report, TextOptions, results_of_page};

use super::{cases, every, show, timed};
use crate::common::hostile::hostile;

const MOST: u64 = 1 << 20;

/// A page line by line, without what is in these elements.
pub fn readable(page: &str) -> String {
    let mut text = String::new();
    let mut rest = page;
    while let Some((start, end)) = ["style", "script"]
        .iter()
        .filter_map(|name| {
            let start = rest.find(&format!("<{name}"))?;
            let start = start + rest[start..].find('>')? + 1;
            Some((start, start + rest[start..].find(&format!("</{name}>"))?))
        })
        .min()
    {
        text += &rest[..start];
        rest = &rest[end..];
    }
    text += rest;
    let blocks =
        ["<tr", "<p", "<h", "<table", "<details", "<figure", "<svg", "<li", "<dt", "<text"];
    blocks.iter().fold(text, |text, block| text.replace(block, &format!("\n{block}")))
}

#[test]
fn the_data_of_a_page_is_that_of_its_result() {
    for (name, result) in every() {
        let json = results_of_page(&show(&result, HTML), MOST).unwrap().unwrap();
        let [read] = &read_results(&json).unwrap()[..] else { panic!("{name}") };
        assert!(show(read, JSON) == show(&result, JSON), "{name}");
    }
    for text in ["", "{}", "<!DOCTYPE html><p>another page"] {
        assert_eq!(results_of_page(text, MOST), Ok(None), "{text}");
    }
    let page = show(&cases::all()[0].1, HTML);
    let refused = |reason: &str| Err(Error::user(reason));
    let (before, data) = page.split_once("id=\"data\">").unwrap();
    assert_eq!(
        results_of_page(before, MOST),
        refused("it is a page of ktax without its data, which should be at the end of the file")
    );
    let broken = format!("{before}id=\"data\">A{data}");
    let damaged = refused("the data at the end of the page is damaged");
    assert_eq!(results_of_page(&broken, MOST), damaged);
    let too_large = refused("the data at the end of the page exceeds 100 bytes");
    assert_eq!(results_of_page(&page, 100), too_large);
}

/// The elements of a page, without their attributes.
fn elements(page: &str) -> Vec<&str> {
    let tags = page.split('<').skip(1);
    tags.map(|tag| tag.split([' ', '>']).next().unwrap_or_default()).collect()
}

fn with_text(text: &str) -> Comparison {
    let mut comparison = cases::changes();
    comparison.title = text.to_owned();
    cases::method(&mut comparison).asked.subjects.change.boot_line = text.to_owned();
    comparison.rows[1].row = format!("a{text}");
    comparison.rows[1].operation = text.to_owned();
    comparison.rows[2].title = text.to_owned();
    cases::effects(&mut comparison.rows[2])[0].functions[0].function = text.to_owned();
    comparison.warnings[0].fact = text.to_owned();
    comparison
}

#[test]
fn no_text_becomes_markup() {
    let harmless = show(&with_text("x"), HTML);
    let expected: Vec<&str> = elements(&harmless).into_iter().filter(|tag| *tag != "wbr").collect();
    for text in hostile() {
        let page = show(&with_text(&text), HTML);
        let found: Vec<&str> = elements(&page).into_iter().filter(|tag| *tag != "wbr").collect();
        assert_eq!(found, expected, "{text:?}");
    }
    // Unescaped text would be visible.
    let planted = harmless.replace("<h1>x</h1>", "<h1><img src=x></h1>");
    assert_ne!(elements(&planted), elements(&harmless));
}

#[test]
fn a_large_text_is_shown_as_text() {
    let mut comparison = cases::changes();
    comparison.warnings[0].fact = "<b>".repeat((10 << 20) / 3);
    let page = show(&comparison, HTML);
    assert!(!page.contains("<b>") && page.contains("&lt;b&gt;"));
}

#[test]
fn the_points_of_a_sweep_are_curves_before_each_of_them() {
    let timed = timed::all().remove(0).1;
    let point = |cpus: u32| Saved { name: format!("cpus={cpus}"), ..timed.clone() };
    let points: Vec<Saved> = [16, 2, 4].map(point).into();
    let page = |points: &[Saved]| {
        let documents = points.iter().map(|saved| Document::with_name(&saved.name, saved));
        (HTML.write)(&documents.collect::<Vec<_>>(), TextOptions::default()).unwrap()
    };
    let found = page(&points);
    let (overview, _) = found.split_once("<article>").unwrap();
    assert!(overview.contains("messaging:groups=1: ns over cpus"), "{overview}");
    // Two points are no curve, and results without a number are no sweep.
    let two = page(&points[..2]);
    assert!(!two.split_once("<article>").unwrap().0.contains("over cpus"));
    let named = points.iter().map(|saved| Saved { name: "a, b".into(), ..saved.clone() });
    assert!(!page(&named.collect::<Vec<_>>()).contains("over cpus"));
}

/// The printed number as a whole number of its last digits; all of a bridge have as many.
fn printed(shown: &str) -> i128 {
    let digits: String = shown.chars().filter(|c| c.is_ascii_digit() || *c == '-').collect();
    let has_fraction = shown.contains('.');
    digits.parse::<i128>().unwrap() * if has_fraction { 1 } else { 100 }
}

#[test]
fn the_bars_of_every_bridge_add_up_as_they_are_printed() {
    let bridges = |result: &Saved| -> Vec<Bridge> {
        let pictures = result.details().rows.into_iter().flat_map(|row| row.sections);
        let bridge = |section| match section {
            Section::Picture { picture: Picture::Bridge(bridge), .. } => Some(bridge),
            _ => None,
        };
        pictures.filter_map(bridge).collect()
    };
    let found: Vec<Bridge> = every().flat_map(|(_, result)| bridges(&result)).collect();
    assert!(found.len() > 5, "{}", found.len());
    for bridge in found {
        let numbers: Vec<i128> = bridge.bars.iter().map(|bar| printed(&bar.shown)).collect();
        let (change, parts) = numbers.split_last().unwrap();
        assert_eq!(parts.iter().sum::<i128>(), *change, "{bridge:?}");
    }
}

/// Comparison with this number of rows: two of three are changed, each by as many functions as the
/// rows of `ktax compare lsm`.
fn large(rows: usize) -> Comparison {
    let mut comparison = cases::changes();
    let (same, mut forks) = (comparison.rows[3].clone(), comparison.rows[2].clone());
    let effect = &mut cases::effects(&mut forks)[0];
    let template = effect.functions[0].clone();
    let mut carried = 0;
    effect.functions = (1..80_u64)
        .map(|index| {
            let mut function = template.clone();
            let draw = index.wrapping_mul(6_364_136_223_846_793_005) >> 33;
            function.function = format!("symbol_{}_{index}", draw % 9973);
            function.instructions.change = function.instructions.base + draw % 997;
            carried += draw % 997;
            function
        })
        .collect();
    effect.samples.change[effect.layout] = effect.samples.base[effect.layout] + carried;
    // Paths are as wide as possible, and as deep as the kernel's.
    let executed = effect.samples.base[effect.layout];
    let path = |index: u64| PathDelta {
        depth: (index % 16) as u32,
        function: format!("symbol_of_a_function_{index}"),
        calls: Sides { base: index, change: index + 1 },
        instructions: Sides { base: executed / 5, change: executed / 5 + index },
        rep_iterations: Sides { base: 0, change: 0 },
        costly: Default::default(),
        wait: Sides::default(),
        idle: Sides::default(),
    };
    effect.paths = (0..80).map(path).collect();
    let row = |index: usize| if index % 3 == 0 { &same } else { &forks };
    let named =
        |index: usize| Row { row: format!("fork-pages:pages={index}"), ..row(index).clone() };
    comparison.rows = (0..rows).map(named).collect();
    comparison
}

#[test]
fn a_page_is_small_enough_to_be_sent() {
    for (rows, most) in [(33, 410_000), (200, 1_000_000)] {
        let page = show(&large(rows), HTML);
        assert!(page.len() <= most, "{rows} rows: {} bytes", page.len());
    }
    let script = include_str!("../../../crates/ktax-report/src/formats/html/script.js");
    assert!(script.len() <= 6 << 10, "{} bytes", script.len());
}
