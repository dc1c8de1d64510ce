//! Whether the colours of the page can be told from their backgrounds, as WCAG 2 computes it.

use std::collections::BTreeMap;

const STYLE: &str = include_str!("theme.css");

/// The colours of a theme, by the names of their variables.
fn theme(start: &str) -> BTreeMap<&str, [f64; 3]> {
    let block = STYLE.split_once(start).unwrap().1.split_once('}').unwrap().0;
    let colour = |declaration: &'static str| {
        let (name, value) = declaration.split_once(':')?;
        let digits = value.strip_prefix('#')?;
        let one = |index: usize| match digits.len() {
            3 => u8::from_str_radix(&digits[index..=index].repeat(2), 16),
            _ => u8::from_str_radix(&digits[2 * index..2 * index + 2], 16),
        };
        Some((name.trim_start_matches("--"), [0, 1, 2].map(|index| f64::from(one(index).unwrap()))))
    };
    block.split(';').filter_map(colour).collect()
}

fn luminance(colour: [f64; 3]) -> f64 {
    let linear = colour.map(|value| match value / 255.0 {
        low if low <= 0.04045 => low / 12.92,
        high => ((high + 0.055) / 1.055).powf(2.4),
    });
    0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
}

fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
    let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
    if one > other { one / other } else { other / one }
}

#[test]
fn text_can_be_read_in_both_themes() {
    for start in [":root{", "(prefers-color-scheme:dark){:root{"] {
        let colours = theme(start);
        let colour = |name: &str| colours[name];
        for text in ["fg", "soft", "slower", "faster", "below", "none", "unsure", "failed"] {
            let found = contrast(colour(text), colour("bg"));
            assert!(found >= 4.5, "{start} {text}: {found:.2}");
        }
        let found = contrast(colour("fg"), colour("band"));
        assert!(found >= 4.5, "{start} band: {found:.2}");
    }
    assert!((contrast([0.0; 3], [255.0; 3]) - 21.0).abs() < 1e-9);
    assert!(contrast([118.0; 3], [255.0; 3]) > 4.5 && contrast([120.0; 3], [255.0; 3]) < 4.5);
}
