use std::path::{Path, PathBuf};

use super::Exit;
use super::host::MachineArgs;
use super::output::{write_stdout, write_words};
use super::terminal::Terminal;
use crate::flow::doctor::Check;
use crate::flow::{Error, doctor};
use crate::report;
use crate::text::shell_path;

/// Check what this machine can and cannot do, and print how to fix it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_STATUS)]
pub struct Args {
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// Restore the settings of this machine that a killed ktax left changed; check nothing
    #[arg(long)]
    restore: bool,
    /// Unpack the newer QEMU of this distribution's backports into DIR, beside the installed one;
    /// check nothing
    #[arg(long, value_name = "DIR", conflicts_with = "restore")]
    newer_qemu: Option<PathBuf>,
    /// Boot this bzImage to test KVM, within 20 s or --time-limit [default: the newest kernel in
    /// the cache]
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    #[command(flatten)]
    host: MachineArgs,
}

const EXIT_STATUS: &str = "\
Marks:
  ok   works    no   does not work, and only some commands need it    BAD  ktax cannot count

Exit status:
  0  no check is BAD             69 at least one check is BAD
  1  ktax or its host failed     130 stopped by Ctrl-C
  2  usage error, or --restore while another ktax changes settings";

pub fn run(args: &Args) -> Result<Exit, Error> {
    if args.restore {
        return restore(args.json);
    }
    if let Some(dir) = &args.newer_qemu {
        return newer_qemu(dir, args.json);
    }
    let terminal = Terminal::new();
    let session = args.host.session(&terminal)?;
    let Some(findings) = doctor::look(args.kernel.as_deref(), args.host.cache_size, &session)?
    else {
        return Ok(Exit::Cancelled);
    };
    let healthy = !findings.iter().any(Check::is_bad);
    match args.json {
        true => write_stdout(&report::to_json(&findings)?)?,
        false => write_words(&findings.iter().map(line).collect::<String>())?,
    }
    Ok(if healthy { Exit::Ok } else { Exit::NotRun })
}

fn restore(json: bool) -> Result<Exit, Error> {
    let replayed = doctor::restore()?;
    write_stdout(&match json {
        true => report::to_json(&replayed)?,
        false => format!("{replayed}\n"),
    })?;
    Ok(Exit::Ok)
}

fn newer_qemu(dir: &Path, json: bool) -> Result<Exit, Error> {
    let qemu = doctor::newer_qemu(dir)?;
    write_stdout(&match json {
        true => report::to_json(&qemu)?,
        false => format!(
            "QEMU {}; use it with `export KTAX_QEMU={}`\n",
            qemu.version,
            shell_path(&qemu.program)
        ),
    })?;
    Ok(Exit::Ok)
}

fn line(finding: &Check) -> String {
    let mark = match (finding.ok, finding.needed) {
        (true, _) => "ok  ",
        (false, false) => "no  ",
        (false, true) => "BAD ",
    };
    let fix = match finding.fix.as_str() {
        "" => String::new(),
        fix => format!("\n             fix: {fix}"),
    };
    format!("{mark} {:8} {}{fix}\n", finding.what, finding.found)
}
