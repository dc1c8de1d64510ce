//! The examples in docs/wire.md are what the parsers take and what ktax says.

use std::fs;

use ktax::engine::Limits;
use ktax::model::{Context, Layout, Modelled, Msr, Signature, UserProgram};
use ktax::plan::{ModelKey, definitions, select};
use ktax::program::{Contents, pack};
use ktax::rundir::profile::{self, ProfileError};
use ktax::wire::{self, Answer, Done, parse_answer, parse_hello, parse_symbols};

fn document() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/wire.md")).unwrap()
}

/// Heading and text of every example.
fn examples(document: &str) -> Vec<(String, String)> {
    let (mut found, mut heading, mut open) = (Vec::new(), "", None::<String>);
    for line in document.lines() {
        match (&mut open, line) {
            (None, "```text") => open = Some(String::new()),
            (Some(text), "```") => {
                found.push((heading.to_owned(), std::mem::take(text)));
                open = None;
            }
            (Some(text), line) => *text += &format!("{line}\n"),
            (None, line) => heading = line.strip_prefix("## ").unwrap_or(heading),
        }
    }
    found
}

/// The one example under a heading that begins like this.
fn example(heading: &str) -> String {
    let mut all = all(heading);
    assert_eq!(all.len(), 1, "{heading}");
    all.remove(0)
}

fn all(heading: &str) -> Vec<String> {
    let all = examples(&document()).into_iter();
    all.filter(|(found, _)| found.starts_with(heading)).map(|(_, text)| text).collect()
}

#[test]
fn every_example_belongs_to_a_test() {
    let headings: Vec<String> =
        examples(&document()).iter().map(|(h, _)| h.split(' ').next().unwrap().into()).collect();
    let (answers, profiles) = (["Answer"; 5], ["Profile"; 9]);
    let wanted = [&["Hello", "Order"], &answers[..], &["Programs", "Files"], &profiles].concat();
    assert_eq!(headings, wanted);
}

#[test]
fn functions_are_written_as_the_document_says() {
    let dir = tempfile::tempdir().unwrap();
    let command = vec!["sh".to_owned()];
    let program = UserProgram { name: "p".into(), command, ..UserProgram::default() };
    let contents = Contents { programs: vec![program], ..Contents::default() };
    let packed = pack(&contents, dir.path(), 256 << 20, &dir.path().join("cache")).unwrap();
    let written = fs::read_to_string(packed.symbols).unwrap();
    let shape = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let is_hexadecimal = |word: &&&str| u64::from_str_radix(word, 16).is_ok();
        (words[0].to_owned(), words.len(), words[1..].iter().take_while(is_hexadecimal).count())
    };
    let known: Vec<_> = example("Programs").lines().map(shape).collect();
    assert_eq!(known.len(), 3);
    let digits = |(word, words, _): &(String, usize, usize)| (word.clone(), *words);
    let known: Vec<_> = known.iter().map(digits).collect();
    for line in written.lines() {
        assert!(known.contains(&digits(&shape(line))), "{line}");
        assert!(!line.starts_with("text") || shape(line).2 == 3, "{line}");
    }
    assert!(written.lines().any(|line| line.ends_with(" malloc")), "the C library's");
}

#[test]
fn the_hello_is_parsed() {
    // Forty digits would only make the document wider.
    let text = example("Hello").replace("3f6c…40 hex digits…", &"3f6c".repeat(10));
    let hello = parse_hello(text.as_bytes()).unwrap();
    assert_eq!(hello.release, "6.1.0-56-cloud-amd64");
    assert_eq!(hello.build_id, Some("3f6c".repeat(10)));
}

#[test]
fn the_files_of_a_program_are_parsed() {
    let files = wire::parse_files(example("Files").as_bytes(), "program").unwrap().unwrap();
    assert_eq!(files.missing, ["/etc/perl/JSON old.pm"].map(std::path::PathBuf::from));
    assert_eq!((files.executed.len(), files.opened.len(), files.status), (1, 1, 2));
}

#[test]
fn the_order_is_what_ktax_says() {
    let name = "fork-pages:pages=16,ops=20000".to_owned();
    let workload = select(&definitions().unwrap(), Some(&[name])).unwrap().remove(0);
    let layout = Layout { seed: 1, padding: 0, phase: 1_370_000 };
    assert_eq!(wire::order(&workload, &layout), example("Order"));
}

#[test]
fn the_answers_are_parsed() {
    let all = examples(&document());
    let answers = all.iter().filter(|(heading, _)| heading.starts_with("Answer"));
    // That of the self-test stands among those of a workload.
    let of = |text: &str| if text.contains("self-test") { "self-test" } else { "fork-pages" };
    let parsed: Vec<Answer> =
        answers.map(|(_, text)| parse_answer(text.as_bytes(), of(text)).unwrap()).collect();
    let signature: Signature = [("children".to_owned(), 400), ("failed".to_owned(), 0)].into();
    assert_eq!(
        parsed,
        [
            Answer::Done(Done {
                signature: signature.clone(),
                values: [("page-faults", 12_400), ("context-switches", 803)]
                    .map(|(name, value)| (name.to_owned(), value))
                    .into(),
                tsc: Some(104_857_600),
                ..Done::default()
            }),
            Answer::Done(Done {
                signature,
                values: [("nanoseconds", 30_561_009), ("task-clock-ns", 29_870_117)]
                    .map(|(name, value)| (name.to_owned(), value))
                    .into(),
                uncounted: [("cycles".to_owned(), "this machine has no such counter".to_owned())]
                    .into(),
                tsc: None,
            }),
            Answer::Refused("mmap: Cannot allocate memory".into()),
            Answer::Refused("order: no such workload in this guest".into()),
            Answer::Done(Done {
                signature: [("contended".to_owned(), 34_377), ("counter".to_owned(), 80_000)]
                    .into(),
                ..Done::default()
            }),
        ]
    );
}

#[test]
fn the_profile_adds_up() {
    let profiles = all("Profile");
    let [one, several] = [0, 5].map(|at| profile::parse(&profiles[at]).unwrap());
    assert_eq!((one.profile.lines.len(), one.counts().len(), &one.parallel), (4, 2, &None));
    assert_eq!(several.parallel.unwrap().cpus.len(), 2);
    let called = profiles[0].replace("end\n", &format!("{}end\n", profiles[1]));
    assert_eq!(profile::parse(&called).unwrap().profile.paths.len(), 4);
    let without = called.replace("path\tinterrupt\t0\t212", "path\tinterrupt\t0\t211");
    assert_eq!(profile::parse(&without), Err(ProfileError::Paths));
    let costly = costly_of(&profiles);
    let parsed = profile::parse(&costly).unwrap();
    assert_eq!(parsed.counts()[&Context::Process].group("costly").count(), 2);
    assert_eq!(parsed.profile.msrs[0].msr, Msr(0xc000_0102));
    let fewer = costly.replace("path-costly\t100", "path-costly\t99");
    assert_eq!(profile::parse(&fewer), Err(ProfileError::Paths));
    let modelled = profiles[0].replace("end\n", &format!("{}end\n", profiles[3]));
    let counts = profile::parse(&modelled).unwrap().counts();
    assert_eq!(counts[&Context::Process][Modelled::BranchMisses], 3);
    let core2 = ModelKey::Name("core2-extreme".to_owned()).model().unwrap();
    assert_eq!(core2.machine().unwrap().wire().unwrap(), profiles[4]);
    let waited = profiles[5].replace("end\n", &format!("{}end\n", profiles[6]));
    assert!(profile::parse(&waited).is_ok(), "{:?}", profile::parse(&waited));
    let longer = waited.replace("path-wait\t20", "path-wait\t21");
    assert!(profile::parse(&longer).is_err());
    let modelled = profiles[5].replace("end\n", &format!("{}end\n", profiles[7]));
    let modelled = profile::parse(&modelled).unwrap();
    assert_eq!(modelled.parallel.unwrap().transfers, Some(7));
    assert_eq!(modelled.profile.cache_lines.len(), 3);
    let over = profile::parse(&profiles[8]).unwrap_err();
    let ProfileError::Over { limit, cpus } = over else { panic!("{over:?}") };
    assert_eq!((limit, cpus.len()), (Limits::default().instructions(), 3));
}

/// The first profile with its paths, and with costly instructions of its functions and paths.
fn costly_of(profiles: &[String]) -> String {
    let lines = |is_of_path: bool| {
        let lines = profiles[2].lines().filter(move |line| line.starts_with("path") == is_of_path);
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    let tick = "path\tinterrupt\t0\t212\t0\t1\tnative_sched_clock\n";
    let getppid = "path\tprocess\t0\t4200\t0\t100\t__x64_sys_getppid\n";
    let paths = profiles[1]
        .replace(getppid, &lines(true))
        .replace(tick, &format!("{tick}path-costly\t3\tlocked\n"));
    profiles[0].replace("end\n", &format!("{}{paths}end\n", lines(false)))
}

#[test]
fn the_symbol_line_is_what_the_plugin_gets() {
    let document = document();
    let line = document.split("## Symbols").nth(1).unwrap().split('`').nth(1).unwrap();
    let (address, name) = line.split_once(' ').unwrap();
    let wire = format!("ktax 1\nstart symbols\n{address} T {name}\nend\n");
    assert_eq!(parse_symbols(wire.as_bytes()).unwrap(), format!("{line}\n"));
}

#[test]
fn the_limits_are_those_that_are_enforced() {
    let limits = "Limits: 4096 bytes a line, 1 MiB an answer (64 MiB for `symbols`), \
        64 lines of one kind, names `[a-z0-9-]{1,32}`, values unsigned 64-bit decimal";
    assert!(document().replace('\n', " ").contains(limits), "the document says something else");
    let answer = |middle: &str| {
        let text = format!("ktax 1\nstart pipe\n{middle}tsc 1\nend\n");
        parse_answer(text.as_bytes(), "pipe")
    };
    let fail = |bytes: usize| {
        parse_answer(
            format!("ktax 1\nstart pipe\nfail {:x<1$}\n", "", bytes - 5).as_bytes(),
            "pipe",
        )
    };
    assert!(matches!(fail(4096), Ok(Answer::Refused(_))));
    let long = fail(4097).unwrap_err().to_string();
    assert_eq!(long, "line 3 is longer than 4096 bytes");
    let sigs =
        |count: usize| answer(&(0..count).map(|n| format!("sig s{n} 1\n")).collect::<String>());
    assert!(sigs(64).is_ok());
    let many = sigs(65).unwrap_err().to_string();
    assert_eq!(many, "it has more than 64 lines of one kind");
    let named = |name: &str| answer(&format!("sig {name} 1\n"));
    assert!(named(&"x".repeat(32)).is_ok());
    for name in [&*"x".repeat(33), "", "X", "a_b", "ä"] {
        assert!(named(name).is_err(), "{name}");
    }
    let valued = |value: &str| answer(&format!("sig x {value}\n"));
    assert!(valued("18446744073709551615").is_ok());
    for value in ["18446744073709551616", "", "+1", "-1", "0x1", "1.0", " 1"] {
        assert!(valued(value).is_err(), "{value}");
    }
    let limits = ktax::engine::Limits::default();
    assert_eq!((limits.wire_bytes, limits.symbols_bytes), (1 << 20, 64 << 20));
}
