use super::view::{Records, Report, View};
use ktax_model::{Saved, SavedResult};

/// A report with a name that tells it from others beside it: a point of a sweep, a path.
#[derive(Clone, Copy)]
pub struct Named<'a> {
    /// The name; empty where there are no others.
    pub name: &'a str,
    /// The report.
    pub report: &'a dyn Report,
}

impl Report for Named<'_> {
    fn view(&self) -> View {
        let view = self.report.view();
        match self.name {
            "" => view,
            name => View { title: format!("{}, {name}", view.title), ..view },
        }
    }

    /// The first column has the name, where there is one.
    fn records(&self) -> Records {
        let mut records = self.report.records();
        if !self.name.is_empty() {
            records.header.insert(0, "name".to_owned());
            records.lines.iter_mut().for_each(|line| line.insert(0, self.name.into()));
        }
        records
    }

    fn result(&self) -> SavedResult {
        self.report.result()
    }

    fn saved(&self) -> Saved {
        Saved { name: self.name.to_owned(), ..self.report.saved() }
    }
}
