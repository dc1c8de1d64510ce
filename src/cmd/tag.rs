use serde_json::json;

use super::Exit;
use super::host::StoreArgs;
use super::output::{list_options, note, write_stdout};
use crate::flow::Error;
use crate::report::{plain_table, to_json};

/// Give a subject of the store a name of your own, or list the names.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// Give this name
    #[arg(value_name = "NAME", requires = "subject")]
    name: Option<String>,
    /// Give it to this subject, named as for `ktax diff`
    #[arg(value_name = "SUBJECT")]
    subject: Option<String>,
    /// Take this name away
    #[arg(short, long, value_name = "NAME", conflicts_with = "name")]
    delete: Option<String>,
    /// Print the list as JSON
    #[arg(long, conflicts_with_all = ["name", "delete"])]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

const EXAMPLE: &str = "\
Example:
  ktax tag before 6.1.0-55-cloud-amd64@mitigations=off";

pub fn run(args: &Args) -> Result<Exit, Error> {
    let stored = args.store.open()?;
    if let Some(name) = &args.delete {
        return match stored.untag(name)? {
            true => Ok(Exit::Ok),
            false => Err(Error::user(format!("there is no tag {name:?}; `ktax tag` lists them"))),
        };
    }
    if let (Some(name), Some(subject)) = (&args.name, &args.subject) {
        let (now, before) = stored.tag(name, subject)?;
        let before = before.map(|before| format!("; it was {before}")).unwrap_or_default();
        note!("ktax: {name} is {now}{before}");
        return Ok(Exit::Ok);
    }
    let tags = stored.tags()?;
    write_stdout(&match args.json {
        true => {
            let json_of =
                |(name, subject): &(String, String)| json!({ "tag": name, "subject": subject });
            to_json(&tags.iter().map(json_of).collect::<Vec<_>>())?
        }
        false => {
            let rows = tags.into_iter().map(|(name, subject)| vec![name, subject]).collect();
            plain_table(&["tag", "subject"], rows, &[], list_options())
        }
    })?;
    Ok(Exit::Ok)
}
