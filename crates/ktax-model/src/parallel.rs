use serde::{Deserialize, Serialize};

use super::workload::is_zero;

/// Where the time of one of several CPUs went, in instructions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuTime {
    /// It executed.
    pub work: u64,
    /// It waited for another CPU: what a PAUSE left of its slices.
    pub wait: u64,
    /// It had nothing to do: it was halted.
    pub idle: u64,
    /// Its slices were shorter than the longest ones of their rounds. Results of an older ktax have
    /// this in `idle`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub uneven: u64,
}

/// What several CPUs did in a Region. Each executes a slice in turn; a round is as long as its
/// longest slice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parallel {
    /// The CPUs, each of which has the makespan as its time.
    pub cpus: Vec<CpuTime>,
    /// The length of all rounds, in instructions.
    pub makespan: u64,
    /// How many rounds there were.
    pub rounds: u64,
    /// How many slices the quantum ended.
    pub kicks: u64,
    /// A hash of what was executed, in which order and by which CPU.
    pub trace: String,
    /// How often a cache line travelled from one CPU to another, by the model of coherence.
    #[serde(rename = "model_transfers", default, skip_serializing_if = "Option::is_none")]
    pub transfers: Option<u64>,
}

impl Parallel {
    /// All CPUs together.
    pub fn sum(&self) -> CpuTime {
        self.cpus.iter().fold(CpuTime::default(), |sum, cpu| CpuTime {
            work: sum.work.saturating_add(cpu.work),
            wait: sum.wait.saturating_add(cpu.wait),
            idle: sum.idle.saturating_add(cpu.idle),
            uneven: sum.uneven.saturating_add(cpu.uneven),
        })
    }

    /// Whether each CPU's time is the makespan.
    pub fn adds_up(&self) -> bool {
        let time = |cpu: &CpuTime| {
            cpu.work.checked_add(cpu.wait)?.checked_add(cpu.idle)?.checked_add(cpu.uneven)
        };
        self.cpus.iter().all(|cpu| time(cpu) == Some(self.makespan))
    }
}

/// What one of several CPUs did when its last slice ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doing {
    /// It executed.
    Work,
    /// It waited for another CPU.
    Wait,
    /// It had nothing to do.
    Idle,
}

impl Doing {
    /// All of them.
    pub const ALL: [Doing; 3] = [Doing::Work, Doing::Wait, Doing::Idle];

    /// What it is called in a profile.
    pub fn name(self) -> &'static str {
        match self {
            Doing::Work => "work",
            Doing::Wait => "wait",
            Doing::Idle => "idle",
        }
    }
}

/// Where one of several CPUs was when its time was over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuPlace {
    /// Which CPU.
    pub cpu: u32,
    /// What it did.
    pub doing: Doing,
    /// In which function.
    pub function: String,
}

impl CpuPlace {
    /// Whether it did something.
    pub fn works(&self) -> bool {
        self.doing == Doing::Work
    }
}

/// Where all of them were, as the end of a sentence.
pub(super) fn say_places(cpus: &[CpuPlace]) -> String {
    let waits = cpus.iter().filter(|it| it.doing == Doing::Wait).count();
    let is_deadlock = waits > 1 && !cpus.iter().any(CpuPlace::works);
    let say = |it: &CpuPlace| {
        let how = match it.doing {
            Doing::Work => " executes",
            Doing::Wait if is_deadlock => " in",
            Doing::Wait => " waits in",
            Doing::Idle => return format!("CPU {} is idle", it.cpu),
        };
        format!("CPU {}{how} {}", it.cpu, it.function)
    };
    let all = cpus.iter().map(say).collect::<Vec<_>>().join(", ");
    match (is_deadlock, cpus) {
        (_, []) => String::new(),
        (true, _) => format!("; its CPUs wait for each other: {all}"),
        (false, _) => format!(": {all}"),
    }
}
