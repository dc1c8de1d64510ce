//! The engine of timed guests on KVM, which boots stock kernels in a KVM host within QEMU: there is
//! a second QEMU in it, with the libraries and the firmware that it needs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::kvm::{compiled, kernel, kvm_host};
use crate::common::{run, scratch};
use ktax::engine::qemu::Qemu;
use ktax::model::{Failure, TimedBoot, TimedPair, TimedRun, fact};

/// QEMU as ktax calls it there. QEMU's translator has two traps for a guest of KVM, of which
/// docs/exits.md tells. So this QEMU writes no registers of a running guest (vapic), and its guests
/// do not see kvm-pv-eoi.
const START_QEMU: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    static char *const first[] = { "qemu", "-L", "/files", "-global", "kvm-apic.vapic=off",
                                   "-global", "host-x86_64-cpu.kvm-pv-eoi=off" };
    enum { FIRST = sizeof(first) / sizeof(*first) };
    char *all[FIRST + argc];
    memcpy(all, first, sizeof(first));
    memcpy(all + FIRST, argv + 1, argc * sizeof(*argv));
    execv("/files/qemu-system-x86_64", all);
    return 127;
}
"#;

/// The dynamic linker of the tools and of QEMU.
const LOADER: &str = "ld-linux-x86-64.so.2";

/// The begin of a script in the host, which has no linker: ktax needs none. The tools get it where
/// they look for it.
const PLACE_LOADER: &str = "
load='/files/ld-linux-x86-64.so.2 --library-path /files'
$load /files/mkdir /lib64
$load /files/ln -s /files/ld-linux-x86-64.so.2 /lib64
export LD_LIBRARY_PATH=/files
cd /tmp
";

/// Boots the kernel. On a busy machine, that takes longer than doctor waits by itself.
const DOCTOR: &str = "/ktax doctor --cache /tmp/cache --qemu /files/qemu --kernel /files/vmlinuz \
                      --time-limit 180";

/// The end of a script in the host: it stops the run in /tmp/run with SIGINT, after that has
/// written this pair, when a guest of the next pair has a QEMU. Then it says what is left.
const STOP: &str = r#"
comes() { until [ -e $1 ] || ! kill -0 $pid; do /files/sleep 0.2; done; }
comes /tmp/run/pairs/$last.json
comes '/tmp/cache/runs/.vm-*/wire'
kill -INT $pid
wait $pid
echo "status $?"
echo "left" /tmp/cache/runs/.vm-*
echo "said" $(/files/cat /tmp/said)
echo "pairs"
exec /files/cat /tmp/run/pairs/*.json
"#;

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// The libraries that the dynamic linker finds for a program.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let listed = run(Command::new("ldd").arg(program)).exits(0);
    let path = |line: &str| Some(PathBuf::from(line.split_once("=> /")?.1.split_once(" (")?.0));
    listed.stdout.lines().filter_map(path).map(|path| Path::new("/").join(path)).collect()
}

fn on_path(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let found =
        std::env::split_paths(&path).map(|dir| dir.join(program)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{program} is not installed"))
}

/// Files of QEMU's firmware.
fn firmware(qemu: &Path) -> Vec<PathBuf> {
    let dirs = run(Command::new(qemu).args(["-L", "help"])).stdout;
    let find =
        |file: &str| dirs.lines().map(|dir| Path::new(dir).join(file)).find(|path| path.exists());
    ["bios-256k.bin", "linuxboot_dma.bin"].map(|file| find(file).expect(file)).to_vec()
}

/// Output of a script in a host with a QEMU at /files/qemu and a kernel at /files/vmlinuz.
fn in_host(script: &str) -> String {
    let dir = scratch();
    let qemu = Qemu::find(None).unwrap().program;
    let tools = ["sh", "sleep", "cat", "mkdir", "ln"].map(on_path);
    let mut files: BTreeMap<String, PathBuf> = libraries(&qemu)
        .into_iter()
        .chain(tools.iter().flat_map(|tool| libraries(tool)))
        .chain(tools.clone())
        .chain(firmware(&qemu))
        .chain([Path::new("/lib64").join(LOADER)])
        .map(|path| (name(&path), path))
        .collect();
    let text = dir.path().join("script");
    fs::write(&text, format!("{PLACE_LOADER}{script}")).unwrap();
    let start = compiled(dir.path(), START_QEMU);
    for (name, path) in
        [("qemu", start), ("qemu-system-x86_64", qemu), ("vmlinuz", kernel()), ("script", text)]
    {
        files.insert(name.into(), path);
    }
    let files = files.iter().map(|(name, path)| format!("--file={name}={}", path.display()));
    let files: Vec<String> = files.collect();
    let mut options: Vec<&str> = files.iter().map(String::as_str).collect();
    options.push("--time-limit=600");
    let loader = format!("/files/{LOADER}");
    let ran =
        kvm_host(&options, &[&loader, "--library-path", "/files", "/files/sh", "/files/script"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    ran.stdout
}

/// The pairs of a run that was stopped and has left nothing.
fn stopped(output: &str) -> Vec<TimedPair> {
    let (output, pairs) =
        output.split_once("pairs\n").unwrap_or_else(|| panic!("no pair: {output}"));
    for line in ["status 130", "left /tmp/cache/runs/.vm-*"] {
        assert!(output.lines().any(|printed| printed == line), "{line:?} is not in {output}");
    }
    // A line of progress may stand before it.
    let is_last = |line: &str| line.ends_with("ktax: stopped; resume with `ktax run /tmp/run`");
    assert!(output.lines().any(|line| line.starts_with("said ") && is_last(line)), "{output}");
    serde_json::Deserializer::from_str(pairs).into_iter().map(Result::unwrap).collect()
}

fn done(boot: &TimedBoot, row: &str, work: (&str, u64)) {
    let TimedRun { loops_ns, signature, failure, .. } = &boot.runs[row];
    assert!(failure.is_none() && loops_ns.len() == 2, "{:?}", boot.runs[row]);
    assert!(loops_ns.iter().all(|ns| *ns > 0.0), "{loops_ns:?}");
    assert_eq!(signature[work.0], work.1);
}

#[test]
fn guests_are_timed_beside_bare_metal_with_more_vcpus_than_cpus() {
    let rows = "-w getppid:ops=500 -w fork-exit:ops=5 -w bad-crash -w bad-panic";
    let script = format!(
        "{DOCTOR}\n\
         /ktax compare --engine kvm --bare-metal --vcpus 2 --cores 1 --seed 1 --loops 2 {rows} \
         --kernel /files/vmlinuz --cache /tmp/cache --qemu /files/qemu --out /tmp/run \
         >/tmp/said 2>&1 &\npid=$! last=0001\n{STOP}"
    );
    let output = in_host(&script);
    let kvm = output.lines().find(|line| line.starts_with("ok   KVM")).expect(&output);
    assert!(kvm.contains("boots 6.") && kvm.ends_with(" s: the kvm engine works here"), "{kvm}");
    let pairs = stopped(&output);
    // The first pair is bare metal against itself.
    assert_eq!(pairs.iter().map(|pair| pair.is_control).collect::<Vec<_>>(), [true, false]);
    let boots = &pairs[1].boots;
    for boot in boots.both() {
        done(boot, "getppid:ops=500", ("calls", 500));
        done(boot, "fork-exit:ops=5", ("children", 5));
    }
    let failure = |row: &str| boots.change.runs[row].failure.clone().unwrap();
    assert_eq!(failure("bad-crash"), Failure::Refused { message: "ended by signal 6".into() });
    let panic = Failure::Panic { message: "sysrq triggered crash".into() };
    assert_eq!(failure("bad-panic"), panic);
    let facts = &boots.change.facts;
    let shown =
        [fact::ACCELERATOR, fact::CPU, fact::VCPUS, fact::VCPU_CPUS].map(|fact| &facts[fact]);
    assert_eq!(shown, ["kvm", "host", "2", "0"], "{facts:?}");
    assert_eq!(boots.base.facts[fact::AFFINITY], "0");
}

#[test]
fn a_guest_that_hangs_is_ended_by_the_limit() {
    // The boot is within it, too, and may take longer elsewhere.
    let script = format!(
        "said=$({DOCTOR})\n\
         seconds=${{said##*-amd64 in }}; limit=$((3 + 2 * ${{seconds%%.*}}))\n\
         echo \"limit $limit\"\n\
         /ktax compare --engine kvm --change-boot-line nosmt --seed 1 --loops 1 -w bad-hang \
         --time-limit $limit --kernel /files/vmlinuz --cache /tmp/cache --qemu /files/qemu \
         --out /tmp/run >/tmp/said 2>&1 &\npid=$! last=0000\n{STOP}"
    );
    let output = in_host(&script);
    let limit_s = output.lines().find_map(|line| line.strip_prefix("limit ")).expect(&output);
    let limit_s = limit_s.parse().unwrap();
    let boots = &stopped(&output)[0].boots;
    for boot in boots.both() {
        let failure = boot.runs["bad-hang"].failure.clone();
        assert_eq!(failure, Some(Failure::RealTime { limit_s }), "{boot:?}");
    }
}
