//! An engine with a thread of its own, for programs that ask from several threads: their requests share each forward.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::request::Active;
use super::{Engine, Event, Request, RequestId};
use crate::error::{Error, Result};
use crate::llm::Llm;

/// Called once, from the service's thread, so it must be quick.
type Waker = Box<dyn FnOnce() + Send>;

/// A running engine. Any number of threads may submit requests; each gets its events in a [`Stream`] of its own.
///
/// Dropping the service ends requests that are under way (their streams end with [`Error::Stopped`]) and waits for its thread.
pub struct Service {
    llm: Arc<Llm>,
    orders: Sender<Order>,
    next_id: AtomicU64,
    worker: Option<JoinHandle<()>>,
    /// The process that has the thread; a fork has not.
    process: u32,
}

enum Order {
    Start(Box<Active>, Listener),
    Cancel(RequestId),
    Stop,
}

/// Where the events of a request go.
struct Listener {
    events: Sender<Event>,
    waker: Arc<Mutex<Option<Waker>>>,
}

impl Listener {
    /// False if nobody listens any more.
    fn tell(&self, event: Event) -> bool {
        let told = self.events.send(event).is_ok();
        wake(&self.waker);
        told
    }
}

fn wake(waker: &Mutex<Option<Waker>>) {
    let waker = waker.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(waker) = waker {
        waker();
    }
}

impl Drop for Listener {
    /// Also when the thread ends by a panic, so that nobody waits for ever.
    fn drop(&mut self) {
        let (nobody, _) = channel();
        drop(std::mem::replace(&mut self.events, nobody));
        wake(&self.waker);
    }
}

impl Service {
    /// Starts the thread.
    pub fn start(llm: Arc<Llm>) -> Result<Self> {
        let (orders, inbox) = channel();
        let engine = Engine::new(llm.clone());
        let worker = std::thread::Builder::new().name("dlmrs-engine".into()).spawn(move || work(engine, &inbox));
        let worker = worker.map_err(|error| Error::Capacity { what: "thread", message: format!("cannot be started: {error}") })?;
        Ok(Self { llm, orders, next_id: AtomicU64::new(0), worker: Some(worker), process: std::process::id() })
    }

    /// Takes a request, after checking everything that can be checked.
    pub fn submit(&self, request: Request) -> Result<Stream> {
        let id = RequestId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let active = Box::new(Active::new(id, &self.llm, request)?);
        let (events, inbox) = channel();
        let waker = Arc::new(Mutex::new(None));
        let listener = Listener { events, waker: waker.clone() };
        self.orders.send(Order::Start(active, listener)).map_err(|_| Error::Stopped)?;
        Ok(Stream { id, events: inbox, orders: self.orders.clone(), waker, ended: false })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let Some(worker) = self.worker.take() else { return };
        if self.process != std::process::id() {
            // The thread stayed behind in the process that forked; there is nothing to wait for.
            std::mem::forget(worker);
            return;
        }
        // An error means that the thread has ended already, by a panic that was reported where it happened.
        let _ = self.orders.send(Order::Stop);
        let _ = worker.join();
    }
}

/// What a stream has for its reader.
#[derive(Debug)]
pub enum Next {
    /// Something happened.
    Event(Event),
    /// Nothing yet.
    Pending,
    /// The last event was given out before.
    Ended,
}

/// The events of one request. As an iterator it waits for each and ends behind [`Event::Finished`] or [`Event::Failed`].
///
/// Dropping it cancels the request.
pub struct Stream {
    id: RequestId,
    events: Receiver<Event>,
    orders: Sender<Order>,
    waker: Arc<Mutex<Option<Waker>>>,
    ended: bool,
}

/// Ends a request from another thread than its reader's.
#[derive(Clone)]
pub struct Canceller {
    id: RequestId,
    orders: Sender<Order>,
}

impl Canceller {
    /// As [`Stream::cancel`].
    pub fn cancel(&self) {
        // An error means that the service has stopped, and with it the request.
        let _ = self.orders.send(Order::Cancel(self.id));
    }
}

impl Stream {
    /// Ends the request before its next pass. The stream goes on to its last event, whose output holds what was decided.
    pub fn cancel(&self) {
        self.canceller().cancel();
    }

    /// For another thread.
    pub fn canceller(&self) -> Canceller {
        Canceller { id: self.id, orders: self.orders.clone() }
    }

    /// What there is, without waiting.
    pub fn try_next(&mut self) -> Next {
        match self.events.try_recv() {
            _ if self.ended => Next::Ended,
            Ok(event) => self.give(event),
            Err(TryRecvError::Empty) => Next::Pending,
            Err(TryRecvError::Disconnected) => self.stopped(),
        }
    }

    /// The next event, if it comes within this time.
    pub fn next_within(&mut self, time: Duration) -> Next {
        if self.ended {
            return Next::Ended;
        }
        match self.events.recv_timeout(time) {
            Ok(event) => self.give(event),
            Err(RecvTimeoutError::Timeout) => Next::Pending,
            Err(RecvTimeoutError::Disconnected) => self.stopped(),
        }
    }

    /// Has `waker` called once, from another thread, as soon as something comes. What has come already calls nobody, so ask
    /// [`Self::try_next`] after this.
    pub fn wake(&self, waker: impl FnOnce() + Send + 'static) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(waker));
    }

    fn give(&mut self, event: Event) -> Next {
        self.ended = event.is_last();
        Next::Event(event)
    }

    fn stopped(&mut self) -> Next {
        self.ended = true;
        Next::Event(Event::Failed { id: self.id, error: Error::Stopped })
    }
}

impl Iterator for Stream {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        if self.ended {
            return None;
        }
        let next = match self.events.recv() {
            Ok(event) => self.give(event),
            Err(_) => self.stopped(),
        };
        match next {
            Next::Event(event) => Some(event),
            Next::Pending | Next::Ended => None,
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.ended {
            self.cancel();
        }
    }
}

/// The thread: takes orders, waiting for them only while there is nothing else to do, and tells each listener what happened.
fn work(mut engine: Engine, inbox: &Receiver<Order>) {
    let mut listeners: HashMap<RequestId, Listener> = HashMap::new();
    loop {
        let order = if engine.is_idle() { inbox.recv().map_err(|_| TryRecvError::Disconnected) } else { inbox.try_recv() };
        match order {
            Ok(Order::Start(active, listener)) => {
                listeners.insert(active.id, listener);
                engine.active.push(*active);
                continue;
            }
            Ok(Order::Cancel(id)) => {
                engine.cancel(id);
                continue;
            }
            Ok(Order::Stop) | Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) => {}
        }
        match engine.step() {
            Ok(events) => events.into_iter().for_each(|event| pass_on(event, &mut listeners, &mut engine)),
            Err(error) => {
                let error = Arc::new(error);
                for (id, listener) in listeners.drain() {
                    listener.tell(Event::Failed { id, error: Error::Shared(error.clone()) });
                }
            }
        }
    }
}

fn pass_on(event: Event, listeners: &mut HashMap<RequestId, Listener>, engine: &mut Engine) {
    let (id, last) = (event.id(), event.is_last());
    let told = listeners.get(&id).is_some_and(|listener| listener.tell(event));
    if last {
        listeners.remove(&id);
    } else if !told {
        engine.cancel(id);
    }
}
