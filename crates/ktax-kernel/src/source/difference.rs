//! Finds the options in which two configurations differ.

use super::options::Options;
use crate::error::BuildError;
use ktax_model::Element;

/// The options that have another value in `change` than in `base`, in Kconfig's order, which puts
/// most options behind their dependencies. `base` and `change` are texts of .configs.
///
/// # Errors
/// [`BuildError::Option`] for a line that is neither an option nor a comment.
pub fn options_between(base: &str, change: &str) -> Result<Vec<Element>, BuildError> {
    let (base, order) = (Options::read(base)?, [change, base]);
    let change = Options::read(change)?;
    let mut elements: Vec<Element> = Vec::new();
    for line in order.iter().flat_map(|text| text.lines()) {
        // An option that only one of them mentions is off in the other.
        let Some(name) = Options::read(line)?.into_names().pop() else { continue };
        let (was, is) = (base.value(&name), change.value(&name));
        let element = Element {
            name: format!("CONFIG_{name}={is}"),
            title: format!("instead of {was}"),
            is_merge: false,
        };
        if was != is && !elements.iter().any(|other| other.name == element.name) {
            elements.push(element);
        }
    }
    Ok(elements)
}

/// The configuration `base` with some differences applied, as the text of a .config.
///
/// # Errors
/// [`BuildError::Option`] for a line that is neither an option nor a comment.
pub fn with_options(base: &str, elements: &[Element]) -> Result<String, BuildError> {
    let changed: Vec<String> = elements.iter().map(|element| element.name.clone()).collect();
    Ok(Options::read(base)?.with(&Options::of(&changed)?).text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_in_kconfigs_order_and_lead_from_one_to_the_other() {
        let base = "# CONFIG_Z is not set\nCONFIG_HZ=250\nCONFIG_ONLY=y\nCONFIG_SAME=y\n";
        let change = "CONFIG_Z=y\nCONFIG_NEW=m\nCONFIG_HZ=100\nCONFIG_SAME=y\n";
        let elements = options_between(base, change).unwrap();
        let names: Vec<&str> = elements.iter().map(|element| element.name.as_str()).collect();
        assert_eq!(names, ["CONFIG_Z=y", "CONFIG_NEW=m", "CONFIG_HZ=100", "CONFIG_ONLY=n"]);
        assert_eq!(elements[2].title, "instead of 250");
        let whole = Options::read(&with_options(base, &elements).unwrap()).unwrap();
        assert!(whole.unlike(&Options::read(change).unwrap()).is_empty());
        assert!(options_between(base, base).unwrap().is_empty());
        let half = with_options(base, &elements[..2]).unwrap();
        assert!(half.contains("CONFIG_NEW=m\n") && half.contains("CONFIG_HZ=250\n"), "{half}");
    }
}
