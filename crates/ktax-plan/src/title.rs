//! The title of an experiment that has none of its own.

use super::disk::disk;
use super::file::{ExperimentFile, SubjectKeys};
use ktax_host::text::short_hashes;
use ktax_model::Subject;

/// Two Subjects, in a line.
pub fn title_of(base: &Subject, change: &Subject) -> String {
    let one = |subject| in_words(words_of(subject));
    against(&one(base), &one(change))
}

/// What is compared, in a line.
pub fn title(file: &ExperimentFile) -> String {
    let change = file.change.clone().unwrap_or_default();
    against(&side(&file.base), &side(&change))
}

/// A title is ASCII, and a path need not be.
fn against(base: &str, change: &str) -> String {
    let title = format!("{base} against {change}");
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
    let kernel = keys.kernel.as_deref().unwrap_or_default();
    let disk = keys.disk.as_ref().and_then(|keys| disk(keys).ok().flatten());
    let mut words = words_of(&Subject { disk, ..keys.subject_of(kernel) });
    words.extend(keys.thp.iter().map(|thp| format!("thp={thp}")));
    words.extend(keys.governor.iter().map(|governor| format!("governor={governor}")));
    if !keys.prefix.is_empty() {
        words.push(format!("prefix={}", keys.prefix.join(" ")));
    }
    in_words(words)
}

/// A Subject, without the configuration that its options are added to.
fn words_of(subject: &Subject) -> Vec<String> {
    let alone = Subject { setup: None, start_config: None, ..subject.clone() };
    let setup = subject.setup.as_deref().map(|commands| format!("setup={}", start_of(commands)));
    // A kernel of the cache has its hash in its path.
    [short_hashes(&subject.kernel), alone.beside_kernel()].into_iter().chain(setup).collect()
}

fn in_words(mut words: Vec<String>) -> String {
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
