use super::*;

#[test]
fn what_has_no_way_back_is_not_begun() {
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
        assert!(error.contains(why) && error.ends_with("remove it"), "{error}");
        assert!(!machine.state().join("journal.json").exists());
    }
    files.iter().for_each(|(name, value)| assert_eq!(machine.read(name), value.trim_end()));
    let side = sysctl("vm.dirty_ratio", "30");
    machine.changer([&side, &side]).unwrap().apply(&side).unwrap();
    assert_eq!(machine.read("proc/sys/vm/dirty_ratio"), "20");
}

#[test]
fn what_writing_the_old_value_does_not_undo_is_not_begun() {
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
        // The files are not there: nothing is read or written before.
        let (machine, side) = (Machine::new(), sysctl(name, value));
        let error = machine.changer([&TimedSubject::default(), &side]).err().unwrap().to_string();
        assert!(error.contains(why) && error.ends_with("remove it"), "{error}");
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
