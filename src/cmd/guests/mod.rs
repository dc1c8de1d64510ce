//! `ktax compare` of an experiment whose Subjects are guests of a KVM host.

mod e500v2;
mod linux;

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::args::{HostArgs, first_free};
use super::exit::Exit;
use super::output::{text_options, write_stdout};
use super::progress::spinner;
use crate::disk::write_atomically;
use crate::model::ExitRun;
use crate::plan::{GuestExperiment, GuestFile};
use crate::report;
use crate::text::escape;

/// Records each Side in hosts of its own and says what changed.
pub fn run(
    file: &GuestFile,
    out: Option<&Path>,
    is_json: bool,
    host: &HostArgs,
) -> anyhow::Result<Exit> {
    let out = out.map_or_else(first_free, PathBuf::from);
    match file {
        GuestFile::Kvm(experiment) => {
            let works = experiment.works()?;
            linux::check(experiment)?;
            let side = |_: &str, subject: &_| linux::side(experiment, subject, &works, host);
            compare(experiment, &out, is_json, side)
        }
        GuestFile::E500v2(experiment) => {
            let works = experiment.works()?;
            let ready = e500v2::Ready::new(&experiment.host_subject(), host)?;
            let side = |name: &str, subject: &_| ready.side(subject, &works, &out.join(name));
            compare(experiment, &out, is_json, side)
        }
    }
}

/// The runs of a Side, and which versions they are of.
type Recorded = (Vec<ExitRun>, String);

fn compare<Guest>(
    experiment: &GuestExperiment<Guest>,
    out: &Path,
    is_json: bool,
    side: impl Fn(&str, &Guest) -> anyhow::Result<Recorded>,
) -> anyhow::Result<Exit> {
    std::fs::create_dir(out)
        .with_context(|| format!("cannot make {}; give --out another name", out.display()))?;
    let (mut sides, mut names) = (Vec::new(), String::new());
    for (name, subject) in ["base", "change"].into_iter().zip(experiment.subjects()) {
        let bar = spinner();
        bar.set_message(format!("{name}: {} rows in a KVM host", experiment.workloads.len()));
        let (runs, named) = side(name, subject)?;
        bar.finish_and_clear();
        names += &format!("{name:<8}{named}\n");
        write_atomically(&out.join(format!("{name}.json")), report::json(&runs)?.as_bytes())?;
        sides.push(runs);
    }
    let text = match is_json {
        true => report::json(&sides)?,
        false => text(&experiment.title, &names, &sides),
    };
    write_stdout(&text)?;
    note!("ktax: everything is in {}", out.display());
    Ok(Exit::Ok)
}

fn text(title: &str, names: &str, sides: &[Vec<ExitRun>]) -> String {
    let names: String = names.lines().map(|line| report::paragraph(line, text_options())).collect();
    let title = format!("{}\n\n{names}", escape(title));
    match sides {
        [base, change] => title + &report::guests_compared(base, change, text_options()),
        [base] => title + &report::guests(base, text_options()),
        _ => title,
    }
}
