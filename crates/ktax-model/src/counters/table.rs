//! Table of counters: everything that the plugin counts by context and function.
//!
//! The plugin's header, the reader of profiles, the JSON of counts, Metrics and tables in `docs/`
//! are derived from this table. The build script of ktax-engine includes this file, so the file
//! cannot use other modules of this crate.

/// A counter, with its names and its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterRow {
    pub counter: Counter,
    /// Name in files. Except for [`Basic`] counters, the Metric has the same name.
    pub name: &'static str,
    /// Unit of the count.
    pub unit: &'static str,
    /// Description for the documentation, in Markdown.
    pub meaning: &'static str,
}

macro_rules! counters {
    ($(
        $(#[$meta:meta])*
        $Group:ident {
            $($Variant:ident = $name:literal, $unit:literal, $meaning:literal;)+
        }
    )+) => {
        $(
            $(#[$meta])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub enum $Group {
                $(#[doc = $meaning] $Variant,)+
            }

            impl $Group {
                /// All counters of the group, in print order.
                pub const ALL: [$Group; [$($name),+].len()] = [$($Group::$Variant),+];

                /// All names of the group, in print order.
                pub const NAMES: &[&str] = &[$($name),+];

                /// Name in files and on the screen.
                pub const fn name(self) -> &'static str {
                    $Group::NAMES[self as usize]
                }
            }

            impl From<$Group> for Counter {
                fn from(counter: $Group) -> Counter {
                    Counter::$Group(counter)
                }
            }
        )+

        /// A counter of any group.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Counter {
            $($(#[$meta])* $Group($Group),)+
        }

        pub const COUNTERS: [CounterRow; [$($($name),+),+].len()] = [
            $($(CounterRow {
                counter: Counter::$Group($Group::$Variant),
                name: $name,
                unit: $unit,
                meaning: $meaning,
            },)+)+
        ];
    };
}

counters! {
    /// Work and time. Their Metrics are listed separately in `counters.rs`, because some counters
    /// have Metrics in several Contexts.
    Basic {
        Instructions = "instructions", "instructions",
            "instructions; a REP string instruction counts once";
        RepIterations = "rep_iterations", "iterations",
            "repeats of REP string instructions";
        Wait = "wait", "instructions",
            "time that one of several CPUs waited for another one";
        Idle = "idle", "instructions",
            "time that one of several CPUs had nothing to do";
        Transfers = "model_transfers", "transfers",
            "cache lines that came from another CPU, by the model of coherence";
    }

    /// Instructions that cost many times as much as others. Their Metrics do not decide a row,
    /// because the cost of one instruction depends on the machine.
    Costly {
        Cr3Write = "cr3-write", "instructions",
            "loads of CR3: another address space, or a flush";
        Invlpg = "invlpg", "instructions", "`invlpg`";
        Invpcid = "invpcid", "instructions", "`invpcid`";
        Wrmsr = "wrmsr", "instructions",
            "`wrmsr`, of any register; with QEMU 9.0 or newer `ktax report --explain` says which, \
             where the row changed in them";
        Rdmsr = "rdmsr", "instructions", "`rdmsr`, in the same way";
        Swapgs = "swapgs", "instructions", "`swapgs`";
        Verw = "verw", "instructions", "`verw`, which clears buffers";
        Locked = "locked", "instructions", "with a `lock` prefix, and `xchg` with memory";
        Fence = "fence", "instructions", "`lfence`, `mfence`, `sfence`";
        Serializing = "serializing", "instructions",
            "`cpuid`, `wbinvd`, `invd`, `serialize`, loads of CR0 and CR4";
        Syscall = "syscall", "instructions", "`syscall`, `sysenter`";
        Sysret = "sysret", "instructions", "`sysret`, `sysexit`";
        Iret = "iret", "instructions", "`iret`";
        Int = "int", "instructions", "`int`, `int3`";
        InterruptFlag = "interrupt-flag", "instructions", "`cli`, `sti`, `popf`";
        Port = "port", "instructions", "`in`, `out`, `ins`, `outs`";
        Mmio = "mmio", "instructions",
            "loads and stores of a device's memory, as of the local APIC; only with \
             [`--model MACHINE`](machine.md), which looks at each access";
        Hlt = "hlt", "instructions", "`hlt`, `mwait`";
        Pause = "pause", "instructions", "`pause`";
        Xsave = "xsave", "instructions",
            "`xsave`, `xrstor`, `fxsave`, `fxrstor` and their variants";
        Clflush = "clflush", "instructions", "`clflush`, `clflushopt`, `clwb`";
        Rdtsc = "rdtsc", "instructions", "`rdtsc`, `rdtscp`, `rdpmc`";
        Rdrand = "rdrand", "instructions", "`rdrand`, `rdseed`";
        Indirect = "indirect", "instructions",
            "calls and jumps to an address in a register or in memory, also through a retpoline";
        ReturnThunk = "return-thunk", "instructions", "returns that jump to a thunk";
        RepStosb = "rep-stosb", "instructions",
            "each start of `rep stosb`, which clears memory. What it repeats is \
             [`rep-iterations`](glossary.md#what-is-counted-and-timed)";
        RepStos = "rep-stos", "instructions",
            "each start of `rep stosw`, `stosl`, `stosq`, which clear memory";
        RepMovsb = "rep-movsb", "instructions", "each start of `rep movsb`, which copies memory";
        RepMovs = "rep-movs", "instructions",
            "each start of `rep movsw`, `movsl`, `movsq`, which copy memory";
    }

    /// Events of the model of a machine. Their Metrics do not decide a row, because the model is no
    /// real machine.
    Modelled {
        L1iMisses = "model-l1i-misses", "misses",
            "lines of code that the first cache did not have";
        L1dAccesses = "model-l1d-accesses", "accesses", "loads and stores";
        L1dMisses = "model-l1d-misses", "misses",
            "lines of data that the first cache did not have";
        CacheReferences = "model-cache-references", "references",
            "lines that the last cache was asked for";
        CacheMisses = "model-cache-misses", "misses", "lines that the last cache did not have";
        ItlbMisses = "model-itlb-misses", "misses",
            "translations of addresses of code that the first TLB did not have";
        DtlbMisses = "model-dtlb-misses", "misses",
            "translations of addresses of data that the first TLB did not have";
        PageWalks = "model-page-walks", "walks", "translations that no TLB had";
        Branches = "model-branches", "branches", "branches, calls and returns";
        BranchMisses = "model-branch-misses", "misses", "branches that were predicted wrong";
    }
}

impl Counter {
    /// Index in [`COUNTERS`].
    pub const fn index(self) -> usize {
        match self {
            Counter::Basic(counter) => counter as usize,
            Counter::Costly(counter) => Basic::ALL.len() + counter as usize,
            Counter::Modelled(counter) => Basic::ALL.len() + Costly::ALL.len() + counter as usize,
        }
    }

    /// Row of the table.
    pub const fn row(self) -> CounterRow {
        COUNTERS[self.index()]
    }

    /// Prefix of the counter in profiles, and key of its group in JSON; empty for [`Basic`].
    pub const fn group(self) -> &'static str {
        match self {
            Counter::Basic(_) => "",
            Counter::Costly(_) => "costly",
            Counter::Modelled(_) => "modelled",
        }
    }

    /// Counter by group and name; `None` if there is no such counter.
    pub fn find(group: &str, name: &str) -> Option<Counter> {
        let row = COUNTERS.iter().find(|row| row.name == name && row.counter.group() == group);
        row.map(|row| row.counter)
    }
}

/// C header for the plugin: one enum for kinds of costly instructions, and one for the other
/// counters of each function.
pub fn plugin_header() -> String {
    let mut costly = vec![("COSTLY_NONE".to_owned(), "none")];
    let mut columns = Vec::new();
    for row in COUNTERS {
        let is_costly = row.counter.group() == "costly";
        let (list, prefix) =
            if is_costly { (&mut costly, "COSTLY") } else { (&mut columns, "COLUMN") };
        let word = row.name.replace('-', "_").to_uppercase();
        let is_first_of_model = row.counter == Counter::Modelled(Modelled::ALL[0]);
        let marker = if is_first_of_model { "COLUMN_MODEL,\n    " } else { "" };
        let value = if is_first_of_model { " = COLUMN_MODEL" } else { "" };
        let word = word.trim_start_matches("MODEL_");
        list.push((format!("{marker}{prefix}_{word}{value}"), row.name));
    }
    let declare = |kind: &str, list: &[(String, &str)]| {
        let constants: String = list.iter().map(|(id, _)| format!("    {id},\n")).collect();
        let names: Vec<String> = list.iter().map(|(_, name)| format!("{name:?}")).collect();
        let upper = kind.to_uppercase();
        format!(
            "enum ktax_{kind} {{\n{constants}    {upper}_COUNT,\n}};\n\
             #define KTAX_{upper}_NAMES {}\n",
            names.join(", ")
        )
    };
    format!(
        "/* Made from crates/ktax-model/src/counters/table.rs. */\n#pragma once\n{}{}",
        declare("costly", &costly),
        declare("column", &columns)
    )
}
