//! Names of kernels, names and versions of Debian packages (Debian Policy 5.6.1 and 5.6.12,
//! `deb-version(7)`), and the targets that kernels are built for.

use ktax_host::text::{escape, escape_path};
use ktax_model::{Arch, Error, Result};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The name of a kernel. A prebuilt kernel is `debian:NAME`, `debian:NAME=VERSION` or the path of a
/// file. A kernel from source is `src:DIRECTORY`, `debian-src:VERSION` or `git:REVISION`.
///
/// `NAME` is a package, with or without the prefix `linux-image-`: `debian:cloud-amd64` is the
/// newest kernel of the meta-package `linux-image-cloud-amd64`. A path that begins with `debian:`
/// is written as `./debian:…`. In JSON and TOML the name is a string.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum KernelSpec {
    /// A package of the distribution, in the newest version if there is no version.
    Debian { package: String, version: Option<String> },
    /// A bzImage or an ELF vmlinux.
    File(PathBuf),
    /// The source tree in a directory, with changes that are not committed.
    Source(PathBuf),
    /// The distribution's source package of this version, for example `6.12`.
    DebianSource(String),
    /// A revision of the Subject's git repository.
    Revision(String),
}

impl KernelSpec {
    /// Returns whether ktax builds this kernel from source.
    pub fn is_source(&self) -> bool {
        matches!(self, Self::Source(_) | Self::DebianSource(_) | Self::Revision(_))
    }

    /// Returns the name without `linux-image-`, as most users type it.
    pub(super) fn short(&self) -> String {
        self.to_string().replacen("debian:linux-image-", "debian:", 1)
    }
}

impl FromStr for KernelSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = |problem: &str| {
            let spec = text.chars().take(200).collect::<String>().escape_debug().to_string();
            Error::user(format!("cannot use kernel `{spec}`: {problem}"))
                .next("give `debian:cloud-amd64` or the path of a bzImage")
        };
        if text.is_empty() {
            return Err(bad("the name is empty"));
        }
        if text.chars().any(char::is_control) {
            return Err(bad("the name contains a control character"));
        }
        match text.split_once(':') {
            Some(("debian", package)) => debian_spec(package).map_err(bad),
            Some(("src", "")) => Err(bad("there is no directory after `src:`")),
            Some(("src", path)) => Ok(Self::Source(PathBuf::from(path))),
            Some(("debian-src", version)) => source_spec(version).map_err(bad),
            Some(("git", revision)) => revision_spec(revision).map_err(bad),
            _ => Ok(Self::File(PathBuf::from(text))),
        }
    }
}

fn source_spec(version: &str) -> Result<KernelSpec, &'static str> {
    let is_version = is_package_name(version) && version.contains('.');
    match is_version {
        true => Ok(KernelSpec::DebianSource(version.to_owned())),
        false => Err("`debian-src:` needs a version such as `debian-src:6.12`"),
    }
}

/// Refuses a revision that git would read as an option.
fn revision_spec(revision: &str) -> Result<KernelSpec, &'static str> {
    match revision.is_empty() || revision.starts_with('-') {
        true => Err("`git:` needs a revision that does not begin with `-`"),
        false => Ok(KernelSpec::Revision(revision.to_owned())),
    }
}

fn debian_spec(text: &str) -> Result<KernelSpec, &'static str> {
    let (name, version) = match text.split_once('=') {
        Some((name, version)) => (name, Some(version)),
        None => (text, None),
    };
    if name.is_empty() {
        return Err("there is no package name after `debian:`");
    }
    let package = if name.starts_with("linux-image-") {
        name.to_owned()
    } else {
        format!("linux-image-{name}")
    };
    if !is_package_name(&package) {
        return Err("a package name consists of lower-case letters, digits, `+`, `-` and `.`");
    }
    if package.ends_with("-dbg") {
        return Err("a -dbg package contains debug symbols, not a kernel");
    }
    if version.is_some_and(|version| !is_version(version)) {
        return Err("the text after `=` is not a package version");
    }
    Ok(KernelSpec::Debian { package, version: version.map(str::to_owned) })
}

impl fmt::Display for KernelSpec {
    /// Formats the full name, which [`FromStr`] parses to an equal value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Debian { package, version: None } => write!(f, "debian:{package}"),
            Self::Debian { package, version: Some(version) } => {
                write!(f, "debian:{package}={version}")
            }
            Self::File(path) if has_scheme(path) => write!(f, "./{}", escape_path(path)),
            Self::Source(path) => write!(f, "src:{}", escape_path(path)),
            Self::DebianSource(version) => write!(f, "debian-src:{version}"),
            Self::Revision(revision) => write!(f, "git:{}", escape(revision)),
            Self::File(path) => f.write_str(&escape_path(path)),
        }
    }
}

/// Returns whether the text of a path would be parsed as another kind of name.
fn has_scheme(path: &Path) -> bool {
    let text = path.to_string_lossy();
    ["debian:", "src:", "debian-src:", "git:"].iter().any(|scheme| text.starts_with(scheme))
}

impl TryFrom<String> for KernelSpec {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<KernelSpec> for String {
    fn from(spec: KernelSpec) -> Self {
        spec.to_string()
    }
}

/// One version of a Debian package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// Name, for example `linux-image-6.1.0-50-cloud-amd64`.
    pub name: String,
    /// Version, for example `6.1.176-1`.
    pub version: String,
}

impl Package {
    /// Returns the package; `None` if the name or the version breaks the rules of Debian Policy
    /// 5.6.
    pub(super) fn new(name: &str, version: &str) -> Option<Self> {
        (is_package_name(name) && is_version(version))
            .then(|| Self { name: name.to_owned(), version: version.to_owned() })
    }
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.version)
    }
}

/// Returns whether `name` follows Debian Policy 5.6.1. Such a name is safe in an argument and a
/// file name.
pub(super) fn is_package_name(name: &str) -> bool {
    let rest = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-.".contains(&b);
    (2..=120).contains(&name.len())
        && name.bytes().all(rest)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// Returns whether `version` follows Debian Policy 5.6.12. Such a version is safe in an argument
/// and a file name.
pub(super) fn is_version(version: &str) -> bool {
    (1..=100).contains(&version.len())
        && version.bytes().all(|b| b.is_ascii_alphanumeric() || b".+-~:".contains(&b))
        && version.starts_with(|c: char| c.is_ascii_digit())
}

/// Compares two versions, `[epoch:]upstream[-revision]`, as dpkg does.
pub(super) fn compare_versions(a: &str, b: &str) -> Ordering {
    let (epoch_a, rest_a) = split_epoch(a);
    let (epoch_b, rest_b) = split_epoch(b);
    let (upstream_a, revision_a) = split_revision(rest_a);
    let (upstream_b, revision_b) = split_revision(rest_b);
    compare_numbers(epoch_a, epoch_b)
        .then_with(|| compare_parts(upstream_a, upstream_b))
        .then_with(|| compare_parts(revision_a, revision_b))
}

fn split_epoch(version: &str) -> (&str, &str) {
    version.split_once(':').unwrap_or(("", version))
}

fn split_revision(version: &str) -> (&str, &str) {
    version.rsplit_once('-').unwrap_or((version, ""))
}

/// Compares two parts of versions: in turn, non-digits by character and digits by value.
fn compare_parts(mut a: &str, mut b: &str) -> Ordering {
    loop {
        let (word_a, rest_a) = split_while(a, |c| !c.is_ascii_digit());
        let (word_b, rest_b) = split_while(b, |c| !c.is_ascii_digit());
        let (digits_a, rest_a) = split_while(rest_a, |c| c.is_ascii_digit());
        let (digits_b, rest_b) = split_while(rest_b, |c| c.is_ascii_digit());
        let order = compare_words(word_a, word_b).then_with(|| compare_numbers(digits_a, digits_b));
        if order != Ordering::Equal || (rest_a.is_empty() && rest_b.is_empty()) {
            return order;
        }
        (a, b) = (rest_a, rest_b);
    }
}

fn split_while(text: &str, is_first: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !is_first(c)).unwrap_or(text.len()))
}

/// Compares non-digits. `~` sorts before the end, the end before letters, letters before other
/// characters.
fn compare_words(a: &str, b: &str) -> Ordering {
    let weight = |c: char| match c {
        '~' => -1,
        c if c.is_ascii_alphabetic() => i64::from(u32::from(c)),
        c => i64::from(u32::from(c)) + 0x0011_0000,
    };
    let weights = |text: &str| text.chars().map(weight).collect::<Vec<_>>();
    let (a, b) = (weights(a), weights(b));
    let weight_at = |side: &[i64], i: usize| side.get(i).copied().unwrap_or(0);
    let orders = (0..a.len().max(b.len())).map(|i| weight_at(&a, i).cmp(&weight_at(&b, i)));
    orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Compares numbers of any length by value.
fn compare_numbers(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

/// A kind of machine that kernels are built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The name in messages and in the directory of builds.
    pub name: &'static str,
    pub arch: Arch,
    /// The options that kernels for this target must have, as lines of a .config.
    pub options: &'static str,
    /// True if Debian's own kernels boot on this target and have all options that are needed.
    pub is_packaged: bool,
}

/// A small configuration that boots in the exact engine and has what the workloads need.
const BASE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels/base.config"));
const E500V2_OPTIONS: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels/e500v2.config"));
const POWER9_OPTIONS: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels/power9.config"));
const RISCV64_OPTIONS: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels/riscv64.config"));

impl Target {
    /// The machine of the exact engine.
    pub const X86_64: Target =
        Target { name: "x86_64", arch: Arch::X86_64, options: "", is_packaged: true };

    /// A KVM host with an e500v2 processor: QEMU's ppce500 machine.
    pub const E500V2: Target =
        Target { name: "e500v2", arch: Arch::PowerPc, options: E500V2_OPTIONS, is_packaged: false };

    /// A KVM host with a POWER9 processor: QEMU's pseries machine.
    pub const POWER9: Target =
        Target { name: "power9", arch: Arch::Ppc64le, options: POWER9_OPTIONS, is_packaged: false };

    /// A KVM host with a riscv64 processor: QEMU's virt machine.
    pub const RISCV64: Target = Target {
        name: "riscv64",
        arch: Arch::Riscv64,
        options: RISCV64_OPTIONS,
        is_packaged: false,
    };

    /// A KVM host with an arm64 processor: QEMU's virt machine. Its kernel comes from a package.
    pub const ARM64: Target =
        Target { name: "arm64", arch: Arch::Arm64, options: "", is_packaged: true };

    /// Returns the configuration `base`, in which every option that is not listed is off.
    pub(crate) fn base(&self) -> &'static str {
        if self.is_foreign() { "" } else { BASE }
    }

    /// Returns whether a build for this target needs a cross compiler.
    pub(crate) fn is_foreign(&self) -> bool {
        self.arch != Arch::X86_64
    }

    /// Returns the prefix of the compiler and the linker, for example `powerpc-linux-gnu-`.
    pub(crate) fn cross_prefix(&self) -> &'static str {
        match self.arch {
            Arch::X86_64 => "",
            Arch::PowerPc => "powerpc-linux-gnu-",
            Arch::Ppc64le => "powerpc64le-linux-gnu-",
            Arch::Arm64 => "aarch64-linux-gnu-",
            Arch::Riscv64 => "riscv64-linux-gnu-",
        }
    }

    /// Returns the directory of the architecture below `arch/` in a kernel tree.
    pub(crate) fn arch_directory(&self) -> &'static str {
        match self.arch {
            Arch::X86_64 => "x86",
            Arch::PowerPc | Arch::Ppc64le => "powerpc",
            Arch::Arm64 => "arm64",
            Arch::Riscv64 => "riscv",
        }
    }

    /// Returns the variables of make for this target.
    pub(crate) fn make_variables(&self) -> Vec<String> {
        match self.is_foreign() {
            true => vec![
                format!("ARCH={}", self.arch_directory()),
                format!("CROSS_COMPILE={}", self.cross_prefix()),
            ],
            false => Vec::new(),
        }
    }

    /// Returns the make target of the image, and the image's path below the object directory.
    pub(crate) fn image(&self) -> (&'static str, &'static str) {
        match self.arch {
            Arch::X86_64 => ("bzImage", "arch/x86/boot/bzImage"),
            Arch::PowerPc | Arch::Ppc64le => ("vmlinux", "vmlinux"),
            Arch::Arm64 => ("Image", "arch/arm64/boot/Image"),
            Arch::Riscv64 => ("Image", "arch/riscv/boot/Image"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn debian(package: &str, version: Option<&str>) -> KernelSpec {
        KernelSpec::Debian { package: package.to_owned(), version: version.map(str::to_owned) }
    }

    #[test]
    fn names_are_read_and_written_back() {
        let cases = [
            ("debian:cloud-amd64", debian("linux-image-cloud-amd64", None)),
            ("debian:linux-image-amd64", debian("linux-image-amd64", None)),
            ("debian:6.12.117+deb12-amd64", debian("linux-image-6.12.117+deb12-amd64", None)),
            ("debian:amd64=1:6.1~rc1-1", debian("linux-image-amd64", Some("1:6.1~rc1-1"))),
            ("./debian:x", KernelSpec::File("./debian:x".into())),
            ("/boot/vmlinuz", KernelSpec::File("/boot/vmlinuz".into())),
        ];
        for (text, spec) in cases {
            assert_eq!(text.parse::<KernelSpec>().unwrap(), spec);
            assert_eq!(spec.to_string().parse::<KernelSpec>().unwrap(), spec);
        }
    }

    #[test]
    fn bad_names_are_refused() {
        let bad = [
            "",
            "a\nb",
            "debian:",
            "debian:../x",
            "debian:a b",
            "debian:linux-image-*",
            "debian:amd64=",
            "debian:amd64=../1",
            "debian:amd64-dbg",
            "debian:Amd64",
        ];
        for text in bad {
            let error = text.parse::<KernelSpec>().unwrap_err().to_string();
            assert!(error.ends_with("or the path of a bzImage"), "{error}");
        }
    }

    #[test]
    fn a_name_is_a_string_in_json() {
        let spec: KernelSpec = serde_json::from_str(r#""debian:cloud-amd64""#).unwrap();
        assert_eq!(serde_json::to_string(&spec).unwrap(), r#""debian:linux-image-cloud-amd64""#);
        assert!(serde_json::from_str::<KernelSpec>(r#""debian:""#).is_err());
    }

    proptest! {
        #[test]
        fn a_written_name_is_read_back(text in "(debian:|src:|debian-src:|git:)?[ -~]{0,30}") {
            if let Ok(spec) = text.parse::<KernelSpec>() {
                prop_assert_eq!(spec.to_string().parse::<KernelSpec>().unwrap(), spec);
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC*|.*") {
            let _ = text.parse::<KernelSpec>();
        }
    }

    #[test]
    fn versions_are_sorted_as_by_dpkg() {
        let rising = [
            "1.0~~",
            "1.0~~a",
            "1.0~",
            "1.0",
            "1.0a",
            "1.0+b",
            "6.1.9-1",
            "6.1.10-1",
            "6.1.176-1",
            "6.1.192-2~bpo1",
            "6.1.192-2",
            "6.1.192-2+b1",
            "6.1.192-10",
            "6.12.1-1~deb12u1",
            "6.12.1-1",
            "1:0",
        ];
        for (i, a) in rising.iter().enumerate() {
            for (j, b) in rising.iter().enumerate() {
                assert_eq!(compare_versions(a, b), i.cmp(&j), "{a} {b}");
            }
        }
        assert_eq!(compare_versions("0:1.00-0", "1.0"), Ordering::Equal);
    }

    proptest! {
        #[test]
        fn the_order_is_total(
            a in "[0-9a~.+:-]{0,9}",
            b in "[0-9a~.+:-]{0,9}",
            c in "[0-9a~-]{0,9}",
        ) {
            prop_assert_eq!(compare_versions(&a, &b), compare_versions(&b, &a).reverse());
            prop_assert_eq!(compare_versions(&a, &a), Ordering::Equal);
            if compare_versions(&a, &b).is_le() && compare_versions(&b, &c).is_le() {
                prop_assert!(compare_versions(&a, &c).is_le());
            }
        }
    }
}
