use serde::{Deserialize, Serialize};

/// In which part of a guest's memory a cache line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Memory {
    /// The kernel's variables, and those of its modules.
    Data,
    /// Variables of which each CPU has one.
    Percpu,
    /// Allocated by the kernel in its map of all memory: slab objects, page tables, page cache.
    Direct,
    /// Mapped by the kernel page by page: kernel stacks, `vmalloc`.
    Vmalloc,
    /// The kernel's descriptions of pages, `struct page`.
    Pages,
    /// User space.
    User,
    /// Something else.
    Other,
}

impl Memory {
    /// All of them.
    pub const ALL: [Memory; 7] = [
        Memory::Data,
        Memory::Percpu,
        Memory::Direct,
        Memory::Vmalloc,
        Memory::Pages,
        Memory::User,
        Memory::Other,
    ];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Memory::Data => "data",
            Memory::Percpu => "percpu",
            Memory::Direct => "direct",
            Memory::Vmalloc => "vmalloc",
            Memory::Pages => "pages",
            Memory::User => "user",
            Memory::Other => "other",
        }
    }

    /// Whether a line of it has the name of a variable. Else it has that of the function that most
    /// often gets it from another CPU.
    pub fn has_symbols(self) -> bool {
        matches!(self, Memory::Data | Memory::Percpu)
    }
}

/// Cache lines of one name, and how often they travelled from one CPU to another in a Region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheLine {
    /// Where it is.
    pub memory: Memory,
    /// The variable, or two that share the line (`a,b`), or a function: see
    /// [`Memory::has_symbols`].
    pub name: String,
    /// Bytes from the variable's beginning to the line's.
    pub offset: u64,
    /// How often an access found it with another CPU.
    pub transfers: u64,
    /// How many lines have this name.
    pub lines: u64,
}
