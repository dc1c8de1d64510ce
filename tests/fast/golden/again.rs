//! Whatever ktax wrote, ktax prints again, alone and beside others; all else is refused.

use std::fs;
use std::path::{Path, PathBuf};

use ktax::flow;
use ktax::model::{ExitPair, FORMAT, NativeTable, Saved, SavedError, SavedResult, read_results};
use ktax::report::{Document, FORMATS, Format, JSON, Report, TEXT, TextOptions};
use ktax::rundir::RunDir;

use super::{cases, every, results, searches, show};
use crate::common::{Ran, assert_has, ktax, run, scratch, scratch_path};
use crate::fake::{guests, scene};

fn report(paths: &[&Path], options: &[&str]) -> Ran {
    run(ktax().arg("report").args(paths).args(options))
}

#[test]
fn every_result_can_be_printed_again() {
    for (name, result) in every() {
        let read = read_results(&show(&result, JSON)).unwrap();
        assert_eq!(read, std::slice::from_ref(&result), "{name}");
        for format in FORMATS {
            assert_eq!(show(&read[0], *format), show(&result, *format), "{name} as {format:?}");
        }
    }
}

/// The first key of each file, without which no reader knows the rest.
#[test]
fn every_result_has_one_version_and_says_what_it_is() {
    for (name, result) in every() {
        let value: serde_json::Value = serde_json::from_str(&show(&result, JSON)).unwrap();
        let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
        let keys: Vec<_> = keys.into_iter().filter(|key| *key != "headline").collect();
        assert_eq!(keys, ["format", "result"], "{name}");
        assert_eq!(value["format"], FORMAT, "{name}");
        assert_eq!(value["result"].as_object().unwrap().len(), 1, "{name}");
        let inside = value["result"].to_string();
        assert!(!inside.contains(&format!("\"format\":{FORMAT}")), "{name}: {inside}");
    }
}

/// A file of each result.
fn all_written(dir: &Path) -> Vec<PathBuf> {
    let write = |(name, result): (&str, Saved)| {
        let path = dir.join(name);
        fs::write(&path, show(&result, JSON)).unwrap();
        path
    };
    every().map(write).collect()
}

/// Every two results, of the same kind or not: two of stat, a comparison and an exit table.
#[test]
fn the_output_of_report_for_several_files_can_be_read_again() {
    let dir = scratch();
    let paths = all_written(dir.path());
    let paths: Vec<&Path> = paths.iter().map(|path| &**path).collect();
    let together = dir.path().join("together");
    let first = report(&paths, &["--json"]);
    fs::write(&together, &first.stdout).unwrap();
    for format in ["json", "text", "csv", "markdown"] {
        let [printed, again] =
            [&paths[..], &[&together]].map(|paths| report(paths, &["--format", format]));
        assert_eq!(printed.stderr, "", "{format}");
        assert_eq!((again.stdout, again.status), (printed.stdout, printed.status), "{format}");
    }
    let read = read_results(&first.stdout).unwrap();
    assert_eq!(read.len(), paths.len());
    for (saved, path) in read.iter().zip(&paths) {
        assert_eq!(saved.name, path.display().to_string());
    }
}

#[test]
fn invalid_results_are_refused_with_the_reason() {
    let table = show(&results::native_one(), JSON);
    let cut = table.replacen("\"cpus\": 2,", "", 1);
    let more = table.replacen("\"result\"", "\"more\": 1, \"result\"", 1);
    let other = table.replacen("\"native\"", "\"magic\"", 1);
    for (text, reason) in [
        ("", "it is damaged (EOF while parsing"),
        ("[]", "it is damaged, or ktax did not write it"),
        ("{\"a\": 1}", "it is damaged, or ktax did not write it"),
        (
            format!("[{{\"format\": {FORMAT}}}]").as_str(),
            "it has no tag with the kind of the result",
        ),
        (cut.as_str(), "it is damaged (missing field `cpus`"),
        (more.as_str(), "it is damaged (unknown field `more`"),
        (other.as_str(), "it is damaged (unknown variant `magic`"),
    ] {
        assert_has(read_results(text).unwrap_err().to_string(), reason);
    }
}

#[test]
fn every_kind_of_another_format_is_refused_with_what_to_do() {
    let (_dir, path) = scratch_path("old.json");
    let now = format!("\"format\": {FORMAT}");
    for (name, result) in every() {
        for found in [2, FORMAT + 1] {
            let old = show(&result, JSON).replacen(&now, &format!("\"format\": {found}"), 1);
            assert_eq!(read_results(&old), Err(SavedError::Format { found }), "{name}");
            fs::write(&path, old).unwrap();
            let ran = report(&[&path], &[]);
            let message = format!(
                "ktax: cannot read {}: it has format {found}, and this ktax reads format \
                 {FORMAT}; make it again with this version of ktax\n",
                path.display()
            );
            assert_eq!((ran.status, ran.stderr), (2, message), "{name}");
        }
    }
}

#[test]
fn what_has_no_result_is_refused_with_a_type() {
    let (dir, root) = scratch_path("planned");
    RunDir::create(&root, scene::plan(&["pipe"])).unwrap();
    let error = flow::saved(std::slice::from_ref(&root)).unwrap_err();
    let path = root.display();
    let expected = format!("{path} has no comparison yet; finish it with `ktax run {path}`");
    assert_eq!(error.to_string(), expected);
    let file = dir.path().join("other.json");
    fs::write(&file, "[]").unwrap();
    let error = flow::saved(&[file]).unwrap_err();
    assert_has(error.to_string(), ": it is damaged, or ktax did not write it (");
}

/// Results without a kind, as older versions wrote them: a diff had no version of its own.
#[test]
fn results_of_an_earlier_ktax_are_refused() {
    let old = format!("{{\"format\": {FORMAT}, \"of\": \"\", \"rows\": []}}");
    let table = format!("[{old}]");
    let diff = format!("{{\"base\": {old}, \"change\": {old}}}");
    assert_eq!(read_results(&table), Err(SavedError::Untagged));
    assert!(matches!(read_results(&diff), Err(SavedError::NotAResult(_))));
}

/// `ktax report` and `ktax exits report` judge exit tables alike.
#[test]
fn an_exit_table_that_no_recorder_writes_is_refused_by_every_command() {
    let (_dir, path) = scratch_path("tables.json");
    let mut twice = results::exits_base();
    twice.rows.push(twice.rows[0].clone());
    let diff = ExitPair { base: results::exits_base(), change: twice.clone(), totals: false };
    let both = [&["report"][..], &["exits", "report"]];
    for (result, commands) in [
        (SavedResult::ExitDiff(Box::new(diff)), &both[..1]),
        (SavedResult::Exits(vec![twice]), &both),
    ] {
        fs::write(&path, show(&Saved::from(result), JSON)).unwrap();
        for command in commands {
            run(ktax().args(*command).arg(&path)).exits(2).says("has two rows for the reason");
        }
    }
}

#[test]
fn directories_of_searches_and_ledgers_are_read_alike() {
    let dir = scratch();
    let found = FORMAT - 1;
    let refused = format!("it has format {found}, and this ktax reads format {FORMAT}");
    for (name, result) in
        [("bisection", searches::bisection().saved()), ("ledger", searches::ledger().saved())]
    {
        let root = dir.path().join(name);
        let path = root.join(format!("{name}.json"));
        fs::create_dir(&root).unwrap();
        fs::write(&path, show(&result, JSON)).unwrap();
        assert_eq!(report(&[&root], &[]).stdout, show(&result, TEXT));
        let now = format!("\"format\": {FORMAT}");
        let old = show(&result, JSON).replacen(&now, &format!("\"format\": {found}"), 1);
        fs::write(&path, old).unwrap();
        report(&[&root], &[]).exits(2).says(&refused);
    }
    let root = dir.path().join("bisection");
    for (text, why) in [
        (fs::read_to_string(root.join("bisection.json")).unwrap(), &*refused),
        (show(&searches::ledger(), JSON), "bisection.json has a result of another command"),
    ] {
        fs::write(root.join("bisection.json"), text).unwrap();
        let ran = run(ktax().args(["bisect", "run"]).arg(&root)).exits(2);
        let next = format!("{why}; `ktax bisect start --help` says how to start one");
        ran.says(&next);
    }
}

/// Rows of two results are told apart; those of one need no name.
#[test]
fn only_several_results_have_names_in_csv() {
    let dir = scratch();
    let json = show(&results::stat_two(), JSON);
    let [first, other] = ["one.json", "other.json"].map(|name| dir.path().join(name));
    [&first, &other].iter().for_each(|path| fs::write(path, &json).unwrap());
    let named = |paths: &[&Path]| -> Vec<String> {
        let text = report(paths, &["--format", "csv"]).stdout;
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let column = reader.headers().unwrap().iter().position(|head| head == "name");
        let Some(column) = column else { return Vec::new() };
        reader.records().map(|line| line.unwrap()[column].to_owned()).collect()
    };
    assert_eq!(named(&[&first]), Vec::<String>::new());
    let rows = results::stat_two().records().lines.len();
    let names = [&first, &other].map(|path| vec![path.display().to_string(); rows]);
    assert_eq!(named(&[&first, &other]), names.concat());
    // Unnamed results of one file are numbered.
    let both = dir.path().join("both.json");
    fs::write(&both, format!("[{json}, {json}]")).unwrap();
    let numbered = [1, 2].map(|number| vec![format!("{}#{number}", both.display()); rows]);
    assert_eq!(named(&[&both]), numbered.concat());
}

/// A spreadsheet or R reads one table, also where the runs have unequal numbers of layouts.
#[test]
fn several_results_are_one_table_in_csv() {
    let dir = scratch();
    let paths = all_written(dir.path());
    let paths: Vec<&Path> = paths.iter().map(|path| &**path).collect();
    let csv_text = report(&paths, &["--format", "csv"]).stdout;
    // The reader refuses lines of another length.
    let mut reader = csv::Reader::from_reader(csv_text.as_bytes());
    let header = reader.headers().unwrap().clone();
    let once: std::collections::BTreeSet<&str> = header.iter().collect();
    assert_eq!((&header[0], once.len()), ("name", header.len()));
    let lines: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let results = every().map(|(_, result)| result.records());
    assert_eq!(lines.len(), results.map(|records| records.lines.len()).sum::<usize>());
    let named = |path: &&Path| lines.iter().any(|line| line[0] == path.display().to_string());
    assert!(paths.iter().all(named));
}

/// As `ktax compare` prints a sweep.
#[test]
fn results_keep_the_names_that_they_were_printed_with() {
    let (first, other) = (results::stat_two(), results::stat_pairs());
    let named = [("thp=never", &first), ("thp=always", &other)];
    let documents = named.map(|(name, report)| Document::with_name(name, report));
    let (_dir, path) = scratch_path("sweep.json");
    let print = |format: Format| (format.write)(&documents, TextOptions::default()).unwrap();
    fs::write(&path, print(JSON)).unwrap();
    for format in FORMATS {
        let ran = report(&[&path], &["--format", format.name]);
        assert_eq!(ran.stdout, print(*format), "{format:?}: {}", ran.stderr);
    }
    let names: Vec<String> =
        read_results(&print(JSON)).unwrap().into_iter().map(|saved| saved.name).collect();
    assert_eq!(names, ["thp=never", "thp=always"]);
}

// Results of one command that another one prints: exits of guests, counters of workloads.

/// A run of guests is read by both commands, as a directory and as a file.
#[test]
fn the_exit_tables_of_a_run_of_guests_can_be_printed() {
    let dir = scratch();
    let [root, file] = ["run", "guests.json"].map(|name| dir.path().join(name));
    let json = show(&results::guests_compared().saved(), JSON);
    fs::create_dir(&root).unwrap();
    let of_exits = |path: &Path| run(ktax().args(["exits", "report"]).arg(path));
    RunDir::create(&root, guests::plan(guests::FILE)).unwrap();
    fs::write(root.join("comparison.json"), &json).unwrap();
    fs::write(&file, &json).unwrap();
    let (of_dir, of_file) = (of_exits(&root), of_exits(&file));
    assert_eq!((of_dir.status, &*of_dir.stderr), (0, ""));
    assert_eq!(of_dir.stdout, of_file.stdout);
    for expected in ["boot, base (", "boot, change (", "EPT_VIOLATION"] {
        assert!(of_dir.stdout.contains(expected), "{expected}\n{}", of_dir.stdout);
    }
    let second = of_exits(Path::new(&format!("{}#2", root.display())));
    assert!(second.stdout.starts_with("boot, change ("), "{second:?}");
    // A run of kernels has none.
    let kernels = dir.path().join("kernels");
    RunDir::create(&kernels, scene::plan(&["pipe"])).unwrap();
    fs::write(kernels.join("comparison.json"), show(&cases::changes().saved(), JSON)).unwrap();
    let refused = of_exits(&kernels);
    assert!(
        refused.status == 2 && refused.stderr.contains("print it with `ktax report`"),
        "{refused:?}"
    );
}

/// Counters are shown again if they were counted, and not mentioned otherwise.
#[test]
fn counters_of_a_workload_are_printed_again() {
    let dir = scratch();
    let again = |name: &str, table: NativeTable| {
        let path = dir.path().join(name);
        fs::write(&path, show(&table, JSON)).unwrap();
        run(ktax().arg("report").arg(&path)).stdout
    };
    let title = "Performance counter stats for 'fork-pages:pages=16'";
    let counted = again("counted", results::native_one());
    assert!(counted.contains(title) && counted.contains("run ktax as root"), "{counted}");
    let mut table = results::native_one();
    table.rows[0].uncounted.clear();
    assert!(!again("uncounted", table.clone()).contains(title));
    table.rows[0].samples[0].values.insert("task-clock-ns".to_owned(), 7_000_000);
    assert!(again("clock", table).contains(title));
}
