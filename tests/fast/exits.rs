//! `ktax exits` on the tables of 2008 and on files from real kernels.

use std::fs;
use std::path::Path;

use crate::common::{Ran, ktax, printed, run, scratch, scratch_path};
use ktax::model::ExitTable;

const CAPTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/exits/e500v2-timing.txt");

/// The document's tables, of which the last two have the earlier form.
const TABLES: [(&str, &str); 7] = [
    ("boot guest", "classic"),
    ("hashes", "classic"),
    ("lame", "classic"),
    ("fhourstone", "classic"),
    ("find", "classic"),
    ("boot without paravirtualization", "classic-short"),
    ("boot with paravirtualization", "classic-short"),
];

/// type, count, min, max, sum, avg, stddev, percent: as printed.
type Row = [String; 8];

fn published(table: &str) -> Vec<Row> {
    let path = "tests/data/published/exit-timing-2008-exits.csv";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_path(path).unwrap();
    let records = reader.records().map(Result::unwrap).filter(|record| &record[0] == table);
    records.map(|record| std::array::from_fn(|column| record[column + 1].to_owned())).collect()
}

/// The file that the kernel would have written, with a sum of squares that fits the deviation.
fn file(dir: &Path, table: &str) -> String {
    const TICKS_PER_US: f64 = 400.0;
    let line = |row: &Row| {
        let number = |column: usize| row[column].parse::<f64>().unwrap();
        let (count, mean) = (number(1), number(4) / number(1));
        let squares = (number(6).powi(2) + mean.powi(2)) * count * TICKS_PER_US;
        let [name, count, min, max, sum, ..] = row;
        format!("{name:>12}\t{count:>10}\t{min:>10}\t{max:>10}\t{sum:>20}\t{squares:>20.0}\n")
    };
    let rows: String = published(table).iter().map(line).collect();
    let unused = "        HALT\t         0\t  10737418\t         0\t0\t0\n";
    let path = dir.join(table);
    fs::write(&path, format!("type\tcount\tmin\tmax\tsum\tsum_squared\n{rows}{unused}")).unwrap();
    path.display().to_string()
}

fn exits(args: &[&str]) -> Ran {
    run(ktax().arg("exits").args(args)).exits(0)
}

#[test]
fn the_seven_tables_of_2008_are_reproduced_to_the_digit() {
    let dir = scratch();
    for (table, layout) in TABLES {
        let text = exits(&["report", &file(dir.path(), table), "--columns", layout]).stdout;
        let rows: Vec<Vec<&str>> = text
            .lines()
            .skip(2)
            .map(|line| line.split_whitespace().map(|word| word.trim_end_matches(':')).collect())
            .collect();
        assert!(!rows.is_empty(), "{table}");
        assert_eq!(rows, published(table), "{table}");
    }
}

#[test]
fn a_line_stands_as_it_stood_in_the_document() {
    let dir = scratch();
    let table_of = |(table, layout): (&str, &str)| {
        exits(&["report", &file(dir.path(), table), "--columns", layout]).stdout
    };
    let long = table_of(TABLES[0]);
    for line in [
        "sum of time 8309940",
        "        type    count      min      max          sum              avg       stddev     %",
        "       MMIO:     9402       44     1997      1697610         180.5584      155.768 20.43",
        "TIMEINGUEST:   233213        0     3954       893740           3.8323       65.837 10.76",
    ] {
        assert!(long.lines().any(|printed| printed == line), "{line}\n{long}");
    }
    let short = table_of(TABLES[5]);
    for line in [
        "sum of time 144837890 => ~2:24 runtime",
        "               count  min    max       sum     avg   stddev      %",
        "       MMIO    10105   46   1534   2952467  292.17  295.933   2.04",
        "   ITLBVIRT  1000585   21 264827  24300596   24.28  264.753  16.78",
    ] {
        assert!(short.lines().any(|printed| printed == line), "{line}\n{short}");
    }
}

/// "~37% net improvement", which the sums say is 36.3; and half of the emulation.
#[test]
fn the_difference_of_the_last_two_is_the_documents_conclusion() {
    let dir = scratch();
    let [before, after] = [TABLES[5].0, TABLES[6].0].map(|table| file(dir.path(), table));
    let text = exits(&["diff", "--totals", &before, &after]).stdout;
    let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(line("all ").contains(" -36.34 "), "{text}");
    assert!(line("EMULINST ").contains(" -48.95 "), "{text}");
    assert!(line("HCALL ").contains(" new "), "{text}");
}

#[test]
fn a_capture_of_two_tables_has_each_by_its_number_and_its_true_deviation() {
    let json = exits(&["report", CAPTURE, "--json"]).stdout;
    let tables = printed::exits(&json);
    assert_eq!(tables.len(), 2);
    let text = exits(&["report", &format!("{CAPTURE}#1")]).stdout;
    let line = text.lines().find(|line| line.starts_with("EMUL_MTSPR")).unwrap();
    // Taken for microseconds, the squares would say 181.6: more than the largest, 84.
    assert!(line.contains(" 2.816 "), "{text}");
    let diff = exits(&["diff", &format!("{CAPTURE}#1"), &format!("{CAPTURE}#2")]).stdout;
    let line = diff.lines().find(|line| line.starts_with("EMUL_MTSPR")).unwrap();
    assert!(line.contains(" 6 000 ") && line.ends_with("-100.00"), "{diff}");
}

/// The second read of a file that cannot be cleared, since the first.
#[test]
fn two_reads_of_a_file_are_what_came_between() {
    let dir = scratch();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name).display().to_string();
        fs::write(&path, text).unwrap();
        path
    };
    let first = file("first", "guest: 7 7000 400 2000\ncede: 1 5000 5000 5000\n");
    let later = file("later", "guest: 9 17000 400 6000\ncede: 1 5000 5000 5000\n");
    let text = exits(&["report", &later, "--since", &first]).stdout;
    let guest: Vec<&str> =
        text.lines().find(|line| line.starts_with("guest")).unwrap().split_whitespace().collect();
    assert_eq!(guest, ["guest", "100.00", "10", "2", "5.000", "6.000"], "{text}");
    assert!(!text.contains("cede"), "{text}");
    let classic = exits(&["report", &later, "--since", &first, "--columns", "classic"]).stdout;
    let words: Vec<&str> = classic.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(words, ["guest:", "2", "-", "6", "10", "5.0000", "-", "100.00"], "{classic}");
    let numbered = format!("{CAPTURE}#1");
    let example = format!("such as {numbered}");
    for (earlier, later, expected) in [
        (&*later, &*first, "was cleared"),
        (CAPTURE, &later, &example),
        (&numbered, CAPTURE, &example),
        (&numbered, &later, "two reads of the same file"),
    ] {
        run(ktax().args(["exits", "report", later, "--since", earlier])).exits(2).says(expected);
    }
}

/// 20 writes to a device, as `perf record` and `perf script --ns` brought them.
#[test]
fn a_trace_of_perf_has_every_return_of_kvm_run() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/exits/perf-script-kvm-run.txt");
    let read = |path: &str| -> Vec<ExitTable> {
        printed::exits(&exits(&["report", path, "--json"]).stdout)
    };
    let table = read(trace).remove(0);
    assert_eq!(table.source, "KVM_RUN, from a trace");
    assert_eq!(table.row("KVM_EXIT_MMIO").unwrap().count, 20);
    assert_eq!(table.row("KVM_RUN").unwrap().count, 21);
    let account = table.account.as_ref().unwrap();
    let open: u64 = account.open.iter().map(|open| open.ns).sum();
    assert_eq!(table.sum_ns() + open, account.wall_ns);
    // A line that is missing is a return without its call, and is said.
    let text = fs::read_to_string(trace).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    let call = lines.iter().rposition(|line| line.contains("cmd: 0x0000ae80")).unwrap();
    lines.remove(call);
    let (dir, cut) = (scratch(), "cut.txt");
    let path = dir.path().join(cut).display().to_string();
    fs::write(&path, lines.join("\n")).unwrap();
    assert_eq!(read(&path).remove(0).account.unwrap().unpaired, 1);
}

/// Only of a trace can one say for whom its tables are.
#[test]
fn per_is_of_a_trace_and_refused_for_tables_that_are_made() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/exits/perf-script-kvm-run.txt");
    let both = exits(&["report", trace, "--per", "both", "--json"]).stdout;
    assert_eq!(printed::exits(&both).len(), 2);
    let dir = scratch();
    let recording = dir.path().join("recording.json").display().to_string();
    fs::write(&recording, both).unwrap();
    assert_eq!(printed::exits(&exits(&["report", &recording, "--json"]).stdout).len(), 2);
    let run_directory = dir.path().display().to_string();
    for file in [&recording, CAPTURE, &run_directory] {
        for per in ["vm", "vcpu", "both"] {
            let ran = run(ktax().args(["exits", "report", file, "--per", per]));
            assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{file}: {}", ran.stderr);
            ran.says("; remove --per");
        }
    }
}

#[test]
fn what_is_no_table_is_refused_with_the_next_step() {
    let none = env!("CARGO_MANIFEST_PATH");
    for (args, expected) in [
        (&["report", none][..], "it has no exit timing that ktax knows"),
        (&["report", "/no/such"], "give the path of a recording"),
        (&["report", "/no/such\nfile"], "cannot read /no/such\\nfile: No such"),
        (&["report", &format!("{CAPTURE}#3")], "has no table 3; give 1 to 2"),
        (&["diff", CAPTURE, CAPTURE], "name one of them"),
    ] {
        run(ktax().arg("exits").args(args)).exits(2).says(expected);
    }
}

#[test]
fn whose_exits_must_be_said_and_only_once() {
    for args in [&["record"][..], &["watch"], &["record", "--pid", "1", "--vm", "x"]] {
        run(ktax().arg("exits").args(args)).exits(2).says("--pid <PID>");
    }
}

/// A file of tests/data/exits.
fn data(name: &str) -> String {
    format!("{}/tests/data/exits/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The printed report in one line, and the tables of its JSON.
fn report(name: &str) -> (String, Vec<ExitTable>) {
    let text = exits(&["report", &data(name)]).stdout;
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (words, printed::exits(&exits(&["report", &data(name), "--json"]).stdout))
}

#[test]
fn a_halt_is_on_no_cpu_unless_task_switches_say_so() {
    let (text, _) = report("halt-no-sched.txt");
    for expected in [
        "exits took at least 0.00 % of the vCPU time; 99.90 % unknown or halted (HLT), 0.10 % in \
         the guest; 10 exits/s in 0.1001 s; task switches were not recorded, so ktax cannot tell \
         running from sleeping: add `-e sched:sched_switch -e sched:sched_wakeup` to `trace-cmd \
         record`",
        "guest kernel VMM unknown reason µs µs µs or halted µs",
        "HLT 100 000 TIMEINGUEST 100 all 100 100 000",
        "unknown or halted in the kernel, where the vCPU may sleep: task switches were not \
         recorded",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    assert!(!text.contains("on a CPU"), "{text}");
    let csv = exits(&["report", &data("halt-no-sched.txt"), "--format", "csv"]).stdout;
    let halt = csv.lines().find(|line| line.contains(",HLT,")).unwrap();
    // kernel, user, halted, preempted, unknown.
    assert!(halt.contains(",0,0,,,100000000,"), "{csv}");
    let (text, _) = report("halt-with-sched.txt");
    let expected =
        "exits took 0.20 % of the vCPU time: 0.20 % HLT; 99.70 % halted, 0.10 % in the guest";
    assert!(text.contains(expected) && !text.contains("unknown"), "{text}");
}

#[test]
fn exits_without_entries_have_counts_and_no_times() {
    let (text, tables) = report("without-entries.txt");
    for expected in [
        "2 exits/s in 1.000 s: 50.00 % HLT, 50.00 % MSR_WRITE; entries into the guest were not \
         recorded, so there are no times: add `-e kvm:kvm_entry` to `trace-cmd record`",
        "HLT 1 50.00 1.000 MSR_WRITE 1 50.00 1.000",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    assert!(!text.contains('µ'), "{text}");
    assert!(tables[0].rows.iter().all(|row| row.sum_ns.is_none() && row.parts.is_none()));
    let json = exits(&["report", &data("without-entries.txt"), "--json"]).stdout;
    assert_eq!(json.matches("\"sum_ns\": null").count(), 2, "{json}");
    // JSON output can be printed again.
    let dir = scratch();
    let path = dir.path().join("exits.json").display().to_string();
    fs::write(&path, json).unwrap();
    let again = exits(&["report", &path]).stdout;
    assert_eq!(again, exits(&["report", &data("without-entries.txt")]).stdout);
}

#[test]
fn reasons_are_names_however_the_record_was_printed() {
    for (name, reasons) in [
        ("reason-without-rip.txt", &[("DR_ACCESS", 2), ("VMREAD", 1)][..]),
        ("failed-to-parse.txt", &[("APIC_ACCESS", 2)]),
        ("powerpc-hv.txt", &[("HCALL", 1)]),
    ] {
        let (_, tables) = report(name);
        let rows = tables[0].rows.iter().filter(|row| !row.is_guest);
        let rows: Vec<_> = rows.map(|row| (&*row.reason, row.count)).collect();
        assert_eq!(rows, reasons, "{name}");
    }
}

#[test]
fn phases_are_no_reasons_and_exits_are_counted_once() {
    let (text, tables) = report("power9-timings.txt");
    assert_eq!(tables[0].exits(), 1003);
    for expected in [
        "exits took 81.15 % of the vCPU time, halts included, by phase: 57.23 % guest_exit, 12.10 \
         % guest_entry, 4.33 % page_fault; 18.85 % in the guest; 1 003 exits",
        "A row is a phase of KVM's work for the vCPU, not an exit reason: each exit passes \
         through several phases. Exits are counted once, in the phase guest_exit (on POWER8 \
         rm_intr).",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    assert!(!text.contains("count %"), "{text}");
}

#[test]
fn the_table_of_perf_is_printed_with_its_numbers() {
    let (text, tables) = report("perf-kvm-stat.txt");
    for expected in [
        "all VMs, all VCPUs (perf kvm stat) exits took 400 020 µs, halts included: 85.63 % HLT, \
         10.00 % EPT_VIOLATION, 2.25 % MSR_WRITE; 10 000 exits",
        "The file has no time in the guest, so sum % is a share of the time outside the guest.",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    assert_eq!(tables[0].exits(), 10_000);
    let diff = exits(&["diff", &data("perf-kvm-stat.txt"), &data("perf-kvm-stat.txt")]).stdout;
    assert!(diff.contains("exits 0 % (10 000 → 10 000)"), "{diff}");
    let classic = exits(&["report", &data("perf-kvm-stat.txt"), "--columns", "classic"]).stdout;
    assert!(classic.starts_with("sum of time 400020\n"), "{classic}");
}

#[test]
fn a_file_without_exits_says_what_it_is_and_what_would_help() {
    let (_dir, path) = scratch_path("file");
    let path = path.display().to_string();
    for (content, expected) in [
        ("", "it is empty"),
        ("PERFILE2\u{1}\u{2}", "it is perf's binary recording; type `perf script --ns -i FILE"),
        ("\u{17}\u{8}Dtracing6\u{0}", "it is trace-cmd's binary recording; type `trace-cmd report"),
        (" Performance counter stats for 'x':\n", "it is the counters of `perf stat`"),
        ("a 1 [000] 1.5: sched:sched_switch: x\n", "it is a trace with 1 sched_switch, and has no"),
        ("hello\n", "ktax reads recordings of `ktax exits record`, the text of `perf kvm stat"),
    ] {
        fs::write(&path, content).unwrap();
        let ran = run(ktax().args(["exits", "report", &path])).exits(2);
        assert!(ran.stderr.contains(expected), "{expected}\n{}", ran.stderr);
    }
    // The other command that prints results names the one for such files.
    for file in [CAPTURE, &data("perf-kvm-stat.txt"), &data("halt-no-sched.txt")] {
        run(ktax().args(["report", file])).exits(2).says("print it with `ktax exits report /");
    }
}
