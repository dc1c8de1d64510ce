//! Parses what apt says about a package: stanzas of `Name: value` lines.

use super::archive::Listed;
use crate::error::KernelError;
use crate::package::{Package, is_package_name, is_version};
use ktax_host::text::escape;

/// Parses the answer of `apt-cache show`. apt treats an unknown name as a pattern, so this looks
/// for the stanza of exactly this package.
pub(super) fn listed(
    answer: &str,
    name: &str,
    wanted: Option<&str>,
    arch: &'static str,
) -> Result<Listed, KernelError> {
    let unknown = || KernelError::UnknownPackage {
        package: wanted.map_or(name.to_owned(), |version| format!("{name}={version}")),
        arch,
    };
    let of_name = |stanza: &&str| field(stanza, "Package") == Some(name);
    let stanza = answer.split("\n\n").find(of_name).ok_or_else(unknown)?;
    let found = field(stanza, "Architecture").unwrap_or("unknown");
    if found != arch && found != "all" {
        let (package, found) = (name.to_owned(), escape(found));
        return Err(KernelError::ForeignPackage { package, arch: found, wanted: arch });
    }
    let version = field(stanza, "Version").unwrap_or("");
    let package = Package::new(name, version).ok_or_else(unknown)?;
    let leads_to = field(stanza, "Depends").and_then(kernel_dependency);
    Ok(Listed { package, leads_to })
}

/// The value of one field of a stanza, without its continuation lines.
pub(super) fn field<'a>(stanza: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix(name)?.strip_prefix(':').map(str::trim);
    stanza.lines().find_map(value)
}

/// The first `linux-image-…` in a `Depends` field, with its version if the field names one exactly.
fn kernel_dependency(depends: &str) -> Option<(String, Option<String>)> {
    let alternatives = depends.split([',', '|']).map(str::trim);
    let found = alternatives.filter(|one| one.starts_with("linux-image-")).find_map(|one| {
        let (name, relation) = one.split_once(' ').unwrap_or((one, ""));
        let name = name.split(':').next().filter(|name| is_package_name(name))?;
        let version = relation.trim().strip_prefix("(=").and_then(|v| v.strip_suffix(')'));
        Some((name, version.map(str::trim).filter(|version| is_version(version))))
    });
    found.map(|(name, version)| (name.to_owned(), version.map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const META: &str = "Package: linux-image-cloud-amd64\nVersion: 6.1.192-2\n\
        Architecture: amd64\nDepends: linux-image-6.1.0-56-cloud-amd64 (= 6.1.192-2)\n";
    const REAL: &str = "Package: linux-image-6.1.0-56-cloud-amd64\nVersion: 6.1.192-2\n\
        Architecture: amd64\nDepends: kmod, linux-base (>= 4.3~), initramfs-tools | dracut\n\
        Description: Linux\n Version: 9 in a folded line\n";

    #[test]
    fn a_meta_package_leads_to_a_kernel() {
        let meta = listed(META, "linux-image-cloud-amd64", None, "amd64").unwrap();
        let kernel = ("linux-image-6.1.0-56-cloud-amd64".to_owned(), Some("6.1.192-2".to_owned()));
        assert_eq!(meta.leads_to, Some(kernel));
        let real = listed(REAL, "linux-image-6.1.0-56-cloud-amd64", None, "amd64").unwrap();
        assert_eq!(real.package.to_string(), "linux-image-6.1.0-56-cloud-amd64=6.1.192-2");
        assert_eq!(real.leads_to, None);
    }

    #[test]
    fn a_dependency_needs_no_exact_version() {
        let name = |depends| kernel_dependency(depends);
        assert_eq!(name("a, linux-image-6:any (>= 1) | b"), Some(("linux-image-6".into(), None)));
        assert_eq!(name("kmod, linux-base (= 4)"), None);
        assert_eq!(name("linux-image-../x (= 1)"), None);
    }

    #[test]
    fn only_the_exact_name_counts() {
        for answer in ["", META, "N: No packages found"] {
            let Err(error) = listed(answer, "linux-image-6.1", None, "amd64") else {
                panic!("{answer}")
            };
            assert!(error.to_string().ends_with("run `sudo apt-get update`"), "{error}");
        }
        let both = format!("{META}\n{REAL}");
        assert!(listed(&both, "linux-image-6.1.0-56-cloud-amd64", None, "amd64").is_ok());
    }

    #[test]
    fn a_package_of_another_architecture_is_refused() {
        let foreign = META.replace("Architecture: amd64", "Architecture: arm64");
        let Err(error) = listed(&foreign, "linux-image-cloud-amd64", None, "amd64") else {
            panic!()
        };
        assert!(matches!(error, KernelError::ForeignPackage { .. }), "{error}");
    }
}
