//! Names and values that are refused before anything is changed.

use super::governor as governor_file;
use super::*;

fn refused(machine: &Machine, subject: &TimedSubject) -> String {
    Running::below(machine.0.path()).check(subject).unwrap_err().to_string()
}

#[test]
fn a_mistyped_sysctl_has_the_name_that_was_meant() {
    let machine = Machine::new();
    machine.write("proc/sys/net/ipv4/conf/eth0.100/mtu", "1500\n");
    for (typed, meant) in [
        ("vm.swapiness", "there is no vm.swapiness (did you mean vm.swappiness?): "),
        ("net.ipv4.conf.eth0/100.mut", "(did you mean net.ipv4.conf.eth0/100.mtu?)"),
        ("x.y", "there is no x.y: "),
    ] {
        let sysctl = [(typed.to_owned(), "1".to_owned())].into();
        let subject = TimedSubject { sysctl, ..TimedSubject::default() };
        let said = refused(&machine, &subject);
        assert!(said.contains(meant) && said.contains("; check the name"), "{said}");
    }
}

#[test]
fn a_mistyped_value_has_the_list_of_the_kernel() {
    let machine = Machine::new();
    let thp = TimedSubject { thp: Some("nver".into()), ..TimedSubject::default() };
    assert_eq!(
        refused(&machine, &thp),
        "transparent huge pages cannot be \"nver\"; use one of always, madvise, never"
    );
    let governor =
        |name: &str| TimedSubject { governor: Some(name.into()), ..TimedSubject::default() };
    // Without a list only the kernel knows.
    Running::below(machine.0.path()).check(&governor("preformance")).unwrap();
    let list = |policy: &str| {
        governor_file(policy).replace("scaling_governor", "scaling_available_governors")
    };
    for policy in POLICIES {
        machine.write(&list(policy), "performance powersave \n");
    }
    let said = refused(&machine, &governor("preformance"));
    assert!(said.ends_with("; use one of performance, powersave"), "{said}");
    Running::below(machine.0.path()).check(&governor("powersave")).unwrap();
}
