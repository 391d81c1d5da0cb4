//! LaTeX's commands, as chat models write them.

use crate::chars::{character_at, class_at, class_of, skip_letters, skip_space, LETTER, SPACE};
use crate::joins::match_join;
use crate::lexer::Lexer;
use crate::tokens::{Kind, Text, Token};
use crate::NotMine;

impl<'a> Lexer<'a> {
    /// Read what begins with a backslash.
    pub fn read_command(&mut self, at: usize) -> Result<usize, NotMine> {
        let end = skip_letters(self.line, at + 1);
        let name = &self.line[at + 1..end];
        if name.is_empty() {
            return self.read_symbol(at);
        }
        if matches!(name, b"frac" | b"dfrac" | b"tfrac" | b"cfrac") {
            let brace = skip_space(self.line, end)?;
            if self.line.get(brace) == Some(&b'{') {
                return self.open_fraction(at, brace + 1);
            }
        }
        if let Some((end, inexact)) = match_join(self.line, at) {
            return self.add_join(at, end, inexact);
        }
        if name.starts_with(b"sqrt") {
            return self.add_foreign(at, at + 5);
        }
        if name.starts_with(b"pm") {
            return self.add_foreign(at, at + 3);
        }
        if let Some(end) = self.match_overline(at) {
            return self.add_ellipsis(at, end);
        }
        if matches!(name, b"dots" | b"ldots" | b"cdots") {
            return self.add_ellipsis(at, end);
        }
        if is_text(name) {
            if let Some(label) = self.match_label(at, end)? {
                self.tokens.push(label);
                self.found.hides_joins = true;
                self.found.of = true; // it may be
                return Ok(label.end as usize);
            }
        }
        if is_text(name) || is_transparent(name) {
            return self.skip(end, false);
        }
        match name {
            b"times" | b"cdot" => self.add_operator(at, end, Text::Times),
            b"div" => self.add_operator(at, end, Text::Divide),
            _ => self.add_break(at, at + 1),
        }
    }

    /// Read a backslash before something other than a letter.
    fn read_symbol(&mut self, at: usize) -> Result<usize, NotMine> {
        match self.line.get(at + 1) {
            Some(b'$') => self.skip(at + 2, true),
            Some(b'(' | b')' | b'[' | b']' | b',' | b';' | b':' | b'!' | b' ') => {
                self.skip(at + 2, false)
            }
            Some(b'%') => self.add_percent(at, at + 2),
            Some(b'\\') => {
                self.found.hides_joins = true; // the second may begin a name
                self.add_break(at, at + 2)
            }
            _ => self.add_break(at, at + 1),
        }
    }

    /// Return the word that `\text{…}` makes, if words are in its braces.
    fn match_label(&self, at: usize, end: usize) -> Result<Option<Token>, NotMine> {
        let brace = skip_space(self.line, end)?;
        if self.line.get(brace) != Some(&b'{') {
            return Ok(None);
        }
        let mut first = brace + 1;
        while self.line.get(first) == Some(&b'(') || class_at(self.line, first)? & SPACE != 0 {
            first += character_at(self.line, first)?.1;
        }
        if class_at(self.line, first)? & LETTER == 0 {
            return Ok(None);
        }
        let mut close = first;
        loop {
            match self.line.get(close) {
                Some(b'}') => break,
                Some(b'{') | None => return Ok(None),
                Some(0..=127) => close += 1,
                Some(_) => {
                    let (character, length) = character_at(self.line, close)?;
                    class_of(character)?;
                    close += length;
                }
            }
        }
        let mut token = Token::new(Kind::Word, Text::InLine, at, close + 1);
        let (mut start, mut stop) = (brace + 1, close);
        while self.line[start] == b' ' {
            start += 1;
        }
        while self.line[stop - 1] == b' ' {
            stop -= 1;
        }
        token.text_start = start as u32;
        token.text_end = stop as u32;
        Ok(Some(token))
    }
}

fn is_text(name: &[u8]) -> bool {
    let names: [&[u8]; 8] =
        [b"text", b"textbf", b"textit", b"textrm", b"mathrm", b"mathbf", b"mathit", b"mbox"];
    names.contains(&name)
}

fn is_transparent(name: &[u8]) -> bool {
    let names: [&[u8]; 11] = [
        b"left",
        b"right",
        b"big",
        b"Big",
        b"bigg",
        b"Bigg",
        b"displaystyle",
        b"boxed",
        b"fbox",
        b"quad",
        b"qquad",
    ];
    names.contains(&name)
}
