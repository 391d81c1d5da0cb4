//! Operators, signs and brackets: what they are depends on the tokens around them.

use crate::chars::{character_at, class_at, class_before, class_of, skip_space, SPACE, WORD};
use crate::lexer::{Brace, Lexer};
use crate::tokens::{Kind, Text, Token};
use crate::NotMine;

const UNIT_WORDS: usize = 8; // the most words of a unit

impl<'a> Lexer<'a> {
    /// Keep `**` between two operands, a power; elsewhere it is Markdown's emphasis.
    pub fn add_stars(&mut self, at: usize) -> Result<usize, NotMine> {
        let mut end = at + 2;
        while self.byte(end) == b'*' {
            end += 1;
        }
        if self.last_operand().is_some() && self.touches_operand(end)? {
            self.add_foreign(at, end)
        } else {
            Ok(end)
        }
    }

    /// Add an operator; a sign where no operand stands before it and one touches it.
    pub fn add_operator(&mut self, at: usize, end: usize, text: Text) -> Result<usize, NotMine> {
        let may_be_sign = matches!(text, Text::Plus | Text::Dash);
        let is_sign = may_be_sign
            && !self.follows_operand()
            && !self.follows_alphanumeric(at)?
            && self.touches_operand(end)?;
        Ok(self.add(if is_sign { Kind::Sign } else { Kind::Operator }, text, at, end))
    }

    pub fn follows_alphanumeric(&self, at: usize) -> Result<bool, NotMine> {
        let is_underscore = at > 0 && self.line[at - 1] == b'_';
        Ok(class_before(self.line, at)? & WORD != 0 && !is_underscore)
    }

    /// Say whether an operand stands before, or the words of its unit.
    pub fn follows_operand(&self) -> bool {
        let behind = self.tokens.iter().rev().take(UNIT_WORDS);
        let mut others = behind.filter(|t| t.kind != Kind::Word && t.text != Text::Slash);
        self.last_operand().is_some() || others.next().map_or(false, Token::ends_operand)
    }

    pub fn touches_operand(&self, at: usize) -> Result<bool, NotMine> {
        Ok(at < self.line.len()
            && class_at(self.line, at)? & SPACE == 0
            && self.starts_operand(at)?)
    }

    pub fn starts_operand(&self, mut at: usize) -> Result<bool, NotMine> {
        loop {
            let sign = at + usize::from(self.byte(at) == b'\\');
            if self.byte(sign) != b'$' {
                break;
            }
            at = skip_space(self.line, sign + 1)?;
        }
        let rest = &self.line[at.min(self.line.len())..];
        Ok(match rest.first() {
            Some(b'0'..=b'9' | b'.' | b'(' | b'[') => true,
            Some(b'\\') => {
                let name = &rest[1..];
                let plain = name.strip_prefix(&b"d"[..]).or_else(|| name.strip_prefix(&b"t"[..]));
                let plain = plain.or_else(|| name.strip_prefix(&b"c"[..])).unwrap_or(name);
                plain.starts_with(b"frac") || name.starts_with(b"frac") || name.starts_with(b"left")
            }
            Some(128..) => {
                let (character, _) = character_at(self.line, at)?;
                class_of(character)?;
                matches!(character, '½' | '⅓' | '⅔' | '¼' | '¾' | '⅕')
            }
            _ => false,
        })
    }

    /// Add a parenthesis; one that touches an operand multiplies it.
    pub fn open(&mut self, at: usize, byte: u8) -> Result<usize, NotMine> {
        if self.last_operand().map_or(false, |last| last.end as usize == at) {
            self.add(Kind::Operator, Text::Touch, at, at);
        }
        self.found.units = true;
        let text = if byte == b'(' { Text::OpenParen } else { Text::InLine };
        Ok(self.add(Kind::Open, text, at, at + 1))
    }

    /// Open `((`; a number that touches it makes it a mixed number, a parenthesis a product.
    pub fn open_fraction(&mut self, at: usize, end: usize) -> Result<usize, NotMine> {
        if let Some(last) = self.last_operand() {
            if last.end as usize == at {
                let is_mixed = last.kind == Kind::Number && last.denominator == 1;
                let text = if is_mixed { Text::Mixed } else { Text::Touch };
                self.add(Kind::Operator, text, at, at);
            }
        }
        self.add(Kind::Open, Text::Frac, at, end);
        self.add(Kind::Open, Text::OpenParen, end, end);
        self.braces.push(Brace::Numerator);
        self.found.units = true;
        Ok(end)
    }

    pub fn open_brace(&mut self, at: usize) -> Result<usize, NotMine> {
        match self.braces.last_mut() {
            Some(brace) if *brace == Brace::Between => {
                *brace = Brace::Denominator;
                self.found.units = true;
                self.add(Kind::Operator, Text::Slash, at, at);
                self.add(Kind::Open, Text::OpenParen, at, at + 1);
            }
            _ => self.braces.push(Brace::Plain),
        }
        Ok(at + 1)
    }

    pub fn close_brace(&mut self, at: usize) -> Result<usize, NotMine> {
        match self.braces.pop() {
            Some(Brace::Numerator) => {
                self.add(Kind::Close, Text::CloseParen, at, at + 1);
                if self.byte(skip_space(self.line, at + 1)?) == b'{' {
                    self.braces.push(Brace::Between);
                } else {
                    self.add(Kind::Foreign, Text::InLine, at, at + 1);
                }
            }
            Some(Brace::Denominator) => {
                self.add(Kind::Close, Text::CloseParen, at, at);
                self.add(Kind::Close, Text::Frac, at, at + 1);
            }
            _ => {}
        }
        Ok(at + 1)
    }
}
