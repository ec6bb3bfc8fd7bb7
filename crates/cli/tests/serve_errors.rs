//! `serve`: clients that ask for what there is not, send nonsense, or nothing, or leave.

use crate::failures::overflow;
use crate::serve::{Server, post, read_reply};
use crate::workshop::{POSITIONS, Workshop};
use serde_json::{Value, json};
use std::io::{BufReader, Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

const COMPLETIONS: &str = "/v1/completions";

/// It still answers.
fn is_alive(server: &Server) {
    let reply = server.complete(&json!({ "prompt": "hello", "max_tokens": 3 }));
    assert_eq!(reply["usage"]["completion_tokens"], 3);
}

#[test]
fn fields_without_sense_are_named_with_what_was_expected() {
    let w = Workshop::new();
    let server = Server::start(&w, "model --limits tokens=100");
    let prompt = |more: Value| {
        let mut request = json!({ "prompt": "hello" });
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        request
    };
    for (request, words) in [
        (json!([1]), "the body is a list of 1 values; expected an object"),
        (json!({}), "prompt is missing"),
        (json!({ "prompt": 7 }), "prompt is 7; expected a string, a list of tokens"),
        (json!({ "prompt": [] }), "expected 1 to 1024 prompts"),
        (json!({ "prompt": [[]] }), "prompt[0] is empty"),
        (json!({ "prompt": [3, 300] }), "prompt[1] is 300; expected a token"),
        (json!({ "prompt": [3, -1] }), "prompt[1] is -1"),
        (json!({ "prompt": [[3], [1.5]] }), "prompt[1][0] is 1.5"),
        (json!({ "prompt": [[3], 4] }), "prompt[1] is 4; expected a string or a list"),
        (json!({ "prompt": ["a", {}] }), "prompt[1] is an object"),
        (
            prompt(json!({ "max_tokens": 101 })),
            "max_tokens is 101; expected a whole number from 0 to 100",
        ),
        (prompt(json!({ "max_tokens": -1 })), "max_tokens is -1"),
        (prompt(json!({ "max_tokens": 1.5 })), "max_tokens is 1.5"),
        (prompt(json!({ "max_tokens": 0 })), "expected at least 1 without echo"),
        (prompt(json!({ "echo": 1 })), "echo is 1; expected true or false"),
        (prompt(json!({ "logprobs": 21 })), "logprobs is 21; expected a whole number from 0 to 20"),
        (
            prompt(json!({ "temperature": "hot" })),
            "temperature is \"hot\"; expected a number from 0 to 2",
        ),
        (prompt(json!({ "temperature": 3 })), "temperature is 3"),
        (prompt(json!({ "top_p": 1.1 })), "top_p is 1.1"),
        (prompt(json!({ "top_k": 0 })), "top_k is 0"),
        (prompt(json!({ "seed": 0.5 })), "seed is 0.5"),
        (prompt(json!({ "stop": 5 })), "stop is 5"),
        (prompt(json!({ "stop": ["a", 5] })), "stop is a list of 2 values"),
        (prompt(json!({ "stop": "" })), "each of 1 to 1024 bytes"),
        (prompt(json!({ "n": 17 })), "n is 17; expected a whole number from 1 to 16"),
        (prompt(json!({ "n": 2, "best_of": 3 })), "best_of is 3; expected the value of n"),
        (prompt(json!({ "suffix": "end" })), "suffix is \"end\"; expected no suffix"),
        (prompt(json!({ "logit_bias": { "5": 1 } })), "logit_bias is an object"),
        (prompt(json!({ "presence_penalty": 0.5 })), "presence_penalty is 0.5; expected 0"),
        (prompt(json!({ "stream_options": true })), "stream_options is true"),
        (prompt(json!({ "beam_width": 4 })), "beam_width is not a supported field"),
        (json!({ "prompt": vec![5; POSITIONS + 1] }), "has 257 tokens and max_tokens is 1"),
        (json!({ "prompt": vec![5; 200], "max_tokens": 60 }), "200 tokens and max_tokens is 60"),
        (
            json!({ "prompt": vec![vec![5; 200]; 70], "n": 4, "max_tokens": 50, "logprobs": 20 }),
            "divide it",
        ),
    ] {
        let message = server.post(COMPLETIONS, &request.to_string()).error(400);
        assert!(message.contains(words), "{words:?}: {message}");
    }
    // What asks for nothing is not an error.
    let neutral = json!({ "suffix": null, "best_of": 1, "frequency_penalty": 0, "logit_bias": {},
                          "user": "me", "stop": null, "seed": null, "stream": false });
    server.complete(&prompt(neutral));
    let long = server.post(COMPLETIONS, &prompt(json!({ "echo": "x".repeat(5000) })).to_string());
    assert!(long.error(400).len() < 200, "{long:?}");
    let other = server.post(COMPLETIONS, &prompt(json!({ "model": "gpt" })).to_string());
    assert!(other.error(404).contains("expected \"model\""), "{other:?}");
    assert_eq!(other.json()["error"]["code"], "model_not_found");
    let chat = json!({ "messages": [{ "role": "user", "content": "hello" }] }).to_string();
    assert!(server.post("/v1/chat/completions", &chat).error(400).contains("no chat template"));
    server.stops();
}

#[test]
fn bodies_and_heads_without_sense_have_a_status_each() {
    let w = Workshop::new();
    let server = Server::start(&w, "model --limits body=2000");
    for body in ["{", "", "nonsense", "{\"prompt\": \"a\"} {", "{\"prompt\": \"\\ud800\"}"] {
        let message = server.post(COMPLETIONS, body).error(400);
        assert!(message.contains("not JSON") && message.contains("line 1"), "{message}");
    }
    assert!(server.post(COMPLETIONS, &"[".repeat(1500)).error(400).contains("recursion"));
    let json = "Content-Type: application/json\r\n";
    for (request, status, words) in [
        (format!("POST {COMPLETIONS} HTTP/1.1\r\nHost: x\r\n{json}\r\n"), 411, "Content-Length"),
        (
            format!(
                "POST {COMPLETIONS} HTTP/1.1\r\n{json}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            ),
            411,
            "chunked",
        ),
        (
            format!(
                "POST {COMPLETIONS} HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{{}}"
            ),
            415,
            "application/json",
        ),
        (post(COMPLETIONS, &"x".repeat(3000)), 413, "--limits body"),
        (
            format!(
                "POST {COMPLETIONS} HTTP/1.1\r\nHost: x\r\n{json}Content-Length: 99999999999\r\n\r\n"
            ),
            413,
            "at most 2000",
        ),
        (
            format!("POST {COMPLETIONS} HTTP/1.1\r\nHost: x\r\nContent-Length: two\r\n\r\n"),
            400,
            "Content-Length",
        ),
        ("GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 404, "no such path"),
        ("GET /v1/models/other HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 404, "no such model"),
        (format!("GET {COMPLETIONS} HTTP/1.1\r\nHost: x\r\n\r\n"), 405, "POST"),
        ("DELETE /health HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 405, "GET"),
        ("\u{1}\u{2}\r\n\r\n".to_owned(), 400, "not an HTTP request"),
        (
            format!("GET /health HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "y".repeat(20_000)),
            431,
            "16384",
        ),
        ("GET /health HTTP/1.1\r\nHost: x\r\nExpect: tea\r\n\r\n".to_owned(), 417, "100-continue"),
    ] {
        let reply = server.raw(&request);
        assert!(reply.error(status).contains(words), "{words:?}: {reply:?}");
    }
    let wrong = server.get(COMPLETIONS);
    assert!(wrong.head.contains("\r\nAllow: POST\r\n"), "{wrong:?}");
    is_alive(&server);
    server.stops();
}

/// Everything that comes back until the server closes the connection.
fn until_closed(server: &Server, request: &str) -> String {
    let mut stream = server.connect();
    stream.write_all(request.as_bytes()).unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    all
}

#[test]
fn where_a_request_ends_is_never_a_guess() {
    let w = Workshop::new();
    let server = Server::start(&w, "model");
    let next = "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n";
    for (head, status) in [
        // What another program takes for a body would be a second request here.
        ("GET /health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked", 411),
        ("GET /nowhere HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: x", 411),
        ("POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked", 411),
        ("GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nTransfer-Encoding: chunked", 411),
        ("GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: \u{a0}0", 400),
        ("GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 0\u{2003}", 400),
        ("GET /health HTTP/1.1\r\nHost: x\r\nHost: y", 400),
        ("GET /health HTTP/1.1\r\nHost: x y", 400),
        ("GET /health HTTP/1.1\r\nAccept: */*", 400),
    ] {
        let all = until_closed(&server, &format!("{head}\r\n\r\n{next}"));
        assert!(all.starts_with(&format!("HTTP/1.1 {status} ")), "{head}: {all}");
        assert_eq!(all.matches("\r\nConnection: ").count(), 1, "{head}: {all}");
        assert!(all.contains("\r\nConnection: close\r\n"), "{head}: {all}");
    }
    is_alive(&server);
    server.stops();
}

#[test]
fn texts_too_long_for_the_model_are_refused_by_their_bytes() {
    let w = Workshop::new();
    let server = Server::start(&w, "model");
    let long = |bytes: usize| json!({ "prompt": "the barn ".repeat(bytes / 9), "max_tokens": 1 });
    let refused = server.post(COMPLETIONS, &long(4_000_000).to_string());
    assert!(refused.error(400).contains("has at least "), "{refused:?}");
    assert_eq!(refused.json()["error"]["code"], "context_length_exceeded");
    // Lists of tokens are counted, and their text is not asked for.
    let tokens = json!({ "prompt": vec![7; 500_000], "max_tokens": 1 }).to_string();
    assert!(server.post(COMPLETIONS, &tokens).error(400).contains("has 500000 tokens"));
    server.stops();
    // A tokenizer that drops text gives no bound in advance.
    let mut tokenizer = w.json("model/tokenizer.json");
    tokenizer["normalizer"] = json!({ "type": "Strip", "strip_left": true, "strip_right": true });
    w.write("model/tokenizer.json", tokenizer.to_string());
    let server = Server::start(&w, "model");
    let refused = server.post(COMPLETIONS, &long(100_000).to_string());
    let message = refused.error(400);
    assert!(message.contains("has ") && !message.contains("at least"), "{message}");
    let spaces = json!({ "prompt": format!("hello{}", " ".repeat(100_000)), "max_tokens": 1 });
    assert_eq!(server.complete(&spaces)["usage"]["completion_tokens"], 1);
    server.stops();
}

#[test]
fn what_is_computed_for_a_client_ends_when_it_leaves() {
    let w = Workshop::new();
    let server = Server::start(&w, "model");
    // Minutes of work in one answer.
    let long = json!({ "prompt": vec![[5, 6]; 64], "max_tokens": 240, "n": 16 });
    let mut stream = server.connect();
    stream.write_all(post(COMPLETIONS, &long.to_string()).as_bytes()).unwrap();
    let since = Instant::now();
    let until = |running: bool| {
        let health = || server.get("/health").json();
        let mut last = health();
        while (last["running"] != 0 || last["waiting"] != 0) != running {
            assert!(since.elapsed() < Duration::from_secs(30), "{last}");
            std::thread::sleep(Duration::from_millis(20));
            last = health();
        }
    };
    until(true);
    drop(stream);
    until(false);
    server.stops();
}

#[test]
fn a_body_far_beyond_the_bound_is_refused_while_it_comes() {
    let w = Workshop::new();
    let server = Server::start(&w, "model --limits body=1000");
    let mut stream = server.connect();
    let head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
                Content-Length: 5000000\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    // The client sends all of it, and can read the answer nevertheless.
    stream.write_all(&vec![b' '; 5_000_000]).unwrap();
    assert!(read_reply(&mut BufReader::new(stream)).error(413).contains("5000000 bytes"));
    is_alive(&server);
    server.stops();
}

#[test]
fn slow_clients_are_told_so_and_hold_nobody_up() {
    let w = Workshop::new();
    let server = Server::start(&w, "model --limits timeout=0.5");
    let began = Instant::now();
    let mut head = server.connect();
    head.write_all(b"POST /v1/compl").unwrap();
    let mut body = server.connect();
    let request = post(COMPLETIONS, "{\"prompt\": \"hello\"}");
    body.write_all(&request.as_bytes()[..request.len() - 4]).unwrap();
    let mut idle = server.connect();
    is_alive(&server);
    for (stream, part) in [(head, "the head"), (body, "the body")] {
        let message = read_reply(&mut BufReader::new(stream)).error(408);
        assert!(message.contains(part) && message.contains("0.5 s"), "{message}");
    }
    // A client that sends no request gets no answer.
    assert_eq!(idle.read(&mut [0; 9]).unwrap(), 0);
    // A byte now and then does not put the end off.
    let mut drip = server.connect();
    let dripping = Instant::now();
    while drip.write_all(b"G").is_ok() && dripping.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(dripping.elapsed() < Duration::from_secs(20));
    assert!(began.elapsed() >= Duration::from_millis(500));
    is_alive(&server);
    server.stops();
}

#[test]
fn who_leaves_in_the_middle_leaves_no_trace() {
    let w = Workshop::new();
    let server = Server::start(&w, "model");
    let long = json!({ "prompt": "hello", "max_tokens": 200, "n": 16, "stream": true });
    for _ in 0..3 {
        let mut stream = server.connect();
        stream.write_all(post(COMPLETIONS, &long.to_string()).as_bytes()).unwrap();
        let mut first = [0; 100];
        stream.read_exact(&mut first).unwrap();
        assert!(first.starts_with(b"HTTP/1.1 200 OK"));
        drop(stream);
        // Before the answer, in the middle of a body, in the middle of a head, and at once.
        let whole = post(COMPLETIONS, &long.to_string().replace("true", "false"));
        for bytes in [whole.len(), whole.len() - 9, 20, 0] {
            let mut stream = server.connect();
            stream.write_all(&whole.as_bytes()[..bytes]).unwrap();
            stream.shutdown(Shutdown::Both).unwrap();
        }
        is_alive(&server);
    }
    // Whoever waits in the queue is seen to be gone when its turn comes.
    let since = Instant::now();
    while server.get("/health").json()["waiting"] != 0 {
        assert!(since.elapsed() < Duration::from_secs(60), "{}", server.get("/health").json());
        std::thread::sleep(Duration::from_millis(50));
    }
    server.stops();
}

#[test]
fn beyond_the_most_connections_clients_are_told_to_come_again() {
    let w = Workshop::new();
    let server = Server::start(&w, "model --limits connections=2");
    let health = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
    let open: Vec<_> = (0..2)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(health.as_bytes()).unwrap();
            assert_eq!(read_reply(&mut BufReader::new(stream.try_clone().unwrap())).status, 200);
            stream
        })
        .collect();
    let refused = server.get("/health");
    assert!(refused.error(503).contains("2 connections"), "{refused:?}");
    assert!(refused.head.contains("\r\nRetry-After: 1\r\n"), "{refused:?}");
    drop(open);
    // The server notices within a glance that they have gone.
    let mut again = server.get("/health");
    let began = Instant::now();
    while again.status == 503 && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(50));
        again = server.get("/health");
    }
    assert_eq!(again.status, 200);
    server.stops();
}

#[test]
fn ctrl_c_lets_an_answer_finish_and_frees_the_port() {
    let w = Workshop::new();
    let server = Server::start(&w, "model --threads 1");
    let long = json!({ "prompt": "hello", "max_tokens": 240, "n": 16, "stream": true,
                       "temperature": 0 });
    let idle = server.connect();
    let mut stream = server.connect();
    stream.write_all(post(COMPLETIONS, &long.to_string()).as_bytes()).unwrap();
    let mut first = [0; 100];
    stream.read_exact(&mut first).unwrap();
    server.interrupt();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("data: [DONE]\n\n"), "{}", &rest[rest.len().saturating_sub(300)..]);
    drop(idle);
    assert_eq!(server.end(), (Some(0), String::new()));
}

#[test]
fn numbers_that_are_none_are_an_error_naming_the_site() {
    let w = Workshop::new();
    overflow(&w, "model.layers.1.mlp.up_proj.weight");
    let server = Server::start(&w, "model");
    for more in [json!({}), json!({ "echo": true, "logprobs": 1 }), json!({ "stream": true })] {
        let mut request = json!({ "prompt": "hello" });
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let reply = server.post(COMPLETIONS, &request.to_string());
        let message = reply.error(500);
        assert!(message.contains("non-finite number in output of model.layers.1.mlp"), "{message}");
        assert_eq!(reply.json()["error"]["code"], "non_finite");
    }
    server.stops();
}

#[test]
fn what_cannot_be_served_is_said_before_anything_listens() {
    let w = Workshop::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    w.fails(&format!("serve model --port {port}"), 1, &["cannot listen", "--port"]);
    w.fails("serve nowhere --port 0", 1, &["nowhere"]);
    w.fails("serve model --host somewhere", 2, &["--host"]);
    w.fails("serve model --limits timeout=0", 2, &["timeout is 0", "from 0.01 to 86400"]);
    w.fails("serve model --timeout 5", 2, &["was renamed: --limits timeout=VALUE"]);
    w.fails("serve model --limits connections=0", 2, &["--limits", "connections is 0"]);
    std::fs::remove_file(w.path("model/tokenizer.json")).unwrap();
    w.fails("serve model --port 0", 1, &["no tokenizer"]);
}
