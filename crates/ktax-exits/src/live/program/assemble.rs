use super::stack::{CODE, DETAIL};
use super::writer::{Maps, Writer};
use crate::live::asm::Alu::{And, Arsh, Lsh, Mov, Rsh};
use crate::live::asm::Reg::{R1, R2, R6, R7, R8, R10};
use crate::live::asm::When::{Eq, Lt, Ne};
use crate::live::asm::{Assembler, Label, Size};
use crate::live::hook::{ASLEEP, Field, Hook, Only};
use crate::live::words::thread as word;
use crate::recording::Stage;

/// The program of a hook, for the threads of one process.
pub fn assemble(hook: Hook, process: u32, maps: Maps) -> Vec<u8> {
    let asm = Assembler::default();
    let mut writer = Writer { asm, maps };
    let done = writer.asm.label();
    writer.asm.alu(Mov, R6, R1);
    match hook {
        Hook::Enter { only } => writer.enter(only, process, done),
        Hook::Exit { reason, detail } => writer.exit(reason, detail, process, done),
        Hook::Return { reason, errno } => writer.returns(reason, errno, process, done),
        Hook::ToUser => writer.moves(None, Stage::User, process, done),
        Hook::ToKernel { only } => writer.moves(Some(only), Stage::Kernel, process, done),
        Hook::Switch { from, state, to } => writer.switch(from, state, to, done),
        Hook::Wakeup { thread } => writer.wakeup(thread, done),
    }
    writer.asm.place(done);
    writer.asm.exit();
    writer.asm.finish()
}

impl Writer {
    fn enter(&mut self, only: Option<Only>, process: u32, done: Label) {
        self.only(only, done);
        self.current(process, done);
        self.account();
        self.begin();
        self.close([word::EXIT_AT, word::ENTRY_AT]);
        self.set(word::ENTRY_AT, R8);
        self.set_imm(word::EXIT_AT, 0);
        self.set_imm(word::STAGE, Stage::Kernel as i32);
    }

    fn exit(&mut self, reason: Field, detail: Option<Field>, process: u32, done: Label) {
        self.current(process, done);
        self.field(R1, reason);
        self.asm.store(Size::B8, R10, CODE, R1);
        match detail {
            Some(detail) => self.field(R1, detail),
            None => self.asm.alu_imm(Mov, R1, 0),
        }
        self.asm.store(Size::B8, R10, DETAIL, R1);
        self.left(Stage::Kernel);
    }

    fn returns(&mut self, reason: Field, errno: Field, process: u32, done: Label) {
        self.current(process, done);
        let fine = self.asm.label();
        self.field(R1, errno);
        self.asm.alu_imm(Lsh, R1, 32);
        self.asm.alu_imm(Arsh, R1, 32);
        self.asm.alu(Mov, R2, R1);
        self.asm.alu_imm(Rsh, R2, 63);
        self.asm.jump_if_imm(Ne, R2, 0, fine);
        self.field(R1, reason);
        self.asm.place(fine);
        self.asm.store(Size::B8, R10, CODE, R1);
        self.asm.alu_imm(Mov, R1, 0);
        self.asm.store(Size::B8, R10, DETAIL, R1);
        self.left(Stage::User);
    }

    /// The guest was left for what stands in CODE and DETAIL.
    fn left(&mut self, to: Stage) {
        self.account();
        self.begin();
        self.close([word::ENTRY_AT, word::EXIT_AT]);
        for (from, word) in [(CODE, word::REASON), (DETAIL, word::DETAIL)] {
            self.asm.load(Size::B8, R1, R10, from);
            self.set(word, R1);
        }
        self.set(word::EXIT_AT, R8);
        self.set_imm(word::ENTRY_AT, 0);
        self.set_imm(word::STAGE, to as i32);
    }

    fn moves(&mut self, only: Option<Only>, to: Stage, process: u32, done: Label) {
        self.only(only, done);
        self.current(process, done);
        self.account();
        self.set_imm(word::STAGE, to as i32);
    }

    fn switch(&mut self, from: Field, state: Field, to: Field, done: Label) {
        let (next, preempted, is_on) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.now();
        self.field(R1, from);
        self.known(next);
        self.account();
        self.asm.load(Size::B8, R1, R7, word::STAGE);
        self.asm.jump_if_imm(Lt, R1, Stage::FIRST_OFF as i32, is_on);
        // Off already: its being on was not seen.
        self.asm.load(Size::B8, R1, R7, word::SAVED);
        self.set(word::STAGE, R1);
        self.asm.place(is_on);
        self.set(word::SAVED, R1);
        self.field(R2, state);
        self.asm.alu_imm(And, R2, ASLEEP);
        self.asm.jump_if_imm(Eq, R2, 0, preempted);
        // Asleep in the VMM is the VMM's time.
        self.asm.jump_if_imm(Eq, R1, Stage::User as i32, next);
        self.set_imm(word::STAGE, Stage::Halted as i32);
        self.asm.jump(next);
        self.asm.place(preempted);
        self.set_imm(word::STAGE, Stage::Preempted as i32);
        self.asm.place(next);
        self.field(R1, to);
        self.known(done);
        self.account();
        // On already, where its being off was not seen.
        self.asm.load(Size::B8, R1, R7, word::STAGE);
        self.asm.jump_if_imm(Lt, R1, Stage::FIRST_OFF as i32, done);
        self.asm.load(Size::B8, R1, R7, word::SAVED);
        self.set(word::STAGE, R1);
    }

    fn wakeup(&mut self, who: Field, done: Label) {
        self.now();
        self.field(R1, who);
        self.known(done);
        self.asm.load(Size::B8, R1, R7, word::STAGE);
        self.asm.jump_if_imm(Ne, R1, Stage::Halted as i32, done);
        self.account();
        self.set_imm(word::STAGE, Stage::Preempted as i32);
    }
}
