//! The title of an experiment that has none of its own.

use super::disk::{DiskKeys, disk};
use super::file::{ExperimentFile, SubjectKeys};
use crate::model::Subject;
use crate::text::short_hashes;

/// Two Subjects, in a line.
pub fn title_of(base: &Subject, change: &Subject) -> String {
    let keys = |subject: &Subject| SubjectKeys {
        kernel: Some(subject.kernel.clone()),
        boot_line: Some(subject.boot_line.clone()),
        config: subject.config.clone(),
        patches: subject.patches.clone(),
        sysctl: subject.sysctl.clone(),
        modules: subject.modules.clone(),
        disk: subject.disk.as_ref().and_then(|disk| DiskKeys::parse(&disk.to_string()).ok()),
        files: subject.files.clone(),
        setup: subject.setup.clone(),
        ..SubjectKeys::default()
    };
    let (base, change) = (keys(base), Some(keys(change)));
    title(&ExperimentFile { base, change, ..ExperimentFile::default() })
}

/// What is compared, in a line. A title is ASCII, and a path need not be.
pub fn title(file: &ExperimentFile) -> String {
    let change = file.change.clone().unwrap_or_default();
    let title = format!("{} against {}", side(&file.base), side(&change));
    let ascii = |c: char| match c {
        ' '..='~' => c.to_string(),
        other => other.escape_default().to_string(),
    };
    title.chars().map(ascii).collect()
}

fn side(keys: &SubjectKeys) -> String {
    if keys.bare_metal {
        return "bare metal".to_owned();
    }
    let mut subject = Subject::of("", keys.boot_line.as_deref().unwrap_or_default());
    subject.config.clone_from(&keys.config);
    subject.patches.clone_from(&keys.patches);
    // A kernel of the cache has its hash in its path.
    let mut words: Vec<String> = keys.kernel.iter().map(|kernel| short_hashes(kernel)).collect();
    subject.sysctl.clone_from(&keys.sysctl);
    subject.modules.clone_from(&keys.modules);
    subject.disk = keys.disk.as_ref().and_then(|keys| disk(keys).ok().flatten());
    subject.files.clone_from(&keys.files);
    words.push(subject.beside_kernel());
    words.extend(keys.setup.as_deref().map(|commands| format!("setup={}", start_of(commands))));
    words.extend(keys.thp.iter().map(|thp| format!("thp={thp}")));
    words.extend(keys.governor.iter().map(|governor| format!("governor={governor}")));
    if !keys.prefix.is_empty() {
        words.push(format!("prefix={}", keys.prefix.join(" ")));
    }
    words.retain(|word| !word.is_empty());
    if words.is_empty() { "as it is".to_owned() } else { words.join(" ") }
}

/// The first characters of commands, for a title.
fn start_of(commands: &str) -> String {
    const MOST: usize = 60;
    let start: String = commands.chars().take(MOST).collect();
    if start.len() < commands.len() { start + "..." } else { start }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_has_no_path_of_64_digits() {
        let kernel = |digit: &str| format!("/cache/kernels/{}/image", digit.repeat(64));
        let mut file = ExperimentFile::default();
        file.base.kernel = Some(kernel("a"));
        file.change_mut().kernel = Some(kernel("b"));
        assert_eq!(
            title(&file),
            "/cache/kernels/aaaaaaaaaaaa/image against /cache/kernels/bbbbbbbbbbbb/image"
        );
    }
}
