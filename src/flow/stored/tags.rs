//! Names that a user gives.

use super::error::StoredError;
use super::names::Names;
use super::open::Stored;
use crate::flow::error::Error;
use crate::store::Tagged;
use crate::text::short_hashes;

impl Stored {
    /// Gives a subject a name, and says which subject that is, and which had the name before.
    ///
    /// # Errors
    /// It is no name, or no subject is known by `subject`.
    pub fn tag(&self, name: &str, subject: &str) -> Result<(String, Option<String>), Error> {
        let names = Names::of(self)?;
        let found = names.find(subject)?;
        // A tag that hides a kernel would make a printed command mean another one.
        match names.find_untagged(name) {
            Err(Error::Stored(StoredError::Unknown { .. })) => {}
            Ok(other) => Err(StoredError::Taken { name: name.into(), of: names.name(other) })?,
            Err(Error::Stored(StoredError::Ambiguous { .. })) => {
                Err(StoredError::Taken { name: name.into(), of: "several subjects".into() })?;
            }
            Err(error) => return Err(error),
        }
        let before = self.tags()?.into_iter().find(|(tag, _)| tag == name).map(|(_, of)| of);
        let (kernel_sha256, boot_line) = (found.kernel_sha256.clone(), found.boot_line.clone());
        self.store.tag(name, &Tagged { kernel_sha256, boot_line })?;
        let now = names.name(found);
        let before = before.filter(|before| *before != now);
        Ok((now, before))
    }

    /// Takes a name away; whether there was one.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn untag(&self, name: &str) -> Result<bool, Error> {
        Ok(self.store.untag(name)?)
    }

    /// All names, with the subject of each.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn tags(&self) -> Result<Vec<(String, String)>, Error> {
        let names = Names::of(self)?;
        let tags = self.store.tags()?.into_iter();
        let of = |(tag, of): (String, Tagged)| {
            let name = names.subject(&of.kernel_sha256, &of.boot_line);
            let gone = || format!("{} (no measurement)", short_hashes(&of.kernel_sha256));
            (tag, name.map_or_else(gone, |it| names.name(it)))
        };
        Ok(tags.map(of).collect())
    }
}
