//! Rust source as tokens: no comments, no lifetimes, no white space.

/// As much of a token as the rules need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    Word(String),
    /// What is in the quotes.
    Text(String),
    Sign(char),
    /// `::`
    Path,
}

pub fn tokens(text: &str) -> Vec<Token> {
    let mut reader = Reader { chars: text.chars().collect(), at: 0 };
    let mut tokens = Vec::new();
    while let Some(token) = reader.next_token() {
        tokens.extend(token);
    }
    tokens
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

struct Reader {
    chars: Vec<char>,
    at: usize,
}

impl Reader {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    /// `None` at the end of the file, `Some(None)` for what is no token.
    fn next_token(&mut self) -> Option<Option<Token>> {
        let c = *self.chars.get(self.at)?;
        Some(match (c, self.peek(1)) {
            ('/', '/') => self.skip_until(|reader| reader.peek(0) == '\n'),
            ('/', '*') => self.skip_block(),
            (':', ':') => {
                self.at += 2;
                Some(Token::Path)
            }
            ('"', _) => Some(self.text()),
            ('\'', _) => self.quoted(),
            _ if is_of_word(c) => Some(self.word()),
            _ => {
                self.at += 1;
                (!c.is_whitespace()).then_some(Token::Sign(c))
            }
        })
    }

    fn skip_until(&mut self, is_end: impl Fn(&Reader) -> bool) -> Option<Token> {
        while self.at < self.chars.len() && !is_end(self) {
            self.at += 1;
        }
        None
    }

    fn skip_block(&mut self) -> Option<Token> {
        self.skip_until(|reader| (reader.peek(0), reader.peek(1)) == ('*', '/'));
        self.at += 2;
        None
    }

    fn word(&mut self) -> Token {
        let start = self.at;
        self.skip_until(|reader| !is_of_word(reader.peek(0)));
        let word: String = self.chars[start..self.at].iter().collect();
        let is_prefix = ["r", "b", "br", "c"].contains(&word.as_str());
        match self.peek(0) {
            '"' if is_prefix && !word.contains('r') => self.text(),
            '"' | '#' if is_prefix && word.contains('r') && self.is_raw() => self.raw_text(),
            '\'' if word == "b" => self.quoted().unwrap_or(Token::Text(String::new())),
            _ => Token::Word(word),
        }
    }

    fn text(&mut self) -> Token {
        self.at += 1;
        let mut text = String::new();
        while self.at < self.chars.len() && self.peek(0) != '"' {
            self.at += usize::from(self.peek(0) == '\\');
            text.push(self.peek(0));
            self.at += 1;
        }
        self.at += 1;
        Token::Text(text)
    }

    /// Whether it is no raw word, as `r#type` is.
    fn is_raw(&self) -> bool {
        self.chars[self.at..].iter().find(|c| **c != '#') == Some(&'"')
    }

    fn raw_text(&mut self) -> Token {
        let start = self.at;
        self.skip_until(|reader| reader.peek(0) != '#');
        let end: String =
            std::iter::once('"').chain(std::iter::repeat_n('#', self.at - start)).collect();
        self.at += 1;
        let rest: String = self.chars[self.at.min(self.chars.len())..].iter().collect();
        let text = rest.split(&end).next().unwrap_or_default().to_owned();
        self.at += text.chars().count() + end.chars().count();
        Token::Text(text)
    }

    /// A character, or a lifetime, which is no token.
    fn quoted(&mut self) -> Option<Token> {
        let is_character = self.peek(1) == '\\' || self.peek(2) == '\'';
        self.at += 1;
        if !is_character {
            return self.skip_until(|reader| !is_of_word(reader.peek(0)));
        }
        self.at += if self.peek(0) == '\\' { 2 } else { 1 };
        self.skip_until(|reader| reader.peek(0) == '\'');
        self.at += 1;
        Some(Token::Text(String::new()))
    }
}

#[test]
fn comments_texts_and_lifetimes_hide_nothing() {
    let source = "a::b /* c */ // d\n \"e\\\"f\" r#\"g\"h\"# 'i' '\\'' &'j k b'\\n' b\"l\" m";
    let word = |word: &str| Token::Word(word.into());
    let text = |text: &str| Token::Text(text.into());
    let (sign, none) = (Token::Sign('&'), text(""));
    let expected = vec![
        word("a"),
        Token::Path,
        word("b"),
        text("e\"f"),
        text("g\"h"),
        none.clone(),
        none.clone(),
        sign,
        word("k"),
        none,
        text("l"),
        word("m"),
    ];
    assert_eq!(tokens(source), expected);
}
