//! Count the equations in many texts: the rules of docs/math_usr.md, for all but rare characters
//! and huge numbers; and their words and steps. A text that has those is left to Python. And read
//! JSON lines into columns, where they are as usual.
//!
//! The library has no dependencies. Its functions read Arrow's string views as Polars hands
//! them over, and hand columns over in the same way; all but that is safe Rust, and a panic does not
//! leave them.

mod arrow;
mod chars;
mod columns;
pub mod counts;
mod grounding;
mod joins;
mod json;
mod json_lines;
mod latex;
mod letters;
mod lexer;
mod lines;
mod numbers;
mod operators;
mod regroup;
mod shape;
mod sides;
mod sixteen;
mod spare;
mod tokens;
mod units;
mod values;
mod views;
mod words;

use counts::Reader;
use grounding::Grounder;
use json_lines::{count_lines, find_new_line, read_lines, Kind};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::slice;
use views::{Buffer, View, Views};

/// What is left to the reader in Python.
#[derive(Debug, PartialEq, Eq)]
pub struct NotMine;

/// Changes with the functions below, and with every change of the rules.
const VERSION: u32 = 7;
const NOT_MINE: i64 = -1;
const OK: i32 = 0;
const FAILED: i32 = 1;

#[no_mangle]
pub extern "C" fn calipers_equations_version() -> u32 {
    VERSION
}

/// Write the counts of `rows` texts to `counts`, four numbers for each; −1 for one left to Python.
///
/// Returns 0, or 1 if nothing of what was written is to be used.
///
/// # Safety
/// `views` points to `rows` views, `buffers` to `buffer_count` addresses and sizes of buffers, and
/// `counts` to room for four numbers a row that no one else uses meanwhile.
#[no_mangle]
pub unsafe extern "C" fn calipers_count_equations(
    views: *const View,
    rows: usize,
    buffers: *const Buffer,
    buffer_count: usize,
    counts: *mut i64,
) -> i32 {
    let mut reader = Reader::default();
    count_all(views, rows, buffers, buffer_count, counts, |text| {
        let read = reader.count(text)?;
        Ok([read.equations, read.wrong, read.rounded, read.equals_signs])
    })
}

/// Write the number of words of each of `rows` texts.
///
/// Returns 0, or 1 if nothing of what was written is to be used.
///
/// # Safety
/// As above, with room for one number a row.
#[no_mangle]
pub unsafe extern "C" fn calipers_count_words(
    views: *const View,
    rows: usize,
    buffers: *const Buffer,
    buffer_count: usize,
    counts: *mut i64,
) -> i32 {
    count_all(views, rows, buffers, buffer_count, counts, |text| Ok([shape::count_words(text)?]))
}

/// Write how many lines of each of `rows` texts begin as a step; −1 for a text left to Python.
///
/// Returns 0, or 1 if nothing of what was written is to be used.
///
/// # Safety
/// As above, with room for one number a row.
#[no_mangle]
pub unsafe extern "C" fn calipers_count_steps(
    views: *const View,
    rows: usize,
    buffers: *const Buffer,
    buffer_count: usize,
    counts: *mut i64,
) -> i32 {
    count_all(views, rows, buffers, buffer_count, counts, |text| Ok([shape::count_steps(text)?]))
}

/// Write how many statements each of `rows` texts has, how many of them the passages in the same row
/// do not support, and the bits of the lowest support; −1 for a row left to Python.
///
/// Returns 0, or 1 if nothing of what was written is to be used.
///
/// # Safety
/// As above, for texts and for passages, with room for three numbers a row.
#[no_mangle]
pub unsafe extern "C" fn calipers_judge_statements(
    views: *const View,
    rows: usize,
    buffers: *const Buffer,
    buffer_count: usize,
    passage_views: *const View,
    passage_rows: usize,
    passage_buffers: *const Buffer,
    passage_buffer_count: usize,
    counts: *mut i64,
) -> i32 {
    let no_buffers = passage_buffers.is_null() && passage_buffer_count > 0;
    if rows != passage_rows || (rows > 0 && passage_views.is_null()) || no_buffers {
        return FAILED;
    }
    if rows == 0 {
        return OK;
    }
    let buffers_of_passages: &[Buffer] = if passage_buffer_count > 0 {
        slice::from_raw_parts(passage_buffers, passage_buffer_count)
    } else {
        &[]
    };
    let views_of_passages = slice::from_raw_parts(passage_views, rows);
    let passages = Views { views: views_of_passages, buffers: buffers_of_passages };
    let (mut grounder, mut rows_before) = (Grounder::default(), 0..rows);
    count_rows(views, rows, buffers, buffer_count, counts, |text| {
        let passages = rows_before.next().and_then(|row| passages.get(row));
        grounder.judge(text.ok_or(NotMine)?, passages.ok_or(NotMine)?)
    })
}

/// Return how many line ends there are among `size` bytes.
///
/// # Safety
/// `data` points to so many bytes.
#[no_mangle]
pub unsafe extern "C" fn calipers_count_lines(data: *const u8, size: usize) -> usize {
    if data.is_null() {
        return 0;
    }
    count_lines(slice::from_raw_parts(data, size))
}

/// Return where the first of the JSON lines begins, from `start` on, that has a value of a kind which
/// is not known of its key, or that is unusual in any way; −1 if there is no such line.
///
/// # Safety
/// `data` points to `size` bytes, `known` to `key_count` keys whose names have the sizes they say; the
/// kind of a key is the bits of all that are known of it.
#[no_mangle]
pub unsafe extern "C" fn calipers_find_new_line(
    data: *const u8,
    size: usize,
    start: usize,
    known: *const Key,
    key_count: usize,
) -> isize {
    if data.is_null() || known.is_null() || start > size {
        return start as isize;
    }
    let data = slice::from_raw_parts(data, size);
    let known: Vec<(&[u8], usize)> = slice::from_raw_parts(known, key_count)
        .iter()
        .map(|key| (slice::from_raw_parts(key.name, key.size), key.kind))
        .collect();
    let found = catch_unwind(AssertUnwindSafe(|| find_new_line(data, &known, start)));
    found.unwrap_or(Some(start)).map_or(-1, |place| place as isize)
}

/// A key of JSON lines: one that is wanted, and what may stand under it, the places of `Kind`; or one
/// that is known, and what did.
#[repr(C)]
pub struct Key {
    name: *const u8,
    size: usize,
    kind: usize,
}

/// Read JSON lines into an array of Arrow's, a child for each key that has a value, named by its
/// place among the keys.
///
/// Returns 0; or 1, and nothing is written, if the lines are not such that they can be read here.
///
/// # Safety
/// `data` points to `size` bytes, `keys` to `key_count` keys whose names have the sizes they say, and
/// `array` and `schema` to room for one of each, in which nothing is to be released.
#[no_mangle]
pub unsafe extern "C" fn calipers_read_lines(
    data: *const u8,
    size: usize,
    keys: *const Key,
    key_count: usize,
    array: *mut arrow::Array,
    schema: *mut arrow::Schema,
) -> i32 {
    if data.is_null() || keys.is_null() || array.is_null() || schema.is_null() {
        return FAILED;
    }
    let data = slice::from_raw_parts(data, size);
    let keys = slice::from_raw_parts(keys, key_count).iter();
    let keys: Option<Vec<(&[u8], Kind)>> = keys
        .map(|key| Some((slice::from_raw_parts(key.name, key.size), *KINDS.get(key.kind)?)))
        .collect();
    let work = || {
        let (columns, rows) = read_lines(data, &keys?).ok()?;
        let known = columns.into_iter().enumerate().filter(|(_, each)| each.known_count > 0);
        Some(arrow::export(known.collect(), rows))
    };
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Some((found, its_schema))) => {
            array.write(found);
            schema.write(its_schema);
            OK
        }
        _ => FAILED,
    }
}

const KINDS: [Kind; 6] =
    [Kind::Nothing, Kind::Null, Kind::Text, Kind::Number, Kind::Flag, Kind::Any];

/// Write the counts of each text; −1 for one that is left to Python.
unsafe fn count_all<const COLUMNS: usize>(
    views: *const View,
    rows: usize,
    buffers: *const Buffer,
    buffer_count: usize,
    counts: *mut i64,
    mut count: impl FnMut(&[u8]) -> Result<[i64; COLUMNS], NotMine>,
) -> i32 {
    count_rows(views, rows, buffers, buffer_count, counts, |text| count(text.ok_or(NotMine)?))
}

/// Write the counts of each text, which is None where its view points out of its buffer.
unsafe fn count_rows<const COLUMNS: usize>(
    views: *const View,
    rows: usize,
    buffers: *const Buffer,
    buffer_count: usize,
    counts: *mut i64,
    mut count: impl FnMut(Option<&[u8]>) -> Result<[i64; COLUMNS], NotMine>,
) -> i32 {
    if rows == 0 {
        return OK;
    }
    if views.is_null() || counts.is_null() || (buffers.is_null() && buffer_count > 0) {
        return FAILED;
    }
    let buffers: &[Buffer] =
        if buffer_count > 0 { slice::from_raw_parts(buffers, buffer_count) } else { &[] };
    let texts = Views { views: slice::from_raw_parts(views, rows), buffers };
    let counts = slice::from_raw_parts_mut(counts, rows * COLUMNS);
    let work = || {
        for (row, found) in counts.chunks_exact_mut(COLUMNS).enumerate() {
            let read = count(texts.get(row));
            found.copy_from_slice(&read.unwrap_or([NOT_MINE; COLUMNS]));
        }
    };
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(()) => OK,
        Err(_) => FAILED,
    }
}

#[cfg(test)]
mod tests;
