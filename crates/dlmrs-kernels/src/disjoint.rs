//! One output written by several threads at places that do not overlap.

use std::marker::PhantomData;
use std::ops::Range;

/// A mutable slice of which several tasks take parts.
pub(crate) struct Disjoint<'a, T = f32> {
    start: *mut T,
    len: usize,
    lent: PhantomData<&'a mut [T]>,
}

impl<T> Clone for Disjoint<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Disjoint<'_, T> {}

// SAFETY: the parts that are handed out are `&mut [T]`, which may be sent; that they do not overlap is what `part` demands.
unsafe impl<T: Send> Send for Disjoint<'_, T> {}
// SAFETY: as above; the fields themselves are never written.
unsafe impl<T: Send> Sync for Disjoint<'_, T> {}

impl<'a, T> Disjoint<'a, T> {
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Disjoint { start: slice.as_mut_ptr(), len: slice.len(), lent: PhantomData }
    }

    /// The elements of `range`.
    ///
    /// # Safety
    /// `range` lies within the slice, and no other part that is in use at the same time overlaps it.
    #[inline(always)]
    pub(crate) unsafe fn part(&self, range: Range<usize>) -> &'a mut [T] {
        debug_assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: within the slice and not overlapping another part, says the caller; the slice is lent for 'a.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.end - range.start) }
    }
}
