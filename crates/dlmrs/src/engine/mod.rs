//! The engine: active requests of different lengths, settings and progress share each forward.
//!
//! [`Engine::step`] collects the passes that all decoders want, runs them in one forward and one scan of the output head, hands the
//! answers back and reports what happened. A request's result depends on nothing but the request.

mod event;
mod request;
mod service;
mod stats;
mod stop;
mod trace;

use std::sync::Arc;
use std::time::Instant;

pub use event::{Event, FinishReason, Output, RequestId, StopCause};
pub use request::Request;
pub use service::{Canceller, Next, Service, Stream};
pub use stats::{Stats, Work};
pub use trace::{Trace, Traced};

use crate::cache::KvCache;
use crate::decode::{Answer, FullRows, Role, Took, Wish};
use crate::error::{Error, Result};
use crate::llm::Llm;
use crate::model::{Guide, Hidden, Model, RowScan};
use crate::pass::Pass;
use crate::sample::RowStat;
use request::Active;

/// Rows that one forward takes at most, unless a single request needs more. It bounds the memory for activations.
const ROWS: usize = 4096;

/// Positions that the canvases of all started requests take together, unless a single one is longer. It bounds the memory for caches:
/// what does not fit waits until others have finished.
const POSITIONS: usize = 16_384;

/// A batch of requests over one model.
pub struct Engine {
    llm: Arc<Llm>,
    active: Vec<Active>,
    next_id: u64,
    work: Work,
}

impl Engine {
    /// No requests yet.
    pub fn new(llm: Arc<Llm>) -> Self {
        Self { llm, active: Vec::new(), next_id: 0, work: Work::default() }
    }

    /// Takes a request, after checking everything that can be checked.
    pub fn submit(&mut self, request: Request) -> Result<RequestId> {
        let id = RequestId(self.next_id);
        self.active.push(Active::new(id, &self.llm, request)?);
        self.next_id += 1;
        Ok(id)
    }

    /// Ends a request now; its output holds what was decided. Returns false if there is no such request (any more).
    pub fn cancel(&mut self, id: RequestId) -> bool {
        match self.active.iter_mut().find(|a| a.id == id) {
            Some(active) => {
                active.cancelled = true;
                true
            }
            None => false,
        }
    }

    /// Whether there is nothing to do.
    pub fn is_idle(&self) -> bool {
        self.active.is_empty()
    }

    /// What it has done so far for all its requests together.
    pub fn work(&self) -> Work {
        self.work
    }

    /// One forward for as many active requests as fit. An error that concerns one request comes as [`Event::Failed`]; an error of this
    /// function concerns all, and drops them.
    pub fn step(&mut self) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        self.retire(&mut events);
        if self.active.is_empty() {
            return Ok(events);
        }
        let result = self.advance(&mut events);
        if result.is_err() {
            self.active.clear();
        }
        result?;
        self.retire(&mut events);
        Ok(events)
    }

    /// Removes requests that have ended, and says so.
    fn retire(&mut self, events: &mut Vec<Event>) {
        self.active.retain_mut(|active| match active.ending() {
            Some(reason) => {
                active.finish(reason, events);
                false
            }
            None => true,
        });
    }

    fn advance(&mut self, events: &mut Vec<Event>) -> Result<()> {
        let (mut rows, mut positions) = (0, 0);
        // Who has not started waits behind the first that does not fit, or a large request would be passed over for ever.
        let mut full = false;
        let mut turns: Vec<Turn<'_>> = Vec::new();
        let mut failed = Vec::new();
        for active in &mut self.active {
            let length = active.decoder.canvas().len();
            active.waited = rows > 0 && rows + active.decoder.next_rows() > ROWS;
            full |= !active.started && (active.waited || positions > 0 && positions + length > POSITIONS);
            if !active.started && full {
                continue;
            }
            positions += length;
            if active.waited {
                continue;
            }
            active.started = true;
            match active.decoder.next() {
                Ok(wishes) => {
                    rows += wishes.iter().map(|w| w.pass.rows()).sum::<usize>();
                    turns.push(Turn { active, wishes, places: Vec::new() });
                }
                Err(error) => failed.push((active.id, error)),
            }
        }
        let begun = Instant::now();
        let rows = forwards(&self.llm, &mut turns)?;
        let forward = begun.elapsed();
        let answers = scan(&self.llm, &rows, &turns);
        let scan = begun.elapsed() - forward;
        self.work.count(forward, scan);
        for (turn, answer) in turns.into_iter().zip(answers) {
            let Turn { active, wishes, .. } = turn;
            active.stats.count(&wishes, forward, scan);
            let id = active.id;
            if let Err(error) = answer.and_then(|answer| active.take(&answer, events)) {
                failed.push((id, error));
            }
        }
        // Stable: who has started goes on before others start; of those who had to wait comes first the next time, and the others start
        // in the order in which they came.
        self.active.sort_by_key(|active| (!active.started, active.started && !active.waited));
        for (id, error) in failed {
            self.active.retain(|a| a.id != id);
            events.push(Event::Failed { id, error });
        }
        Ok(())
    }
}

/// One request's part in a forward.
struct Turn<'a> {
    active: &'a mut Active,
    wishes: Vec<Wish>,
    /// The number of each wish's pass in the forward of its model.
    places: Vec<usize>,
}

/// What was read of each model in one step; None where nothing was asked of it.
struct Pair {
    target: Option<Read>,
    draft: Option<Read>,
}

impl Pair {
    fn of(&self, model: Role) -> Option<&Read> {
        match model {
            Role::Target => self.target.as_ref(),
            Role::Draft => self.draft.as_ref(),
        }
    }
}

/// The rows that were read in one forward, and what it took.
struct Read {
    hidden: Arc<Hidden>,
    took: Took,
}

/// The rows of one wish.
struct Rows {
    hidden: Arc<Hidden>,
    pass: usize,
}

impl FullRows for Rows {
    fn rows(&self, reads: &[usize]) -> Result<Vec<Vec<f32>>> {
        self.hidden.some_rows(&reads.iter().map(|&read| self.hidden.row_of(self.pass, read)).collect::<Vec<_>>())
    }
}

type Passes<'a> = Vec<(Pass, &'a mut KvCache)>;

/// One forward of each model for all that is asked of it. If something is asked of both, they run at the same time.
fn forwards(llm: &Llm, turns: &mut [Turn<'_>]) -> Result<Pair> {
    let (mut target, mut draft) = (Passes::new(), Passes::new());
    for turn in turns.iter_mut() {
        let Active { caches, draft_caches, .. } = &mut *turn.active;
        let mut free: [Vec<Option<&mut KvCache>>; 2] = [caches.iter_mut().map(Some).collect(), draft_caches.iter_mut().map(Some).collect()];
        for wish in &turn.wishes {
            let passes = if wish.model == Role::Target { &mut target } else { &mut draft };
            let cache = free[wish.model as usize].get_mut(wish.cache).and_then(Option::take);
            let cache =
                cache.ok_or_else(|| Error::input("wish", format!("cache {} does not exist or is used twice in a forward", wish.cache)))?;
            turn.places.push(passes.len());
            passes.push((wish.pass.clone(), cache));
        }
    }
    let drafts = match (draft.is_empty(), llm.draft_model()) {
        (true, _) => return Ok(Pair { target: run(llm.model(), target)?, draft: None }),
        (false, Some(model)) => model,
        (false, None) => return Err(Error::input("wish", "asks for a draft model, but none was loaded")),
    };
    if target.is_empty() {
        return Ok(Pair { target: None, draft: run(drafts, draft)? });
    }
    std::thread::scope(|scope| {
        let draft = scope.spawn(|| run(drafts, draft));
        let target = run(llm.model(), target);
        let draft = draft.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(Pair { target: target?, draft: draft? })
    })
}

fn run(model: &Model, mut passes: Passes<'_>) -> Result<Option<Read>> {
    if passes.is_empty() {
        return Ok(None);
    }
    let begun = Instant::now();
    let hidden = Arc::new(model.forward(&mut passes)?);
    let took = Took { rows: passes.iter().map(|(pass, _)| pass.rows()).sum(), seconds: begun.elapsed().as_secs_f64() };
    Ok(Some(Read { hidden, took }))
}

/// The answers of each turn, one for each of its wishes.
fn scan(llm: &Llm, rows: &Pair, turns: &[Turn<'_>]) -> Vec<Result<Vec<Answer>>> {
    let mut answers: Vec<Result<Vec<Answer>>> = turns.iter().map(|turn| Ok(vec![Answer::default(); turn.wishes.len()])).collect();
    for (role, read) in [Role::Target, Role::Draft].into_iter().filter_map(|role| Some((role, rows.of(role)?))) {
        let begun = Instant::now();
        let found = scan_role(&read.hidden, turns, role);
        let took = Took { seconds: read.took.seconds + begun.elapsed().as_secs_f64(), ..read.took };
        llm.pace().add(role, took);
        let read = Read { hidden: read.hidden.clone(), took };
        for ((turn, answers), found) in turns.iter().zip(&mut answers).zip(found) {
            match (found, answers.as_mut()) {
                (Ok(stats), Ok(answers)) => turn.hand_out(role, &read, &stats, answers),
                (Ok(_), Err(_)) => {}
                (Err(error), _) => *answers = Err(error),
            }
        }
    }
    answers
}

/// The statistics of each turn's rows of one model. Rows of all requests are scanned together; if one of them cannot be drawn from, each request
/// is scanned alone to find out whose it is.
fn scan_role(hidden: &Hidden, turns: &[Turn<'_>], role: Role) -> Vec<Result<Vec<RowStat>>> {
    let scans: Vec<Vec<RowScan>> = turns.iter().map(|turn| turn.scans(hidden, role)).collect();
    let together: Vec<RowScan> = scans.iter().flatten().cloned().collect();
    match hidden.scan(&together) {
        Ok(stats) => {
            let mut rest = stats.as_slice();
            let split = |scans: &Vec<RowScan>| {
                let (own, after) = rest.split_at(scans.len());
                rest = after;
                Ok(own.to_vec())
            };
            scans.iter().map(split).collect()
        }
        Err(_) => scans.iter().map(|scans| hidden.scan(scans)).collect(),
    }
}

impl Turn<'_> {
    fn scans(&self, hidden: &Hidden, role: Role) -> Vec<RowScan> {
        let row = |wish: usize, read: usize| hidden.row_of(self.places[wish], read);
        let of_wish = |(index, wish): (usize, &Wish)| {
            let scan = |s: &crate::decode::Scan| RowScan {
                row: row(index, s.read),
                guide: s.guide.map(|(wish, read, scale)| Guide { row: row(wish, read), scale }),
                rule: s.rule.clone(),
            };
            wish.scans.iter().map(scan).collect::<Vec<_>>()
        };
        self.wishes.iter().enumerate().filter(|(_, wish)| wish.model == role).flat_map(of_wish).collect()
    }

    /// Gives each wish of one model what is its own.
    fn hand_out(&self, role: Role, read: &Read, mut stats: &[RowStat], answers: &mut [Answer]) {
        for ((wish, &pass), answer) in self.wishes.iter().zip(&self.places).zip(answers).filter(|((wish, _), _)| wish.model == role) {
            let (own, after) = stats.split_at(wish.scans.len());
            stats = after;
            let full = || Arc::new(Rows { hidden: read.hidden.clone(), pass }) as Arc<dyn FullRows>;
            let full = self.active.decoder.asks_for_rows().then(full);
            let tapped = read.hidden.tapped(pass).to_vec();
            *answer = Answer { stats: own.to_vec(), tapped, full, took: Some(read.took) };
        }
    }
}
