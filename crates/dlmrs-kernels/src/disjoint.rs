//! One output written by several threads at places that do not overlap.

use std::marker::PhantomData;
use std::ops::Range;

/// A mutable slice of which several tasks take parts.
#[derive(Clone, Copy)]
pub(crate) struct Disjoint<'a> {
    start: *mut f32,
    len: usize,
    lent: PhantomData<&'a mut [f32]>,
}

// SAFETY: the parts that are handed out are `&mut [f32]`, which may be sent; that they do not overlap is what `part` demands.
unsafe impl Send for Disjoint<'_> {}
// SAFETY: as above; the fields themselves are never written.
unsafe impl Sync for Disjoint<'_> {}

impl<'a> Disjoint<'a> {
    pub(crate) fn new(slice: &'a mut [f32]) -> Self {
        Disjoint { start: slice.as_mut_ptr(), len: slice.len(), lent: PhantomData }
    }

    /// The elements of `range`.
    ///
    /// # Safety
    /// `range` lies within the slice, and no other part that is in use at the same time overlaps it.
    #[inline(always)]
    pub(crate) unsafe fn part(&self, range: Range<usize>) -> &'a mut [f32] {
        debug_assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: within the slice and not overlapping another part, says the caller; the slice is lent for 'a.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.end - range.start) }
    }
}
