use super::error::CampaignError;
use crate::flow::error::Error;
use crate::flow::session::Session;
use crate::model::Identity;
use crate::rundir::CampaignDir;

/// Builds the kernel of a Subject from source, and leaves it in the directory for every machine.
/// One that is there is not built again.
///
/// # Errors
/// It is not from source, or cannot be built.
pub fn build(dir: &CampaignDir, subject: usize, session: &Session<'_>) -> Result<Identity, Error> {
    let Some(of) = dir.plan().subjects.get(subject).filter(|of| of.kernel.is_none()) else {
        return Err(CampaignError::NotBuilt { number: subject }.into());
    };
    if let Some(built) = dir.kernel(subject)? {
        return Ok(built);
    }
    let kernel = session.obtain(&of.subject)?;
    dir.write_image(&kernel.identity.sha256, &kernel.image)?;
    dir.write_kernel(subject, &kernel.identity)?;
    // Of two builders the first is right.
    Ok(dir.kernel(subject)?.unwrap_or(kernel.identity))
}
