//! Costly instructions are known by their bytes, as the assembler writes them.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use ktax::model::{Costly, plugin_header};

use crate::common::scratch;

/// An instruction for the assembler, and what it is.
const KNOWN: &[(&str, &str)] = &[
    ("mov %rax, %cr3", "cr3-write"),
    ("mov %r9, %cr3", "cr3-write"),
    ("mov %cr3, %rax", "none"),
    ("mov %rax, %cr8", "none"),
    ("mov %rax, %cr4", "serializing"),
    ("mov %rax, %cr0", "serializing"),
    ("invlpg (%rdi)", "invlpg"),
    ("invlpg 0x10(%r12)", "invlpg"),
    ("lgdt (%rdi)", "none"),
    ("invpcid (%rdi), %rax", "invpcid"),
    ("wrmsr", "wrmsr"),
    ("rdmsr", "rdmsr"),
    ("swapgs", "swapgs"),
    ("verw 8(%rsp)", "verw"),
    ("verw %ax", "verw"),
    ("verr %ax", "none"),
    ("lock incl (%rdi)", "locked"),
    ("lock cmpxchg %r14, %gs:0x10(%r12)", "locked"),
    ("xchg %eax, (%rdi)", "locked"),
    ("xchg %r8b, (%rdi)", "locked"),
    ("xchg %rax, %rdi", "none"),
    ("cmpxchg %rdx, %gs:(%rsi)", "none"),
    ("lfence", "fence"),
    ("mfence", "fence"),
    ("sfence", "fence"),
    ("rdfsbase %rax", "none"),
    ("cpuid", "serializing"),
    ("wbinvd", "serializing"),
    ("syscall", "syscall"),
    ("sysretq", "sysret"),
    ("sysretl", "sysret"),
    ("iretq", "iret"),
    ("int3", "int"),
    ("int $0x80", "int"),
    ("cli", "interrupt-flag"),
    ("sti", "interrupt-flag"),
    ("popfq", "interrupt-flag"),
    ("pushfq", "none"),
    ("in %dx, %al", "port"),
    ("out %eax, $0x70", "port"),
    ("rep outsb", "port"),
    ("rep movsb", "rep-movsb"),
    ("rep movsq", "rep-movs"),
    ("rep movsl", "rep-movs"),
    ("rep stosb", "rep-stosb"),
    ("rep stosw", "rep-stos"),
    ("rep stosq", "rep-stos"),
    ("movsb", "none"),
    ("stosq", "none"),
    ("repne scasb", "none"),
    ("repe cmpsb", "none"),
    ("hlt", "hlt"),
    ("mwait", "hlt"),
    ("pause", "pause"),
    ("nop", "none"),
    ("xsave64 (%rdi)", "xsave"),
    ("xsaves (%rdi)", "xsave"),
    ("xrstors64 (%rdi)", "xsave"),
    ("xsaveopt (%rdi)", "xsave"),
    ("fxrstor64 (%rdi)", "xsave"),
    ("ldmxcsr (%rdi)", "none"),
    ("clflush (%rdi)", "clflush"),
    ("clflushopt (%rdi)", "clflush"),
    ("clwb (%rdi)", "clflush"),
    ("rdtsc", "rdtsc"),
    ("rdtscp", "rdtsc"),
    ("rdrand %eax", "rdrand"),
    ("rdseed %r9", "rdrand"),
    ("rdpid %rax", "none"),
    ("cmpxchg16b (%rdi)", "none"),
    ("lock cmpxchg16b %gs:(%rsi)", "locked"),
    ("call *%rax", "indirect"),
    ("call *0x10(%r11)", "indirect"),
    ("jmp *%r11", "indirect"),
    ("notrack jmp *%rdx", "indirect"),
    ("incl (%rdi)", "none"),
    ("push (%rdi)", "none"),
    ("ret", "none"),
    ("clac", "none"),
    ("stac", "none"),
    ("endbr64", "none"),
];

/// A program that says what each of them is, a line each.
fn program() -> String {
    let mut assembler = String::new();
    let (mut declared, mut calls) = (String::new(), String::new());
    for (index, (instruction, _)) in KNOWN.iter().enumerate() {
        writeln!(assembler, "\"from_{index}: {instruction}\\nto_{index}:\\n\"").unwrap();
        writeln!(declared, "extern const unsigned char from_{index}[], to_{index}[];").unwrap();
        writeln!(calls, "say(from_{index}, to_{index});").unwrap();
    }
    format!(
        "#include <stdio.h>\n#include \"decode.h\"\n{declared}__asm__({assembler});\n\
         static void say(const unsigned char *from, const unsigned char *to)\n\
         {{ puts(ktax_costly_name(ktax_costly_of(from, (size_t)(to - from)))); }}\n\
         int main(void)\n{{\n{calls}return 0;\n}}\n"
    )
}

#[test]
fn costly_instructions_are_decoded_from_assembled_bytes() {
    let dir = scratch();
    let (source, built) = (dir.path().join("say.c"), dir.path().join("say"));
    fs::write(&source, program()).unwrap();
    fs::write(dir.path().join("counters-table.h"), plugin_header()).unwrap();
    let plugin = concat!(env!("CARGO_MANIFEST_DIR"), "/plugin");
    let mut compiler = Command::new("gcc");
    compiler.args(["-std=gnu11", &format!("-I{plugin}"), &format!("{plugin}/decode.c"), "-I"]);
    compiler.arg(dir.path());
    let compiled = compiler.arg(&source).arg("-o").arg(&built).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new(&built).output().unwrap();
    assert!(output.status.success());
    let names = String::from_utf8(output.stdout).unwrap();
    let known: Vec<&str> = KNOWN.iter().map(|(_, kind)| *kind).collect();
    for ((instruction, kind), name) in KNOWN.iter().zip(names.lines()) {
        assert_eq!(name, *kind, "{instruction}");
    }
    assert_eq!(names.lines().count(), known.len());
    // The bytes of a jump to a thunk and of an access to a device are ordinary.
    let others = [Costly::ReturnThunk, Costly::Mmio];
    for kind in Costly::ALL.into_iter().filter(|kind| !others.contains(kind)) {
        assert!(known.contains(&kind.name()), "{}", kind.name());
    }
}
