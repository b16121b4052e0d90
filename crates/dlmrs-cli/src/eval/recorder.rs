//! Answers are judged, written and counted as they come.

use std::time::{Duration, Instant};

use dlmrs::{Error, Event, Output};
use dlmrs_tasks::{Context, Task};

use super::outcome::Outcome;
use super::problems::Asked;
use super::results::Results;
use crate::batch::Sink;
use crate::console::Console;
use crate::failure::Failure;

/// What becomes of the answers.
pub(super) struct Recorder<'a, 'c> {
    pub(super) task: &'static dyn Task,
    pub(super) context: Context<'a>,
    /// The problems that the engine works on.
    pub(super) asked: &'a [Asked],
    /// Their seeds.
    pub(super) seeds: &'a [u64],
    /// None: nothing is written.
    pub(super) results: Option<&'a mut Results>,
    /// All outcomes of the run, those of before it was interrupted too.
    pub(super) outcomes: &'a mut Vec<Outcome>,
    pub(super) console: &'a mut Console<'c>,
    pub(super) pace: Pace,
}

/// How far the run is, and how fast it goes.
pub(super) struct Pace {
    metric: &'static str,
    begun: Instant,
    /// When the last outcome was dealt with.
    last: Instant,
    /// Outcomes of this process.
    new: usize,
    done: usize,
    right: usize,
    tokens: usize,
    passes: usize,
}

impl Pace {
    /// From now on, with what was done before.
    pub(super) fn new(task: &dyn Task, before: &[Outcome]) -> Self {
        let metric = task.metrics().first().copied().unwrap_or_default();
        let mut pace = Self { metric, begun: Instant::now(), last: Instant::now(), new: 0, done: 0, right: 0, tokens: 0, passes: 0 };
        before.iter().for_each(|outcome| pace.count(outcome));
        pace
    }

    fn count(&mut self, outcome: &Outcome) {
        self.done += 1;
        self.right += usize::from(outcome.right(self.metric));
        self.tokens += outcome.tokens;
        self.passes += outcome.passes.values().sum::<usize>();
    }

    /// With so many problems to come.
    fn line(&self, more: usize) -> String {
        let left = self.begun.elapsed().mul_f64(more as f64 / self.new.max(1) as f64);
        format!(
            "{} of {} problems, {:.1} % right, {:.2} tokens a pass, {} left",
            self.done,
            self.done + more,
            100.0 * self.right as f64 / self.done.max(1) as f64,
            self.tokens as f64 / self.passes.max(1) as f64,
            duration(left),
        )
    }
}

impl Recorder<'_, '_> {
    fn record(&mut self, number: usize, outcome: Outcome) -> Result<(), Failure> {
        if let Some(results) = &mut self.results {
            results.append(&outcome)?;
        }
        self.pace.count(&outcome);
        self.pace.new += 1;
        self.outcomes.push(outcome);
        self.console.show_wait(&self.pace.line(self.asked.len() - number - 1));
        // Judging and writing are no part of the model's time.
        self.pace.last = Instant::now();
        Ok(())
    }
}

impl Sink for Recorder<'_, '_> {
    fn event(&mut self, _number: usize, _event: &Event) -> Result<(), Failure> {
        Ok(())
    }

    fn output(&mut self, number: usize, output: Output) -> Result<(), Failure> {
        let wall = self.pace.last.elapsed().as_secs_f64();
        let asked = &self.asked[number];
        self.console.warn(&output.warnings);
        let scores = asked.problem.score(&output.text, self.context).map_err(|error| Failure::at(&asked.place, error))?;
        let scores = self.task.metrics().iter().map(|metric| (*metric).to_string()).zip(scores).collect();
        self.record(number, Outcome::new(asked, &output, scores, wall))
    }

    fn failed(&mut self, number: usize, place: &str, error: Error) -> Result<(), Failure> {
        let wall = self.pace.last.elapsed().as_secs_f64();
        self.console.say("warning", &format!("{place}: no answer, which counts as wrong: {error}"));
        self.record(number, Outcome::failed(&self.asked[number], self.task, error.to_string(), self.seeds[number], wall))
    }
}

/// For people.
fn duration(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let shown = |seconds| duration(Duration::from_secs(seconds));
        assert_eq!([shown(59), shown(61), shown(3660)], ["59 s", "1 min 1 s", "1 h 1 min"]);
    }
}
