//! Memory that a thread keeps from one product to the next.

use std::cell::Cell;

/// A buffer that is lent; for a `thread_local`.
pub(super) struct Scratch<T>(Cell<Vec<T>>);

impl<T: Copy> Scratch<T> {
    pub(super) const fn new() -> Self {
        Scratch(Cell::new(Vec::new()))
    }

    /// Calls `f` with `len` elements of any value; `any` is what they are the first time.
    pub(super) fn lend<R>(&self, len: usize, any: T, f: impl FnOnce(&mut [T]) -> R) -> R {
        let mut buffer = self.0.take();
        if buffer.len() < len {
            buffer.resize(len, any);
        }
        let result = f(&mut buffer[..len]);
        self.0.set(buffer);
        result
    }
}
