use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// A value of an option that takes one of a few: the value, its name, and what help says of it.
pub type Choice<T> = (T, &'static str, &'static str);

/// Parses the name of one of these values; help lists them all.
pub fn one_of<T>(choices: &'static [Choice<T>]) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let possible = choices.iter().map(|(_, name, help)| match *help {
        "" => PossibleValue::new(*name),
        help => PossibleValue::new(*name).help(help),
    });
    PossibleValuesParser::new(possible.collect::<Vec<_>>()).map(|text| {
        let chosen = choices.iter().find(|(_, name, _)| *name == text);
        chosen.expect("the parser accepts no other name").0
    })
}
