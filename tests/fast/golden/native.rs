//! A workload on the running kernel: one row, and several that grow with a size, of which one
//! fails.

use ktax::analyse::derive_columns;
use ktax::model::{Failure, NativeRow, NativeSample, NativeTable, Region, Signature, Workload};

fn row(name: &str, ns: &[u64]) -> NativeRow {
    let pages = name.split("pages=").nth(1).and_then(|pages| pages.parse().ok());
    let workload = Workload {
        row: name.to_owned(),
        title: "fork, modelled".to_owned(),
        operation: "one fork with its exit and wait".to_owned(),
        program: "fork-pages".to_owned(),
        ops: 100,
        region: Region::Marked,
        memory_bytes: 0,
        params: pages.map(|pages: u64| ("pages".to_owned(), pages)).into_iter().collect(),
        signature: Signature::new(),
        numbers: Default::default(),
    };
    let sample = |ns: &u64| NativeSample {
        signature: Signature::new(),
        values: [("nanoseconds".to_owned(), *ns), ("page-faults".to_owned(), 17)].into(),
    };
    let samples = ns.iter().map(sample).collect();
    NativeRow { workload, samples, failure: None, uncounted: Default::default(), cells: vec![] }
}

fn table(rows: Vec<NativeRow>) -> NativeTable {
    let mut table = NativeTable {
        workload: "fork-pages".to_owned(),
        title: "Fork of a process with pages\u{1b}[2J".to_owned(),
        operation: "one fork with its exit and wait".to_owned(),
        original: Some("Process fork+exit".to_owned()),
        release: "6.1.0".to_owned(),
        cpu: String::new(),
        cpus: 2,
        columns: Vec::new(),
        rows,
        growth: Vec::new(),
    };
    derive_columns(&mut table, &["time".to_owned()]);
    table
}

pub fn one() -> NativeTable {
    let mut row = row("fork-pages:pages=16", &[8_123_456, 8_101_222, 8_202_019, 9_404_001]);
    let refused = "not permitted: run ktax as root".to_owned();
    row.uncounted = [("cycles".to_owned(), refused)].into();
    table(vec![row])
}

pub fn many() -> NativeTable {
    let sized = |pages: u64| {
        let ns = 6_000_000 + pages * 31_000;
        row(&format!("fork-pages:backing=thp,pages={pages}"), &[ns, ns + 9_000, ns + 4_000])
    };
    let mut failed = row("fork-pages:backing=hugetlb,pages=1", &[]);
    failed.failure = Some(Failure::Refused { message: "no huge pages are free".to_owned() });
    let sizes = [0, 16, 64, 256, 1024, 4096, 16384];
    table(sizes.into_iter().map(sized).chain([failed]).collect())
}
