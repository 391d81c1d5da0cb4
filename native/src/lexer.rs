//! Cut a line into the tokens of arithmetic: `_Lexer` of `tokens.py`, in its order of rules.

use crate::chars::{
    ascii_class, character_at, class_of, skip_digits, skip_space, DIGIT, LETTER, SPACE,
};
use crate::joins::match_join;
use crate::numbers::{match_mixed, match_number, match_vulgar, read_number};
use crate::tokens::{Kind, Text, Token};
use crate::NotMine;

#[derive(Clone, Copy, PartialEq)]
pub enum Brace {
    Plain,
    Numerator,
    Between,
    Denominator,
}

pub struct Lexer<'a> {
    pub line: &'a [u8],
    pub tokens: &'a mut Vec<Token>,
    pub braces: Vec<Brace>,
    pub money: bool, // whether a currency sign stands before what is read next
    pub found: Found,
}

/// What a line has that is not looked for again in lines without it.
#[derive(Clone, Copy, Default)]
pub struct Found {
    pub joins: i64,
    pub hides_joins: bool, // a token that may hold a sign which joins nothing
    pub units: bool,       // a slash or a parenthesis, which may be part of a unit
    pub of: bool,
}

impl<'a> Lexer<'a> {
    /// Read the tokens of a line; `NotMine` if it has a character that is not known here.
    pub fn read(line: &'a [u8], tokens: &'a mut Vec<Token>) -> Result<Found, NotMine> {
        tokens.clear();
        let found = Found::default();
        let mut lexer = Lexer { line, tokens, braces: Vec::new(), money: false, found };
        let mut at = skip_list_mark(line)?;
        while at < line.len() {
            let byte = line[at];
            let class = ascii_class(byte);
            if class & SPACE != 0 {
                at += 1;
            } else if class & LETTER != 0 {
                at = lexer.read_letter(at)?;
                lexer.money = false;
            } else {
                let money = lexer.money;
                lexer.money = false;
                at = lexer.read_other(at, byte, class, money)?;
            }
        }
        Ok(lexer.found)
    }

    #[inline]
    pub fn add(&mut self, kind: Kind, text: Text, start: usize, end: usize) -> usize {
        self.tokens.push(Token::new(kind, text, start, end));
        end
    }

    pub fn add_break(&mut self, start: usize, end: usize) -> Result<usize, NotMine> {
        Ok(self.add(Kind::Break, Text::InLine, start, end))
    }

    pub fn add_foreign(&mut self, start: usize, end: usize) -> Result<usize, NotMine> {
        Ok(self.add(Kind::Foreign, Text::InLine, start, end))
    }

    pub fn skip(&mut self, end: usize, money: bool) -> Result<usize, NotMine> {
        self.money = money;
        Ok(end)
    }

    pub fn byte(&self, at: usize) -> u8 {
        self.line.get(at).copied().unwrap_or(0)
    }

    pub fn last_operand(&self) -> Option<&Token> {
        self.tokens.last().filter(|token| token.ends_operand())
    }

    fn read_other(
        &mut self,
        at: usize,
        byte: u8,
        class: u8,
        money: bool,
    ) -> Result<usize, NotMine> {
        if class & DIGIT != 0 {
            return self.read_number(at, money);
        }
        match byte {
            b'.' => self.read_point(at, money),
            b'=' => match match_join(self.line, at) {
                Some((end, _)) => self.add_join(at, end, false),
                None if self.byte(at + 1) == b'>' => self.add_foreign(at, at + 2),
                None => self.add_break(at, at + 1),
            },
            b'\\' => self.read_command(at),
            b'_' => self.read_underscore(at),
            b'^' | b'!' | b'|' => self.add_foreign(at, at + 1),
            b'<' | b'>' | b'~' => {
                self.add_foreign(at, at + 1 + usize::from(self.byte(at + 1) == b'='))
            }
            b':' if self.byte(at + 1) == b'=' => self.add_foreign(at, at + 2),
            b'$' => self.skip(at + 1, true),
            b'&' => self.skip(at + 1, false),
            b'%' => self.add_percent(at, at + 1),
            b'*' if self.byte(at + 1) == b'*' => self.add_stars(at),
            b'*' => self.add_operator(at, at + 1, Text::Times),
            b'+' => self.add_operator(at, at + 1, Text::Plus),
            b'-' => self.add_operator(at, at + 1, Text::Dash),
            b'/' => {
                self.found.units = true;
                self.add_operator(at, at + 1, Text::Slash)
            }
            b'(' | b'[' => self.open(at, byte),
            b')' | b']' => Ok(self.add(Kind::Close, Text::InLine, at, at + 1)),
            b'{' => self.open_brace(at),
            b'}' => self.close_brace(at),
            0..=127 => self.add_break(at, at + 1),
            _ => self.read_other_alphabet(at, money),
        }
    }

    fn read_other_alphabet(&mut self, at: usize, money: bool) -> Result<usize, NotMine> {
        let (character, length) = character_at(self.line, at)?;
        let class = class_of(character)?;
        let end = at + length;
        match character {
            '≈' | '≐' => self.add_join(at, end, true),
            '√' | '²' | '³' => self.add_foreign(at, end),
            '≤' | '≥' | '≠' => {
                let with_equals = self.byte(end) == b'=';
                self.found.hides_joins |= with_equals;
                self.add_foreign(at, end + usize::from(with_equals))
            }
            '…' => self.add_ellipsis(at, end),
            '€' | '£' | '¥' | '₹' => self.skip(end, true),
            '°' => self.skip(end, false),
            '−' | '–' => self.add_operator(at, end, Text::Dash),
            '×' | '·' | '⋅' | '∗' => self.add_operator(at, end, Text::Times),
            '÷' => self.add_operator(at, end, Text::Divide),
            '⁄' => self.add_operator(at, end, Text::FractionSlash),
            '½' | '¼' | '¾' | '⅓' | '⅔' | '⅕' => match match_vulgar(self.line, at)? {
                Some(token) => self.add_mixed(token),
                None => self.read_word(at, end),
            },
            _ if class & SPACE != 0 => self.skip(end, money),
            _ if class & LETTER != 0 => self.read_word(at, end),
            _ => self.add_break(at, end),
        }
    }

    fn read_number(&mut self, at: usize, money: bool) -> Result<usize, NotMine> {
        if let Some(token) = match_mixed(self.line, at)? {
            return self.add_mixed(token);
        }
        if let Some(end) = match_number(self.line, at)? {
            return self.add_number(at, end, money);
        }
        match match_vulgar(self.line, at)? {
            Some(token) => self.add_mixed(token),
            None => self.add_break(at, at + 1),
        }
    }

    fn add_number(&mut self, at: usize, end: usize, money: bool) -> Result<usize, NotMine> {
        self.add(Kind::Number, Text::InLine, at, end);
        if let Some(token) = self.tokens.last_mut() {
            token.money = money;
            read_number(self.line, token)?;
        }
        Ok(end)
    }

    fn add_mixed(&mut self, token: Token) -> Result<usize, NotMine> {
        self.tokens.push(token);
        Ok(token.end as usize)
    }

    fn read_point(&mut self, at: usize, money: bool) -> Result<usize, NotMine> {
        if let Some(end) = self.match_overline(at + 1) {
            return self.add_ellipsis(at, end);
        }
        if self.byte(at + 1) == b'.' && self.byte(at + 2) == b'.' {
            let mut end = at + 3;
            while self.byte(end) == b'.' {
                end += 1;
            }
            return self.add_ellipsis(at, end);
        }
        match match_number(self.line, at)? {
            Some(end) => self.add_number(at, end, money),
            None => self.add_break(at, at + 1),
        }
    }

    /// Return where `\overline{3}` ends, if it stands here.
    pub fn match_overline(&self, at: usize) -> Option<usize> {
        let digits = at + b"\\overline{".len();
        let end = skip_digits(self.line, digits);
        let is_one = self.line.get(at..digits) == Some(b"\\overline{");
        (is_one && end > digits && self.byte(end) == b'}').then(|| end + 1)
    }

    fn read_underscore(&mut self, at: usize) -> Result<usize, NotMine> {
        let mut end = at + 1;
        if self.byte(end) == b'{' {
            let inside = self.line[end + 1..].iter().position(|each| matches!(each, b'{' | b'}'));
            if let Some(length) = inside {
                if self.line[end + 1 + length] == b'}' {
                    self.found.hides_joins = true;
                    return self.add_foreign(at, end + 2 + length);
                }
            }
        }
        while self.byte(end).is_ascii_alphanumeric() {
            end += 1;
        }
        if end > at + 1 {
            self.add_foreign(at, end)
        } else if self.byte(end) == b'_' {
            self.skip(end + 1, false)
        } else {
            self.add_break(at, at + 1)
        }
    }

    pub fn add_join(&mut self, at: usize, end: usize, inexact: bool) -> Result<usize, NotMine> {
        let mut token = Token::new(Kind::Join, Text::InLine, at, end);
        token.inexact = inexact;
        self.tokens.push(token);
        self.found.joins += 1;
        Ok(end)
    }

    pub fn add_percent(&mut self, at: usize, end: usize) -> Result<usize, NotMine> {
        match self.tokens.last_mut() {
            Some(last) if last.kind == Kind::Number => {
                last.percent = true;
                last.end = end as u32;
                Ok(end)
            }
            _ => self.add_break(at, end),
        }
    }

    pub fn add_ellipsis(&mut self, at: usize, end: usize) -> Result<usize, NotMine> {
        if let Some(last) = self.tokens.last_mut() {
            let is_number = last.kind == Kind::Number;
            if is_number && skip_space(self.line, last.end as usize)? >= at {
                last.inexact = true;
                last.end = end as u32;
                return Ok(end);
            }
        }
        self.add_break(at, end)
    }
}

/// Return where the list mark at the start of a line ends: `1. `, `2) `, `- `, `* `, `• `.
fn skip_list_mark(line: &[u8]) -> Result<usize, NotMine> {
    let start = skip_space(line, 0)?;
    let digits = skip_digits(line, start);
    let mark = if digits > start {
        match line.get(digits) {
            Some(b'.' | b')') => digits + 1,
            _ => return Ok(0),
        }
    } else {
        match line.get(start) {
            Some(b'-' | b'*') => start + 1,
            Some(0xe2) if line[start..].starts_with("•".as_bytes()) => start + 3,
            _ => return Ok(0),
        }
    };
    let end = skip_space(line, mark)?;
    Ok(if end > mark { end } else { 0 })
}
