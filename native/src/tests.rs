//! The rules are tested against the reader in Python (tests/metrics/test_native_equations.py); here
//! stand what only Rust can tell: hostile buffers, and the one text that must be left alone.

use crate::counts::{Counts, Reader};
use crate::{calipers_count_equations, NotMine};
use std::ptr;

fn count(text: &str) -> Result<Counts, NotMine> {
    Reader::default().count(text.as_bytes())
}

fn counts(equations: i64, wrong: i64, rounded: i64, equals_signs: i64) -> Counts {
    Counts { equations, wrong, rounded, equals_signs }
}

#[test]
fn equations_are_counted() {
    assert_eq!(count("so 3 + 4 = 7, 7 * 2 = 15; 10 / 3 = 3"), Ok(counts(3, 1, 1, 3)));
    assert_eq!(count("16 - 3 = <<16-3=13>>13\n5 = x"), Ok(counts(2, 0, 0, 3)));
    assert_eq!(count(r"\[ \frac{36 \text{ slices}}{12} = \boxed{3} \]"), Ok(counts(1, 0, 0, 1)));
    assert_eq!(count("no sign"), Ok(Counts::default()));
}

#[test]
fn what_does_not_fit_is_left() {
    assert_eq!(count("1234567890123456789 + 1 = 2"), Err(NotMine));
    assert_eq!(count(&format!("{}1 = 2", "999999999999999999 * ".repeat(3))), Err(NotMine));
    assert_eq!(count("٣ + 4 = 7"), Err(NotMine));
    assert_eq!(count("٣\n3 + 4 = 7"), Ok(counts(1, 0, 0, 1)));
}

#[test]
fn bytes_that_are_no_text_are_left() {
    for bytes in [&b"\xff 3 + 4 = 7"[..], b"3 + 4 = 7\xe2", b"3 + 4 = 7 \xe2\x89", b"\x80=\x80"] {
        assert_eq!(Reader::default().count(bytes), Err(NotMine), "{:?}", bytes);
    }
}

#[test]
fn a_view_out_of_its_buffer_is_left() {
    let long = b"it is long: 3 + 4 = 7";
    let mut views = Vec::new();
    for (length, buffer, start) in [(21u32, 0u32, 0u32), (21, 0, 1), (21, 1, 0), (u32::MAX, 0, 9)] {
        views.extend([length, 0, buffer, start]);
    }
    let buffers = [long.as_ptr() as usize, long.len()];
    let mut found = [7i64; 16];
    let code = unsafe {
        calipers_count_equations(
            views.as_ptr().cast(),
            4,
            buffers.as_ptr().cast(),
            1,
            found.as_mut_ptr(),
        )
    };
    assert_eq!(code, 0);
    assert_eq!(found[..4], [1, 0, 0, 1]);
    assert_eq!(found[4..], [-1; 12]);
}

#[test]
fn null_addresses_are_refused() {
    let code = unsafe { calipers_count_equations(ptr::null(), 1, ptr::null(), 0, ptr::null_mut()) };
    assert_eq!(code, 1);
}
