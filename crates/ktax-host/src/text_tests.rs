use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;

use super::*;

#[test]
fn a_count_of_one_is_singular() {
    let texts = [0, 1, 2].map(|count| counted(count, "A/A pair"));
    assert_eq!(texts, ["0 A/A pairs", "1 A/A pair", "2 A/A pairs"]);
    assert_eq!(counted_as(1, "patch", "patches"), "1 patch");
    assert_eq!(counted_as(2, "patch", "patches"), "2 patches");
}

#[test]
fn sorted_numbers_are_ranges() {
    for (numbers, text) in
        [(&[][..], ""), (&[3], "3"), (&[0, 1, 2, 7, 9, 10], "0-2,7,9-10"), (&[u64::MAX; 1], MAX)]
    {
        assert_eq!(number_ranges(numbers.iter().copied()), text);
    }
}

const MAX: &str = "18446744073709551615";

type Escaper = fn(&str) -> String;

/// Every escaper, by name.
const ESCAPERS: [(&str, Escaper); 10] = [
    ("escape", escape),
    ("escape_lines", escape_lines),
    ("escape_path", |text| escape_path(Path::new(text))),
    ("escape_bytes", |text| escape_bytes(text.as_bytes())),
    ("escape_byte_lines", |text| escape_byte_lines(text.as_bytes())),
    ("html", html),
    ("markdown", markdown),
    ("code", code),
    ("csv_cell", csv_cell),
    ("escape_json", |text| escape_json(&serde_json::to_string(text).unwrap())),
];

/// Escapers whose output may have line feeds.
const WITH_LINES: [&str; 3] = ["escape_lines", "escape_byte_lines", "escape_json"];

/// Returns the escapers whose output has a dangerous character, with that output.
fn leaks(text: &str) -> Vec<(&'static str, String)> {
    let is_leak =
        |name: &str, c: char| is_dangerous(c) && !(c == '\n' && WITH_LINES.contains(&name));
    let escaped = ESCAPERS.iter().map(|(name, escaper)| (*name, escaper(text)));
    escaped.filter(|(name, text)| text.chars().any(|c| is_leak(name, c))).collect()
}

#[test]
fn every_escaper_makes_every_dangerous_character_visible() {
    let dangerous = (0..=0x000f_ffff).filter_map(char::from_u32).filter(|c| is_dangerous(*c));
    for c in dangerous {
        assert_eq!(leaks(&format!("a{c}b")), [], "{:?}", c.escape_unicode().to_string());
    }
}

#[test]
fn characters_that_hide_or_reorder_text_are_dangerous() {
    let named = [
        '\u{7f}',
        '\u{9b}',
        '\u{ad}',
        '\u{61c}',
        '\u{180e}',
        '\u{200b}',
        '\u{200f}',
        '\u{2028}',
        '\u{202e}',
        '\u{2060}',
        '\u{2066}',
        '\u{feff}',
        '\u{fff9}',
        '\u{e0001}',
        '\u{e0041}',
        '\u{e0100}',
    ];
    for c in named {
        assert!(is_dangerous(c), "{}", c.escape_unicode());
        let code = format!("{:x}", u32::from(c));
        for text in [escape(&c.to_string()), markdown(&c.to_string()), csv_cell(&c.to_string())] {
            assert!(text.contains(&code), "{text}");
        }
    }
    assert!(!"größer als 日本 …~".chars().any(is_dangerous));
}

#[test]
fn control_characters_become_visible() {
    assert_eq!(escape("a\x1b[31mb\r\n\u{9b}c"), "a\\u{1b}[31mb\\r\\n\\u{9b}c");
    assert_eq!(escape("\u{202e}live\u{2066}"), "\\u{202e}live\\u{2066}");
    assert_eq!(escape("größer als 日本 …"), "größer als 日本 …");
    assert_eq!(escape_path(Path::new("/a\u{61c}b")), "/a\\u{61c}b");
}

#[test]
fn messages_keep_only_their_line_feeds() {
    assert_eq!(escape_lines("a:\n  b\n"), "a:\n  b\n");
    assert_eq!(escape_lines("a\r\n\x1b]0;x\x07\n"), "a\\r\n\\u{1b}]0;x\\u{7}\n");
    // Escaping twice changes nothing more.
    assert_eq!(escape_lines(&escape("\x1b")), escape("\x1b"));
}

#[test]
fn bytes_become_printable_ascii() {
    let bytes: Vec<u8> = (0..=255).collect();
    assert!(escape_bytes(&bytes).bytes().all(|byte| (0x20..0x7f).contains(&byte)));
    assert_eq!(escape_bytes(b" a\tb\r\n\xff"), "a b \\xff");
    assert_eq!(escape_byte_lines(b"a\x1b\nb"), "a\\x1b\nb\n");
}

#[test]
fn markdown_has_no_markup_left() {
    assert_eq!(markdown("a|b`c<img>\n"), "a\\|b\\`c&lt;img&gt;\\\\n");
    assert_eq!(code("__x64_sys_read.cold"), "`__x64_sys_read.cold`");
    assert_eq!(code("a`b|c"), "a\\`b\\|c");
    assert_eq!(code(""), "");
}

#[test]
fn no_cell_is_a_formula() {
    assert_eq!(csv_cell("=1+1"), "'=1+1");
    assert_eq!(csv_cell("\t=1"), "\\t=1");
    assert_eq!(csv_cell("fork"), "fork");
}

#[test]
fn escaped_json_has_the_same_strings() {
    let text = "a\u{202e}b\u{e0001}\u{9b}";
    let json = escape_json(&serde_json::to_string(text).unwrap());
    assert_eq!(json, "\"a\\u202eb\\udb40\\udc01\\u009b\"");
    assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
}

proptest! {
    #[test]
    fn no_escaper_lets_a_dangerous_character_through(text in any::<String>()) {
        prop_assert_eq!(leaks(&text), []);
        prop_assert!(!markdown(&text).contains(['<', '\n', '\r']));
    }
}

#[test]
fn only_hashes_are_shortened() {
    let hash = "0123456789abcdef".repeat(4);
    for (text, expected) in [
        (format!("/c/kernels/{hash}/image"), "/c/kernels/0123456789ab/image"),
        (hash.clone(), "0123456789ab"),
        (format!("git:{}", &hash[..40]), "git:0123456789ab"),
        ("deadbeef é 0123456789abcdef".to_owned(), "deadbeef é 0123456789abcdef"),
        (format!("x{hash}g {hash}"), "x0123456789abg 0123456789ab"),
    ] {
        assert_eq!(short_hashes(&text), expected);
    }
}

#[test]
fn text_becomes_ascii_without_loss() {
    for (text, expected) in [
        ("+1.22…1.25 %", "+1.22..1.25 %"),
        ("a → b × c · d – e µs ∞ ─", "a -> b x c | d - e us inf -"),
        ("├ a │ └ b", "+ a | ` b"),
        ("é漢 plain", "\\u{e9}\\u{6f22} plain"),
    ] {
        assert_eq!(ascii(text), expected);
    }
}

#[test]
fn plain_paths_stay_as_they_are() {
    for plain in ["out", "out/lsm-1", "/tmp/x_y.d", "../a,b=c"] {
        assert_eq!(shell_path(plain), plain);
    }
    assert_eq!(shell_path("my dir"), "'my dir'");
    assert_eq!(shell_path("-x"), "./-x");
    assert_eq!(shell_path("two\nlines"), "$'two\\nlines'");
    assert_eq!(shell_word(""), "''");
}

#[test]
fn a_shell_reads_the_quoted_bytes() {
    let hard: [&[u8]; 9] = [
        b"my dir",
        b"it's",
        b"a\nb",
        b"\x1b[31m'\\x",
        b"$HOME `id`",
        b"~x",
        b"\xff\xfe",
        b"*",
        "\u{202e}é".as_bytes(),
    ];
    for bytes in hard {
        let script = format!("printf %s {}", shell_path(OsStr::from_bytes(bytes)));
        let read = Command::new("bash").args(["-c", &script]).output().unwrap();
        assert_eq!(read.stdout, bytes, "{script}");
        assert!(!script.contains(is_dangerous), "{script:?}");
    }
}

#[test]
fn sizes_have_the_largest_unit_that_is_not_larger() {
    let sizes = [0, 1, 1023, 1024, 43_200_000, 20 << 30, 3 << 40].map(binary_size);
    let expected =
        ["0 bytes", "1 byte", "1023 bytes", "1.0 KiB", "41.2 MiB", "20.0 GiB", "3.0 TiB"];
    assert_eq!(sizes, expected);
}

#[test]
fn only_similar_names_are_suggested() {
    let known = ["vm.swappiness", "vm.overcommit_memory", "kernel.pid_max"];
    assert_eq!(nearest("vm.swapiness", known), Some("vm.swappiness"));
    assert_eq!(nearest("kernel.max_pid", known), Some("kernel.pid_max"));
    assert_eq!(nearest("x", known), None);
    assert_eq!(nearest("", known), None);
}
