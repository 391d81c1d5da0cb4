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
    let mut reader = Reader { data, keys, places, order: Vec::new(), rows: 0 };
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
}

struct Reader<'a> {
    data: &'a [u8],
    keys: Vec<Key>,
    places: HashMap<&'a [u8], usize>,
    order: Vec<(&'a [u8], Option<usize>)>, // the keys of the last line: most often the next one's
    rows: usize,
}

impl<'a> Reader<'a> {
    fn read(&mut self) -> Result<(), NotMine> {
        let mut at = 0;
        loop {
            at = skip_blanks(self.data, at);
            match self.data.get(at) {
                None => return Ok(()),
                Some(b'\n') => at += 1,
                Some(b'{') => {
                    at = skip_blanks(self.data, self.read_object(at + 1)?);
                    if !matches!(self.data.get(at), None | Some(b'\n')) {
                        return Err(NotMine);
                    }
                    self.rows += 1;
                }
                Some(_) => return Err(NotMine),
            }
        }
    }

    fn read_object(&mut self, start: usize) -> Result<usize, NotMine> {
        let data = self.data;
        let mut at = skip_blanks(data, start);
        if data.get(at) == Some(&b'}') {
            return Ok(at + 1);
        }
        for number in 0.. {
            let (place, end) = self.read_key(at, number)?;
            at = expect(data, end, b':')?;
            at = match place {
                Some(place) => self.read_value(place, at)?,
                None => skip_value(data, at)?,
            };
            at = skip_blanks(data, at);
            match data.get(at) {
                Some(b',') => at = skip_blanks(data, at + 1),
                Some(b'}') => break,
                _ => return Err(NotMine),
            }
        }
        Ok(at + 1)
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

    fn read_value(&mut self, place: usize, at: usize) -> Result<usize, NotMine> {
        let (data, row) = (self.data, self.rows);
        let key = &mut self.keys[place];
        if key.kind == Kind::Nothing || key.read_rows > row {
            return Err(NotMine);
        }
        key.read_rows = row + 1;
        let first = *data.get(at).ok_or(NotMine)?;
        if first == b'n' {
            return skip_word(data, at, b"null");
        }
        let column = &mut key.column;
        column.fill(row);
        let end = match (key.kind, &mut column.values) {
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
    fn every_cut_of_a_line_is_left() {
        let line = r#"{"x":[{"é":"\u00e9"},1.5e3,null],"text":"a","flag":true,"number":12}"#;
        for end in (1..line.len()).filter(|&end| line.is_char_boundary(end)) {
            assert!(read(&line[..end]).is_none(), "{}", &line[..end]);
        }
        assert!(read(line).is_some());
    }
}
