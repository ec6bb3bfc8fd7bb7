//! The connection of one client: routes, computes and answers its requests one after another.

use super::answer::{Answer, Growth};
use super::error::ApiError;
use super::fields::Fields;
use super::http::{Head, Link};
use super::protocol::{Draft, Order};
use super::worker::Ticket;
use super::{Server, now};
use serde_json::{Value, json};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Interval at which a connection checks that the client still waits.
const GLANCE: Duration = Duration::from_millis(100);
/// Prompts up to this many bytes are tokenized without waiting.
const SHORT: usize = 32 << 10;
/// Interval at which a connection with longer prompts checks whether it is its turn.
const TURN: Duration = Duration::from_millis(20);

/// The resource of a path.
enum Route {
    Health,
    Models,
    Model,
    Completions,
    Chat,
}

/// Path of the list of models.
const MODELS: &str = "/v1/models";

fn route(head: &Head) -> Result<Route, ApiError> {
    let (route, method) = match head.path.as_str() {
        "/health" => (Route::Health, "GET"),
        MODELS => (Route::Models, "GET"),
        "/v1/completions" => (Route::Completions, "POST"),
        "/v1/chat/completions" => (Route::Chat, "POST"),
        path if path.starts_with("/v1/models/") => (Route::Model, "GET"),
        _ => {
            let known = "/v1/completions, /v1/chat/completions, /v1/models and /health";
            return Err(ApiError::new(404, format!("no such path; expected {known}")));
        }
    };
    if head.method != method {
        let message = format!("{} accepts only {method}", head.path);
        return Err(ApiError::new(405, message).header("Allow", method.to_owned()));
    }
    Ok(route)
}

/// Answers requests until the client closes the connection or the server stops.
pub(super) fn attend(server: &Server<'_>, mut link: Link<'_>) {
    loop {
        let done = match link.head() {
            Ok(None) => return,
            Ok(Some(head)) => catch_unwind(AssertUnwindSafe(|| request(server, &mut link, &head)))
                .unwrap_or_else(|_| Err(Trouble::Refused(defect("a request")))),
            Err(error) => Err(Trouble::Refused(error)),
        };
        match done {
            Ok(true) => {}
            Ok(false) => return link.hang_up(),
            // The client disconnected.
            Err(Trouble::Gone) => return,
            Err(Trouble::Refused(error)) => {
                let body = error.body().to_string();
                match link.answer(error.status, &error.headers, body.as_bytes()) {
                    Ok(true) => {}
                    Ok(false) => return link.hang_up(),
                    Err(_) => return,
                }
            }
        }
    }
}

/// Rejects a client because there are too many connections.
pub(super) fn refuse(mut link: Link<'_>, error: &ApiError) {
    if link.answer(error.status, &error.headers, error.body().to_string().as_bytes()).is_ok() {
        link.hang_up();
    }
}

/// An internal error.
fn defect(what: &str) -> ApiError {
    let message = format!("{what} ended unexpectedly; this is a bug in linwright");
    ApiError::new(500, message).code("internal")
}

/// The reason why a request gets no regular response.
enum Trouble {
    Refused(ApiError),
    Gone,
}

impl From<ApiError> for Trouble {
    fn from(error: ApiError) -> Self {
        Self::Refused(error)
    }
}

impl From<io::Error> for Trouble {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

/// Answers one request; returns whether another may follow.
fn request(server: &Server<'_>, link: &mut Link<'_>, head: &Head) -> Result<bool, Trouble> {
    let is_chat = match route(head)? {
        Route::Health => {
            let (waiting, running) = (server.queue.waiting(), server.queue.running());
            return say(link, &json!({ "status": "ok", "waiting": waiting, "running": running }));
        }
        Route::Models => {
            let list = json!({ "object": "list", "data": [server.description()] });
            return say(link, &list);
        }
        Route::Model if head.path[MODELS.len() + 1..] == *server.name => {
            return say(link, &server.description());
        }
        Route::Model => {
            let message = format!("no such model; this server has {:?}", server.name);
            return Err(ApiError::new(404, message).code("model_not_found").into());
        }
        Route::Completions => false,
        Route::Chat => true,
    };
    let Some(body) = link.body(head)? else { return Err(Trouble::Gone) };
    let number = server.requests.fetch_add(1, Ordering::Relaxed);
    let draft = {
        // A parsed body takes many times its size: one at a time.
        let _one = server.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let fields = Fields::of(&body)?;
        drop(body);
        let read = if is_chat { Draft::chat } else { Draft::completion };
        read(fields, &server.rules(), number)?
    };
    let order = encode(server, link, draft)?;
    let kind = if is_chat { "chatcmpl" } else { "cmpl" };
    let (created, model) = (now(), server.name);
    let id = format!("{kind}-{:x}-{number}", server.created);
    compute(server, link, &Answer { order: &order, id, created, model })
}

/// Tokenizes prompts. Long prompts wait for each other, so that they do not slow down the model;
/// short ones do not wait.
fn encode(server: &Server<'_>, link: &mut Link<'_>, draft: Draft) -> Result<Order, Trouble> {
    draft.fits(&server.rules())?;
    if draft.bytes() <= SHORT {
        return Ok(draft.encode(&server.rules())?);
    }
    loop {
        let _one = match server.encoding.try_lock() {
            Ok(one) => one,
            Err(TryLockError::Poisoned(one)) => one.into_inner(),
            Err(TryLockError::WouldBlock) if link.is_gone() => return Err(Trouble::Gone),
            Err(TryLockError::WouldBlock) if server.stop.is_asked() => {
                return Err(ApiError::stopping().into());
            }
            Err(TryLockError::WouldBlock) => {
                std::thread::sleep(TURN);
                continue;
            }
        };
        return Ok(draft.encode(&server.rules())?);
    }
}

fn say(link: &mut Link<'_>, value: &Value) -> Result<bool, Trouble> {
    Ok(link.answer(200, &[], value.to_string().as_bytes())?)
}

/// Runs the request on the model and sends the response.
fn compute(server: &Server<'_>, link: &mut Link<'_>, answer: &Answer<'_>) -> Result<bool, Trouble> {
    let order = answer.order;
    let begin = |prompt| Growth::new(order, prompt, server.tokenizer, &server.texts);
    let prompts = order.prompts.iter().flat_map(|prompt| vec![prompt; order.choices]);
    let mut choices: Vec<Growth<'_>> = prompts.map(begin).collect::<Result<_, _>>()?;
    let ticket = server.queue.submit(order.asks())?;
    if !order.stream {
        collect(server, link, &ticket, &mut choices, &mut |_, choice, _, delta| {
            choice.keep(delta);
            Ok(())
        })?;
        let whole = answer.whole(&choices)?;
        return Ok(link.answer(200, &[], whole.as_bytes())?);
    }
    let mut begun = vec![false; choices.len()];
    let mut has_begun = false;
    let done = collect(server, link, &ticket, &mut choices, &mut |link, _, index, delta| {
        if !has_begun {
            link.begin_events()?;
            has_begun = true;
        }
        let is_first = !std::mem::replace(&mut begun[index], true);
        if let Some(event) = answer.event(index, &delta, is_first)? {
            link.event(&event)?;
        }
        Ok(())
    });
    match done {
        Ok(()) => {}
        // The status line was already sent.
        Err(Trouble::Refused(error)) if has_begun => {
            link.event(&error.body().to_string())?;
            return Ok(false);
        }
        Err(trouble) => return Err(trouble),
    }
    if order.usage {
        link.event(&answer.last_event(&choices)?)?;
    }
    link.event("[DONE]")?;
    Ok(false)
}

/// Receives the parts that steps add to a choice.
type Show<'s, 'a> = dyn FnMut(&mut Link<'_>, &mut Growth<'a>, usize, super::answer::Delta) -> Result<(), Trouble>
    + 's;

/// Processes steps until every choice is complete.
fn collect<'a>(
    server: &Server<'_>,
    link: &mut Link<'_>,
    ticket: &Ticket,
    choices: &mut [Growth<'a>],
    show: &mut Show<'_, 'a>,
) -> Result<(), Trouble> {
    let mut open = choices.len();
    let mut looked = Instant::now();
    while open > 0 {
        // Checked even when steps arrive: a fast model always has one ready.
        if looked.elapsed() >= GLANCE {
            if link.is_gone() {
                return Err(Trouble::Gone);
            }
            looked = Instant::now();
        }
        let (index, step) = match ticket.events.recv_timeout(GLANCE) {
            Ok(event) => event,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) if server.stop.is_asked() => {
                return Err(ApiError::stopping().into());
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(defect("the model").into());
            }
        };
        let choice = &mut choices[index];
        if choice.is_over() {
            continue;
        }
        let delta = choice.take(&step.map_err(ApiError::from)?)?;
        let over = choice.is_over();
        show(link, choice, index, delta)?;
        if over {
            ticket.end(index);
            open -= 1;
        }
    }
    Ok(())
}
