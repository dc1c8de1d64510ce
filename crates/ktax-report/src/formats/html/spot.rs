use maud::{Markup, html};

use super::text::t;

/// Where on a page something stands.
#[derive(Debug, Clone, Copy)]
pub struct Spot {
    /// Which article, from 1.
    article: usize,
    /// How deep below its title.
    depth: usize,
}

impl Spot {
    /// Below the title of an article, the first of which is 1.
    pub fn of_article(article: usize) -> Spot {
        Spot { article, depth: 0 }
    }

    /// A heading below the article's title.
    pub fn heading(self, text: &str) -> Markup {
        html! {
            @match self.depth {
                0 => h2 { (t(text)) },
                _ => h3 { (t(text)) },
            }
        }
    }

    /// What links name a row by.
    pub fn id(self, row: usize) -> String {
        format!("r{}-{}", self.article, row + 1)
    }

    /// Within a row.
    pub fn inner(self) -> Spot {
        Spot { depth: self.depth + 1, ..self }
    }
}
