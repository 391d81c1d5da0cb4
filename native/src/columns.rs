//! Columns that grow row by row, laid out as Arrow has them.

use crate::spare::Bytes;
use crate::views::View;

#[derive(Default)]
pub struct Bits {
    pub bytes: Vec<u8>,
    length: usize,
}

impl Bits {
    #[inline(always)]
    pub fn push(&mut self, bit: bool) {
        if self.length % 8 == 0 {
            self.bytes.push(0);
        }
        let last = self.bytes.len() - 1;
        self.bytes[last] |= u8::from(bit) << (self.length % 8);
        self.length += 1;
    }
}

#[derive(Default)]
pub struct Texts {
    pub views: Vec<View>,
    pub long: Bytes, // of the texts that are too long for a view
}

impl Texts {
    #[inline(always)]
    pub fn add(&mut self, text: &[u8]) {
        self.long.bytes.extend_from_slice(text);
        self.end_text(self.long.bytes.len() - text.len());
    }

    /// Make a text of the bytes that were added from `first` on.
    #[inline(always)]
    pub fn end_text(&mut self, first: usize) {
        let text = &self.long.bytes[first..];
        self.views.push(View::new(text, first));
        if View::is_short(text.len()) {
            self.long.bytes.truncate(first);
        }
        self.long.make_room();
    }
}

pub enum Values {
    Texts(Texts),
    Numbers(Vec<f64>),
    Flags(Bits),
}

/// Values and nulls; rows behind the last value are null.
pub struct Column {
    pub values: Values,
    pub known: Bits,
    pub known_count: usize,
}

impl Column {
    pub fn new(values: Values) -> Self {
        Column { values, known: Bits::default(), known_count: 0 }
    }

    /// Add nulls up to a row.
    #[inline(always)]
    pub fn fill(&mut self, row: usize) {
        while self.known.length < row {
            self.known.push(false);
            match &mut self.values {
                Values::Texts(texts) => texts.views.push(View::default()),
                Values::Numbers(numbers) => numbers.push(0.0),
                Values::Flags(flags) => flags.push(false),
            }
        }
    }

    /// Say that the next row, whose value has been added, is not null.
    #[inline(always)]
    pub fn add_known(&mut self) {
        self.known.push(true);
        self.known_count += 1;
    }
}
