//! `--html`: the page of any result, beside what is printed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use ktax::model::Evidence;
use ktax::report::{HTML, JSON};

use crate::common::{ktax, run, scratch, scratch_path};
use crate::golden::{cases, show};

/// A file with a result, in this directory.
fn result_in(dir: &Path) -> PathBuf {
    let path = dir.join("result.json");
    fs::write(&path, show(&cases::changes(), JSON)).unwrap();
    path
}

#[test]
fn a_page_is_written_beside_what_is_printed_and_is_read_back() {
    let (dir, page) = scratch_path("a page.html");
    let result = result_in(dir.path());
    let plain = run(ktax().arg("report").arg(&result));
    let with_page = run(ktax().arg("report").arg(&result).arg("--html").arg(&page));
    assert_eq!((plain.status, &plain.stdout), (with_page.status, &with_page.stdout));
    for format in ["text", "json", "csv", "html"] {
        let printed =
            |path: &Path| run(ktax().args(["report", "--format", format]).arg(path)).stdout;
        assert!(printed(&page) == printed(&result), "{format}");
    }
    assert!(
        fs::read_to_string(&page).unwrap()
            == run(ktax().args(["report", "--format", "html"]).arg(&result)).stdout
    );
}

#[test]
fn the_same_result_gives_the_same_bytes_wherever_it_is_printed() {
    let dir = scratch();
    let result = result_in(dir.path());
    let page = |variables: &[(&str, &str)]| {
        let mut command = ktax();
        command.args(["report", "--format", "html"]).arg(&result);
        run(command.envs(variables.iter().copied())).stdout
    };
    let here = page(&[]);
    assert!(here.starts_with("<!DOCTYPE html>"));
    for elsewhere in [
        [("LC_ALL", "C"), ("TZ", "UTC")],
        [("LC_ALL", "de_DE.UTF-8"), ("TZ", "Asia/Tokyo")],
        [("COLUMNS", "60"), ("SOURCE_DATE_EPOCH", "0")],
    ] {
        assert!(page(&elsewhere) == here, "{elsewhere:?}");
    }
}

#[test]
fn a_page_that_cannot_be_written_is_said_before_anything_is_measured() {
    let dir = scratch();
    for path in ["missing/page.html", "."] {
        let path = dir.path().join(path);
        let out = dir.path().join("out");
        let ran = run(ktax().args(["compare", "lsm", "--html"]).arg(&path).arg("--out").arg(&out))
            .exits(2);
        ran.says("cannot write").says("give the path of a file");
        assert!(!ran.stderr.contains(".new-"), "{}", ran.stderr);
        assert!(!out.exists() && ran.stdout.is_empty());
    }
}

#[test]
fn a_device_stays_a_device() {
    let (dir, link) = scratch_path("null");
    symlink("/dev/null", &link).unwrap();
    run(ktax().arg("report").arg(result_in(dir.path())).arg("--html").arg(&link)).exits(0);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::metadata("/dev/null").is_ok_and(|null| !null.is_file()));
}

#[test]
fn a_page_that_was_cut_is_refused_with_the_way_out() {
    let (_dir, path) = scratch_path("page.html");
    let page = show(&cases::changes(), HTML);
    for (text, why) in [
        (&page[..page.len() / 2], "without its data"),
        (&page.replace("id=\"data\">", "id=\"data\">AAAA"), "is damaged"),
    ] {
        fs::write(&path, text).unwrap();
        let ran = run(ktax().arg("report").arg(&path)).exits(2);
        let way = "make the page again with `ktax report --html FILE DIR`";
        assert!(ran.stderr.contains(why) && ran.stderr.contains(way), "{}", ran.stderr);
    }
}

#[test]
fn a_result_whose_layout_is_missing_is_printed_in_every_format() {
    let (_dir, path) = scratch_path("result.json");
    let mut comparison = cases::several();
    fs::write(&path, show(&comparison, JSON)).unwrap();
    let intact = run(ktax().arg("report").arg(&path));
    for row in &mut comparison.rows {
        let Evidence::Counts(counts) = &mut row.evidence else { unreachable!() };
        counts.effects.iter_mut().for_each(|effect| effect.layout = 99);
    }
    fs::write(&path, show(&comparison, JSON)).unwrap();
    for format in ["text", "markdown", "csv", "json", "html", "mail"] {
        let damaged = run(ktax().args(["report", "--format", format]).arg(&path));
        assert_eq!((damaged.status, damaged.stderr), (intact.status, String::new()), "{format}");
    }
}
