//! Markers around the part of a program that ktax counts.
//!
//! On x86-64 each marker is a NOP of seven bytes; on other architectures it is empty. A program
//! executes each marker exactly once:
//!
//! ```
//! # fn prepare() -> u32 { 1 }
//! # fn work(n: u32) -> u32 { n }
//! let input = prepare();
//! ktax_mark::begin();
//! let result = work(input);
//! ktax_mark::end();
//! assert_eq!(result, 1);
//! ```

#![no_std]

/// Marks the start of the counted part.
#[inline(always)]
pub fn begin() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the bytes are `nopl 0x4b540001(%rax)`, which reads nothing and changes nothing.
    unsafe {
        core::arch::asm!(
            ".byte 0x0f, 0x1f, 0x80; .long 0x4b540001",
            options(nostack, preserves_flags)
        );
    }
}

/// Marks the end of the counted part.
#[inline(always)]
pub fn end() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the bytes are `nopl 0x4b540002(%rax)`, which reads nothing and changes nothing.
    unsafe {
        core::arch::asm!(
            ".byte 0x0f, 0x1f, 0x80; .long 0x4b540002",
            options(nostack, preserves_flags)
        );
    }
}
