//! Why a file is not a patch that ktax can apply.

use thiserror::Error;

/// Why a file is not a patch that ktax can apply. Foreign text is escaped.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PatchError {
    /// No line of the file begins a diff.
    #[error(
        "it contains no diff; give a file that `git format-patch`, `git diff` or `b4 am` wrote"
    )]
    NoDiff,
    /// One patch of a series has no diff.
    #[error("the mail {name:?} contains no diff; download the series again, such as with `b4 am`")]
    NoDiffIn { name: String },
    /// A hunk does not have the lines that its header promises; `line` counts from 1.
    #[error(
        "line {line} of the diff{place} does not belong to its hunk, so a mail program has \
         probably wrapped or cut lines; download the original, such as with `b4 am`"
    )]
    Damaged { line: usize, place: String },
    /// A number of the series is missing between others.
    #[error(
        "it contains other patches of the series, but not {missing}/{total}; add that mail, or \
         give each patch as a file of its own"
    )]
    Gap { missing: u32, total: u32 },
    /// Two different mails have one number.
    #[error(
        "it contains two different patches {number}/{total}; keep one of them, or download one \
         version of the series with `b4 am`"
    )]
    Twice { number: u32, total: u32 },
    /// The mailbox has several series.
    #[error(
        "it contains several series ({series}); keep one of them, such as with `b4 am`, which \
         writes the newest version alone"
    )]
    SeveralSeries { series: String },
    /// No file of the diff can be in a kernel tree.
    #[error(
        "it changes {file}, and no directory of a kernel tree contains that; create the patch in \
         the top directory of a kernel tree, such as with `git format-patch -1`"
    )]
    NotOfAKernel { file: String },
    /// The mail is not one.
    #[error("its mail cannot be read: {reason}; give the plain diff")]
    Mail { reason: String },
}
