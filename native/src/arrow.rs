//! Hand columns over by Arrow's C data interface: a struct with a child for each column.

use crate::columns::{Column, Values};
use std::ffi::{c_void, CString};
use std::os::raw::c_char;
use std::ptr;

const NULLABLE: i64 = 2;

#[repr(C)]
pub struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    buffer_count: i64,
    child_count: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Array,
    dictionary: *mut Array,
    release: Option<unsafe extern "C" fn(*mut Array)>,
    held: *mut c_void,
}

#[repr(C)]
pub struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    child_count: i64,
    children: *mut *mut Schema,
    dictionary: *mut Schema,
    release: Option<unsafe extern "C" fn(*mut Schema)>,
    held: *mut c_void,
}

/// What an array points to, until it is released.
struct HeldArray {
    _column: Option<Column>,
    _sizes: Box<[i64]>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut Array>,
}

struct HeldSchema {
    format: CString,
    name: CString,
    children: Vec<*mut Schema>,
}

/// Return the columns as one array, and its schema, in which they are called by their places.
pub fn export(columns: Vec<(usize, Column)>, rows: usize) -> (Array, Schema) {
    let (mut arrays, mut schemas) = (Vec::new(), Vec::new());
    for (place, column) in columns {
        let format = match column.values {
            Values::Texts(_) => "vu",
            Values::Numbers(_) => "g",
            Values::Flags(_) => "b",
        };
        schemas.push(Box::into_raw(Box::new(make_schema(format, &place.to_string(), Vec::new()))));
        arrays.push(Box::into_raw(Box::new(make_array(column, rows))));
    }
    let held = HeldArray {
        _column: None,
        _sizes: Box::default(),
        buffers: vec![ptr::null()],
        children: arrays,
    };
    (hold_array(held, rows, 0), make_schema("+s", "", schemas))
}

fn make_array(column: Column, rows: usize) -> Array {
    let nulls = rows - column.known_count;
    let known = if nulls > 0 { column.known.bytes.as_ptr().cast() } else { ptr::null() };
    let mut sizes = Vec::new();
    let mut buffers: Vec<*const c_void> = vec![known];
    match &column.values {
        Values::Texts(texts) => {
            buffers.push(texts.views.as_ptr().cast());
            buffers.push(texts.long.bytes.as_ptr().cast());
            sizes.push(texts.long.bytes.len() as i64);
        }
        Values::Numbers(numbers) => buffers.push(numbers.as_ptr().cast()),
        Values::Flags(flags) => buffers.push(flags.bytes.as_ptr().cast()),
    }
    let sizes = sizes.into_boxed_slice();
    if !sizes.is_empty() {
        buffers.push(sizes.as_ptr().cast());
    }
    let held = HeldArray { _column: Some(column), _sizes: sizes, buffers, children: Vec::new() };
    hold_array(held, rows, nulls)
}

fn hold_array(held: HeldArray, rows: usize, nulls: usize) -> Array {
    let mut held = Box::new(held);
    Array {
        length: rows as i64,
        null_count: nulls as i64,
        offset: 0,
        buffer_count: held.buffers.len() as i64,
        child_count: held.children.len() as i64,
        buffers: held.buffers.as_mut_ptr(),
        children: held.children.as_mut_ptr(),
        dictionary: ptr::null_mut(),
        release: Some(release_array),
        held: Box::into_raw(held).cast(),
    }
}

fn make_schema(format: &str, name: &str, children: Vec<*mut Schema>) -> Schema {
    let write = |text| CString::new(text).unwrap_or_default();
    let mut held = Box::new(HeldSchema { format: write(format), name: write(name), children });
    Schema {
        format: held.format.as_ptr(),
        name: held.name.as_ptr(),
        metadata: ptr::null(),
        flags: NULLABLE,
        child_count: held.children.len() as i64,
        children: held.children.as_mut_ptr(),
        dictionary: ptr::null_mut(),
        release: Some(release_schema),
        held: Box::into_raw(held).cast(),
    }
}

/// Free what an array holds, and its children, but for those that were taken out of it.
///
/// # Safety
/// The array is one of ours, and has not been released.
unsafe extern "C" fn release_array(array: *mut Array) {
    let held = Box::from_raw((*array).held.cast::<HeldArray>());
    (*array).release = None;
    for &child in &held.children {
        let mut child = Box::from_raw(child);
        if let Some(release) = child.release {
            release(&mut *child);
        }
    }
}

/// Free what a schema holds, and its children, but for those that were taken out of it.
///
/// # Safety
/// The schema is one of ours, and has not been released.
unsafe extern "C" fn release_schema(schema: *mut Schema) {
    let held = Box::from_raw((*schema).held.cast::<HeldSchema>());
    (*schema).release = None;
    for &child in &held.children {
        let mut child = Box::from_raw(child);
        if let Some(release) = child.release {
            release(&mut *child);
        }
    }
}
