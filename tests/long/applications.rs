//! Programs of this machine in the guest: the rows of `@applications`, and what sets up networks,
//! rules and probes.

use std::fs;
use std::path::Path;
use std::process::Command;

use ktax::model::Verdict;

use crate::common::mounts::may_mount;
use crate::common::require::are_there;
use crate::common::{
    KERNEL, QUICK_BOOT, assert_no_orphans, compare, executed, ktax, row, run, scratch,
};

/// Programs that the rows call; Debian's Python comes before any other.
const PROGRAMS: [&str; 8] =
    ["gcc", "git", "sqlite3", "redis-server", "redis-cli", "tar", "find", "cksum"];

#[test]
fn every_application_is_measured_and_equal_kernels_cost_the_same() {
    if !are_there(&PROGRAMS) {
        return;
    }
    let dir = scratch();
    let line = format!("boot_line = \"{QUICK_BOOT}\"");
    let text = format!(
        "title = \"t\"\nlayouts = 5\nsame = true\nworkloads = [\"@applications\"]\n\
         base = {{ kernel = \"{KERNEL}\", {line} }}\nchange = {{ kernel = \"{KERNEL}\", {line} }}"
    );
    fs::write(dir.path().join("e.toml"), text).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let comparison = run(ktax()
        .current_dir(dir.path())
        .env("PATH", format!("/usr/bin:{path}"))
        .args(["compare", "e.toml", "--json", "--out", "out"]))
    .exits(0)
    .comparison();
    assert!(comparison.rows.len() >= 8, "{}", comparison.rows.len());
    for row in &comparison.rows {
        assert!(row.failures.is_empty(), "{}: {:?}", row.row, row.failures);
        assert_eq!(row.verdict, Verdict::NoDetectedChange, "{}", row.row);
    }
    assert_no_orphans(dir.path());
}

/// Programs that the rows of docs/suites.md call.
const SUITES: [&str; 5] = ["perf", "hackbench", "stress-ng", "fio", "sysbench"];

#[test]
fn benchmarks_of_others_are_counted_and_divided_by_what_they_print() {
    if !are_there(&SUITES) {
        return;
    }
    let dir = scratch();
    let page = fs::read_to_string("docs/suites.md").unwrap();
    let toml = page.split("```toml\n").nth(1).and_then(|block| block.split("```").next()).unwrap();
    fs::write(dir.path().join("suites.toml"), toml).unwrap();
    let args = ["compare", "suites.toml", "--json", "--out", "out"];
    let ran = run(ktax().current_dir(dir.path()).args(args));
    assert!(matches!(ran.status, 0 | 3), "{}", ran.stderr);
    let comparison = ran.comparison();
    // One of two sizes has a row for each, one for an operation and one for its start.
    let programs = toml.matches("[[program]]").count() + 3 * toml.matches("\nsizes = ").count();
    assert_eq!(comparison.rows.len(), programs);
    for row in &comparison.rows {
        assert!(row.failures.is_empty(), "{}: {:?}", row.row, row.failures);
    }
    // A write of 4 KiB; a run divided by its writes would be a hundred thousand.
    let write = &row(&comparison, "program:fio").effects()[0];
    assert!((2_000.0..20_000.0).contains(&write.base), "{write:?}");
}

/// Programs that the lines of docs/suites.md call.
const ONE_LINE: [&str; 14] = [
    "javac",
    "java",
    "perl",
    "python3",
    "node",
    "gcc",
    "sqlite3",
    "git",
    "fio",
    "redis-server",
    "nginx",
    "ab",
    "psql",
    "setpriv",
];

/// The blocks of a language in a part of a page.
fn blocks<'a>(part: &'a str, language: &str) -> Vec<&'a str> {
    let begin = format!("```{language}\n");
    part.split(&begin).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn each_program_of_the_page_is_counted_at_the_first_try() {
    if !are_there(&ONE_LINE) || !may_mount() {
        return;
    }
    let dir = scratch();
    let dir = dir.path();
    let page = fs::read_to_string("docs/suites.md").unwrap();
    let part = page.split("## One program in one line").nth(1).unwrap();
    let scripts = blocks(part, "sh");
    let [lines, redis, postgres] = scripts[..] else { panic!("{scripts:?}") };
    for (name, text) in [
        ("redis.sh", redis),
        ("postgres.sh", postgres),
        ("nginx.conf", blocks(part, "nginx")[0]),
        ("index.html", "hello\n"),
        ("hello.c", "#include <stdio.h>\nint main(void) { return puts(\"hello\"); }\n"),
        ("Hello.java", HELLO),
    ] {
        fs::write(dir.join(name), text).unwrap();
    }
    for made in [&["javac", "Hello.java"][..], &["git", "init", "-q", "repo"]] {
        assert_eq!(run(Command::new(made[0]).current_dir(dir).args(&made[1..])).status, 0);
    }
    let lines = lines.replace("\\\n", "");
    let commands = lines.lines().map(|line| line.strip_prefix("ktax compare … ").expect(line));
    let commands: Vec<&str> = commands.collect();
    assert!(commands.len() > 10, "{commands:?}");
    for (number, command) in commands.iter().enumerate() {
        let out = number.to_string();
        let same = ["--same", "--kernel", KERNEL, "--layouts", "1", "--json", "--out", &out];
        let words = shlex::split(command).unwrap();
        let comparison = run(ktax()
            .current_dir(dir)
            .args(["compare"])
            .args(same)
            .args(["--base-boot-line", QUICK_BOOT, "--change-boot-line", QUICK_BOOT])
            .args(words))
        .exits(0)
        .comparison();
        assert_eq!(comparison.rows.len(), 1);
        let row = &comparison.rows[0];
        assert!(row.failures.is_empty(), "{command}: {:?}", row.failures);
        assert!(row.effects()[0].base > 1000.0, "{command}: {row:?}");
    }
}

const HELLO: &str = "public class Hello {\n    public static void main(String[] arguments) {\n\
    System.out.println(\"hello\");\n    }\n}\n";

const NETWORK: &str = "ip link add veth0 type veth peer name veth1; ip link add bridge0 type bridge
    ip link set veth0 master bridge0; ip address add 10.0.0.1/24 dev bridge0
    ip link set veth0 up; ip link set bridge0 up; ip netns add other; ip link set veth1 netns other
    ip -n other address add 10.0.0.2/24 dev veth1; ip -n other link set veth1 up";

const RULES: &str = "table inet filter {\n\
    chain input { type filter hook input priority 0; udp dport 1-65535 counter accept; }\n}\n";

const PROBE: &str = "__attribute__((section(\"xdp\"), used))\n\
    int probe(void *context) { (void)context; return 2; }\n\
    char terms[] __attribute__((section(\"license\"), used)) = \"GPL\";\n";

#[test]
fn networks_rules_and_probes_are_set_up_before_the_freeze() {
    if !are_there(&["ip", "ping", "nft", "bpf-gcc"]) {
        return;
    }
    let dir = scratch();
    let dir = dir.path();
    let measured = |name: &str, more: &[&str]| {
        let out = dir.join(name);
        let (ran, _) = compare(&out, [""; 2], &[&["--layouts", "1"], more].concat());
        assert_eq!(ran.status, 0, "{name}: {}{}", ran.stdout, ran.stderr);
        out
    };
    let modules = ["--module", "veth", "--module", "bridge", "--any-output"];
    let ping = ["--setup", NETWORK, "--", "ping", "-c", "3", "10.0.0.2"];
    let out = measured("network", &[&modules[..], &ping].concat());
    for function in ["veth_xmit", "br_handle_frame", "icmp_rcv"] {
        assert!(executed(&out, "program:ping", function) > 0, "{function}");
    }
    let rules = dir.join("rules.nft");
    fs::write(&rules, RULES).unwrap();
    let set_up = format!("nft -f {}", rules.display());
    let modules = ["--module", "nf_tables", "--module", "nft_ct"];
    let out = measured("rules", &[&modules[..], &["--setup", &set_up, "-w", "udp"]].concat());
    assert!(executed(&out, "udp", "nft_do_chain") > 0);
    let probe = dir.join("probe.o");
    fs::write(dir.join("probe.c"), PROBE).unwrap();
    run(Command::new("bpf-gcc").current_dir(dir).args(["-O2", "-c", "probe.c"])).exits(0);
    let set_up = format!("ip link set dev lo xdpgeneric obj {} sec xdp", probe.display());
    let [without, with] =
        [measured("without", &["-w", "udp"]), measured("with", &["--setup", &set_up, "-w", "udp"])];
    let run = |out: &Path| executed(out, "udp", "bpf_prog_run_generic_xdp");
    assert_eq!(run(&without), 0);
    assert!(run(&with) > 0);
    // The program itself, which the kernel has compiled: a hook may load code.
    assert!(executed(&with, "udp", "bpf_prog_") > run(&with));
}

#[test]
fn rows_run_on_every_file_system_and_its_functions_are_named() {
    if !are_there(&["mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"]) {
        return;
    }
    let dir = scratch();
    for fs in ["ext4", "xfs", "btrfs"] {
        let out = dir.path().join(fs);
        let rows = ["-w", "@file-systems", "-w", "create-delete", "--layouts", "1"];
        let args = [&["--disk", fs, "--memory", "768"], &rows[..]].concat();
        let (ran, comparison) = compare(&out, [""; 2], &args);
        assert_eq!(ran.status, 0, "{fs}: {}{}", ran.stdout, ran.stderr);
        for row in &comparison.rows {
            let effect = &row.effects()[0];
            assert_eq!(effect.samples.base, effect.samples.change, "{fs} {}", row.row);
            assert!(executed(&out, &row.row, &format!("{fs}_")) > 0, "{fs} {}", row.row);
        }
    }
}
