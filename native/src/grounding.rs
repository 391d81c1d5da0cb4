//! Which statements of a text its passages support: the rules of docs/rag_usr.md.
//!
//! The reader in Python (metrics/grounding/support.py) is the authority, and has the same names. All
//! weights are whole numbers, so that both give the same.

use crate::chars::character_at;
use crate::json::{expect, read_escape, skip_blanks, skip_plain, skip_string, skip_value};
use crate::NotMine;
use std::collections::HashMap;

const WORDS: &str = include_str!("../../src/calipers/metrics/grounding/words.txt");

const PLAIN: u64 = 1;
const NAME: u64 = 2;
const NUMBER: u64 = 3;
const NEIGHBOURHOOD: usize = 2;
const LENIENCE: u64 = 10;
const GAP: usize = 4;
const FRACTION: u64 = 16;
const MOST_PLACES: u32 = 1000;
const DEEPEST: u32 = 64;
const EXACT: u64 = 1 << 53; // whole numbers up to here are doubles

const STOP: u64 = 1;
const GREETING: u64 = 1 << 1;
const COURTESY: u64 = 1 << 2;
const FIRST_SLOT: usize = 3; // the bit of the first slot of a refusal

const FIRST_LETTER: u32 = 0xc0; // of those that words.txt lists
const LETTERS: usize = 0xc0;

#[derive(Clone, Copy)]
enum Slot {
    Gap,
    One(u64),
}

struct Refusal {
    at_start: bool,
    slots: Vec<Slot>,
}

/// The lists of words.txt.
struct Lists {
    bits: HashMap<&'static [u8], u64>, // of each listed word: which lists hold it
    abbreviations: Vec<&'static [u8]>,
    refusals: Vec<Refusal>,
    letters: Vec<&'static str>,
    capitals: Vec<bool>,
}

impl Lists {
    fn read() -> Self {
        let mut sets: HashMap<&str, Vec<&'static str>> = HashMap::new();
        let mut lists = Lists {
            bits: HashMap::new(),
            abbreviations: Vec::new(),
            refusals: Vec::new(),
            letters: vec![""; LETTERS],
            capitals: vec![false; LETTERS],
        };
        let mut slots: Vec<&'static str> = Vec::new();
        for line in WORDS.lines().filter(|line| !line.starts_with('#')) {
            let (name, listed) = line.split_once(": ").unwrap_or((line, ""));
            if name == "refusal" {
                let refusal = lists.read_refusal(listed, &sets, &mut slots);
                lists.refusals.push(refusal);
            } else if listed.is_ascii() {
                sets.insert(name, listed.split(' ').collect());
            } else {
                let folded = name.strip_prefix(char::is_uppercase).map(|_| ());
                for letter in listed.chars() {
                    let place = (u32::from(letter) - FIRST_LETTER) as usize;
                    lists.letters[place] = lower(name);
                    lists.capitals[place] = folded.is_some();
                }
            }
        }
        for (name, bit) in [("stop", STOP), ("greeting", GREETING), ("courtesy", COURTESY)] {
            for word in &sets[name] {
                *lists.bits.entry(word.as_bytes()).or_default() |= bit;
            }
        }
        lists.abbreviations = sets["abbreviation"].iter().map(|word| word.as_bytes()).collect();
        lists
    }

    fn read_refusal(
        &mut self,
        listed: &'static str,
        sets: &HashMap<&str, Vec<&'static str>>,
        known: &mut Vec<&'static str>,
    ) -> Refusal {
        let at_start = listed.starts_with('^');
        let written = listed.trim_start_matches("^ ").split(' ');
        let slots = written.map(|slot| {
            if slot == "~" {
                return Slot::Gap;
            }
            let number = known.iter().position(|each| *each == slot).unwrap_or_else(|| {
                known.push(slot);
                known.len() - 1
            });
            let bit = 1 << (FIRST_SLOT + number);
            for part in slot.split('|') {
                let alone = [part];
                for word in sets.get(part).map_or(&alone[..], |words| words) {
                    *self.bits.entry(word.as_bytes()).or_default() |= bit;
                }
            }
            Slot::One(bit)
        });
        Refusal { at_start, slots: slots.collect() }
    }
}

/// Return the name of a letter of words.txt in lower case.
fn lower(name: &'static str) -> &'static str {
    match name {
        "A" => "a",
        "C" => "c",
        "D" => "d",
        "E" => "e",
        "G" => "g",
        "H" => "h",
        "I" => "i",
        "J" => "j",
        "K" => "k",
        "L" => "l",
        "N" => "n",
        "O" => "o",
        "R" => "r",
        "S" => "s",
        "T" => "t",
        "U" => "u",
        "W" => "w",
        "Y" => "y",
        "Z" => "z",
        "Ae" => "ae",
        "Oe" => "oe",
        "Ij" => "ij",
        "Th" => "th",
        _ => name,
    }
}

#[derive(PartialEq, Clone, Copy)]
enum Class {
    Separator,
    Single,
    Letter,
}

fn class_of(character: char) -> Class {
    match u32::from(character) {
        0x80..=0xbf | 0xd7 | 0xf7 | 0x2000..=0x2bff | 0x2e00..=0x2e7f => Class::Separator,
        0x3000..=0x303f | 0xfe10..=0xfe1f | 0xfe30..=0xfe6f => Class::Separator,
        0xff00..=0xff0f | 0xff1a..=0xff20 | 0xff3b..=0xff40 => Class::Separator,
        0xff5b..=0xff65 | 0xffe0..=0xffff | 0x1f000..=0x1faff => Class::Separator,
        0x3040..=0x30ff | 0x31f0..=0x31ff | 0x3400..=0x4dbf => Class::Single,
        0x4e00..=0x9fff | 0xac00..=0xd7a3 | 0xf900..=0xfaff => Class::Single,
        0x20000..=0x3ffff => Class::Single,
        _ => Class::Letter,
    }
}

/// Where a word stands in its text; `plain` if it is ASCII letters and digits alone.
#[derive(Clone, Copy)]
struct Span {
    start: usize,
    end: usize,
    plain: bool,
}

fn is_digit(text: &[u8], at: usize) -> bool {
    text.get(at).map_or(false, u8::is_ascii_digit)
}

/// Return the next word from a byte on.
#[inline(always)]
fn next_word(text: &[u8], mut at: usize) -> Result<Option<Span>, NotMine> {
    loop {
        match text.get(at) {
            None => return Ok(None),
            Some(byte) if byte.is_ascii_alphanumeric() => break,
            Some(byte) if byte.is_ascii() => at += 1,
            Some(_) => {
                let (character, length) = character_at(text, at)?;
                match class_of(character) {
                    Class::Separator => at += length,
                    Class::Single => {
                        return Ok(Some(Span { start: at, end: at + length, plain: false }))
                    }
                    Class::Letter => break,
                }
            }
        }
    }
    let (start, mut plain) = (at, true);
    loop {
        match text.get(at) {
            Some(byte) if byte.is_ascii_alphanumeric() => at += 1,
            Some(b'.') if at > start && is_digit(text, at - 1) && is_digit(text, at + 1) => {
                (at, plain) = (at + 1, false);
            }
            Some(b',') if at > start && is_digit(text, at - 1) && are_thousands(text, at + 1) => {
                (at, plain) = (at + 1, false);
            }
            Some(byte) if !byte.is_ascii() => {
                let (character, length) = character_at(text, at)?;
                if class_of(character) != Class::Letter {
                    break;
                }
                (at, plain) = (at + length, false);
            }
            _ => break,
        }
    }
    Ok(Some(Span { start, end: at, plain }))
}

fn are_thousands(text: &[u8], at: usize) -> bool {
    (0..3).all(|more| is_digit(text, at + more)) && !is_digit(text, at + 3)
}

/// The distinct stems of a text's statements, and how often the passages have each.
#[derive(Default)]
struct Stems {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    counts: Vec<u32>,
    table: Vec<u32>,       // places in `ends`, from 1; 0 is free
    first_bytes: Vec<u64>, // a bit for each pair of bytes that a stem begins with
    pairs: Vec<usize>,
}

const PAIRS: usize = 1 << 16;

impl Stems {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.counts.clear();
        self.table.clear();
        self.table.resize(64, 0);
        self.first_bytes.resize(PAIRS / 64, 0);
        for pair in self.pairs.drain(..) {
            self.first_bytes[pair / 64] = 0;
        }
    }

    fn get(&self, number: usize) -> &[u8] {
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.bytes[start..self.ends[number]]
    }

    fn pair(first: u8, second: u8) -> usize {
        usize::from(first) << 8 | usize::from(second)
    }

    /// Say whether a stem may begin with the first bytes of a word of ASCII letters and digits.
    #[inline(always)]
    fn may_hold(&self, word: &[u8]) -> bool {
        let second = word.get(1).map_or(0, u8::to_ascii_lowercase);
        let pair = Self::pair(word[0].to_ascii_lowercase(), second);
        self.first_bytes[pair / 64] >> (pair % 64) & 1 == 1
    }

    fn slot(&self, stem: &[u8]) -> usize {
        let hash = stem.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mask = self.table.len() - 1;
        let mut slot = (hash ^ hash >> 32) as usize & mask;
        while self.table[slot] != 0 && self.get(self.table[slot] as usize - 1) != stem {
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn find(&self, stem: &[u8]) -> Option<usize> {
        match self.table[self.slot(stem)] {
            0 => None,
            number => Some(number as usize - 1),
        }
    }

    fn add(&mut self, stem: &[u8]) -> usize {
        let slot = self.slot(stem);
        if self.table[slot] != 0 {
            return self.table[slot] as usize - 1;
        }
        self.bytes.extend_from_slice(stem);
        self.ends.push(self.bytes.len());
        self.counts.push(0);
        self.table[slot] = self.ends.len() as u32;
        let second = stem.get(1).copied().unwrap_or(0);
        let pair = Self::pair(stem.first().copied().unwrap_or(0), second);
        self.first_bytes[pair / 64] |= 1 << (pair % 64);
        self.pairs.push(pair);
        if self.ends.len() * 2 > self.table.len() {
            let size = self.table.len() * 4;
            self.table.clear();
            self.table.resize(size, 0);
            for number in 0..self.ends.len() {
                let slot = self.slot(self.get(number));
                self.table[slot] = number as u32 + 1;
            }
        }
        self.ends.len() - 1
    }
}

#[derive(Clone, Copy)]
struct Statement {
    first_weight: usize,
    last_weight: usize,
    words: usize,
}

struct Word {
    bits: u64,
    is_content: bool,
}

/// Reads texts and their passages; holds what is used again from row to row.
pub struct Grounder {
    lists: Lists,
    stems: Stems,
    statements: Vec<Statement>,
    weights: Vec<(usize, u64)>, // stems and weights of the statements, one after the other
    words: Vec<Word>,
    hits: Vec<(u32, u32)>, // places in the passages, and stems
    count: u32,            // of words in the passages
    folded: Vec<u8>,
    sentence: Vec<u8>,
    unescaped: Vec<u8>,
    weight_of: Vec<u64>,  // of each stem, while a statement is measured
    place_of: Vec<usize>, // of each stem in `weights`
    among: Vec<u32>,
}

impl Default for Grounder {
    fn default() -> Self {
        Grounder {
            lists: Lists::read(),
            stems: Stems::default(),
            statements: Vec::new(),
            weights: Vec::new(),
            words: Vec::new(),
            hits: Vec::new(),
            count: 0,
            folded: Vec::new(),
            sentence: Vec::new(),
            unescaped: Vec::new(),
            weight_of: Vec::new(),
            place_of: Vec::new(),
            among: Vec::new(),
        }
    }
}

impl Grounder {
    /// Return the number of statements, of those not supported, and the bits of the lowest support.
    pub fn judge(&mut self, text: &[u8], passages: &[u8]) -> Result<[i64; 3], NotMine> {
        self.stems.clear();
        self.statements.clear();
        self.weights.clear();
        self.hits.clear();
        self.count = 0;
        self.find_statements(text)?;
        if self.statements.is_empty() {
            return Ok([0, 0, 0]);
        }
        self.read_passages(passages)?;
        let (mut unsupported, mut lowest) = (0, 1.0_f64);
        for number in 0..self.statements.len() {
            let support = self.measure_support(number)?;
            unsupported += i64::from(support < 0.5);
            lowest = lowest.min(support);
        }
        Ok([self.statements.len() as i64, unsupported, lowest.to_bits() as i64])
    }

    fn find_statements(&mut self, text: &[u8]) -> Result<(), NotMine> {
        let mut start = skip_list_marks(text, 0);
        let mut at = start;
        while at < text.len() {
            let (is_end, end) = self.find_end(text, start, at);
            at = end;
            if is_end {
                self.add_statement(&text[start..strip_end(text, start, end)])?;
                start = skip_list_marks(text, end);
                at = start;
            }
        }
        if start < text.len() {
            self.add_statement(&text[start..strip_end(text, start, text.len())])?;
        }
        Ok(())
    }

    /// Return whether a sentence ends here, and where to go on.
    fn find_end(&self, text: &[u8], start: usize, at: usize) -> (bool, usize) {
        let byte = text[at];
        if byte == b'\n' {
            let is_paragraph = text.get(skip_inline(text, at + 1)) == Some(&b'\n');
            return (is_paragraph || list_mark(text, at + 1).is_some(), at + 1);
        }
        let (length, is_wide) = match end_at(text, at) {
            None => return (false, at + 1),
            Some(found) => found,
        };
        let mut end = at + length;
        while let Some(length) = mark_at(text, end) {
            end += length;
        }
        if is_wide {
            return (true, end);
        }
        let mut after = end;
        while text.get(after).map_or(false, |byte| is_blank(*byte)) {
            after += 1;
        }
        let goes_on = after == end && end < text.len();
        let is_dot = byte == b'.' && end == at + 1;
        let goes_on = goes_on
            || matches!(text.get(after), Some(byte) if byte.is_ascii_lowercase())
            || (is_dot && self.is_abbreviated(text, start, at));
        (!goes_on, end)
    }

    fn is_abbreviated(&self, text: &[u8], start: usize, at: usize) -> bool {
        let mut first = at;
        while first > start && text[first - 1].is_ascii_alphabetic() {
            first -= 1;
        }
        let word = &text[first..at];
        let is_initial = word.len() == 1 && !word.eq_ignore_ascii_case(b"i");
        is_initial || self.lists.abbreviations.iter().any(|each| word.eq_ignore_ascii_case(each))
    }

    fn add_statement(&mut self, sentence: &[u8]) -> Result<(), NotMine> {
        let mut text = std::mem::take(&mut self.sentence);
        text.clear();
        text.extend_from_slice(sentence);
        blank_citations(&mut text);
        self.words.clear();
        let first = self.weights.len();
        let mut at = 0;
        while let Some(span) = next_word(&text, at)? {
            at = span.end;
            self.add_word(&text, span, first)?;
        }
        self.sentence = text;
        let is_statement = self.weights.len() > first
            && !is_question(sentence)
            && !self.is_courtesy()
            && !self.lists.refusals.iter().any(|each| self.is_refusal(each));
        if is_statement {
            let (words, last_weight) = (self.words.len(), self.weights.len());
            self.statements.push(Statement { first_weight: first, last_weight, words });
        } else {
            self.weights.truncate(first);
        }
        Ok(())
    }

    fn add_word(&mut self, text: &[u8], span: Span, first: usize) -> Result<(), NotMine> {
        let spelled = &text[span.start..span.end];
        let is_capital = self.fold(spelled)?;
        let bits = self.lists.bits.get(&self.folded[..]).copied().unwrap_or(0);
        let is_number = self.folded.first().map_or(false, u8::is_ascii_digit);
        let weight = match (is_number, is_capital) {
            (true, _) => NUMBER,
            (_, true) => NAME,
            _ => PLAIN,
        };
        let is_content = bits & STOP == 0 && !self.folded.is_empty();
        if is_content {
            cut_stem(&mut self.folded);
            let stem = self.stems.add(&self.folded);
            self.place_of.resize(self.stems.ends.len().max(self.place_of.len()), 0);
            let place = self.place_of[stem];
            match self.weights.get_mut(place).filter(|known| place >= first && known.0 == stem) {
                Some((_, known)) => *known = weight.max(*known),
                None => {
                    self.place_of[stem] = self.weights.len();
                    self.weights.push((stem, weight));
                }
            }
        }
        self.words.push(Word { bits, is_content });
        Ok(())
    }

    /// Put a word into `folded` as it is compared; return whether it has a capital.
    fn fold(&mut self, spelled: &[u8]) -> Result<bool, NotMine> {
        self.folded.clear();
        let (mut at, mut is_capital) = (0, false);
        while at < spelled.len() {
            let byte = spelled[at];
            let (was_first, is_upper);
            if byte.is_ascii() {
                (was_first, is_upper) = (at == 0, byte.is_ascii_uppercase());
                if byte != b',' {
                    self.folded.push(byte.to_ascii_lowercase());
                }
                at += 1;
            } else {
                let (character, length) = character_at(spelled, at)?;
                was_first = at == 0;
                is_upper = self.fold_character(character);
                at += length;
            }
            is_capital |= was_first && is_upper;
        }
        Ok(is_capital)
    }

    fn fold_character(&mut self, character: char) -> bool {
        let code = u32::from(character);
        let (folded, is_capital) = match code {
            0x300..=0x36f => return false,
            0xc0..=0x17f => {
                let place = (code - FIRST_LETTER) as usize;
                self.folded.extend_from_slice(self.lists.letters[place].as_bytes());
                return self.lists.capitals[place];
            }
            0x391..=0x3a9 | 0x410..=0x42f => (code + 0x20, true),
            0x400..=0x40f => (code + 0x50, true),
            0xff10..=0xff19 => (code - 0xff10 + 0x30, false),
            0xff21..=0xff3a => (code - 0xff21 + 0x61, true),
            0xff41..=0xff5a => (code - 0xff41 + 0x61, false),
            _ => (code, false),
        };
        let folded = char::from_u32(folded).unwrap_or(character);
        self.folded.extend_from_slice(folded.encode_utf8(&mut [0; 4]).as_bytes());
        is_capital
    }

    fn is_courtesy(&self) -> bool {
        let content = || self.words.iter().filter(|word| word.is_content);
        let known = STOP | GREETING | COURTESY;
        content().any(|word| word.bits & GREETING != 0)
            && content().all(|word| word.bits & known != 0)
    }

    fn is_refusal(&self, refusal: &Refusal) -> bool {
        let starts = if refusal.at_start { 1 } else { self.words.len() };
        (0..starts).any(|at| self.matches(at, &refusal.slots))
    }

    fn matches(&self, at: usize, slots: &[Slot]) -> bool {
        match slots {
            [] => true,
            [Slot::Gap, rest @ ..] => (0..=GAP).any(|skip| self.matches(at + skip, rest)),
            [Slot::One(bit), rest @ ..] => {
                self.words.get(at).map_or(false, |word| word.bits & bit != 0)
                    && self.matches(at + 1, rest)
            }
        }
    }

    /// Count the words of the passages: of a list as JSON, or of one text.
    fn read_passages(&mut self, field: &[u8]) -> Result<(), NotMine> {
        let start = field.iter().position(|byte| !is_blank(*byte)).unwrap_or(field.len());
        if !matches!(field.get(start), Some(b'[' | b'{')) {
            return self.read_passage(field);
        }
        let end = self.walk(field, start, 0)?;
        if field[end..].iter().all(|byte| is_blank(*byte) && !matches!(byte, 0x0b | 0x0c)) {
            return Ok(());
        }
        // No JSON: a text that begins with `[1]`, say.
        self.hits.clear();
        self.stems.counts.fill(0);
        self.count = 0;
        self.read_passage(field)
    }

    fn walk(&mut self, data: &[u8], at: usize, depth: u32) -> Result<usize, NotMine> {
        match data.get(at) {
            Some(b'"') => self.read_string(data, at + 1),
            Some(b'[') => {
                if depth == DEEPEST - 1 {
                    return Err(NotMine);
                }
                let mut at = skip_blanks(data, at + 1);
                if data.get(at) == Some(&b']') {
                    return Ok(at + 1);
                }
                loop {
                    at = skip_blanks(data, self.walk(data, at, depth + 1)?);
                    match data.get(at) {
                        Some(b',') => at = skip_blanks(data, at + 1),
                        Some(b']') => return Ok(at + 1),
                        _ => return Err(NotMine),
                    }
                }
            }
            Some(b'{') => self.walk_object(data, at),
            _ => skip_value(data, at),
        }
    }

    fn walk_object(&mut self, data: &[u8], at: usize) -> Result<usize, NotMine> {
        let mut texts = [None; 3];
        let mut at = skip_blanks(data, at + 1);
        if data.get(at) == Some(&b'}') {
            return Ok(at + 1);
        }
        loop {
            if data.get(at) != Some(&b'"') {
                return Err(NotMine);
            }
            let end = skip_string(data, at + 1)?;
            let key = &data[at + 1..end - 1];
            if key.contains(&b'\\') {
                return Err(NotMine); // an escape may spell one of the keys
            }
            at = expect(data, end, b':')?;
            let place = match key {
                b"text" => Some(0),
                b"content" => Some(1),
                b"page_content" => Some(2),
                _ => None,
            };
            if let Some(place) = place {
                texts[place] = if data.get(at) == Some(&b'"') { Some(at + 1) } else { None };
            }
            at = skip_blanks(data, skip_value(data, at)?);
            match data.get(at) {
                Some(b',') => at = skip_blanks(data, at + 1),
                Some(b'}') => break,
                _ => return Err(NotMine),
            }
        }
        if let Some(text) = texts.iter().flatten().next() {
            self.read_string(data, *text)?;
        }
        Ok(at + 1)
    }

    /// Read the string whose first character is here as a passage; return where it ends.
    fn read_string(&mut self, data: &[u8], start: usize) -> Result<usize, NotMine> {
        let (mut end, _) = skip_plain(data, start);
        if data.get(end) == Some(&b'"') {
            self.read_passage(&data[start..end])?;
            return Ok(end + 1);
        }
        let mut text = std::mem::take(&mut self.unescaped);
        text.clear();
        let mut at = start;
        loop {
            text.extend_from_slice(&data[at..end]);
            match data.get(end) {
                Some(b'"') => break,
                Some(b'\\') => at = read_escape(data, end, &mut text)?,
                _ => return Err(NotMine),
            }
            end = skip_plain(data, at).0;
        }
        self.read_passage(&text)?;
        self.unescaped = text;
        Ok(end + 1)
    }

    fn read_passage(&mut self, text: &[u8]) -> Result<(), NotMine> {
        let mut at = 0;
        while let Some(span) = next_word(text, at)? {
            at = span.end;
            let spelled = &text[span.start..span.end];
            if !span.plain || self.stems.may_hold(spelled) {
                self.fold(spelled)?;
                cut_stem(&mut self.folded);
                if let Some(stem) = self.stems.find(&self.folded) {
                    self.stems.counts[stem] += 1;
                    if self.stems.counts[stem] <= MOST_PLACES {
                        self.hits.push((self.count, stem as u32));
                    }
                }
            }
            self.count = self.count.checked_add(1).ok_or(NotMine)?;
        }
        Ok(())
    }

    fn measure_support(&mut self, number: usize) -> Result<f64, NotMine> {
        let Statement { first_weight, last_weight, words } = self.statements[number];
        let weights = &self.weights[first_weight..last_weight];
        self.weight_of.resize(self.stems.ends.len().max(self.weight_of.len()), 0);
        let (mut total, mut found) = (0, 0);
        for &(stem, weight) in weights {
            let count = u64::from(self.stems.counts[stem]);
            let weight = weight * (FRACTION + log2(1 + u64::from(self.count) / (1 + count)));
            self.weight_of[stem] = weight;
            total += weight;
            found += if count > 0 { weight } else { 0 };
        }
        let together = self.find_together(NEIGHBOURHOOD * words);
        let weights = &self.weights[first_weight..last_weight];
        for &(stem, _) in weights {
            self.weight_of[stem] = 0;
        }
        let size = weights.len() as u64;
        let good = (found + together).checked_mul(size).ok_or(NotMine)?;
        let bad = (2 * total - found - together).checked_mul(size + LENIENCE).ok_or(NotMine)?;
        let all = good.checked_add(bad).ok_or(NotMine)?;
        if all > EXACT {
            return Err(NotMine);
        }
        Ok(good as f64 / all as f64)
    }

    /// Return the most that is found among `width` words in a row.
    fn find_together(&mut self, width: usize) -> u64 {
        let (weight_of, hits) = (&self.weight_of, &self.hits);
        let counts = &mut self.among;
        counts.clear();
        counts.resize(self.stems.ends.len(), 0);
        let (mut best, mut current, mut first) = (0, 0, 0);
        for &(at, stem) in hits {
            let stem = stem as usize;
            if weight_of[stem] == 0 {
                continue;
            }
            counts[stem] += 1;
            current += if counts[stem] == 1 { weight_of[stem] } else { 0 };
            while hits[first].0 as usize + width <= at as usize {
                let gone = hits[first].1 as usize;
                if weight_of[gone] > 0 {
                    counts[gone] -= 1;
                    current -= if counts[gone] == 0 { weight_of[gone] } else { 0 };
                }
                first += 1;
            }
            best = best.max(current);
        }
        best
    }
}

fn log2(number: u64) -> u64 {
    let power = u64::from(63 - number.leading_zeros());
    FRACTION * power + ((number * FRACTION) >> power) - FRACTION
}

fn cut_stem(word: &mut Vec<u8>) {
    const SUFFIXES: [(&[u8], usize); 6] =
        [(b"ies", 7), (b"ing", 6), (b"ed", 5), (b"es", 5), (b"ly", 6), (b"s", 4)];
    if word.len() < 4 || word[0].is_ascii_digit() || !word.is_ascii() {
        return;
    }
    let found = SUFFIXES.iter().find(|(suffix, shortest)| {
        word.ends_with(suffix) && word.len() >= *shortest && !word.ends_with(b"ss")
    });
    if let Some((suffix, _)) = found {
        word.truncate(word.len() - suffix.len());
        if *suffix == b"ies" {
            word.push(b'y');
        }
    }
    if word.len() > 3 && word.ends_with(b"e") {
        word.pop();
    }
    if word.len() > 3 && word.ends_with(b"y") {
        word.pop();
        word.push(b'i');
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

fn skip_inline(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\t' | b'\r')) {
        at += 1;
    }
    at
}

fn skip_list_marks(text: &[u8], mut at: usize) -> usize {
    while at < text.len() {
        if is_blank(text[at]) {
            at += 1;
        } else if let Some(end) = list_mark(text, at) {
            at = end;
        } else {
            break;
        }
    }
    at
}

/// Return where a mark of a list and the white space behind it end, if one is here.
fn list_mark(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    while matches!(text.get(at), Some(b' ' | b'\t')) {
        at += 1;
    }
    let first = at;
    loop {
        match text.get(at) {
            Some(b'-' | b'*' | b'#' | b'>') => at += 1,
            Some(0xe2) if text.get(at..at + 3) == Some("•".as_bytes()) => at += 3,
            _ => break,
        }
    }
    if at == first {
        while at < first + 3 && is_digit(text, at) {
            at += 1;
        }
        if at == first || !matches!(text.get(at), Some(b'.' | b')')) {
            return None;
        }
        at += 1;
    }
    let end = at;
    while matches!(text.get(at), Some(b' ' | b'\t')) {
        at += 1;
    }
    if at > end || at == text.len() {
        Some(at)
    } else {
        None
    }
}

fn strip_end(text: &[u8], start: usize, mut end: usize) -> usize {
    while end > start && is_blank(text[end - 1]) {
        end -= 1;
    }
    end
}

/// Return how many bytes the mark here that ends a sentence has, and whether it is a wide one.
fn end_at(text: &[u8], at: usize) -> Option<(usize, bool)> {
    match &text[at.min(text.len())..] {
        [b'.' | b'!' | b'?', ..] => Some((1, false)),
        [0xe2, 0x80, 0xa6, ..] => Some((3, false)),
        [0xe3, 0x80, 0x82, ..] | [0xef, 0xbc, 0x81 | 0x9f, ..] => Some((3, true)),
        _ => None,
    }
}

/// Return how many bytes the mark has that may follow the end of a sentence.
fn mark_at(text: &[u8], at: usize) -> Option<usize> {
    match &text[at.min(text.len())..] {
        [b'"' | b'\'' | b')' | b']' | b'*' | b'_', ..] => Some(1),
        [0xe2, 0x80, 0x9d | 0x99, ..] => Some(3),
        [0xc2, 0xbb, ..] => Some(2),
        _ => end_at(text, at).map(|(length, _)| length),
    }
}

fn is_question(sentence: &[u8]) -> bool {
    let mut end = sentence.len();
    loop {
        match &sentence[..end] {
            [.., b'"' | b'\'' | b')' | b']' | b'*' | b'_'] => end -= 1,
            [.., 0xe2, 0x80, 0x9d | 0x99] => end -= 3,
            [.., 0xc2, 0xbb] => end -= 2,
            [.., b'?'] | [.., 0xef, 0xbc, 0x9f] => return true,
            _ => return false,
        }
    }
}

/// Put blanks in place of `[1]`, `[2, 3]` and the like.
fn blank_citations(text: &mut [u8]) {
    const LONGEST: usize = 40;
    let mut at = 0;
    while at < text.len() {
        if text[at] == b'[' {
            let inside = text[at + 1..]
                .iter()
                .take_while(|byte| matches!(byte, b'0'..=b'9' | b',' | b';' | b' ' | b'^' | b'-'));
            let length = inside.count();
            let end = at + 1 + length;
            let has_digit = text[at + 1..end].iter().any(u8::is_ascii_digit);
            if has_digit && length <= LONGEST && text.get(end) == Some(&b']') {
                text[at..=end].fill(b' ');
                at = end;
            }
        }
        at += 1;
    }
}
