//! Nothing that comes in makes a parser panic, gets out unescaped, or means two things.

use ktax::model::Failure;
use ktax::plan::{Experiment, ExperimentMethod};
use ktax::rundir::profile::{self, ProfileError};
use ktax::text::escape_bytes;
use ktax::wire::{self, Answer, Hello, parse_answer, parse_hello, parse_symbols};
use proptest::prelude::*;

use super::mutate::{damaged, damaged_text};

pub const HELLOS: &[&str] = &[
    "ktax 1\nrelease 6.1.0-56-cloud-amd64\nbuild-id 0123456789abcdef\nready\n",
    "ktax 1\nrelease 6.12.0\nready\n",
];

pub const ANSWERS: &[&str] = &[
    "ktax 1\nstart pipe\nsig round-trips 7\nsig failed 0\nsig children 1\ntsc 900\nend\n",
    "ktax 1\nstart pipe\ntsc 18446744073709551615\nend\n",
    "ktax 1\nstart pipe\nvalue nanoseconds 7\nuncounted cycles No such file\nend\n",
    "ktax 1\nstart pipe\nsig calls 7\nfail mmap: Cannot allocate memory\n",
    "ktax 1\nfail order: no such workload in this guest\n",
];

pub const TABLES: &[&str] = &["ktax 1\nstart symbols\n\
    ffffffff81000040 T second\nffffffff81000000 t first.cold\n0000000000001000 D percpu\n\
    ffffffffc0000000 t helper\t[module]\nend\n"];

pub const PROFILES: &[&str] = &[
    "ktax-profile\t1\napi\t1\nregion\t1\ntotal\t5120\nfn\tprocess\t800\t0\t[user]\n\
     fn\tprocess\t12\t4096\tmemset_erms\nfn\tinterrupt\t212\t0\ttick\nend\n",
    "ktax-profile\t1\napi\t4\nsplit\tkthread\t__switch_to_asm not recognised\nregion\t1\n\
     total\t0\nend\n",
];

/// Of CPUs whose time was over, which is no profile.
const OVER: &str = "ktax-profile\t1\napi\t4\nlimit\t1600000000\n\
    at\t0\twait\tnative_queued_spin_lock_slowpath\nat\t2\twork\t[user]\nend\n";

const EXPERIMENTS: &[&str] = &[
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/experiments/lsm.toml")),
    "title = \"t\"\nlayouts = 3\nworkloads = [\"pipe\"]\n[machine]\ncpu = \"max\"\n\
     memory_mib = 512\n[base]\nkernel = \"a\"\n[change]\nkernel = \"b\"\nboot_line = \"x=1\"\n",
];

const CONSOLES: &[&str] = &["[ 1.0] x\r\n[ 2.0] Kernel panic - not syncing: VFS: no root\r\nmore"];

pub fn printable(text: &str) -> bool {
    text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}

fn answer_text(answer: &Answer) -> String {
    match answer {
        Answer::Refused(text) => format!("ktax 1\nstart pipe\nfail {text}\n"),
        Answer::Done(done) => {
            let mut text = "ktax 1\nstart pipe\n".to_owned();
            text.extend(done.signature.iter().map(|(name, n)| format!("sig {name} {n}\n")));
            text.extend(done.values.iter().map(|(name, n)| format!("value {name} {n}\n")));
            text.extend(
                done.uncounted.iter().map(|(name, why)| format!("uncounted {name} {why}\n")),
            );
            text.extend(done.tsc.map(|tsc| format!("tsc {tsc}\n")));
            text + "end\n"
        }
    }
}

fn hello_text(hello: &Hello) -> String {
    let id = hello.build_id.as_ref().map_or(String::new(), |id| format!("build-id {id}\n"));
    format!("ktax 1\nrelease {}\n{id}ready\n", hello.release)
}

/// Nothing is kept on disk: a case that fails is printed whole.
fn config() -> ProptestConfig {
    ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn hellos(wire in damaged(HELLOS)) {
        match parse_hello(&wire) {
            Ok(hello) => prop_assert_eq!(parse_hello(hello_text(&hello).as_bytes()), Ok(hello)),
            Err(error) => prop_assert!(printable(&error.to_string()), "{error:?}"),
        }
    }

    #[test]
    fn answers(wire in damaged(ANSWERS)) {
        match parse_answer(&wire, "pipe") {
            Ok(answer) => {
                let text = answer_text(&answer);
                prop_assert!(text.split('\n').all(printable), "{text:?}");
                prop_assert_eq!(parse_answer(text.as_bytes(), "pipe"), Ok(answer));
            }
            Err(error) => prop_assert!(printable(&error.to_string()), "{error:?}"),
        }
    }

    #[test]
    fn symbol_tables(wire in damaged(TABLES)) {
        match parse_symbols(&wire) {
            Ok(symbols) => {
                let addresses: Vec<&str> = symbols.lines().map(|line| &line[..16]).collect();
                prop_assert!(addresses.windows(2).all(|pair| pair[0] < pair[1]), "{symbols}");
                prop_assert!(symbols.lines().all(printable), "{symbols:?}");
                let lines = symbols.lines().map(|line| line.replacen(' ', " T ", 1) + "\n");
                let table = format!("ktax 1\nstart symbols\n{}end\n", lines.collect::<String>());
                prop_assert_eq!(parse_symbols(table.as_bytes()), Ok(symbols));
            }
            Err(error) => prop_assert!(printable(&error.to_string()), "{error:?}"),
        }
    }

    #[test]
    fn profiles(text in damaged_text(PROFILES)) {
        match profile::parse(&text) {
            Ok(parsed) => {
                let both = |sum: u128, counts: &ktax::model::Counts| {
                    sum + u128::from(counts.executed())
                };
                let lines = parsed.profile.lines.iter().map(|line| &line.counts);
                prop_assert_eq!(lines.fold(0, both), u128::from(parsed.total));
                prop_assert_eq!(parsed.counts().values().fold(0, both), u128::from(parsed.total));
                prop_assert!(parsed.profile.lines.iter().all(|line| printable(&line.function)));
            }
            Err(error) => prop_assert!(printable(&error.to_string()), "{error:?}"),
        }
    }

    #[test]
    fn profiles_of_a_time_that_was_over(text in damaged_text(&[OVER])) {
        if let Err(ProfileError::Over { limit, cpus }) = profile::parse(&text) {
            prop_assert!(cpus.len() <= 32);
            let message = Failure::CountedTime { limit_s: limit, cpus }.to_string();
            prop_assert!(printable(&message), "{message:?}");
        }
    }

    /// A reason shows the line that it is about below it, so it has several lines.
    #[test]
    fn experiments(text in damaged_text(EXPERIMENTS)) {
        match Experiment::parse(&text, "x.toml") {
            Ok(experiment) => match experiment.method {
                ExperimentMethod::Counts(counts) => prop_assert_eq!(counts.check(), Ok(())),
                ExperimentMethod::Times(times) => prop_assert_eq!(times.check(), Ok(())),
                ExperimentMethod::Guests(guests) => prop_assert!(!guests.rows.is_empty()),
            },
            Err(error) => {
                let message = error.to_string();
                let control = |c: char| c.is_control() && c != '\n';
                prop_assert!(!message.contains(control), "{message:?}");
            }
        }
    }

    #[test]
    fn consoles(console in damaged(CONSOLES)) {
        let message = wire::panic_message(&console).unwrap_or_default();
        for text in [escape_bytes(&console), wire::tail(&console), message] {
            prop_assert!(printable(&text), "{text:?}");
            prop_assert_eq!(&escape_bytes(text.as_bytes()), &text, "escaped twice");
        }
    }

    #[test]
    fn text_is_text_in_any_alphabet(text in any::<String>()) {
        prop_assert!(printable(&escape_bytes(text.as_bytes())));
        drop(Experiment::parse(&text, "x.toml"));
        drop(profile::parse(&text));
    }
}

#[test]
fn every_seed_is_valid() {
    assert!(HELLOS.iter().all(|text| parse_hello(text.as_bytes()).is_ok()));
    assert!(ANSWERS.iter().all(|text| parse_answer(text.as_bytes(), "pipe").is_ok()));
    assert!(TABLES.iter().all(|text| parse_symbols(text.as_bytes()).is_ok()));
    assert!(PROFILES.iter().all(|text| profile::parse(text).is_ok()));
    assert!(EXPERIMENTS.iter().all(|text| Experiment::parse(text, "").is_ok()));
    assert!(CONSOLES.iter().all(|text| wire::panic_message(text.as_bytes()).is_some()));
}

#[test]
fn two_messages_in_a_row_are_none() {
    let pairs = |texts: &[&str]| -> Vec<String> {
        let all = texts.iter().flat_map(|one| texts.iter().map(move |two| format!("{one}{two}")));
        all.collect()
    };
    assert!(pairs(HELLOS).iter().all(|text| parse_hello(text.as_bytes()).is_err()));
    assert!(pairs(TABLES).iter().all(|text| parse_symbols(text.as_bytes()).is_err()));
    assert!(pairs(PROFILES).iter().all(|text| profile::parse(text).is_err()));
    for text in pairs(ANSWERS) {
        assert!(parse_answer(text.as_bytes(), "pipe").is_err(), "{text:?}");
    }
}
