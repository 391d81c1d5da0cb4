//! Large buffers, used again and again: to get fresh memory from the system takes longer than to
//! fill it with text.

use std::mem::take;
use std::sync::Mutex;

const MOST: usize = 4; // buffers that are kept: as many as are most often in use at once
const LARGE: usize = 1 << 20; // bytes
const LARGEST: usize = 1 << 25;

static SPARE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// Bytes that move into a spare buffer once they are many.
#[derive(Default)]
pub struct Bytes {
    pub bytes: Vec<u8>,
    has_moved: bool,
}

impl Bytes {
    #[inline(always)]
    pub fn make_room(&mut self) {
        if self.bytes.len() > LARGE && !self.has_moved {
            self.move_to_spare();
        }
    }

    #[cold]
    fn move_to_spare(&mut self) {
        self.has_moved = true;
        let spare = SPARE.lock().ok().and_then(|mut buffers| buffers.pop());
        if let Some(mut spare) = spare {
            spare.extend_from_slice(&self.bytes);
            self.bytes = spare;
        }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        let mut bytes = take(&mut self.bytes);
        if !(LARGE..=LARGEST).contains(&bytes.capacity()) {
            return;
        }
        if let Ok(mut buffers) = SPARE.lock() {
            if buffers.len() < MOST {
                bytes.clear();
                buffers.push(bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(text: &[u8]) -> Bytes {
        let mut bytes = Bytes::default();
        for _ in 0..2 {
            bytes.make_room();
            bytes.bytes.extend_from_slice(text);
        }
        bytes
    }

    #[test]
    fn buffers_are_kept_and_used_again() {
        let text = vec![b'a'; LARGE + 1];
        for _ in 0..3 {
            let several: Vec<Bytes> = (0..2 * MOST).map(|_| fill(&text)).collect();
            assert!(several.iter().all(|each| each.bytes == text.repeat(2)));
        }
        assert!((1..=MOST).contains(&SPARE.lock().unwrap().len()));
        drop(fill(&vec![b'a'; LARGEST]));
        assert!(SPARE.lock().unwrap().iter().all(|each| each.capacity() <= LARGEST));
        assert!(SPARE.lock().unwrap().iter().all(Vec::is_empty));
    }
}
