//! The thread that runs the model: generates for all clients in one batch, as many as fit.

use super::error::ApiError;
use super::stop::GRACE;
use linwright::model::ModelError;
use linwright::model::Transformer;
use linwright::model::generate::{Ask, Session, Step};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// An event of one choice of a request.
pub(super) type Event = (usize, Result<Step, ModelError>);

/// The client's end of a request. Dropping it cancels the rest of the request.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) events: Receiver<Event>,
    ended: Arc<[AtomicBool]>,
}

impl Ticket {
    /// Cancels one choice.
    pub(super) fn end(&self, choice: usize) {
        self.ended[choice].store(true, Ordering::Relaxed);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        (0..self.ended.len()).for_each(|choice| self.end(choice));
    }
}

/// A waiting request.
struct Job {
    /// Sequences not started yet, each with its choice.
    asks: VecDeque<(usize, Ask)>,
    events: Sender<Event>,
    ended: Arc<[AtomicBool]>,
}

/// A running sequence.
struct Running {
    id: u64,
    choice: usize,
    events: Sender<Event>,
    ended: Arc<[AtomicBool]>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    closed: Option<Instant>,
}

/// The queue of requests for the model.
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    capacity: usize,
    /// Number of running sequences.
    running: AtomicUsize,
}

impl Queue {
    /// A queue of at most `capacity` requests.
    pub(super) fn new(capacity: usize) -> Self {
        let running = AtomicUsize::new(0);
        Self { state: Mutex::default(), changed: Condvar::new(), capacity, running }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a request.
    ///
    /// # Errors
    /// If the queue is full or the server is shutting down.
    pub(super) fn submit(&self, asks: Vec<Ask>) -> Result<Ticket, ApiError> {
        let mut state = self.lock();
        if state.closed.is_some() {
            return Err(ApiError::stopping());
        }
        if state.jobs.len() >= self.capacity {
            let capacity = self.capacity;
            return Err(ApiError::busy(format!(
                "{capacity} requests are already waiting; try again later"
            )));
        }
        let (sender, events) = channel();
        let ended: Arc<[AtomicBool]> = asks.iter().map(|_| AtomicBool::new(false)).collect();
        let asks = asks.into_iter().enumerate().collect();
        state.jobs.push_back(Job { asks, events: sender, ended: Arc::clone(&ended) });
        self.changed.notify_all();
        Ok(Ticket { events, ended })
    }

    /// Closes the queue and drops the waiting requests.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed.get_or_insert_with(Instant::now);
        state.jobs.clear();
        self.changed.notify_all();
    }

    /// Number of waiting requests.
    pub(super) fn waiting(&self) -> usize {
        self.lock().jobs.len()
    }

    /// Number of running sequences.
    pub(super) fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    /// Starts the sequences that fit; waits if there are none. False once the queue is closed.
    fn admit(
        &self,
        session: &mut Session<'_>,
        running: &mut Vec<Running>,
        batch_tokens: usize,
    ) -> bool {
        let mut state = self.lock();
        loop {
            if let Some(closed) = state.closed
                && (session.is_empty() || closed.elapsed() > GRACE)
            {
                return false;
            }
            while let Some(job) = state.jobs.front_mut() {
                let Some((choice, ask)) = job.asks.front() else {
                    state.jobs.pop_front();
                    continue;
                };
                let choice = *choice;
                let unwanted = job.ended[choice].load(Ordering::Relaxed);
                let full = !session.is_empty() && session.room() + ask.room() > batch_tokens;
                if full && !unwanted {
                    break;
                }
                let Some((_, ask)) = job.asks.pop_front().filter(|_| !unwanted) else { continue };
                let (events, ended) = (job.events.clone(), Arc::clone(&job.ended));
                match session.admit(ask) {
                    Ok(id) => running.push(Running { id, choice, events, ended }),
                    // A disconnected client needs no response.
                    Err(error) => drop(events.send((choice, Err(error)))),
                }
            }
            self.running.store(running.len(), Ordering::Relaxed);
            if !session.is_empty() {
                return true;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Generates until the queue is closed. A batch holds at most `batch_tokens` tokens, or one
/// sequence.
pub(super) fn work(model: &Transformer, queue: &Queue, batch_tokens: usize) {
    let mut session = Session::new(model);
    let mut running: Vec<Running> = Vec::new();
    while queue.admit(&mut session, &mut running, batch_tokens) {
        running.retain(|one| {
            let ended = one.ended[one.choice].load(Ordering::Relaxed);
            if ended {
                session.end(one.id);
            }
            !ended
        });
        if session.is_empty() {
            continue;
        }
        let Ok(steps) = catch_unwind(AssertUnwindSafe(|| session.step())) else {
            // Responses of the clients end; later requests use a new session.
            running.clear();
            session = Session::new(model);
            continue;
        };
        for (id, step) in steps {
            let Some(at) = running.iter().position(|one| one.id == id) else { continue };
            let over = step.as_ref().map_or(true, |step| step.finish.is_some());
            let sent = running[at].events.send((running[at].choice, step));
            if over {
                running.swap_remove(at);
            } else if sent.is_err() {
                session.end(id);
                running.swap_remove(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright::model::TransformerConfig;
    use linwright::model::generate::{Choice, Limits};
    use linwright::tensor::RngKey;
    use serde_json::json;

    fn model() -> Transformer {
        let config = json!({
            "model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "vocab_size": 11,
            "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 64,
        });
        Transformer::random(TransformerConfig::from_json(&config).unwrap(), RngKey::new(2))
    }

    fn ask(new_tokens: usize) -> Ask {
        let limits = Limits { new_tokens, end_tokens: Vec::new() };
        Ask { prompt: vec![1, 2, 3], choice: Choice::greedy(), limits, ranks: None }
    }

    #[test]
    fn requests_are_computed_together_and_the_queue_is_bounded() {
        let (model, queue) = (model(), Queue::new(2));
        let first = queue.submit(vec![ask(3), ask(2)]).unwrap();
        let second = queue.submit(vec![ask(4)]).unwrap();
        assert_eq!(queue.submit(vec![ask(1)]).unwrap_err().status, 503);
        assert_eq!(queue.waiting(), 2);
        std::thread::scope(|scope| {
            scope.spawn(|| work(&model, &queue, 8));
            let steps = |ticket: &Ticket| ticket.events.iter().map(|(choice, _)| choice).collect();
            let choices: Vec<usize> = steps(&first);
            assert_eq!(choices.iter().filter(|&&choice| choice == 0).count(), 3);
            assert_eq!(choices.len(), 5);
            let choices: Vec<usize> = steps(&second);
            assert_eq!(choices.len(), 4);
            queue.close();
        });
        assert_eq!(queue.submit(vec![ask(1)]).unwrap_err().status, 503);
    }

    #[test]
    fn what_nobody_waits_for_is_not_computed() {
        let (model, queue) = (model(), Queue::new(9));
        drop(queue.submit(vec![ask(50)]).unwrap());
        let half = queue.submit(vec![ask(50), ask(2)]).unwrap();
        half.end(0);
        std::thread::scope(|scope| {
            scope.spawn(|| work(&model, &queue, 4096));
            let choices: Vec<usize> = half.events.iter().map(|(choice, _)| choice).collect();
            assert_eq!(choices, [1, 1]);
            queue.close();
        });
    }
}
