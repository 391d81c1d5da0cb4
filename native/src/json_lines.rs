//! Read JSON lines into columns: the values of the wanted keys of each object.
//!
//! All lines are read, or none: a line that is not an object, a value of another type than its
//! column has, a key twice, half a surrogate pair and the like leave the whole to others.

use crate::columns::{Column, Texts, Values};
use crate::json::{
    check_text, expect, read_escape, skip_blanks, skip_plain, skip_value, skip_word, Number,
};
use crate::NotMine;
use std::collections::HashMap;

const MOST_REMEMBERED: usize = 1 << 10; // keys of a line
const AT_ONCE: usize = 128; // bytes, whose line ends fit a byte
const LARGEST: usize = i32::MAX as usize; // bytes that views can point into

/// Return how many line ends there are.
pub fn count_lines(data: &[u8]) -> usize {
    let count = |piece: &[u8]| piece.iter().fold(0_u8, |sum, &byte| sum + u8::from(byte == b'\n'));
    data.chunks(AT_ONCE).map(|piece| usize::from(count(piece))).sum()
}

/// What may stand under a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Nothing, // not even null
    Null,
    Text, // or a number or boolean, as it is written
    Number,
    Flag,
    Any, // a text, or the rest as it is written
}

struct Key {
    kind: Kind,
    column: Column,
    read_rows: usize, // rows up to the last that has this key
}

/// Return a column for each key, in their order, and how many rows there are.
pub fn read_lines(data: &[u8], keys: &[(&[u8], Kind)]) -> Result<(Vec<Column>, usize), NotMine> {
    if data.len() > LARGEST {
        return Err(NotMine);
    }
    let mut places = HashMap::with_capacity(keys.len());
    for (place, (name, _)) in keys.iter().enumerate() {
        if places.insert(*name, place).is_some() {
            return Err(NotMine);
        }
    }
    let keys = keys.iter().map(|&(_, kind)| Key::new(kind)).collect();
    let mut reader = Reader { names: Names::new(data, places), keys, rows: 0 };
    reader.read()?;
    let rows = reader.rows;
    let mut columns: Vec<Column> = reader.keys.into_iter().map(|key| key.column).collect();
    columns.iter_mut().for_each(|column| column.fill(rows));
    Ok((columns, rows))
}

impl Key {
    fn new(kind: Kind) -> Self {
        let values = match kind {
            Kind::Number => Values::Numbers(Vec::new()),
            Kind::Flag => Values::Flags(Default::default()),
            _ => Values::Texts(Default::default()),
        };
        Key { kind, column: Column::new(values), read_rows: 0 }
    }

    #[inline(always)]
    fn read_value(&mut self, data: &[u8], row: usize, at: usize) -> Result<usize, NotMine> {
        if self.kind == Kind::Nothing || self.read_rows > row {
            return Err(NotMine);
        }
        self.read_rows = row + 1;
        let first = *data.get(at).ok_or(NotMine)?;
        if first == b'n' {
            return skip_word(data, at, b"null");
        }
        let column = &mut self.column;
        column.fill(row);
        let end = match (self.kind, &mut column.values) {
            (Kind::Text, Values::Texts(texts)) => match first {
                b'"' => read_text(data, at + 1, texts)?,
                b'{' | b'[' => return Err(NotMine),
                _ => {
                    let end = skip_value(data, at)?;
                    texts.add(&data[at..end]);
                    end
                }
            },
            (Kind::Any, Values::Texts(texts)) => match first {
                b'"' => read_text(data, at + 1, texts)?,
                _ => {
                    let end = skip_value(data, at)?;
                    texts.add(&data[at..end]);
                    end
                }
            },
            (Kind::Number, Values::Numbers(numbers)) => {
                let number = Number::scan(data, at)?;
                numbers.push(number.value()?);
                number.end
            }
            (Kind::Flag, Values::Flags(flags)) => {
                let word = if first == b't' { &b"true"[..] } else { b"false" };
                flags.push(first == b't');
                skip_word(data, at, word)?
            }
            _ => return Err(NotMine),
        };
        column.add_known();
        Ok(end)
    }
}

/// What kinds of values are known of a key, a bit for each.
pub const BOOLEAN: usize = 1;
pub const NUMBER: usize = 2;
pub const WIDE: usize = 4; // a whole number that a double may not hold
pub const OTHER: usize = 8; // a text, a list, an object
const EXACT: u64 = 1 << 53;

/// Return where the first line begins, from `start` on, that has a value of a kind which is not
/// known of its key, or that is unusual in any way; None if there is no such line.
pub fn find_new_line(data: &[u8], known: &[(&[u8], usize)], start: usize) -> Option<usize> {
    let places = known.iter().enumerate().map(|(place, (name, _))| (*name, place)).collect();
    let mut names = Names::new(data, places);
    let mut at = start;
    loop {
        let line = at;
        at = skip_blanks(data, at);
        match data.get(at) {
            None => return None,
            Some(b'\n') => at += 1,
            Some(b'{') => {
                let end = names.read_object(at + 1, |place, at| {
                    let (kind, end) = find_kind(data, at)?;
                    let held = place.map_or(0, |place| known[place].1);
                    if kind & !held == 0 {
                        Ok(end)
                    } else {
                        Err(NotMine)
                    }
                });
                match end {
                    Ok(end) => at = end,
                    Err(NotMine) => return Some(line),
                }
            }
            Some(_) => return Some(line),
        }
    }
}

/// Return the kind of the value that begins here, 0 for a null, and where it ends.
#[inline(always)]
fn find_kind(data: &[u8], at: usize) -> Result<(usize, usize), NotMine> {
    let kind = match data.get(at).ok_or(NotMine)? {
        b'n' => 0,
        b't' | b'f' => BOOLEAN,
        b'"' | b'[' | b'{' => OTHER,
        _ => {
            let number = Number::scan(data, at)?;
            return Ok((if number.is_wide(EXACT) { WIDE } else { NUMBER }, number.end));
        }
    };
    Ok((kind, skip_value(data, at)?))
}

struct Reader<'a> {
    names: Names<'a>,
    keys: Vec<Key>,
    rows: usize,
}

impl<'a> Reader<'a> {
    fn read(&mut self) -> Result<(), NotMine> {
        let data = self.names.data;
        let mut at = 0;
        loop {
            at = skip_blanks(data, at);
            match data.get(at) {
                None => return Ok(()),
                Some(b'\n') => at += 1,
                Some(b'{') => {
                    at = self.read_object(at + 1)?;
                    self.rows += 1;
                }
                Some(_) => return Err(NotMine),
            }
        }
    }

    fn read_object(&mut self, start: usize) -> Result<usize, NotMine> {
        let (data, row) = (self.names.data, self.rows);
        let keys = &mut self.keys;
        self.names.read_object(start, |place, at| match place {
            Some(place) => keys[place].read_value(data, row, at),
            None => skip_value(data, at),
        })
    }
}

/// The keys of objects, line after line.
struct Names<'a> {
    data: &'a [u8],
    places: HashMap<&'a [u8], usize>,
    order: Vec<(&'a [u8], Option<usize>)>, // the keys of the last line: most often the next one's
}

impl<'a> Names<'a> {
    fn new(data: &'a [u8], places: HashMap<&'a [u8], usize>) -> Self {
        Names { data, places, order: Vec::new() }
    }

    /// Read the object whose first key is here, all of a line; return where the line ends.
    ///
    /// `read_value` gets the place of each key among those that are known, and where its value
    /// starts; it returns where that ends.
    #[inline(always)]
    fn read_object(
        &mut self,
        start: usize,
        mut read_value: impl FnMut(Option<usize>, usize) -> Result<usize, NotMine>,
    ) -> Result<usize, NotMine> {
        let data = self.data;
        let mut at = skip_blanks(data, start);
        for number in 0.. {
            if number == 0 && data.get(at) == Some(&b'}') {
                break;
            }
            let (place, end) = self.read_key(at, number)?;
            at = skip_blanks(data, read_value(place, expect(data, end, b':')?)?);
            match data.get(at) {
                Some(b',') => at = skip_blanks(data, at + 1),
                Some(b'}') => break,
                _ => return Err(NotMine),
            }
        }
        at = skip_blanks(data, at + 1);
        match data.get(at) {
            None | Some(b'\n') => Ok(at),
            _ => Err(NotMine),
        }
    }

    /// Return which of the keys is here, the line's key of this number, and where it ends.
    fn read_key(&mut self, at: usize, number: usize) -> Result<(Option<usize>, usize), NotMine> {
        let data = self.data;
        if data.get(at) != Some(&b'"') {
            return Err(NotMine);
        }
        let start = at + 1;
        if let Some(&(name, place)) = self.order.get(number) {
            let end = start + name.len();
            if data.get(start..end) == Some(name) && data.get(end) == Some(&b'"') {
                return Ok((place, end + 1));
            }
        }
        let (end, is_ascii) = skip_plain(data, start);
        if data.get(end) != Some(&b'"') {
            return Err(NotMine); // an escape may spell a wanted key
        }
        let name = &data[start..end];
        check_text(name, is_ascii)?;
        let place = self.places.get(name).copied();
        if number < self.order.len() {
            self.order[number] = (name, place);
        } else if number < MOST_REMEMBERED {
            self.order.push((name, place));
        }
        Ok((place, end + 1))
    }
}

/// Add the string whose first character is here to a column; return where it ends.
#[inline(always)]
fn read_text(data: &[u8], start: usize, texts: &mut Texts) -> Result<usize, NotMine> {
    let (first, mut at, mut all_ascii) = (texts.long.bytes.len(), start, true);
    let end = loop {
        let (end, is_ascii) = skip_plain(data, at);
        texts.long.bytes.extend_from_slice(&data[at..end]);
        all_ascii &= is_ascii;
        match data.get(end) {
            Some(b'"') => break end,
            Some(b'\\') => at = read_escape(data, end, &mut texts.long.bytes)?,
            _ => return Err(NotMine),
        }
    };
    // What an escape adds is whole characters: it mends nothing that is broken beside it.
    check_text(&texts.long.bytes[first..], all_ascii)?;
    texts.end_text(first);
    Ok(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [(&[u8], Kind); 5] = [
        (b"text", Kind::Text),
        (b"number", Kind::Number),
        (b"flag", Kind::Flag),
        (b"none", Kind::Null),
        (b"other", Kind::Nothing),
    ];

    fn read(lines: &str) -> Option<(Vec<Column>, usize)> {
        read_lines(lines.as_bytes(), &KEYS).ok()
    }

    fn read_numbers(lines: &str) -> Option<Vec<f64>> {
        match &read(lines)?.0[1].values {
            Values::Numbers(numbers) => Some(numbers.clone()),
            _ => None,
        }
    }

    #[test]
    fn rows_without_a_value_are_null() {
        let lines = "{\"number\":1}\n\n{}\r\n{\"flag\":true,\"number\":-0.25}\n{\"none\":null}";
        let (columns, rows) = read(lines).unwrap();
        assert_eq!(rows, 4);
        assert_eq!(columns[1].known.bytes, [0b0101]);
        assert_eq!(columns[2].known.bytes, [0b0100]);
        assert_eq!([columns[0].known_count, columns[1].known_count], [0, 2]);
        assert_eq!(read_numbers(lines).unwrap(), [1.0, 0.0, -0.25, 0.0]);
    }

    #[test]
    fn line_ends_are_counted() {
        for size in [0, 1, 127, 128, 129, 1000] {
            assert_eq!(count_lines(&vec![b'\n'; size]), size);
            assert_eq!(count_lines(&b"a\n\r"[..].repeat(size)), size);
        }
    }

    #[test]
    fn escapes_are_read() {
        let line = r#"{"text":"a\n\u00e9\ud83d\ude00 and so on"}"#;
        match &read(line).unwrap().0[0].values {
            Values::Texts(texts) => assert_eq!(texts.long.bytes, "a\né😀 and so on".as_bytes()),
            _ => panic!(),
        }
    }

    #[test]
    fn numbers_are_the_nearest_doubles() {
        for written in ["0.1", "123456789012345.6", "9007199254740993", "5e-324", "1.7e308"] {
            let line = format!("{{\"number\":{written}}}");
            assert_eq!(read_numbers(&line).unwrap(), [written.parse::<f64>().unwrap()]);
        }
    }

    #[test]
    fn what_is_unusual_is_left() {
        for line in [
            r#"{"text":[]}"#,
            r#"{"number":"1"}"#,
            r#"{"number":-0}"#,
            r#"{"number":1e999}"#,
            r#"{"none":1}"#,
            r#"{"other":null}"#,
            r#"{"text":"\ud83d"}"#,
            r#"{"text":"a","text":"b"}"#,
            r#"{"t\u0065xt":"a"}"#,
            r#"{"x":[1,]}"#,
            r#"{"x":{"a":1]}"#,
            "[]",
            "{",
        ] {
            assert!(read(line).is_none(), "{line}");
        }
        assert!(read_lines(b"{\"text\":\"\xff\"}", &KEYS).is_err());
        assert!(read_lines(b"{}", &[(b"a", Kind::Text), (b"a", Kind::Text)]).is_err());
    }

    #[test]
    fn lines_with_new_kinds_are_found() {
        let known: [(&[u8], usize); 3] = [(b"a", NUMBER), (b"b", BOOLEAN | OTHER), (b"c", WIDE)];
        let usual = "{\"a\":1,\"b\":[{}]}\n\n{\"b\":true,\"d\":null}\r\n{}\n";
        let find = |line: &str| find_new_line(line.as_bytes(), &known, 0);
        assert_eq!(find(usual), None);
        for new in [
            r#"{"a":"1"}"#,
            r#"{"a":9007199254740992}"#,
            r#"{"a":-123456789012345678901234567890}"#,
            r#"{"b":0}"#,
            r#"{"c":1.5}"#,
            r#"{"d":1}"#,
            r#"{"\u0061":1}"#,
            r#"{"a":NaN}"#,
            r#"{"a":1"#,
            "[]",
        ] {
            let lines = format!("{usual}{new}\n{new}");
            assert_eq!(find(&lines), Some(usual.len()), "{new}");
            assert_eq!(
                find_new_line(lines.as_bytes(), &known, usual.len() + 1 + new.len()),
                Some(usual.len() + 1 + new.len())
            );
        }
        assert_eq!(find(r#"{"a":9007199254740991,"c":9007199254740992,"b":"x"}"#), None);
        assert_eq!(find(r#"{"a":1e300}"#), None);
    }

    #[test]
    fn every_cut_of_a_line_is_left() {
        let line = r#"{"x":[{"é":"\u00e9"},1.5e3,null],"text":"a","flag":true,"number":12}"#;
        for end in (1..line.len()).filter(|&end| line.is_char_boundary(end)) {
            assert!(read(&line[..end]).is_none(), "{}", &line[..end]);
        }
        assert!(read(line).is_some());
    }
}
