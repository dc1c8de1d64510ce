//! A base that was measured once is not measured again.

use ktax::model::{Boot, GuestsPlan, Plan, PlanMethod, Side, Step};
use ktax::rundir::AnyRunDir;

use crate::common::scratch;
use crate::fake::plan;
use crate::rundirs::of_guests;

/// Whether a new directory with `plan` has the base's boot of one with `of_guests`.
fn adopts(plan: Plan) -> bool {
    let dir = scratch();
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    let first = AnyRunDir::create(&first, of_guests()).unwrap();
    let AnyRunDir::Guests(guests) = &first else { panic!() };
    let steps = guests.plan().method.steps.clone();
    for step in &steps {
        guests.prepare(step).unwrap();
        guests.write_boot_file(step, "runs/boot.json", b"{}\n").unwrap();
        guests.write_boot(step, &Boot::default()).unwrap();
    }
    let second = AnyRunDir::create(&second, plan).unwrap();
    second.adopt_base(&first).unwrap();
    let has = |step: &&Step| {
        let boot = second.root().join("boots").join(step.name());
        boot.join("boot.json").exists() && boot.join("runs/boot.json").exists()
    };
    let adopted: Vec<Side> = steps.iter().filter(has).map(|step| step.side).collect();
    assert!(adopted.iter().all(|side| *side == Side::Base), "{adopted:?}");
    !adopted.is_empty()
}

#[test]
fn only_the_same_base_is_adopted_and_nothing_of_the_change() {
    let with = |edit: fn(&mut GuestsPlan)| {
        let mut plan = of_guests();
        let PlanMethod::Guests(guests) = &mut plan.method else { panic!() };
        edit(guests);
        plan
    };
    assert!(adopts(with(|plan| plan.change.as_mut().unwrap().subject.cpus = 4)));
    assert!(!adopts(with(|plan| plan.base.subject.cpus = 4)));
    assert!(!adopts(with(|plan| plan.key.guest = "8".repeat(64))));
    assert!(!adopts(with(|plan| drop(plan.rows.pop()))));
    assert!(!adopts(plan::plan(&["pipe"]).with(Into::into)));
}
