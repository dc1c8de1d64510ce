use serde::{Deserialize, Deserializer, de};

use super::ENGINES;
use super::entry::EngineEntry;

/// The engine of that name.
pub fn named(name: &str) -> Option<&'static EngineEntry> {
    ENGINES.iter().find(|engine| engine.name == name)
}

impl<'de> Deserialize<'de> for &'static EngineEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        named(&name).ok_or_else(|| {
            let names: Vec<String> = ENGINES.iter().map(|it| format!("`{}`", it.name)).collect();
            let names = names.join(", ");
            de::Error::custom(format!("unknown engine {name:?}, expected one of {names}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_leads_to_its_engine() {
        for engine in ENGINES {
            let found = named(engine.name).map(|found| (found.about, found.runs_on));
            assert_eq!(found, Some((engine.about, engine.runs_on)), "{}", engine.name);
        }
        assert_eq!(named("hots"), None);
    }
}
