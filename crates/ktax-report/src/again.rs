//! The command line that makes a comparison again.

use ktax_model::{
    AskedCounts, AskedGuest, Comparison, CountsComparison, History, HistoryLine, HistoryPoint,
    METRICS, Machine, Model, Row, Side, Sides, Subject, TimedMachine, TimedSubject,
    TimesComparison, UserProgram,
};

/// Defaults of `ktax compare`, which are left out of the command.
const LOOPS: u32 = 5;
const MOST_PAIRS: u32 = 200;
const SEED: u64 = 1;
const THRESHOLD_PERCENT: f64 = 0.1;

/// Returns the command that counts the same rows again; empty where no command line can ask for it.
pub fn counts_command(
    rows: &[Row],
    threshold_percent: f64,
    counts: &CountsComparison,
) -> Vec<String> {
    let AskedCounts { machine, subjects: Sides { base, change }, guest, .. } = &counts.asked;
    let AskedGuest { modules, disk, programs, hooks, workloads_from } = guest;
    let users: Vec<&UserProgram> = programs.iter().filter(|program| !program.defined).collect();
    let measured = rows.iter().filter(|row| row.computed_from().is_none());
    let is_complete = measured.filter(|row| UserProgram::is_row(&row.row)).count() == users.len();
    let users = written_programs(&users);
    let is_one_line = is_complete
        && users.len() <= 1
        && (hooks.is_none() || users.is_empty())
        && is_archive_known(counts)
        && has_flags(base, change)
        && machine.model.as_ref().is_none_or(is_named);
    if !is_one_line {
        return Vec::new();
    }
    let kernel = |side: Side| {
        let subject = counts.asked.subjects.get(side);
        // A package's name may be another version tomorrow.
        let is_package = subject.kernel.starts_with("debian:");
        let source = if is_package { &counts.kernels.get(side).source } else { &subject.kernel };
        source.clone()
    };
    let mut words = CommandLine::compare();
    words.kernels(kernel(Side::Base), kernel(Side::Change));
    words.source_options(base, change);
    words.boot_lines(&base.boot_line, &change.boot_line);
    words.side_settings("base", base);
    words.side_settings("change", change);
    words.0.extend((base == change).then(|| "--same".to_owned()));
    words.machine(machine);
    disk.iter().for_each(|disk| words.option("--disk", disk));
    modules.iter().for_each(|module| words.option("--module", module));
    workloads_from.iter().for_each(|directory| words.option("--workloads", directory));
    words.rows("-w", rows.iter().filter(|row| !UserProgram::is_row(&row.row)));
    words.counting(machine, counts.layouts, counts.seed, threshold_percent);
    hooks.iter().for_each(|hooks| words.hooks(hooks));
    users.into_iter().for_each(|(program, sizes)| words.program(program, sizes));
    words.0
}

/// Returns each program as the user wrote it, once, with its sizes.
fn written_programs<'a>(users: &[&'a UserProgram]) -> Vec<(&'a UserProgram, &'a [u64])> {
    let mut asked: Vec<(&UserProgram, &[u64])> = Vec::new();
    for program in users.iter().copied() {
        let measured_sizes = program.size.as_ref().map(|size| (&size.program, &size.sizes[..]));
        let written = measured_sizes.unwrap_or((program, &[]));
        if !asked.contains(&written) {
            asked.push(written);
        }
    }
    asked
}

/// Tells whether the contents of the guests' archive are known: stores of older releases keep only
/// its hash.
fn is_archive_known(counts: &CountsComparison) -> bool {
    let AskedCounts { subjects: Sides { base, change }, guest, .. } = &counts.asked;
    let AskedGuest { disk, programs, hooks, .. } = guest;
    let has_own = base.has_settings() || change.has_settings();
    counts.key.programs.is_empty()
        || has_own
        || disk.is_some()
        || !programs.is_empty()
        || hooks.is_some()
}

/// Tells whether flags can name the sources of both kernels: some flags set both sides at once.
fn has_flags(base: &Subject, change: &Subject) -> bool {
    let is_shared = |value: fn(&Subject) -> &Option<String>| value(base) == value(change);
    is_shared(|subject| &subject.start_config) && is_shared(|subject| &subject.tree)
}

/// Tells whether `--model` takes the model by name; a file of the user's may be gone.
fn is_named(model: &Model) -> bool {
    !model.name().ends_with(".toml")
}

/// Returns the command that compares two points of a line of a history; empty where a kernel is of
/// no package.
pub fn history_step_command(
    line: &HistoryLine,
    base: &HistoryPoint,
    change: &HistoryPoint,
    threshold_percent: f64,
) -> Vec<String> {
    let packages = base.package.clone().zip(change.package.clone());
    let (Some(asked), Some((base_package, change_package))) = (&line.asked, packages) else {
        return Vec::new();
    };
    let mut words = CommandLine::compare();
    words.kernels(base_package, change_package);
    words.boot_lines(&base.boot_line, &change.boot_line);
    words.machine(&asked.machine);
    words.option("-w", &line.row);
    words.counting(&asked.machine, asked.layouts, asked.seed, threshold_percent);
    words.0
}

/// Returns the command that prints a line of a history from the store.
pub fn history_command(history: &History, line: &HistoryLine) -> Vec<String> {
    let mut words = CommandLine(["ktax", "history", &line.row].map(str::to_owned).to_vec());
    if let Some(function) = &history.function {
        words.option("--function", function);
    }
    words.unless(history.metric == METRICS[0].name, "--metric", &history.metric);
    let threshold = history.threshold_percent;
    words.unless(threshold == THRESHOLD_PERCENT, "--threshold", threshold);
    words.0
}

/// Returns the command that searches between the two sides of a comparison; empty where no command
/// line can ask for the comparison.
pub fn search_again(comparison: &Comparison) -> Vec<String> {
    let words = comparison
        .counts()
        .map(|counts| counts_command(&comparison.rows, comparison.threshold_percent, counts));
    let mut words = words.unwrap_or_default();
    if let Some(command) = words.get_mut(1) {
        *command = "bisect".to_owned();
        words.insert(2, "start".to_owned());
    }
    words
}

/// Returns the command that times the same rows again; empty where no command line can ask for it.
pub fn times_command(rows: &[Row], threshold_percent: f64, times: &TimesComparison) -> Vec<String> {
    let (plan, Sides { base, change }) = (&times.plan, &times.plan.subjects);
    let users: Vec<&UserProgram> =
        plan.programs.iter().filter(|program| !program.defined).collect();
    let user_rows = rows.iter().filter(|row| UserProgram::is_row(&row.row)).count();
    let is_kvm = plan.machine.accelerator == TimedMachine::default().accelerator;
    if user_rows != users.len() || users.len() > 1 || !is_kvm {
        return Vec::new();
    }
    let mut words = CommandLine::compare();
    words.option("--engine", &plan.engine);
    if plan.is_guest(Side::Change) {
        let kernel = |subject: &TimedSubject| subject.kernel.clone().unwrap_or_default();
        match base.bare_metal {
            true => {
                words.0.push("--bare-metal".to_owned());
                words.option("--change", kernel(change));
            }
            false => words.kernels(kernel(base), kernel(change)),
        }
        words.boot_lines(&base.boot_line, &change.boot_line);
        let usual = TimedMachine::default();
        words.unless(
            plan.machine.cpu == plan.machine.accelerator.cpu(),
            "--cpu",
            &plan.machine.cpu,
        );
        words.unless(
            plan.machine.memory_mib == usual.memory_mib,
            "--memory",
            plan.machine.memory_mib,
        );
        words.unless(plan.machine.cpus == usual.cpus, "--cpus", plan.machine.cpus);
        plan.machine.cores.iter().for_each(|cores| words.option("--cores", cores));
    } else {
        let set = |subject: &TimedSubject| kernel_settings(subject);
        set(base).into_iter().for_each(|setting| words.option("--base-set", setting));
        set(change).into_iter().for_each(|setting| words.option("--change-set", setting));
    }
    let is_row = |row: &&Row| row.headline && !UserProgram::is_row(&row.row);
    words.rows("-w", rows.iter().filter(is_row));
    words.rows("--secondary", rows.iter().filter(|row| !row.headline));
    plan.pairs.iter().for_each(|pairs| words.option("--pairs", pairs));
    words.unless(plan.most_pairs == MOST_PAIRS, "--most-pairs", plan.most_pairs);
    words.unless(plan.loops == LOOPS, "--loops", plan.loops);
    // Without a seed the order of the pairs would be drawn anew.
    words.option("--seed", times.seed);
    words.unless(threshold_percent == 1.0, "--threshold", threshold_percent);
    words.0.extend((base == change).then(|| "--same".to_owned()));
    words.0.extend(plan.allow_differences.then(|| "--allow-differences".to_owned()));
    users.into_iter().for_each(|program| words.program(program, &[]));
    words.0
}

/// Settings of the running kernel, as `--base-set` takes them: `thp=never`.
fn kernel_settings(subject: &TimedSubject) -> Vec<String> {
    let sysctl = subject.sysctl.iter().map(|(name, value)| format!("{name}={value}"));
    let named =
        [("thp", &subject.thp), ("governor", &subject.governor), ("kernel", &subject.kernel)];
    let named = named.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let prefix = shlex::try_join(subject.prefix.iter().map(String::as_str)).unwrap_or_default();
    let prefix = (!prefix.is_empty()).then(|| format!("prefix={prefix}"));
    sysctl.chain(named.map(|(name, value)| format!("{name}={value}"))).chain(prefix).collect()
}

/// Words of a command line; options with their defaults are left out.
struct CommandLine(Vec<String>);

impl CommandLine {
    fn compare() -> CommandLine {
        CommandLine(["ktax", "compare"].map(str::to_owned).to_vec())
    }

    fn option(&mut self, name: &str, value: impl ToString) {
        let value = value.to_string();
        match value.starts_with('-') {
            // Otherwise it would be read as another option.
            true => self.0.push(format!("{name}={value}")),
            false => self.0.extend([name.to_owned(), value]),
        }
    }

    /// Adds an option unless its value is the default.
    fn unless(&mut self, is_usual: bool, name: &str, value: impl ToString) {
        if !is_usual {
            self.option(name, value);
        }
    }

    fn kernels(&mut self, base: String, change: String) {
        if base == change {
            self.option("--kernel", base);
        } else {
            self.option("--base", base);
            self.option("--change", change);
        }
    }

    /// Adds the options of kernels that are built from source.
    fn source_options(&mut self, base: &Subject, change: &Subject) {
        base.config.iter().for_each(|option| self.option("--base-config", option));
        base.patches.iter().for_each(|patch| self.option("--base-patch", patch));
        change.config.iter().for_each(|option| self.option("--config", option));
        change.patches.iter().for_each(|patch| self.option("--patch", patch));
        change.start_config.iter().for_each(|config| self.option("--start-config", config));
        change.tree.iter().for_each(|tree| self.option("--tree", tree));
    }

    /// Adds the settings of one side alone: `--base-set`, `--change-disk`.
    fn side_settings(&mut self, side: &str, subject: &Subject) {
        let flag = |name: &str| format!("--{side}-{name}");
        let Subject { sysctl, modules, disk, files, setup, .. } = subject;
        sysctl.iter().for_each(|(name, to)| self.option(&flag("set"), format!("{name}={to}")));
        modules.iter().for_each(|module| self.option(&flag("module"), module));
        disk.iter().for_each(|disk| self.option(&flag("disk"), disk));
        files.iter().for_each(|file| self.option(&flag("file"), file));
        setup.iter().for_each(|commands| self.option(&flag("setup"), commands));
    }

    /// Adds what a program needs before it runs: files, variables, commands.
    fn hooks(&mut self, program: &UserProgram) {
        let UserProgram { files, root, trace_files, env, setup, prepare, .. } = program;
        files.iter().for_each(|file| self.option("--file", file));
        root.iter().for_each(|root| self.option("--root", root));
        if *trace_files {
            self.0.push("--trace-files".to_owned());
        }
        env.iter().for_each(|variable| self.option("--env", variable));
        setup.iter().for_each(|commands| self.option("--setup", commands));
        prepare.iter().for_each(|commands| self.option("--prepare", commands));
    }

    fn program(&mut self, program: &UserProgram, sizes: &[u64]) {
        let UserProgram { name, command, stdin, .. } = program;
        let UserProgram { user, status, warm_up, ops, .. } = program;
        self.option("--name", name);
        self.hooks(program);
        stdin.iter().for_each(|file| self.option("--stdin", file));
        let numbers = [("--user", user), ("--status", status), ("--warm-up", warm_up)];
        numbers.into_iter().for_each(|(flag, number)| self.unless(*number == 0, flag, number));
        ops.iter().for_each(|ops| self.option("--ops", ops));
        for (name, text) in &program.numbers {
            match name == UserProgram::OPS {
                true => self.option("--ops-from", text),
                false => self.option("--number", format!("{name}={text}")),
            }
        }
        if let [from, to] = sizes {
            self.option("--sizes", format!("{from},{to}"));
        }
        if program.any_output {
            self.0.push("--any-output".to_owned());
        }
        if let Some(script) = &program.script {
            return self.option("--script", script);
        }
        self.0.push("--".to_owned());
        self.0.extend(command.iter().cloned());
    }

    fn machine(&mut self, machine: &Machine) {
        let usual = Machine::default();
        self.unless(machine.cpu == machine.usual_cpu(), "--cpu", &machine.cpu);
        self.unless(machine.memory_mib == usual.memory_mib, "--memory", machine.memory_mib);
        self.unless(machine.cpus == usual.cpus, "--cpus", machine.cpus);
        machine.quantum.iter().for_each(|quantum| self.option("--quantum", quantum));
        machine.model.iter().for_each(|model| self.option("--model", model.name()));
    }

    /// Adds layouts, seed and threshold.
    fn counting(&mut self, machine: &Machine, layouts: usize, seed: u64, threshold_percent: f64) {
        self.unless(layouts == machine.usual_layouts() as usize, "--layouts", layouts);
        self.unless(seed == SEED, "--seed", seed);
        self.unless(threshold_percent == THRESHOLD_PERCENT, "--threshold", threshold_percent);
    }

    fn boot_lines(&mut self, base: &str, change: &str) {
        self.unless(base.is_empty(), "--base-boot-line", base);
        self.unless(change.is_empty(), "--change-boot-line", change);
    }

    fn rows<'a>(&mut self, option: &str, rows: impl Iterator<Item = &'a Row>) {
        rows.for_each(|row| self.option(option, &row.row));
    }
}
