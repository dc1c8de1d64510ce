use super::*;
use proptest::prelude::*;

/// Returns the count, sum, minimum and maximum of a row.
fn numbers(table: &ExitTable, reason: &str) -> (u64, Option<u64>, Option<u64>, Option<u64>) {
    let row = table.row(reason).unwrap_or_else(|| panic!("{reason} in {table:?}"));
    (row.count, row.sum_ns, row.least_ns, row.most_ns)
}

/// Reads a text with exactly one table.
fn read_one(text: &str) -> ExitTable {
    let mut tables = read(text).unwrap();
    assert_eq!(tables.len(), 1, "{tables:?}");
    tables.remove(0)
}

#[test]
fn every_number_of_a_report_is_read() {
    let table = read_one(include_str!("../../../../tests/data/exits/perf-kvm-stat.txt"));
    assert_eq!((&*table.name, &*table.source), ("all VMs, all VCPUs", SOURCE));
    let ept = numbers(&table, "EPT_VIOLATION");
    assert_eq!(ept, (5000, Some(40_000_000), Some(900), Some(300_000)));
    let halts = numbers(&table, "HLT");
    assert_eq!(halts, (1000, Some(342_520_000), Some(1_100), Some(40_000_000)));
    assert_eq!((table.exits(), table.sum_ns()), (10_000, 400_020_000));
    assert!(table.warnings.is_empty() && table.elapsed_ns.is_none(), "{table:?}");
    // The standard error of 1000 halts is 3.20 % of their mean. √1000 times that error is the
    // standard deviation.
    let row = table.row("HLT").unwrap();
    let squares = row.squares_ns2.unwrap() as f64;
    let deviation = (squares / 1000.0 - 342_520f64.powi(2)).sqrt();
    let expected = 0.032 * 342_520.0 * (999f64 / 1000.0).sqrt() * 1000f64.sqrt();
    assert!((deviation / expected - 1.0).abs() < 1e-6, "{deviation} {expected}");
}

/// perf 3.7 to 3.10.
#[test]
fn the_first_layout_has_no_minimum_and_maximum() {
    let table = read_one(
        "Analyze events for all VCPUs:\n\n\
         \x20            VM-EXIT    Samples  Samples%     Time%         Avg time\n\n\
         \x20                HLT        250    50.00%    99.00%     3960.00us ( +-   9.30% )\n\
         \x20            PF excp        250    50.00%     1.00%       40.00us ( +-   0.20% )\n\n\
         Total Samples:500, Total events handled time:1000000.00us.\n",
    );
    assert_eq!(numbers(&table, "HLT"), (250, Some(990_000_000), None, None));
    assert_eq!(numbers(&table, "PF excp"), (250, Some(10_000_000), None, None));
    // An error of 0.20 % may be 0.195 or 0.205: too coarse for a deviation.
    assert_eq!(table.row("PF excp").unwrap().squares_ns2, None);
}

/// perf 6.4 and later.
#[test]
fn the_layout_with_nanoseconds_has_another_order_of_columns() {
    let table = read_one(
        "# Event name              Samples   Sample%    Time (ns)     Time%   Max Time (ns)   \
         Min Time (ns)  Mean Time (ns)\n\
         STORE_GUEST_PAGE_FAULT     26968     54.00%    2003031800    40.00%       3361400     \
         27600         74274.00\n\
         LOAD_GUEST_PAGE_FAULT      17645     35.00%    1153338100    23.00%       2513400     \
         30800         65363.00\n",
    );
    let store = numbers(&table, "STORE_GUEST_PAGE_FAULT");
    assert_eq!(store, (26_968, Some(2_003_031_800), Some(27_600), Some(3_361_400)));
    assert_eq!(table.exits(), 44_613);
}

#[test]
fn accesses_are_no_reasons_and_names_may_have_spaces() {
    let msr = read_one(
        "MSR Access Samples  Samples% Time%  Min Time Max Time  Avg time\n\n\
         \x20 0x6e0:W   67007  98.17%   98.31%  0.59us   10.69us  0.90us ( +-  0.10% )\n\
         \x20 0x830:W    1186   1.74%    1.60%  0.53us  108.34us  0.82us ( +- 11.02% )\n\
         \x20  0x3b:R      66   0.10%    0.09%  0.56us    1.26us  0.80us ( +-  3.24% )\n\n\
         Total Samples:68259, Total events handled time:61150.95us.\n",
    );
    assert_eq!((msr.rows_are, &*msr.source), (ExitRows::Accesses, "perf kvm stat, MSR Access"));
    // 67 007 times 0.90 µs is 60 306 µs, but 98.31 % of the total is at most 60 120.56 µs.
    let (count, sum, ..) = numbers(&msr, "0x6e0:W");
    let sum = sum.unwrap();
    assert!(count == 67_007 && (60_114_000..60_121_000).contains(&sum), "{sum}");
    let s390 = read_one(
        "VM-EXIT    Samples  Samples%     Time%    Min Time    Max Time         Avg time\n\n\
         DIAG (0x44) time slice end   3  75.00%  50.00%  1.00us  1.00us  1.00us ( +-   0.00% )\n\
         Wait state   1  25.00%  50.00%  3.00us  3.00us  3.00us ( +-   0.00% )\n\n\
         Total Samples:4, Total events handled time:6.00us.\n",
    );
    assert_eq!(numbers(&s390, "DIAG (0x44) time slice end").1, Some(3_000));
    let ppc = read_one(
        "HCALL-EVENT    Samples  Samples%     Time%    Min Time    Max Time         Avg time\n\n\
         H_VIO_SIGNAL   123    66.85%     0.77%   2.38us   14.75us    2.86us ( +-   4.81% )\n\
         H_SEND_CRQ     61    33.15%    99.23%  18.56us  940.26us  742.00us ( +-   2.54% )\n",
    );
    assert_eq!((ppc.rows_are, ppc.exits()), (ExitRows::Accesses, 184));
}

/// A quoted table in a mail, without most of its rows.
#[test]
fn samples_without_a_row_are_a_row_and_a_warning() {
    let table = read_one(
        "> > >              VM-EXIT    Samples  Samples%     Time%    Min Time    Max Time     Avg \
         time\n> > >\n\
         > > >        EPT_VIOLATION     760998    54.85%     7.23%      0.92us  31765.89us      \
         7.78us ( +-   1.46% )\n\
         > > >            MSR_WRITE     170599    12.30%     0.53%      0.60us   3334.13us      \
         2.52us ( +-   0.86% )\n\
         > > > [..]\n> > >\n\
         > > > Total Samples:1387305, Total events handled time:81900258.99us.\n",
    );
    assert_eq!((table.exits(), table.sum_ns()), (1_387_305, 81_900_258_990));
    assert_eq!(table.row(LEFT_OUT).unwrap().count, 1_387_305 - 760_998 - 170_599);
    assert!(table.warnings[0].fact.contains("931597 of 1387305 samples"), "{:?}", table.warnings);
}

#[test]
fn unknown_reasons_of_perf_are_numbers() {
    let row = |name: &str, samples: u64| {
        format!("{name}  {samples}  50.00%  50.00%  1.00us  9.00us  2.00us ( +-   1.00% )\n")
    };
    let header = "VM-EXIT Samples Samples% Time% Min Time Max Time Avg time\n\n";
    let code = |code: u64| format!("unknown kvm exit code:{code} on VMX\n");
    let text = header.to_owned()
        + &code(131_072)
        + &row("UNKNOWN", 3)
        + &code(327_680)
        + &row("UNKNOWN", 4);
    let table = read_one(&text);
    assert_eq!((numbers(&table, "0x20000").0, numbers(&table, "0x50000").0), (3, 4));
    // Without the lines of perf's standard error, the unknown codes are one row.
    let table = read_one(&(header.to_owned() + &row("UNKNOWN", 3) + &row("UNKNOWN", 4)));
    let sum = numbers(&table, "UNKNOWN");
    assert_eq!(sum, (7, Some(14_000), Some(1_000), Some(9_000)));
}

#[test]
fn a_loss_reported_before_the_table_is_a_warning() {
    let text = include_str!("../../../../tests/data/exits/perf-kvm-stat.txt");
    let warned = format!(
        "Warning:\nProcessed 10000 events and lost 3 chunks!\n\nCheck IO/CPU overload!\n\n{text}"
    );
    assert!(read_one(&warned).warnings[0].fact.contains("lost events 3 times"));
    assert!(read_one(text).warnings.is_empty());
}

/// `perf kvm stat live` clears the terminal and prints the time before each table.
#[test]
fn each_refresh_of_perf_live_is_a_table() {
    let refresh = |clock: &str, samples: u64, vcpu: &str| {
        format!(
            "\u{1b}[H\u{1b}[2J{clock}\n\nAnalyze events for pid(s) 4711, {vcpu}:\n\n\
             VM-EXIT Samples Samples% Time% Min Time Max Time Avg time\n\n\
             HLT {samples} 100.00% 100.00% 1.00us 9.00us 2.00us ( +-   1.00% )\n\n\
             Total Samples:{samples}, Total events handled time:{}.00us.\n\n\nLost events: 2\n\n",
            samples * 2
        )
    };
    let text =
        refresh("10:11:12.123456", 3, "all VCPUs") + &refresh("10:11:13.123456", 4, "VCPU 1");
    let tables = read(&text).unwrap();
    let shown: Vec<_> = tables.iter().map(|table| (&*table.name, table.exits())).collect();
    assert_eq!(
        shown,
        [
            ("pid(s) 4711, all VCPUs at 10:11:12.123456", 3),
            ("pid(s) 4711, VCPU 1 at 10:11:13.123456", 4)
        ]
    );
    assert!(tables.iter().all(|table| table.warnings[0].fact.contains("lost events 2 times")));
}

#[test]
fn rows_that_exceed_the_total_are_an_error_with_the_line() {
    let header = "VM-EXIT Samples Samples% Time% Min Time Max Time Avg time\n\n";
    let row = "HLT 3 100.00% 100.00% 1.00us 9.00us 2.00us ( +-   1.00% )\n";
    let cut = "HLT 3 100.00% 100.00% 1.0\n";
    let total = "Total Samples:2, Total events handled time:6.00us.\n";
    for (text, line) in [([header, row, total], 1), ([header, row, cut], 4)] {
        let error = read(&text.concat()).unwrap_err();
        assert!(error.message().starts_with(&format!("line {line}: ")), "{error}");
    }
    let no_samples = "Total Samples:0, Total events handled time:0.00us.\n";
    assert!(read_one(&(header.to_owned() + no_samples)).rows.is_empty());
    assert!(!recognizes("Samples Samples% Time%\n") && !recognizes("VM-EXIT Samples of time\n"));
}

proptest! {
    #[test]
    fn any_rows_are_a_table_or_an_error(
        rows in prop::collection::vec(
            "[A-Z_ ()]{0,9} [0-9]{1,20} {1,3}[0-9]{1,3}(\\.[0-9]{0,3})?% [0-9.]{1,6}% \
             [0-9]{0,21}\\.[0-9]{0,3}us [0-9]{1,19}us [0-9.]{1,9}us( \\( \\+- +[0-9.]{1,5}% \\))?",
            0..20,
        ),
        total in "(Total Samples:[0-9]{1,20}, Total events handled time:[0-9]{0,20}(\\.[0-9])?us)?",
    ) {
        let header = "VM-EXIT Samples Samples% Time% Min Time Max Time Avg time";
        let text = format!("{header}\n{}\n{total}\n", rows.join("\n"));
        for table in read(&text).unwrap_or_default() {
            let _ = (table.sum_ns(), table.exits());
        }
    }

    #[test]
    fn any_text_is_tables_or_an_error(
        words in prop::collection::vec(
            "VM-EXIT|Event name|Samples|Samples%|Sample%|Time%|Time|\\(ns\\)|Min|Max|Avg|Total \
             Samples:|\u{1b}\\[2J|Lost events: |\n|> |[0-9]{0,20}|[0-9.]{1,9}us|[0-9.]{1,6}%|\\PC",
            0..60,
        ),
    ) {
        let _ = read(&words.join(" "));
    }
}
