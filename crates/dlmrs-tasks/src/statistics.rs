//! How sure an accuracy is, and whether two of them differ.

/// Where the true share lies with 95 % confidence, both from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// How many standard deviations hold 95 % of a normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// Wilson's interval of a share; all of 0 to 1 where there is nothing to count. `right` beyond `of` counts as all.
pub fn interval(right: usize, of: usize) -> Interval {
    if of == 0 {
        return Interval { low: 0.0, high: 1.0 };
    }
    let n = of as f64;
    let share = right.min(of) as f64 / n;
    let scale = 1.0 + Z * Z / n;
    let centre = (share + Z * Z / (2.0 * n)) / scale;
    let half = Z / scale * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    // At a share of 0 or 1 an end is 0 or 1 exactly, and rounding must not push it past the share.
    Interval { low: (centre - half).clamp(0.0, share), high: (centre + half).clamp(share, 1.0) }
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
    let mut found = Paired { both: 0, first_only: 0, second_only: 0, neither: 0, p: 1.0 };
    for pair in pairs {
        *match pair {
            (true, true) => &mut found.both,
            (true, false) => &mut found.first_only,
            (false, true) => &mut found.second_only,
            (false, false) => &mut found.neither,
        } += 1;
    }
    found.p = mcnemar(found.first_only, found.second_only);
    found
}

/// Twice the probability of at most min(a, b) heads in a + b throws of a fair coin, at most 1.
fn mcnemar(a: usize, b: usize) -> f64 {
    let (n, k) = (a + b, a.min(b));
    if a == b {
        return 1.0;
    }
    // The largest term, C(n, k) / 2^n, by logarithms, for both factors leave the range of f64 from n = 1,030 on.
    let choose: f64 = (1..=k).map(|i| ((n - k + i) as f64 / i as f64).ln()).sum();
    let largest = choose - n as f64 * std::f64::consts::LN_2;
    // The others relative to it, downwards: C(n, i - 1) = C(n, i) * i / (n - i + 1).
    let mut term = 1.0;
    let mut sum = 1.0;
    for i in (1..=k).rev() {
        term *= i as f64 / (n - i + 1) as f64;
        sum += term;
    }
    (2.0 * sum * largest.exp()).min(1.0)
}
