//! A parser's time grows with its input and no faster, whatever the input is made of.

use std::hint::black_box;
use std::time::Duration;

use ktax::plan::Experiment;
use ktax::rundir::profile;
use ktax::text::escape_bytes;
use ktax::wire;
use rustix::time::{ClockId, clock_gettime};

/// Time of the CPU: several times what the largest needs; quadratic time passes it before.
const LIMIT: Duration = Duration::from_secs(30);

/// The largest is four times what a guest may say. The smaller ones fail sooner.
const SIZES: [usize; 3] = [256 << 10, 1 << 20, 4 << 20];

/// That this thread has had: not what others had meanwhile.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

/// `head`, then `piece` over and over.
fn check(head: &str, piece: &str, parse: impl Fn(&str)) {
    for size in SIZES {
        let text = format!("{head}{}", piece.repeat(size / piece.len()));
        let started = cpu_time();
        parse(&text);
        let took = cpu_time() - started;
        assert!(took < LIMIT, "{head:?} and {piece:?} to {size} bytes: {took:?}");
    }
}

#[test]
fn the_wire() {
    for piece in ["a", " ", "\x1b", "\u{202e}", "sig a 1\n", "fail ", "ktax 1\n"] {
        for head in ["", "ktax 1\n", "ktax 1\nstart pipe\n", "ktax 1\nstart pipe\nfail "] {
            check(head, piece, |text| {
                drop(black_box(wire::parse_answer(text.as_bytes(), "pipe")));
                drop(black_box(wire::parse_hello(text.as_bytes())));
            });
        }
    }
}

#[test]
fn symbols() {
    for piece in
        ["a", "ffffffff81000000 T same\n", "ffffffff81000000 T same\t[module]\n", "1 t a\n"]
    {
        check("ktax 1\nstart symbols\n", piece, |text| {
            drop(black_box(wire::parse_symbols(text.as_bytes())));
        });
        check("ktax 1\nstart symbols\n", piece, |text| {
            drop(black_box(wire::parse_symbols(format!("{text}end\n").as_bytes())));
        });
    }
}

#[test]
fn consoles() {
    for piece in ["a", "\x1b", "\n", "Kernel panic - not syncing", "Kernel panic - not syncing: "] {
        check("", piece, |text| {
            black_box(escape_bytes(text.as_bytes()));
            black_box(wire::tail(text.as_bytes()));
            black_box(wire::panic_message(text.as_bytes()));
        });
    }
}

#[test]
fn profiles() {
    for piece in [
        "a",
        "\t",
        "\n",
        "fn\t",
        "fn\tprocess\t1\t0\tf\n",
        "split\ta\tb\n",
        "region\t1\n",
        "total\t1\n",
        "limit\t1\nat\t0\twork\tf\n",
    ] {
        for end in ["", "end\n"] {
            check("ktax-profile\t1\n", piece, |text| {
                drop(black_box(profile::parse(&format!("{text}{end}"))));
            });
        }
    }
}

#[test]
fn experiments() {
    for (head, piece) in [
        ("", "a"),
        ("", "a."),
        ("", "["),
        ("", "\n"),
        ("title = \"", "\\u0041"),
        ("title = ", "["),
        ("title = ", "{a="),
        ("title = [", "1,"),
        ("workloads = [", "\"pipe\","),
        ("", "[base]\n"),
        ("", "[[a]]\n"),
        ("", "#\x1b\n"),
    ] {
        check(head, piece, |text| drop(black_box(Experiment::parse(text, "x.toml"))));
    }
}
