//! Names of exit reasons, from the lists with which this kernel prints its own records.

use std::collections::BTreeMap;

use crate::architecture::{CEDED, CEDED_SUFFIX};
use crate::recording::Reason;
use crate::scause::SCAUSE;

/// The lists of one tracepoint.
#[derive(Debug, Clone, Default)]
pub struct Names {
    lists: Vec<List>,
    reason: String,
    detail: Option<String>,
}

/// `__print_symbolic(REC->FIELD & MASK, { NUMBER, "NAME" }, …)`, where the other field has a value.
#[derive(Debug, Clone)]
struct List {
    field: String,
    mask: u64,
    detail: Option<u32>,
    names: BTreeMap<u64, String>,
}

const CALL: &str = "__print_symbolic(";

impl Names {
    /// From how the kernel prints a record, for these fields of it.
    pub fn new(print: &str, reason: &str, detail: Option<&str>) -> Names {
        let mut lists = Vec::new();
        let mut rest = print;
        while let Some(at) = rest.find(CALL) {
            let before = &rest[..at];
            rest = &rest[at + CALL.len()..];
            lists.extend(list(before, rest, detail));
        }
        if reason == "scause" {
            let names = SCAUSE.map(|(code, name)| (code, name.to_owned())).into();
            lists.push(List { field: reason.to_owned(), mask: u64::MAX, detail: None, names });
        }
        Names { lists, reason: reason.to_owned(), detail: detail.map(str::to_owned) }
    }

    /// The kernel's name for a reason, or its number.
    pub fn name(&self, reason: Reason) -> String {
        const EINTR: i64 = 4;
        match reason.code as i64 {
            // Between a call of KVM_RUN and its return there is more than the guest.
            _ if reason == Reason::GUEST && self.reason == "reason" => return "KVM_RUN".to_owned(),
            _ if reason == Reason::GUEST => return "TIMEINGUEST".to_owned(),
            code if code == -EINTR => return "signal".to_owned(),
            code if (-4095..0).contains(&code) => return format!("error {}", -code),
            _ => {}
        }
        if let Some(field) = &self.detail {
            let what = self.lists.iter().find(|list| list.field == *field);
            let name = what.and_then(|list| list.names.get(&u64::from(reason.detail)));
            if let Some(name) = name.filter(|_| reason.detail != 0) {
                return name.clone();
            }
        }
        let name = self.name_of_code(reason);
        // Whether the guest waits is no list of names, but another reason.
        let is_ceded = self.detail.as_deref() == Some(CEDED) && reason.detail != 0;
        if is_ceded { name + CEDED_SUFFIX } else { name }
    }

    fn name_of_code(&self, reason: Reason) -> String {
        let is_of = |list: &&List| {
            list.field == self.reason && list.detail.is_none_or(|value| value == reason.detail)
        };
        let number = || format!("{:#x}", reason.code);
        let Some(list) = self.lists.iter().find(is_of) else { return number() };
        let Some(name) = list.names.get(&(reason.code & list.mask)) else { return number() };
        // Flags beside the number, such as that of an entry that failed, are another reason.
        match reason.code & !list.mask {
            0 => name.clone(),
            flags => format!("{name} +{flags:#x}"),
        }
    }
}

/// What stands between a call's parentheses, and the condition before it.
fn list(before: &str, text: &str, detail: Option<&str>) -> Option<List> {
    let (subject, entries) = text.split_once(',')?;
    let (field, mask) = match subject.split_once('&') {
        Some((field, mask)) => (field, number(mask.trim().trim_matches(['(', ')']))?),
        None => (subject, u64::MAX),
    };
    let field = field.trim().trim_matches(['(', ')', ' ']).strip_prefix("REC->")?.to_owned();
    let condition = detail.and_then(|detail| {
        let (_, value) = before.rsplit_once(&format!("REC->{detail} == "))?;
        // The list's own condition, and not an earlier one's.
        let (value, rest) = value.split_once(')')?;
        rest.trim().eq("?").then(|| value.trim().parse().ok())?
    });
    let mut names = BTreeMap::new();
    let mut entries = entries;
    while let Some(rest) = entries.trim_start_matches([',', ' ', '\n']).strip_prefix('{') {
        let (entry, after) = rest.split_once('}')?;
        entries = after;
        if let Some((code, name)) = entry.split_once(',').and_then(|(a, b)| Some((number(a)?, b))) {
            // C joins strings that stand beside each other.
            let name: String = name.split('"').skip(1).step_by(2).collect();
            names.entry(code).or_insert(name);
        }
    }
    Some(List { field, mask, detail: condition, names })
}

/// `33`, `0x21`, `0x040 + 14`, with C's suffixes.
fn number(text: &str) -> Option<u64> {
    let one = |text: &str| {
        let text = text.trim().trim_matches(['(', ')']).trim_end_matches(['U', 'L', 'u', 'l']);
        match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        }
    };
    text.split('+').map(one).try_fold(0u64, |sum, term| sum.checked_add(term?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KVM_EXIT: &str = include_str!("../kvm_exit-x86.format");
    const RETURN: &str = include_str!("../kvm_userspace_exit.format");

    fn name(names: &Names, code: u64, detail: u32) -> String {
        names.name(Reason { code, detail })
    }

    #[test]
    fn both_processors_of_x86_have_their_own_names() {
        let names = Names::new(KVM_EXIT, "exit_reason", Some("isa"));
        assert_eq!(name(&names, 12, 1), "HLT");
        assert_eq!(name(&names, 48, 1), "EPT_VIOLATION");
        assert_eq!(name(&names, 0x78, 2), "hlt");
        assert_eq!(name(&names, 0x40 + 14, 2), "PF excp");
        assert_eq!(name(&names, 0x400, 2), "npf");
    }

    #[test]
    fn what_has_no_name_is_a_number_and_a_flag_is_said() {
        let names = Names::new(KVM_EXIT, "exit_reason", Some("isa"));
        assert_eq!(name(&names, 131_072, 2), "0x20000");
        assert_eq!(name(&names, 327_680, 2), "0x50000");
        assert_eq!(name(&names, 0x8000_0021, 1), "INVALID_STATE +0x80000000");
        assert_eq!(name(&Names::default(), 7, 0), "0x7");
        assert_eq!(name(&Names::new("", "scause", None), 23, 0), "store guest-page fault");
    }

    #[test]
    fn a_guest_that_waits_on_powerpc_has_a_reason_of_its_own() {
        let print = r#"__print_symbolic(REC->trap, { 0xc00, "SYSCALL" }), REC->ceded"#;
        let names = Names::new(print, "trap", Some("ceded"));
        assert_eq!(name(&names, 0xc00, 0), "SYSCALL");
        assert_eq!(name(&names, 0xc00, 1), "SYSCALL, ceded");
        assert_eq!(name(&names, 0xea0, 1), "0xea0, ceded");
    }

    #[test]
    fn the_return_of_kvm_run_has_names_and_errors() {
        let names = Names::new(RETURN, "reason", None);
        assert_eq!(name(&names, 2, 0), "KVM_EXIT_IO");
        assert_eq!(name(&names, (-4i64) as u64, 0), "signal");
        assert_eq!(name(&names, (-14i64) as u64, 0), "error 14");
        assert_eq!(names.name(Reason::GUEST), "KVM_RUN");
        assert_eq!(Names::default().name(Reason::GUEST), "TIMEINGUEST");
    }

    #[test]
    fn a_trap_of_arm64_is_named_by_its_class() {
        let print = concat!(
            r#""%s", __print_symbolic(REC->ret, {0, "IRQ" }, {2, "TRAP"}), REC->esr_ec, "#,
            r#"__print_symbolic(REC->esr_ec, { (0x01), "WFx" }, { 0x24, "DABT_LOW" })"#,
        );
        let names = Names::new(print, "ret", Some("esr_ec"));
        assert_eq!(name(&names, 0, 0), "IRQ");
        assert_eq!(name(&names, 2, 1), "WFx");
        assert_eq!(name(&names, 2, 0x24), "DABT_LOW");
    }

    proptest! {
        #[test]
        fn any_text_gives_names(print in "(__print_symbolic\\(|REC->isa|[{}(),\" &0-9x]|\\PC)*") {
            let names = Names::new(&print, "exit_reason", Some("isa"));
            let _ = names.name(Reason { code: 3, detail: 1 });
        }
    }
}
