use std::fmt;

use crate::error::ReportError;
use crate::options::TextOptions;
use crate::view::Report;

/// A format that reports can be printed in.
#[derive(Clone, Copy)]
pub struct Format {
    /// What `--format` calls it.
    pub name: &'static str,
    /// The file that is kept beside a result; none of what is kept as the result itself.
    pub file: Option<&'static str>,
    /// One report, ending in a newline.
    pub write: fn(&dyn Report, TextOptions) -> Result<String, ReportError>,
    /// Several of them in one document.
    pub several: fn(&[&dyn Report], TextOptions) -> Result<String, ReportError>,
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Format {
    fn eq(&self, other: &Format) -> bool {
        self.name == other.name
    }
}

/// A report in a format, ending in a newline.
///
/// # Errors
/// It has a value that the format cannot hold; no result that ktax makes has.
pub fn render(
    report: &dyn Report,
    format: Format,
    options: TextOptions,
) -> Result<String, ReportError> {
    (format.write)(report, options)
}

/// Several reports in a format; of one report the same as [`render`].
///
/// # Errors
/// Those of [`render`].
pub fn render_all(
    reports: &[&dyn Report],
    format: Format,
    options: TextOptions,
) -> Result<String, ReportError> {
    match reports {
        [one] => render(*one, format, options),
        several => (format.several)(several, options),
    }
}

/// Several reports, one after the other in this format.
pub(super) fn each(
    reports: &[&dyn Report],
    format: Format,
    options: TextOptions,
) -> Result<Vec<String>, ReportError> {
    reports.iter().map(|report| render(*report, format, options)).collect()
}

/// Declares the modules of the formats and lists them, so that a format is one line.
macro_rules! formats {
    ($(mod $module:ident;)*) => {
        $(mod $module;)*
        /// All formats; the first is the usual one.
        pub const FORMATS: &[Format] = &[$($module::FORMAT),*];
    };
}
pub(super) use formats;
