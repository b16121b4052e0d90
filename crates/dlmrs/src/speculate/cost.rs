//! How much speculation pays, from what passes took and what became of guesses: for `"auto"`, which is allowed only where no choice can
//! change a result.

use crate::decode::{Role, Took};

/// How much of what was seen before still counts after one more.
const FADE: f64 = 0.95;

/// A straight line through (rows, seconds), by least squares; older passes fade.
#[derive(Clone, Copy, Debug, Default)]
pub struct Line {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

impl Line {
    /// A pass of so many rows took so long.
    pub fn add(&mut self, rows: usize, seconds: f64) {
        let x = rows as f64;
        for (sum, more) in
            [(&mut self.n, 1.0), (&mut self.x, x), (&mut self.y, seconds), (&mut self.xx, x * x), (&mut self.xy, x * seconds)]
        {
            *sum = FADE * *sum + more;
        }
    }

    /// What a pass of so many rows would take; None until passes of different sizes were seen.
    pub fn at(&self, rows: usize) -> Option<f64> {
        let spread = self.n * self.xx - self.x * self.x;
        if self.n < 2.0 || spread < 0.01 * self.x * self.x {
            return None;
        }
        let slope = ((self.n * self.xy - self.x * self.y) / spread).max(0.0);
        let start = ((self.y - slope * self.x) / self.n).max(0.0);
        Some(start + slope * rows as f64)
    }

    /// The mean of what was seen; 0 at first.
    pub fn mean(&self) -> f64 {
        self.y / self.n.max(1.0)
    }
}

/// What passes took so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// Passes of the target.
    pub target: Line,
    /// Passes of the draft model.
    pub draft: Line,
}

impl Pace {
    /// Takes what a forward of one of the models took.
    pub fn add(&mut self, model: Role, took: Took) {
        let line = if model == Role::Target { &mut self.target } else { &mut self.draft };
        line.add(took.rows, took.seconds);
    }
}

/// What a request has seen so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gauge {
    /// What passes took: at first those of other requests over the same models.
    pub pace: Pace,
    landed: f64,
    tried: f64,
    /// Steps of the target, and slots that they revealed.
    steps: f64,
    slots: f64,
    paused: usize,
}

/// After so many rounds without a draft one is tried again.
const TRY_AGAIN: usize = 8;

impl Gauge {
    /// A walk went from state to guessed state so many times, and ended before the guesses did or not.
    pub fn walked(&mut self, landed: usize, corrected: bool) {
        self.landed = FADE * self.landed + landed as f64;
        self.tried = FADE * self.tried + landed as f64 + f64::from(u8::from(corrected));
    }

    /// So many steps of the target revealed so many slots.
    pub fn revealed(&mut self, steps: usize, slots: usize) {
        self.steps = FADE * self.steps + steps as f64;
        self.slots = FADE * self.slots + slots as f64;
    }

    /// Steps that so many slots take.
    fn steps_for(&self, slots: usize) -> usize {
        let a_step = if self.steps > 0.0 { (self.slots / self.steps).max(1.0) } else { 1.0 };
        (slots as f64 / a_step).ceil() as usize
    }

    /// The chance that a guessed state is reached from the one before it.
    fn chance(&self) -> f64 {
        // One success and one failure are taken as given, so that nothing is ever certain.
        (self.landed + 1.0) / (self.tried + 2.0)
    }

    /// Steps that a pass with so many states one after the other is expected to take.
    fn steps(&self, states: usize) -> f64 {
        (0..states).map(|i| self.chance().powi(i as i32)).sum()
    }

    /// How many of `available` states of `length` rows pay in a pass of `before` other rows; all, until that can be told.
    pub fn states(&self, available: usize, length: usize, before: usize) -> usize {
        let rate = |states: usize| Some(self.steps(states) / self.pace.target.at(before + states * length)?);
        best(1..=available, rate).unwrap_or(available)
    }

    /// How many of a block's `masked` slots a round should draft; 0 is none. All, until that can be told. A round that drafts all of them goes on
    /// with the other `blocks`; the draft model takes `passes` a block at most. A block has `length` slots, and `before` rows come besides.
    pub fn gamma(&mut self, masked: usize, blocks: usize, passes: Option<usize>, length: usize, before: usize) -> usize {
        let rate = |slots: usize| {
            let others = if slots == masked { blocks - 1 } else { 0 };
            let (own, other) = (self.steps_for(slots), self.steps_for(length));
            let drafted = own + others * other;
            // A finished state has no step behind it.
            let steps = self.steps(if slots == masked { drafted } else { drafted + 1 });
            let draft = [(1, own), (others, other)].map(|(blocks, steps)| blocks * steps.min(passes.unwrap_or(steps)));
            let cost = draft.iter().sum::<usize>() as f64 * self.pace.draft.mean();
            Some(steps / (self.pace.target.at(before + (drafted + 1) * length)? + cost))
        };
        let slots = best(0..=masked, rate).unwrap_or(masked);
        self.paused = if slots == 0 { self.paused + 1 } else { 0 };
        if self.paused > TRY_AGAIN {
            self.paused = 0;
            return masked;
        }
        slots
    }
}

/// The first number with the highest rate; None if one has none.
fn best(numbers: impl Iterator<Item = usize>, rate: impl Fn(usize) -> Option<f64>) -> Option<usize> {
    let mut best: Option<(usize, f64)> = None;
    for number in numbers {
        let rate = rate(number)?;
        if best.is_none_or(|(_, highest)| rate > highest) {
            best = Some((number, rate));
        }
    }
    best.map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gauge(start: f64, slope: f64, landed: usize, corrected: usize, draft: f64) -> Gauge {
        let mut gauge = Gauge::default();
        for rows in [4, 20, 36, 8, 24, 40] {
            gauge.pace.target.add(rows, start + slope * rows as f64);
            gauge.pace.draft.add(4, draft);
        }
        for i in 0..20 {
            gauge.walked(landed, i < corrected);
        }
        gauge
    }

    #[test]
    fn a_line_is_found_again() {
        let line = gauge(3.0, 0.5, 0, 0, 0.0).pace.target;
        assert!((line.at(100).unwrap() - 53.0).abs() < 1e-6);
        let mut same = Line::default();
        (0..9).for_each(|_| same.add(8, 1.0));
        assert_eq!(same.at(8), None, "one size tells nothing of another");
    }

    #[test]
    fn cheap_rows_and_good_guesses_pay() {
        assert_eq!(gauge(10.0, 0.0, 4, 0, 0.0).states(9, 4, 0), 9, "rows for nothing");
        assert_eq!(gauge(0.0, 1.0, 4, 20, 0.0).states(9, 4, 0), 1, "a row costs as much as a pass");
        let (bad, good) = (gauge(10.0, 1.0, 0, 20, 0.0).states(9, 4, 0), gauge(10.0, 1.0, 4, 2, 0.0).states(9, 4, 0));
        assert!(bad < good, "{bad} {good}");
        assert_eq!(Gauge::default().states(9, 4, 0), 9, "nothing is known");
    }

    #[test]
    fn a_dear_or_bad_draft_is_left_out_and_tried_again() {
        // The step behind the third drafted slot decides the fourth.
        assert_eq!(gauge(10.0, 0.0, 4, 0, 0.1).gamma(4, 1, None, 4, 0), 3);
        assert_eq!(gauge(10.0, 0.0, 4, 0, 0.1).gamma(4, 2, None, 4, 0), 4, "on to the next block");
        let mut dear = gauge(10.0, 0.1, 1, 20, 50.0);
        let rounds: Vec<usize> = (0..TRY_AGAIN + 1).map(|_| dear.gamma(4, 1, None, 4, 0)).collect();
        assert_eq!(rounds[..TRY_AGAIN], [0; TRY_AGAIN]);
        assert_eq!(rounds[TRY_AGAIN], 4);
        let gamma = |passes| gauge(10.0, 0.1, 4, 1, 3.0).gamma(4, 1, passes, 4, 0);
        assert!(gamma(Some(1)) >= gamma(None));
        // Where a step decides three slots, one drafted step is all that can stand before the block's last.
        let mut quick = gauge(10.0, 0.0, 4, 0, 0.1);
        quick.revealed(10, 30);
        assert_eq!(quick.gamma(4, 1, None, 4, 0), 1);
    }
}
