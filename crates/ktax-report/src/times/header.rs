use crate::view::SideLine;
use ktax_host::text::counted;
use ktax_model::{Facts, Side, Sides, TimedSubject, TimesComparison, fact};

/// What was compared.
pub fn sides(times: &TimesComparison) -> Vec<SideLine> {
    let line = |side: Side| SideLine {
        side: side.name(),
        what: times.facts.get(side).get(fact::KERNEL).cloned().unwrap_or_default(),
        beside: subject(times.plan.subjects.get(side)),
    };
    Side::BOTH.map(line).to_vec()
}

/// What makes a Side what it is.
fn subject(subject: &TimedSubject) -> String {
    if subject.bare_metal {
        return "bare metal".to_owned();
    }
    let mut words: Vec<String> = subject.kernel.iter().cloned().collect();
    words.extend((!subject.boot_line.is_empty()).then(|| subject.boot_line.clone()));
    words.extend(subject.sysctl.iter().map(|(name, value)| format!("{name}={value}")));
    words.extend(subject.thp.iter().map(|thp| format!("thp={thp}")));
    words.extend(subject.governor.iter().map(|governor| format!("governor={governor}")));
    if !subject.prefix.is_empty() {
        let prefix = shlex::try_join(subject.prefix.iter().map(String::as_str));
        words.push(format!("prefix={}", prefix.unwrap_or_else(|_| subject.prefix.join(" "))));
    }
    if words.is_empty() { "as it is".to_owned() } else { words.join(" ") }
}

/// How it was measured.
pub fn how(times: &TimesComparison) -> String {
    let engine = &times.plan.engine;
    let loops = counted(times.plan.loops as usize, "loop");
    let pairs = counted(times.pairs, "pair");
    let controls = counted(times.controls, "A/A pair");
    let machine = machine(&times.facts);
    match times.plan.is_in_blocks() {
        true => format!(
            "{engine} · {pairs} and {controls} of blocks, one block in each boot of this machine \
             · {loops} in each process{machine}"
        ),
        false => format!(
            "{engine} · {pairs} and {controls} of fresh boots, in randomized order (seed {}) · \
             {loops} in each boot{machine}",
            times.seed
        ),
    }
}

/// The machine, of guests the one they run on: what is the same on both Sides and changes times.
fn machine(facts: &Sides<Facts>) -> String {
    let Sides { base, change } = facts;
    let said = |facts: &Facts, name: &str| {
        facts.get(&fact::of_machine(name)).or_else(|| facts.get(name)).cloned()
    };
    let named =
        [fact::CPU, fact::GOVERNOR, fact::THP, fact::CLOCK].into_iter().filter_map(|name| {
            let value = said(base, name).filter(|it| said(change, name).as_ref() == Some(it))?;
            Some(if name == fact::CPU { value } else { format!("{name} {value}") })
        });
    named.map(|fact| format!(" · {fact}")).collect()
}
