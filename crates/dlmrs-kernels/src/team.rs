//! The threads that share the work of a kernel.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Isa;
use crate::pool::Pool;

/// More threads than this is a mistake in a number, not a wish.
const MOST_THREADS: usize = 1024;

/// A fixed number of threads, the caller's among them, and the instructions that they use.
///
/// Several threads may hand work to one team at the same time; all but one of them then do their work alone.
#[derive(Debug)]
pub struct Team {
    isa: Isa,
    threads: usize,
    /// The threads beside the caller's; none for a team of one.
    pool: Option<Pool>,
    pid: u32,
}

impl Team {
    /// A team of `threads` threads at the level of [`Isa::detect`]; `None` takes what the machine offers to this process.
    ///
    /// # Errors
    /// 0 threads, more than 1024, or a system that refuses to start them.
    pub fn new(threads: Option<usize>) -> Result<Team, String> {
        let offered = || std::thread::available_parallelism().map_or(1, |count| count.get().min(MOST_THREADS));
        Team::with_isa(threads.unwrap_or_else(offered), Isa::detect())
    }

    /// The caller's thread alone, at the level of [`Isa::detect`].
    pub fn alone() -> Team {
        Team { isa: Isa::detect(), threads: 1, pool: None, pid: std::process::id() }
    }

    /// A team at a level of the caller's choice.
    ///
    /// # Errors
    /// As [`Team::new`], and a level that this CPU lacks.
    pub fn with_isa(threads: usize, isa: Isa) -> Result<Team, String> {
        if threads == 0 {
            return Err("threads is 0: at least one is needed".into());
        }
        if threads > MOST_THREADS {
            return Err(format!("threads is {threads}: at most {MOST_THREADS} are possible"));
        }
        if isa > Isa::best() {
            return Err(format!("this CPU has no {}; the best it has is {}", isa.name(), Isa::best().name()));
        }
        let build = |beside| Pool::new(beside).map_err(|error| format!("cannot start {threads} threads: {error}"));
        let pool = if threads > 1 { Some(build(threads - 1)?) } else { None };
        Ok(Team { isa, threads, pool, pid: std::process::id() })
    }

    /// How many threads share the work, the caller's included.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The instructions in use.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Whether this process is a fork of the one that made the team. Threads do not survive a fork: such a team works on, but
    /// on the caller's thread alone.
    pub fn forked(&self) -> bool {
        std::process::id() != self.pid
    }

    /// Calls `f(i)` once for each `i` in `0..tasks` and returns when all are done. Which thread takes which task, and in what order,
    /// is left open; one thread goes in order. A panic in `f` reaches the caller.
    pub fn run(&self, tasks: usize, f: impl Fn(usize) + Sync) {
        match &self.pool {
            Some(pool) if tasks > 1 && !self.forked() => {
                let next = AtomicUsize::new(0);
                let work = || {
                    loop {
                        let task = next.fetch_add(1, Ordering::Relaxed);
                        if task >= tasks {
                            break;
                        }
                        f(task);
                    }
                };
                // The caller works too: what is small is done before the others have woken up.
                pool.together(self.threads.min(tasks) - 1, &work);
            }
            _ => (0..tasks).for_each(f),
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        if self.forked()
            && let Some(pool) = self.pool.take()
        {
            pool.forget();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn each_task_runs_once() {
        for threads in [1, 2, 5] {
            let team = Team::with_isa(threads, Isa::Scalar).unwrap();
            for tasks in [0, 1, 2, 3, 100] {
                let counts: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                team.run(tasks, |i| {
                    counts[i].fetch_add(1, Ordering::Relaxed);
                });
                assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn sizes_are_checked() {
        assert!(Team::new(Some(0)).is_err());
        assert!(Team::new(Some(1025)).is_err());
        let team = Team::new(None).unwrap();
        assert!(team.threads() >= 1 && !team.forked());
        assert_eq!(team.isa(), Isa::detect());
    }

    #[test]
    fn a_forked_team_works_alone() {
        let mut team = Team::with_isa(3, Isa::Scalar).unwrap();
        team.pid = team.pid.wrapping_add(1);
        assert!(team.forked());
        let caller = std::thread::current().id();
        team.run(8, |_| assert_eq!(std::thread::current().id(), caller));
        // It is none, and its threads are there to be ended.
        team.pid = std::process::id();
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        let team = Team::with_isa(2, Isa::Scalar).unwrap();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| team.run(4, |i| assert_ne!(i, 3))));
        assert!(result.is_err());
        team.run(2, |_| ());
    }
}
