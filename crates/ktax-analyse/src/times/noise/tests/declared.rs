use super::*;

#[test]
fn an_undeclared_difference_is_found_in_pairs_and_not_in_controls() {
    let [old, new] = [[(fact::MICROCODE, "0xf4")], [(fact::MICROCODE, "0xf6")]];
    let pairs = [
        pair(0, &old, &new),
        control(1, &old, &new),
        pair(2, &old, &old),
        pair(3, &old, &[]),
        pair(4, &old, &new),
    ];
    let found = undeclared(&equals(), &pairs);
    let said: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(said, ["microcode: base 0xf4, change 0xf6 (2 of 3 pairs)"]);
    assert_eq!(undeclared(&equals(), &pairs[1..3]), []);
    // Both Sides as a whole said the same; in each pair they differ.
    assert_eq!(undeclared(&equals(), &[pair(0, &old, &new), pair(1, &new, &old)]).len(), 2);
}

#[test]
fn of_mitigations_only_the_parts_that_differ_are_said() {
    let base = [(fact::MITIGATIONS, "mds=Vulnerable | meltdown=Mitigation: PTI")];
    let change = [(fact::MITIGATIONS, "mds=Vulnerable | srbds=Vulnerable")];
    let found = undeclared(&equals(), &[pair(0, &base, &change)]);
    let said = "mitigations: base meltdown=Mitigation: PTI, change srbds=Vulnerable (1 of 1 pairs)";
    assert_eq!(found[0].to_string(), said);
    let less = undeclared(&equals(), &[pair(0, &base, &[(fact::MITIGATIONS, "mds=Vulnerable")])]);
    assert!(less[0].to_string().contains("base meltdown=Mitigation: PTI, change nothing"));
    let turned = [(fact::MITIGATIONS, "meltdown=Mitigation: PTI | mds=Vulnerable")];
    let found = undeclared(&equals(), &[pair(0, &base, &turned)]);
    assert_eq!(found[0].change, turned[0].1);
}

/// All facts differ; which of them are not declared.
fn left(plan: &TimesPlan) -> Vec<&'static str> {
    let names = [
        fact::ACCELERATOR,
        fact::AFFINITY,
        fact::ASLR,
        fact::BOOT_LINE,
        fact::BUILD,
        fact::BUILD_ID,
        fact::CLOCK,
        fact::CPU,
        fact::CPUS,
        fact::GOVERNOR,
        fact::GUEST_MEMORY,
        fact::HYPERVISOR,
        fact::IGNORED,
        fact::ISOLATED,
        fact::KERNEL,
        fact::MICROCODE,
        fact::MITIGATIONS,
        fact::NOHZ_FULL,
        fact::QEMU,
        fact::SMT,
        fact::THP,
        fact::TURBO,
        fact::VCPUS,
        fact::VCPU_CPUS,
    ];
    let [base, change] = ["a", "b"].map(|value| names.map(|name| (name, value)));
    let found = undeclared(plan, &[pair(0, &base, &change)]);
    names.into_iter().filter(|name| found.iter().any(|f| f.fact == *name)).collect()
}

#[test]
fn each_setting_declares_its_own_facts_and_no_others() {
    let all = left(&equals());
    assert_eq!(all.len(), 24);
    let declares = |plan: TimesPlan, expected: &[&str]| {
        let left = left(&plan);
        let declared: Vec<&str> = all.iter().copied().filter(|n| !left.contains(n)).collect();
        assert_eq!(declared, expected);
    };
    use fact::*;
    declares(
        planned(|s| s.kernel = Some("new".into())),
        &[BOOT_LINE, BUILD, BUILD_ID, IGNORED, KERNEL, MITIGATIONS],
    );
    declares(planned(|s| s.boot_line = "quiet".into()), &[BOOT_LINE, IGNORED, MITIGATIONS]);
    declares(
        planned(|s| s.boot_line = "nosmt isolcpus=1".into()),
        &[AFFINITY, BOOT_LINE, CPUS, IGNORED, ISOLATED, MITIGATIONS, SMT],
    );
    for cpus in ["nr_cpus=1", "maxcpus=1"] {
        let expected = [AFFINITY, BOOT_LINE, CPUS, IGNORED, MITIGATIONS, SMT];
        declares(planned(|s| s.boot_line = cpus.into()), &expected);
    }
    for pstate in ["amd_pstate=passive", "intel_pstate=disable"] {
        let expected = [BOOT_LINE, GOVERNOR, IGNORED, MITIGATIONS, TURBO];
        declares(planned(|s| s.boot_line = pstate.into()), &expected);
    }
    for smt in ["mitigations=auto,nosmt", "mds=full,nosmt", "l1tf=full,force", "nosmt=force"] {
        let expected = [BOOT_LINE, CPUS, IGNORED, MITIGATIONS, SMT];
        declares(planned(|s| s.boot_line = smt.into()), &expected);
    }
    for other in ["mitigations=off", "l1tf=full", "kvm.nx_huge_pages=force"] {
        let expected = [BOOT_LINE, IGNORED, MITIGATIONS];
        declares(planned(|s| s.boot_line = other.into()), &expected);
    }
    declares(planned(|s| s.thp = Some("never".into())), &[THP]);
    declares(planned(|s| s.governor = Some("performance".into())), &[GOVERNOR]);
    declares(planned(|s| s.prefix = vec!["taskset".into(), "-c".into(), "1".into()]), &[AFFINITY]);
    declares(planned(|s| s.prefix = vec!["/usr/bin/setarch".into(), "-R".into()]), &[ASLR]);
    declares(planned(|s| s.prefix = vec!["chrt".into(), "1".into()]), &[]);
    let sysctl = |name: &str| planned(|s| drop(s.sysctl.insert(name.into(), "0".into())));
    declares(sysctl("kernel.randomize_va_space"), &[ASLR]);
    declares(sysctl("vm.swappiness"), &[]);
    // What both Sides are set to is no factor: the machine must be so on both.
    let both = TimedSubject { governor: Some("performance".into()), ..TimedSubject::default() };
    declares(plan(both.clone(), both), &[]);
}

#[test]
fn a_kernel_that_the_user_boots_has_its_own_boot_line() {
    let said = |line| [(fact::BOOT_LINE, line), (fact::THP, line), (fact::ISOLATED, line)];
    let pairs = [pair(0, &said("quiet"), &said("quiet transparent_hugepage=never"))];
    let compared = planned(|side| side.kernel = Some("new".into()));
    let found = undeclared(&compared, &pairs);
    assert_eq!(found.iter().map(|f| f.fact.as_str()).collect::<Vec<_>>(), [fact::ISOLATED]);
}

proptest! {
    #[test]
    fn only_the_facts_that_differ_are_found(
        base in prop::collection::btree_map("[a-d]", "[a-c]{1,2}", 1..5),
        change in prop::collection::btree_map("[a-d]", "[a-c]{1,2}", 1..5),
    ) {
        let mut both = pair(0, &[], &[]);
        both.boots.base.facts = base.clone();
        both.boots.change.facts = change.clone();
        let names = base.keys().chain(change.keys());
        let mut differ: Vec<String> =
            names.filter(|name| base.get(*name) != change.get(*name)).cloned().collect();
        differ.sort();
        differ.dedup();
        let found = undeclared(&equals(), &[both.clone()]).into_iter().map(|found| found.fact);
        prop_assert_eq!(found.collect::<Vec<_>>(), differ);
        both.is_control = true;
        prop_assert_eq!(undeclared(&equals(), &[both]), vec![]);
    }
}

#[test]
fn a_guest_beside_bare_metal_shares_the_kernel_and_nothing_else() {
    let mut bare = planned(|change| change.kernel = Some("debian:cloud-amd64".into()));
    bare.subjects.base.bare_metal = true;
    assert_eq!(left(&bare), [fact::KERNEL]);
}
