//! Tests on files that stand for those of the kernel.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use self::governor as governor_file;
use proptest::prelude::*;
use tempfile::TempDir;

use super::changes::{Changer, StateDir};
use super::{RunningKernel, Setting};
use ktax_model::{ErrorKind, TimedSubject};

const SWAPPINESS: &str = "proc/sys/vm/swappiness";
const THP: &str = "sys/kernel/mm/transparent_hugepage/enabled";
const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";
const POLICIES: [&str; 2] = ["policy0", "policy4"];

struct Machine(TempDir);

impl Machine {
    fn new() -> Machine {
        let machine = Machine(tempfile::tempdir().unwrap());
        machine.write(SWAPPINESS, "60\n");
        machine.write(BOOT_ID, "one\n");
        machine.write(THP, "always [madvise] never\n");
        for policy in POLICIES {
            machine.write(&governor(policy), "powersave\n");
        }
        // This entry is not a policy.
        fs::create_dir(machine.0.path().join("sys/devices/system/cpu/cpufreq/boost")).unwrap();
        machine
    }

    fn write(&self, name: &str, value: &str) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, value).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join(name)).unwrap().trim_end().to_owned()
    }

    /// Returns the swappiness, the state of huge pages, and the governor of every policy.
    fn values(&self) -> [String; 3] {
        let governors = POLICIES.map(|policy| self.read(&governor(policy)));
        assert_eq!(governors[0], governors[1]);
        [self.read(SWAPPINESS), self.read(THP), governors[0].clone()]
    }

    fn changer(&self, sides: [&TimedSubject; 2]) -> ktax_model::Result<Changer<'static>> {
        Changer::for_kernel(below(self.0.path()), &self.state(), sides, |_| ())
    }

    fn state(&self) -> std::path::PathBuf {
        self.0.path().join("state")
    }

    /// Replays the journal as a later ktax would.
    fn replay(&self) -> String {
        let state = StateDir::lock(&self.state()).unwrap();
        state.replay(&below(self.0.path())).unwrap().to_string()
    }
}

fn below(root: &Path) -> RunningKernel {
    RunningKernel { root: root.to_owned() }
}

/// Returns the path in the error about a setting that does not exist.
fn absent_path(kernel: &RunningKernel, setting: &Setting) -> String {
    let error = kernel.read(setting).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Absent, "{error}");
    let (path, _) = error.message().split_once(" does not exist").unwrap();
    path.split_once(": ").unwrap().1.to_owned()
}

fn governor(policy: &str) -> String {
    format!("sys/devices/system/cpu/cpufreq/{policy}/scaling_governor")
}

fn sysctl(name: &str, value: &str) -> TimedSubject {
    TimedSubject { sysctl: [(name.into(), value.into())].into(), ..TimedSubject::default() }
}

/// Ends a changer as a power cut does: the settings stay changed, and the lock is released.
fn cut_power(changer: Changer, machine: &Machine) {
    std::mem::forget(changer);
    fs::remove_file(machine.state().join("lock")).unwrap();
}

#[test]
fn each_side_has_only_its_own_settings() {
    let machine = Machine::new();
    let base = sysctl("vm.swappiness", "10");
    let [thp, performance] = ["never", "performance"].map(|word| Some(word.to_owned()));
    let change = TimedSubject { thp, governor: performance, ..TimedSubject::default() };
    let mut changer = machine.changer([&base, &change]).unwrap();
    changer.apply(&change).unwrap();
    assert_eq!(machine.values(), ["60", "never", "performance"]);
    changer.apply(&base).unwrap();
    assert_eq!(machine.values(), ["10", "madvise", "powersave"]);
    changer.apply(&TimedSubject::default()).unwrap();
    assert_eq!(machine.values(), ["60", "madvise", "powersave"]);
    changer.apply(&change).unwrap();
    changer.restore().unwrap();
    assert_eq!(machine.values(), ["60", "madvise", "powersave"]);
    assert!(!machine.state().join("journal.json").exists());
    // Without a journal no setting is changed.
    let error = changer.apply(&change).unwrap_err().to_string();
    assert!(error.ends_with("is not in the plan; plan again"), "{error}");
    assert_eq!(machine.values(), ["60", "madvise", "powersave"]);
}

#[test]
fn a_drop_restores_the_settings() {
    let machine = Machine::new();
    let base = sysctl("vm.swappiness", "10");
    let mut changer = machine.changer([&base, &base]).unwrap();
    changer.apply(&base).unwrap();
    drop(changer);
    assert_eq!(machine.read(SWAPPINESS), "60");
    assert!(!machine.state().join("journal.json").exists());
}

#[test]
fn nothing_is_written_before_the_journal() {
    let machine = Machine::new();
    let (fifo, journal) = (machine.0.path().join(SWAPPINESS), machine.state().join("journal.json"));
    fs::remove_file(&fifo).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let root = machine.0.path().to_owned();
    let worker = std::thread::spawn(move || {
        let base = sysctl("vm.swappiness", "10");
        let state = root.join("state");
        let changer = Changer::for_kernel(below(&root), &state, [&base, &base], |_| ());
        changer.map(std::mem::forget)
    });
    // To open a FIFO waits for its other end, so this thread stands for the kernel: it serves the
    // reads and the write of the changer in their order.
    let (sender, seen) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        fs::write(&fifo, "60\n").unwrap();
        let mut file = File::open(&fifo).unwrap();
        let journal = fs::read_to_string(&journal).unwrap_or_default();
        let mut value = String::new();
        file.read_to_string(&mut value).unwrap();
        drop(file);
        fs::write(&fifo, "60\n").unwrap();
        sender.send((journal, value)).unwrap();
    });
    let (journal, value) = seen.recv_timeout(Duration::from_secs(20)).expect("it is written");
    assert_eq!(value, "60\n");
    assert!(journal.contains(r#""before": "60""#) && journal.contains(r#""10""#), "{journal:?}");
    worker.join().unwrap().unwrap();
}

#[test]
fn a_replay_restores_only_values_that_ktax_wrote() {
    let machine = Machine::new();
    let base = sysctl("vm.swappiness", "10");
    let kill_after_change = || {
        let mut changer = machine.changer([&base, &base]).unwrap();
        changer.apply(&base).unwrap();
        cut_power(changer, &machine);
    };
    kill_after_change();
    assert_eq!(machine.replay(), "restored vm.swappiness to 60 (was 10)");
    assert_eq!(machine.read(SWAPPINESS), "60");
    assert_eq!(machine.replay(), "no setting was left changed");
    kill_after_change();
    machine.write(SWAPPINESS, "30\n");
    assert_eq!(machine.replay(), "left vm.swappiness at 30: somebody else has changed it since");
    assert_eq!(machine.read(SWAPPINESS), "30");
    kill_after_change();
    fs::remove_file(machine.0.path().join(SWAPPINESS)).unwrap();
    assert_eq!(machine.replay(), "did not restore vm.swappiness: it no longer exists");
    assert!(!machine.state().join("journal.json").exists());
}

#[test]
fn every_kind_of_setting_is_restored_after_a_power_cut() {
    let machine = Machine::new();
    let [thp, performance] = ["never", "performance"].map(|word| Some(word.to_owned()));
    let change = TimedSubject { thp, governor: performance, ..sysctl("vm.swappiness", "10") };
    let mut changer = machine.changer([&TimedSubject::default(), &change]).unwrap();
    changer.apply(&change).unwrap();
    assert_eq!(machine.values(), ["10", "never", "performance"]);
    // The kernel lists all words, with the present one in brackets.
    machine.write(THP, "always madvise [never]\n");
    cut_power(changer, &machine);
    let message = machine.replay();
    assert_eq!(machine.values(), ["60", "madvise", "powersave"], "{message}");
    assert_eq!(message.matches("restored ").count(), 4, "{message}");
}

#[test]
fn the_owner_restores_settings_that_others_changed() {
    let machine = Machine::new();
    let base = sysctl("vm.swappiness", "10");
    let mut changer = machine.changer([&base, &base]).unwrap();
    changer.apply(&base).unwrap();
    machine.write(SWAPPINESS, "30\n");
    changer.restore().unwrap();
    assert_eq!(machine.read(SWAPPINESS), "60");
}

#[test]
fn nothing_is_restored_after_a_reboot() {
    let machine = Machine::new();
    let base = sysctl("vm.swappiness", "10");
    let mut changer = machine.changer([&base, &base]).unwrap();
    changer.apply(&base).unwrap();
    cut_power(changer, &machine);
    machine.write(BOOT_ID, "two\n");
    assert_eq!(machine.replay(), "left vm.swappiness at 10: the machine was rebooted since");
    assert_eq!(machine.read(SWAPPINESS), "10");
}

#[test]
fn impossible_settings_are_refused_with_a_next_step() {
    let machine = Machine::new();
    let two = [("vm.swappiness", "1"), ("vm/swappiness", "2")];
    let two = two.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let twice = TimedSubject { sysctl: two.into(), ..TimedSubject::default() };
    let governor = Some("performance".to_owned());
    let governor = TimedSubject { governor, ..TimedSubject::default() };
    fs::remove_dir_all(machine.0.path().join("sys/devices")).unwrap();
    for (side, word, next) in [
        (
            sysctl("vm.swapiness", "1"),
            "this kernel has no setting vm.swapiness",
            "that provides it",
        ),
        (sysctl("vm.swappiness", "1\n2"), "control characters", "use one short line"),
        (sysctl("vm.swappiness", "1\0"), "control characters", "use one short line"),
        (sysctl("kernel/../../etc/passwd", "1"), "is not the name", "that `sysctl -a` lists"),
        (sysctl("vm", "1"), "cannot read", "or remove the setting"),
        (twice, "two spellings", "write it once"),
        (governor, "no frequency governor", "remove `governor`"),
    ] {
        let error = machine.changer([&TimedSubject::default(), &side]).err().unwrap().to_string();
        assert!(error.contains(word) && error.ends_with(next), "{error}");
    }
    assert_eq!(machine.read(SWAPPINESS), "60");
}

#[test]
fn sysctl_names_have_both_spellings_of_sysctl_8() {
    let path = |name: &str| {
        let machine = Machine::new();
        let setting = Setting::sysctl(name).ok()?;
        let path = absent_path(&below(machine.0.path()), &setting);
        Some(path.strip_prefix(&format!("{}/", machine.0.path().display())).unwrap().to_owned())
    };
    let forwarding = Some("proc/sys/net/ipv4/conf/eth0.100/forwarding".to_owned());
    assert_eq!(path("net.ipv4.conf.eth0/100.forwarding"), forwarding);
    assert_eq!(path("net/ipv4/conf/eth0.100/forwarding"), forwarding);
    for outside in [
        "",
        ".",
        "/",
        "..",
        "vm..x",
        "vm.",
        ".vm",
        "/etc/passwd",
        "../etc",
        "vm/../../../etc",
        "kernel.//.//.etc",
        "vm/./x",
        "vm.a\0b",
        "vm.a b",
        "vm.ü",
    ] {
        assert_eq!(path(outside), None, "{outside:?}");
    }
}

#[test]
fn huge_pages_of_this_machine_have_one_of_three_words() {
    match RunningKernel::default().read(&Setting::Thp) {
        Ok(word) => assert!(["always", "madvise", "never"].contains(&word.as_str()), "{word}"),
        // A kernel without transparent huge pages.
        Err(error) => assert_eq!(error.kind, ErrorKind::Absent, "{error}"),
    }
}

proptest! {
    #[test]
    fn no_name_leads_out_of_proc_sys(name in "[a./]{0,12}") {
        let nothing = Path::new("/nonexistent");
        if let Ok(setting) = Setting::sysctl(&name) {
            let path = absent_path(&below(nothing), &setting);
            let below = path.strip_prefix("/nonexistent/proc/sys/").unwrap();
            prop_assert!(below.split('/').all(|part| !["", ".", ".."].contains(&part)), "{path}");
        }
    }
}

fn refused(machine: &Machine, subject: &TimedSubject) -> String {
    below(machine.0.path()).check(subject).unwrap_err().to_string()
}

#[test]
fn a_mistyped_sysctl_gets_a_suggestion() {
    let machine = Machine::new();
    machine.write("proc/sys/net/ipv4/conf/eth0.100/mtu", "1500\n");
    for (typed, meant) in [
        ("vm.swapiness", "this kernel has no setting vm.swapiness (did you mean vm.swappiness?): "),
        ("net.ipv4.conf.eth0/100.mut", "(did you mean net.ipv4.conf.eth0/100.mtu?)"),
        ("x.y", "this kernel has no setting x.y: "),
    ] {
        let sysctl = [(typed.to_owned(), "1".to_owned())].into();
        let subject = TimedSubject { sysctl, ..TimedSubject::default() };
        let message = refused(&machine, &subject);
        assert!(message.contains(meant) && message.contains("; check the name"), "{message}");
    }
}

#[test]
fn a_mistyped_value_gets_the_kernels_list() {
    let machine = Machine::new();
    let thp = TimedSubject { thp: Some("nver".into()), ..TimedSubject::default() };
    assert_eq!(
        refused(&machine, &thp),
        "transparent huge pages cannot be \"nver\"; use one of always, madvise, never"
    );
    let governor =
        |name: &str| TimedSubject { governor: Some(name.into()), ..TimedSubject::default() };
    // Without a list any value passes the check.
    below(machine.0.path()).check(&governor("preformance")).unwrap();
    let list = |policy: &str| {
        governor_file(policy).replace("scaling_governor", "scaling_available_governors")
    };
    for policy in POLICIES {
        machine.write(&list(policy), "performance powersave \n");
    }
    let message = refused(&machine, &governor("preformance"));
    assert!(message.ends_with("; use one of performance, powersave"), "{message}");
    below(machine.0.path()).check(&governor("powersave")).unwrap();
}

#[test]
fn settings_that_cannot_be_rewritten_are_refused() {
    let machine = Machine::new();
    let files = [
        ("proc/sys/kernel/modules_disabled", "0\n"),
        ("proc/sys/vm/dirty_ratio", "20\n"),
        ("proc/sys/vm/dirty_bytes", "0\n"),
        ("proc/sys/fs/two_lines", "a\nb\n"),
    ];
    files.iter().for_each(|(name, value)| machine.write(name, value));
    for (name, value, why) in [
        ("kernel.modules_disabled", "1", "cannot be undone"),
        ("vm.dirty_bytes", "4096000", "vm.dirty_ratio is 20"),
        ("fs.two_lines", "c", "more than one line"),
    ] {
        let side = sysctl(name, value);
        let error = machine.changer([&side, &TimedSubject::default()]).err().unwrap().to_string();
        assert!(error.contains(why) && error.contains("; remove "), "{error}");
        assert!(!machine.state().join("journal.json").exists());
    }
    files.iter().for_each(|(name, value)| assert_eq!(machine.read(name), value.trim_end()));
    let side = sysctl("vm.dirty_ratio", "30");
    machine.changer([&side, &side]).unwrap().apply(&side).unwrap();
    assert_eq!(machine.read("proc/sys/vm/dirty_ratio"), "20");
}

#[test]
fn irreversible_settings_are_refused() {
    for (name, value, why) in [
        ("kernel.modules_disabled", "0x1", "1 cannot be undone"),
        ("kernel.yama.ptrace_scope", "03", "3 cannot be undone"),
        ("kernel.kexec_load_limit_panic", "5", "only accepts a lower value"),
        ("kernel.kexec_load_limit_reboot", "5", "only accepts a lower value"),
        ("kernel.tainted", "512", "only adds"),
        ("net.ipv4.ip_forward", "1", "accept_redirects"),
        ("net.ipv4.conf.all.rp_filter", "1", "every interface"),
        ("net.ipv6.conf.all.forwarding", "1", "every interface"),
        ("net/ipv4/conf/default/rp_filter", "1", "every interface"),
        ("net.ipv6.conf.default.mtu", "1400", "every interface"),
        ("net.ipv6.conf.eth0/100.disable_ipv6", "1", "drops the interface's addresses"),
        ("net.ipv4.conf.eth0.forwarding", "1", "large receive offload"),
        ("net.ipv6.conf.eth0.forwarding", "1", "default routes"),
    ] {
        // The files do not exist, so the setting is refused before a file is read or written.
        let (machine, side) = (Machine::new(), sysctl(name, value));
        let error = machine.changer([&TimedSubject::default(), &side]).err().unwrap().to_string();
        assert!(error.contains(why) && error.contains("; remove "), "{error}");
        assert!(!machine.state().join("journal.json").exists());
    }
    for (name, value) in [
        ("kernel.unprivileged_bpf_disabled", "2"),
        ("kernel.yama.ptrace_scope", "1"),
        ("net.ipv4.conf.lo.rp_filter", "1"),
        ("net.ipv4.ip_forward_use_pmtu", "1"),
    ] {
        let (machine, side) = (Machine::new(), sysctl(name, value));
        let file = format!("proc/sys/{}", name.replace('.', "/"));
        machine.write(&file, "0\n");
        machine.changer([&side, &side]).unwrap().apply(&side).unwrap();
        assert_eq!(machine.read(&file), "0");
    }
}
