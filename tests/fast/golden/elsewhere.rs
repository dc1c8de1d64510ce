//! What one command made, another one prints: exits of guests, counters of workloads.

use std::fs;
use std::path::Path;

use ktax::model::NativeTable;
use ktax::report::{JSON, Report};
use ktax::rundir::RunDir;

use super::{cases, guests, native, show};
use crate::common::{ktax, run, scratch};
use crate::fake::{guests_scene, plan};

/// A run of guests is read by both commands, as a directory and as a file.
#[test]
fn the_exit_tables_of_a_run_of_guests_can_be_printed() {
    let dir = scratch();
    let [root, file] = ["run", "guests.json"].map(|name| dir.path().join(name));
    let json = show(&guests::compared().saved(), JSON);
    fs::create_dir(&root).unwrap();
    let of_exits = |path: &Path| run(ktax().args(["exits", "report"]).arg(path));
    RunDir::create(&root, guests_scene::plan(guests_scene::FILE)).unwrap();
    fs::write(root.join("comparison.json"), &json).unwrap();
    fs::write(&file, &json).unwrap();
    let (of_dir, of_file) = (of_exits(&root), of_exits(&file));
    assert_eq!((of_dir.status, &*of_dir.stderr), (0, ""));
    assert_eq!(of_dir.stdout, of_file.stdout);
    for said in ["boot, base (", "boot, change (", "EPT_VIOLATION"] {
        assert!(of_dir.stdout.contains(said), "{said}\n{}", of_dir.stdout);
    }
    let second = of_exits(Path::new(&format!("{}#2", root.display())));
    assert!(second.stdout.starts_with("boot, change ("), "{second:?}");
    // A run of kernels has none.
    let kernels = dir.path().join("kernels");
    RunDir::create(&kernels, plan::plan(&["pipe"])).unwrap();
    fs::write(kernels.join("comparison.json"), show(&cases::changes().saved(), JSON)).unwrap();
    let refused = of_exits(&kernels);
    assert!(
        refused.status == 2 && refused.stderr.contains("print it with `ktax report`"),
        "{refused:?}"
    );
}

/// Whoever counted sees the counters again; whoever did not is not told of them.
#[test]
fn counters_of_a_workload_are_printed_again() {
    let dir = scratch();
    let again = |name: &str, table: NativeTable| {
        let path = dir.path().join(name);
        fs::write(&path, show(&table, JSON)).unwrap();
        run(ktax().arg("report").arg(&path)).stdout
    };
    let title = "Performance counter stats for 'fork-pages:pages=16'";
    let counted = again("counted", native::one());
    assert!(counted.contains(title) && counted.contains("run ktax as root"), "{counted}");
    let mut table = native::one();
    table.rows[0].uncounted.clear();
    assert!(!again("uncounted", table.clone()).contains(title));
    table.rows[0].samples[0].values.insert("task-clock-ns".to_owned(), 7_000_000);
    assert!(again("clock", table).contains(title));
}
