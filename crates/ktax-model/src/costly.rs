//! Instructions that cost many times what others cost. Each kind is a Metric that decides nothing:
//! what one costs depends on the machine.

use serde::{Deserialize, Serialize};

use super::tally::{Tallied, Tally};

/// A kind, as in `plugin/costly.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Costly {
    /// A load of CR3: another address space, or a flush of this one.
    Cr3Write,
    /// `invlpg`.
    Invlpg,
    /// `invpcid`.
    Invpcid,
    /// `wrmsr`, of any register.
    Wrmsr,
    /// `rdmsr`, of any register.
    Rdmsr,
    /// `swapgs`.
    Swapgs,
    /// `verw`, which clears buffers.
    Verw,
    /// With a `lock` prefix, or an exchange with memory.
    Locked,
    /// `lfence`, `mfence`, `sfence`.
    Fence,
    /// `cpuid`, `wbinvd`, `serialize`, loads of CR0 and CR4.
    Serializing,
    /// `syscall`, `sysenter`.
    Syscall,
    /// `sysret`, `sysexit`.
    Sysret,
    /// `iret`.
    Iret,
    /// `int`, `int3`.
    Int,
    /// `cli`, `sti`, `popf`.
    InterruptFlag,
    /// `in`, `out`, `ins`, `outs`.
    Port,
    /// An access to memory that is a device's. Counted only where a machine is modelled.
    Mmio,
    /// `hlt`, `mwait`.
    Hlt,
    /// `pause`.
    Pause,
    /// `xsave`, `xrstor`, `fxsave`, `fxrstor`, of any kind.
    Xsave,
    /// `clflush`, `clflushopt`, `clwb`.
    Clflush,
    /// `rdtsc`, `rdtscp`, `rdpmc`.
    Rdtsc,
    /// `rdrand`, `rdseed`.
    Rdrand,
    /// A call or jump to an address in a register or in memory, also through a retpoline.
    Indirect,
    /// A return that jumps to a thunk.
    ReturnThunk,
    /// A start of `rep stosb`, which clears or fills memory; its iterations are counted apart.
    RepStosb,
    /// A start of `rep stosw`, `rep stosl` or `rep stosq`.
    RepStos,
    /// A start of `rep movsb`, which copies memory.
    RepMovsb,
    /// A start of `rep movsw`, `rep movsl` or `rep movsq`.
    RepMovs,
}

impl Costly {
    /// All kinds, in the order in which they are printed.
    pub const ALL: [Costly; 29] = [
        Costly::Cr3Write,
        Costly::Invlpg,
        Costly::Invpcid,
        Costly::Wrmsr,
        Costly::Rdmsr,
        Costly::Swapgs,
        Costly::Verw,
        Costly::Locked,
        Costly::Fence,
        Costly::Serializing,
        Costly::Syscall,
        Costly::Sysret,
        Costly::Iret,
        Costly::Int,
        Costly::InterruptFlag,
        Costly::Port,
        Costly::Mmio,
        Costly::Hlt,
        Costly::Pause,
        Costly::Xsave,
        Costly::Clflush,
        Costly::Rdtsc,
        Costly::Rdrand,
        Costly::Indirect,
        Costly::ReturnThunk,
        Costly::RepStosb,
        Costly::RepStos,
        Costly::RepMovsb,
        Costly::RepMovs,
    ];

    /// Starts of repeated string instructions.
    pub const STRINGS: [Costly; 4] =
        [Costly::RepStosb, Costly::RepStos, Costly::RepMovsb, Costly::RepMovs];

    /// The name in files and on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Costly::Cr3Write => "cr3-write",
            Costly::Invlpg => "invlpg",
            Costly::Invpcid => "invpcid",
            Costly::Wrmsr => "wrmsr",
            Costly::Rdmsr => "rdmsr",
            Costly::Swapgs => "swapgs",
            Costly::Verw => "verw",
            Costly::Locked => "locked",
            Costly::Fence => "fence",
            Costly::Serializing => "serializing",
            Costly::Syscall => "syscall",
            Costly::Sysret => "sysret",
            Costly::Iret => "iret",
            Costly::Int => "int",
            Costly::InterruptFlag => "interrupt-flag",
            Costly::Port => "port",
            Costly::Mmio => "mmio",
            Costly::Hlt => "hlt",
            Costly::Pause => "pause",
            Costly::Xsave => "xsave",
            Costly::Clflush => "clflush",
            Costly::Rdtsc => "rdtsc",
            Costly::Rdrand => "rdrand",
            Costly::Indirect => "indirect",
            Costly::ReturnThunk => "return-thunk",
            Costly::RepStosb => "rep-stosb",
            Costly::RepStos => "rep-stos",
            Costly::RepMovsb => "rep-movsb",
            Costly::RepMovs => "rep-movs",
        }
    }
}

impl Tallied<{ Costly::ALL.len() }> for Costly {
    const KINDS: [Costly; Costly::ALL.len()] = Costly::ALL;

    fn name(self) -> &'static str {
        Costly::name(self)
    }
}

/// How many of each kind.
pub type CostlyCounts = Tally<Costly, { Costly::ALL.len() }>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_in_the_order_of_their_numbers_and_come_back_by_their_names() {
        for (number, kind) in Costly::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
            assert_eq!(Costly::named(kind.name()), Some(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        assert_eq!(Costly::named("none"), None);
    }

    #[test]
    fn only_what_there_is_is_written_and_an_unknown_kind_is_refused() {
        let mut counts = CostlyCounts::of(Costly::Cr3Write, 2);
        counts += CostlyCounts::of(Costly::Locked, 7);
        let text = serde_json::to_string(&counts).unwrap();
        assert_eq!(text, r#"{"cr3-write":2,"locked":7}"#);
        assert_eq!(serde_json::from_str::<CostlyCounts>(&text).unwrap(), counts);
        let error = serde_json::from_str::<CostlyCounts>(r#"{"a\u001bb":1}"#).unwrap_err();
        assert!(error.to_string().starts_with("unknown variant `a\\u{1b}b`"), "{error}");
    }
}
