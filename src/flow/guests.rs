//! Guests of a KVM host: gets the kernels, and runs every Step and row.

use std::path::Path;

use super::remaining::Work;
use super::session::Session;
use super::{Error, ErrorContext};
use crate::disk::{sha256_of_file, sha256_of_parts};
use crate::engine::qemu::Qemu;
use crate::engine::{exact, payload};
use crate::kernel::{self, Target};
use crate::kvmhost::{
    Board, BoardGuests, BoardSetup, BoardSide, GuestEngine, HostKernel, KVM_MODULES, THIS_PROGRAM,
    X86Guest, X86Guests, X86Setup,
};
use crate::model::{
    AskedGuests, GuestSide, GuestSubject, GuestsPlan, HostKind, Identity, Key, Machine, Plan,
    Subject,
};
use crate::plan::{Experiment, GuestsExperiment, unknown_feature_error};
use crate::run::{Driver, Ended};
use crate::rundir::RunDir;
use crate::text::nearest;
use crate::vmm::linux::KvmFeature;

/// Gets all kernels, asks QEMU for its version, and draws the Layouts.
pub(super) fn plan(
    experiment: &Experiment<GuestsExperiment>,
    session: &Session<'_>,
) -> Result<Plan<GuestsPlan>, Error> {
    let mut experiment = experiment.clone();
    let asked = &mut experiment.method.asked;
    let host = asked.host;
    check_features(asked)?;
    let qemu = find_qemu(host, session)?;
    let identity = host_kernel(host, &asked.host_subject, session)?;
    for side in asked.sides_mut() {
        let kernel = side.subject.kernel.as_ref();
        side.kernel = kernel.map(|kernel| host_kernel(host, kernel, session)).transpose()?;
    }
    let key = host_key(host, &qemu, session)?;
    Ok(experiment.plan(identity, key))
}

/// Runs every missing guest.
pub(super) fn run(dir: &RunDir<GuestsPlan>, session: &Session<'_>) -> Result<Ended, Error> {
    let plan = &dir.plan().method;
    let qemu = find_qemu(plan.asked.host, session)?;
    let key = host_key(plan.asked.host, &qemu, session)?;
    if key != plan.key {
        return Err(super::other_key(dir.root(), &plan.key, &key));
    }
    let engine: Box<dyn GuestEngine> = match Board::for_kind(plan.asked.host) {
        None => Box::new(x86_engine(plan, qemu, session)?),
        Some(board) => Box::new(board_engine(board, plan, qemu, session)?),
    };
    let observer = session.observer;
    observer.begin(&work(plan, session));
    let driver = Driver {
        dir,
        boots: &*engine,
        jobs: session.jobs,
        cancel: &session.cancel,
        observe: &|event| observer.event(&event),
    };
    let (ended, timing) = driver.run()?;
    observer.end(&timing);
    Ok(ended)
}

/// Refuses unknown features before a host is booted.
fn check_features(asked: &AskedGuests) -> Result<(), Error> {
    if asked.host.is_board() {
        return Ok(());
    }
    let known: Vec<&str> = KvmFeature::ALL.iter().map(|feature| feature.name).collect();
    let mut names = asked.sides().flat_map(|side| &side.subject.hidden_features);
    match names.find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let near = nearest(name, known.iter().copied());
            Err(unknown_feature_error(name, near, &known.join(", ")))
        }
    }
}

fn find_qemu(host: HostKind, session: &Session<'_>) -> Result<Qemu, Error> {
    Ok(match Board::for_kind(host) {
        None => Qemu::find(session.qemu.as_deref())?,
        Some(board) => board.find_qemu(session.qemu.as_deref())?,
    })
}

/// Key of the counts of a host's guests. The host's machine never changes, and the guests' machines
/// are in their Subjects. An x86-64 host runs this ktax, so its counts belong to one build of ktax;
/// a board runs a small program instead.
fn host_key(host: HostKind, qemu: &Qemu, session: &Session<'_>) -> Result<Key, Error> {
    let guest = match Board::for_kind(host) {
        Some(board) => board.program_sha256(&session.cache.join("runs"))?,
        None => {
            let ktax = sha256_of_file(Path::new(THIS_PROGRAM));
            let ktax = ktax.or_host("cannot read the program file of ktax", "make it readable")?;
            sha256_of_parts(&[payload::guest_sha256(), ktax])
        }
    };
    Ok(Key {
        engine: exact::ENGINE.name.to_owned(),
        qemu: qemu.version.clone(),
        machine_type: host.name().to_owned(),
        machine: Machine { cpu: "host".to_owned(), memory_mib: 0, ..Machine::default() },
        guest,
        programs: String::new(),
        modules: Vec::new(),
    })
}

fn host_kernel(
    host: HostKind,
    subject: &Subject,
    session: &Session<'_>,
) -> Result<Identity, Error> {
    Ok(session.obtain_for(target(host), subject)?.identity)
}

/// Target for which a host's kernel is built.
fn target(host: HostKind) -> &'static Target {
    match host {
        HostKind::Kvm => &Target::X86_64,
        HostKind::KvmE500v2 => &Target::E500V2,
        HostKind::KvmArm64 => &Target::ARM64,
        HostKind::KvmPower9 => &Target::POWER9,
        HostKind::KvmRiscv64 => &Target::RISCV64,
    }
}

fn x86_engine(plan: &GuestsPlan, qemu: Qemu, session: &Session<'_>) -> Result<X86Guests, Error> {
    let guest = |side: &GuestSide| -> Result<X86Guest, Error> {
        let (Some(subject), Some(kernel)) = (&side.subject.kernel, &side.kernel) else {
            return Err(super::stale_plan("plan.json has a guest without a kernel"));
        };
        Ok(X86Guest { image: session.image(kernel, subject)?, subject: side.subject.clone() })
    };
    X86Guests::new(X86Setup {
        ktax: THIS_PROGRAM.into(),
        qemu,
        host: x86_host(plan, session)?,
        base: guest(&plan.asked.base)?,
        change: plan.asked.change.as_ref().map(guest).transpose()?,
        rows: plan.asked.rows.clone(),
        limits: session.limits.clone(),
        cancel: session.cancel.clone(),
        cache: session.cache.clone(),
    })
}

impl Session<'_> {
    /// Gets the kernel of a KVM host, with its modules.
    pub fn kvm_host(&self, subject: &Subject) -> Result<HostKernel, Error> {
        let kernel = self.obtain(subject)?;
        let modules =
            self.with_talk(|talk| kernel::modules(&kernel, &KVM_MODULES, &self.cache, talk))?;
        let boot_line = subject.boot_line.clone();
        Ok(HostKernel { image: kernel.image, identity: kernel.identity, boot_line, modules })
    }
}

/// Kernel of the host as planned: by its name, or by its planned version if the name now stands for
/// a newer package.
fn x86_host(plan: &GuestsPlan, session: &Session<'_>) -> Result<HostKernel, Error> {
    let planned = &plan.host_kernel;
    let kernel = session.kvm_host(&plan.asked.host_subject)?;
    if kernel.identity.sha256 == planned.sha256 {
        return Ok(kernel);
    }
    let kernel =
        session.kvm_host(&Subject::new(&planned.source, &plan.asked.host_subject.boot_line))?;
    match kernel.identity.sha256 == planned.sha256 {
        true => Ok(kernel),
        false => Err(super::other_kernel(planned)),
    }
}

fn board_engine(
    board: &'static Board,
    plan: &GuestsPlan,
    qemu: Qemu,
    session: &Session<'_>,
) -> Result<BoardGuests, Error> {
    let side = |side: &GuestSide| board_side(plan, side, session);
    let base = side(&plan.asked.base)?;
    let change = plan.asked.change.as_ref().map(side).transpose()?.unwrap_or_else(|| base.clone());
    BoardGuests::new(BoardSetup {
        board,
        qemu,
        sides: [base, change],
        rows: plan.asked.rows.clone(),
        limits: session.limits.clone(),
        cancel: session.cancel.clone(),
        cache: session.cache.clone(),
    })
}

/// Host of a Side: its own kernel, or the kernel of both Sides' host.
fn board_side(
    plan: &GuestsPlan,
    side: &GuestSide,
    session: &Session<'_>,
) -> Result<BoardSide, Error> {
    let declared = side.subject.kernel.as_ref().zip(side.kernel.as_ref());
    let (subject, planned) = declared.unwrap_or((&plan.asked.host_subject, &plan.host_kernel));
    let image = session.image_for(target(plan.asked.host), planned, subject)?;
    let removes_page =
        side.subject.hidden_features.iter().any(|feature| feature == GuestSubject::MAGIC_PAGE);
    Ok(BoardSide {
        kernel: image,
        boot_line: subject.boot_line.clone(),
        has_magic_page: plan.asked.host.has_magic_page() && !removes_page,
    })
}

/// Work of a Plan, for estimates.
pub(super) fn work(plan: &GuestsPlan, session: &Session<'_>) -> Work {
    Work {
        engine: plan.asked.host.name().to_owned(),
        boots: plan.steps.len(),
        rows: plan.asked.rows.iter().map(|row| row.row.clone()).collect(),
        jobs: session.jobs,
    }
}
