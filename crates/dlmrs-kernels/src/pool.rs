//! The threads beside the caller's: they wait for work by looking for it for a moment, then asleep.
//!
//! A forward asks for hundreds of short pieces of work, one right after the other. Waking a thread through the system takes longer than many
//! of them, so a thread that has just worked looks for more for some microseconds before it goes to sleep.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, Thread};

/// Looks for work before a thread goes to sleep: some tens of microseconds.
const LOOKS: usize = 2000;

/// A piece of work. It lives on its caller's stack until everybody who took a seat has finished.
struct Job<'a> {
    work: &'a (dyn Fn() + Sync),
    caller: Thread,
    finished: AtomicUsize,
    /// What went wrong in another thread first.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// What all threads of a pool see.
struct Shared {
    /// Seats that are left in the job. Whoever takes one may look at the job until it says that it has finished.
    seats: AtomicUsize,
    job: AtomicPtr<Job<'static>>,
    closed: AtomicBool,
    asleep: Vec<AtomicBool>,
}

impl Shared {
    /// Takes a seat, if one is left.
    fn sit_down(&self) -> bool {
        self.seats.load(Ordering::Relaxed) > 0
            && self.seats.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |seats| seats.checked_sub(1)).is_ok()
    }

    /// What thread `index` does until the pool is closed.
    fn live(&self, index: usize) {
        while self.wait_for_seat(index) {
            // SAFETY: this thread has a seat, and the caller keeps the job where it is until `finished` counts every seat that was taken.
            let job = unsafe { &*self.job.load(Ordering::SeqCst) };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(job.work)) {
                job.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
            }
            let caller = job.caller.clone();
            // The last look at the job: from here on it may be gone.
            job.finished.fetch_add(1, Ordering::SeqCst);
            caller.unpark();
        }
    }

    /// Returns with a seat, or false when the pool is closed.
    fn wait_for_seat(&self, index: usize) -> bool {
        let mut looks = 0;
        while !self.sit_down() {
            if self.closed.load(Ordering::SeqCst) {
                return false;
            }
            looks += 1;
            if looks < LOOKS {
                std::hint::spin_loop();
                continue;
            }
            // Whoever offers seats looks at the flag after that, and this thread at the seats after the flag: one sees the other.
            self.asleep[index].store(true, Ordering::SeqCst);
            if self.seats.load(Ordering::SeqCst) == 0 && !self.closed.load(Ordering::SeqCst) {
                thread::park();
            }
            self.asleep[index].store(false, Ordering::SeqCst);
            looks = 0;
        }
        true
    }
}

/// Threads that wait for work.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// One caller at a time.
    turn: Mutex<()>,
}

impl Pool {
    /// Starts so many threads.
    pub(crate) fn new(count: usize) -> std::io::Result<Pool> {
        let shared = Arc::new(Shared {
            seats: AtomicUsize::new(0),
            job: AtomicPtr::new(std::ptr::null_mut()),
            closed: AtomicBool::new(false),
            asleep: (0..count).map(|_| AtomicBool::new(false)).collect(),
        });
        let mut pool = Pool { shared, threads: Vec::with_capacity(count), turn: Mutex::new(()) };
        for index in 0..count {
            let shared = pool.shared.clone();
            let thread = thread::Builder::new().name(format!("dlmrs-{}", index + 1)).spawn(move || shared.live(index));
            // An error drops the pool, and that ends those that have been started.
            pool.threads.push(thread?);
        }
        Ok(pool)
    }

    /// Calls `work` on this thread and at the same time on up to `others` of the pool's, and returns when all calls have. While somebody
    /// else uses the pool, on this thread alone. A panic reaches the caller.
    pub(crate) fn together(&self, others: usize, work: &(dyn Fn() + Sync)) {
        let Ok(turn) = self.turn.try_lock() else { return work() };
        let others = others.min(self.threads.len());
        let job = Job { work, caller: thread::current(), finished: AtomicUsize::new(0), panic: Mutex::default() };
        self.shared.job.store(std::ptr::from_ref(&job).cast_mut().cast(), Ordering::SeqCst);
        self.shared.seats.store(others, Ordering::SeqCst);
        // Those who are awake see the seats by themselves.
        let sleepers = self.shared.asleep.iter().zip(&self.threads).filter(|(asleep, _)| asleep.load(Ordering::SeqCst));
        sleepers.take(others).for_each(|(_, thread)| thread.thread().unpark());
        // The seats must be taken away and waited for even if this thread's own share panics.
        let own = catch_unwind(AssertUnwindSafe(work));
        let taken = others - self.shared.seats.swap(0, Ordering::SeqCst);
        let mut looks = 0;
        while job.finished.load(Ordering::SeqCst) < taken {
            looks += 1;
            if looks < LOOKS { std::hint::spin_loop() } else { thread::park() }
        }
        drop(turn);
        let panic = job.panic.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(panic) = own.err().or(panic) {
            resume_unwind(panic);
        }
    }

    /// Lets go of threads that are not there any more, because this process is a fork of the one that started them.
    pub(crate) fn forget(mut self) {
        self.threads.drain(..).for_each(std::mem::forget);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // A panic of its work has reached the caller already.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads.len()).finish()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn all_calls_have_returned() {
        for count in [1, 2, 7] {
            let pool = Pool::new(count).unwrap();
            for round in 0..2000 {
                let (begun, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
                let others = round % (count + 2);
                pool.together(others, &|| {
                    begun.fetch_add(1, Ordering::SeqCst);
                    ended.fetch_add(1, Ordering::SeqCst);
                });
                let (begun, ended) = (begun.into_inner(), ended.into_inner());
                assert!(begun == ended && (1..=others.min(count) + 1).contains(&begun), "{begun} of {others} with {count}");
            }
        }
    }

    /// Between these pieces of work the threads have gone to sleep.
    #[test]
    fn sleepers_wake_up() {
        let pool = Pool::new(2).unwrap();
        for _ in 0..20 {
            thread::sleep(Duration::from_millis(3));
            let here = AtomicUsize::new(0);
            // Nobody leaves before all three are here.
            pool.together(2, &|| {
                here.fetch_add(1, Ordering::SeqCst);
                while here.load(Ordering::SeqCst) < 3 {
                    thread::yield_now();
                }
            });
            assert_eq!(here.into_inner(), 3);
        }
    }

    #[test]
    fn a_caller_who_has_to_wait_for_others_works_alone() {
        let pool = Pool::new(2).unwrap();
        let total = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let own = AtomicUsize::new(0);
                        pool.together(2, &|| {
                            own.fetch_add(1, Ordering::SeqCst);
                        });
                        assert!(own.into_inner() >= 1);
                        total.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(total.into_inner(), 2000);
        // Work within work is done by the one who asks for it.
        pool.together(2, &|| pool.together(2, &|| ()));
    }

    #[test]
    fn a_panic_anywhere_reaches_the_caller_and_the_pool_goes_on() {
        let pool = Pool::new(3).unwrap();
        let caller = thread::current().id();
        for here in [true, false] {
            let met = AtomicUsize::new(0);
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.together(3, &|| {
                    met.fetch_add(1, Ordering::SeqCst);
                    while met.load(Ordering::SeqCst) < 4 {
                        thread::yield_now();
                    }
                    assert!((thread::current().id() == caller) != here, "on purpose");
                });
            }));
            assert!(result.is_err());
        }
        pool.together(3, &|| ());
    }
}
