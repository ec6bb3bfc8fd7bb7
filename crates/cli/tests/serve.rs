//! `serve`: what clients ask for and get.

use crate::workshop::{POSITIONS, VOCAB, Workshop};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};
use std::time::Duration;

/// Longest wait for an answer: a server that hangs fails its test instead of holding it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server of a workshop's model, at a port of its own.
pub(crate) struct Server {
    child: Child,
    address: String,
    stdout: BufReader<std::process::ChildStdout>,
}

/// An answer: status, head and body.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The message of an error, after its other parts were looked at.
    pub(crate) fn error(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        let json = self.json();
        let error = json["error"].as_object().unwrap();
        let keys: Vec<&String> = error.keys().collect();
        assert_eq!(keys, ["message", "type", "param", "code"]);
        let kind = if status < 500 { "invalid_request_error" } else { "server_error" };
        assert_eq!(error["type"], kind);
        error["message"].as_str().unwrap().to_owned()
    }
}

impl Server {
    pub(crate) fn start(w: &Workshop, args: &str) -> Self {
        let mut child =
            w.command(&format!("serve {args} --port 0 --json --quiet")).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|error| {
            let mut stderr = String::new();
            child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
            panic!("{error}: {line}{stderr}")
        });
        let url = said["url"].as_str().unwrap();
        let address = url.strip_prefix("http://").unwrap().strip_suffix("/v1").unwrap().to_owned();
        Self { child, address, stdout }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends bytes and reads one answer.
    pub(crate) fn raw(&self, request: &str) -> Reply {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        read_reply(&mut BufReader::new(stream))
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.raw(&format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"))
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Reply {
        self.raw(&post(path, body))
    }

    /// A completion that must succeed.
    pub(crate) fn complete(&self, body: &Value) -> Value {
        let reply = self.post("/v1/completions", &body.to_string());
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    }

    pub(crate) fn interrupt(&self) {
        let sent = Command::new("kill").arg("-INT").arg(self.child.id().to_string()).status();
        assert!(sent.unwrap().success());
    }

    /// Waits for the end; gives the exit code and what else was printed.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        (code, rest + &stderr)
    }

    /// Ctrl-C must end it without a word.
    pub(crate) fn stops(self) {
        self.interrupt();
        assert_eq!(self.end(), (Some(0), String::new()));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn post(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Reads one answer with a content length.
pub(crate) fn read_reply(stream: &mut BufReader<TcpStream>) -> Reply {
    let head = read_head(stream);
    let status = head.split(' ').nth(1).unwrap_or_else(|| panic!("no status in {head:?}"));
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.unwrap().parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    let body = String::from_utf8(body).unwrap();
    Reply { status: status.parse().unwrap(), head, body }
}

fn read_head(stream: &mut BufReader<TcpStream>) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut head).unwrap() > 0, "it hung up after {head:?}");
    }
    head
}

/// Events of a stream, the last one included.
fn events(server: &Server, path: &str, body: &Value) -> Vec<String> {
    let mut stream = server.connect();
    stream.write_all(post(path, &body.to_string()).as_bytes()).unwrap();
    let mut stream = BufReader::new(stream);
    let head = read_head(&mut stream);
    assert!(head.contains("200 OK") && head.contains("text/event-stream"), "{head}");
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let events: Vec<String> = text
        .split_terminator("\n\n")
        .map(|event| event.strip_prefix("data: ").unwrap().to_owned())
        .collect();
    assert_eq!(events.last().map(String::as_str), Some("[DONE]"));
    events
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

#[test]
fn likelihoods_of_a_prompt_are_those_of_eval() {
    let w = Workshop::new();
    let text = "Mira lost a lantern by the lake. Tom saw the bell in the barn.";
    w.write("one.jsonl", format!("{}\n", json!({ "text": text })));
    let result = w.ok_json("eval model --text one.jsonl --window 256");
    let perplexity = result["results"]["text"]["token_perplexity,none"].as_f64().unwrap();
    let server = Server::start(&w, "model");
    let request = json!({
        "model": "model", "prompt": text, "max_tokens": 0, "echo": true, "logprobs": 2,
        "temperature": 0, "seed": 1234,
    });
    let reply = server.complete(&request);
    let choice = &reply["choices"][0];
    assert_eq!((&choice["text"], &choice["finish_reason"]), (&text.into(), &"length".into()));
    assert_eq!(reply["object"], "text_completion");
    assert!(reply["id"].as_str().unwrap().starts_with("cmpl-"));
    let logprobs = &choice["logprobs"];
    let [tokens, own, top] = ["tokens", "token_logprobs", "top_logprobs"]
        .map(|name| logprobs[name].as_array().unwrap().as_slice());
    let offsets = numbers(&logprobs["text_offset"]);
    let counts = [tokens.len(), own.len(), top.len(), offsets.len()];
    assert_eq!(counts, [reply["usage"]["prompt_tokens"].as_u64().unwrap() as usize; 4]);
    assert_eq!(reply["usage"]["completion_tokens"], 0);
    assert!(own[0].is_null() && top[0].is_null());
    let own = numbers(&own[1..].to_vec().into());
    let mean = own.iter().sum::<f64>() / own.len() as f64;
    assert!(((-mean).exp() / perplexity - 1.0).abs() < 1e-6, "{mean} and {perplexity}");
    for (index, own) in own.iter().enumerate() {
        let top = top[index + 1].as_object().unwrap();
        let values: Vec<f64> = top.values().map(|value| value.as_f64().unwrap()).collect();
        assert!((2..=3).contains(&values.len()) && values.is_sorted_by(|a, b| a >= b), "{top:?}");
        assert_eq!(top[tokens[index + 1].as_str().unwrap()].as_f64(), Some(*own));
    }
    // Each token stands where its offset says.
    for (token, &offset) in tokens.iter().zip(&offsets).skip(1) {
        let (token, rest) = (token.as_str().unwrap(), &text[offset as usize..]);
        assert!(rest.starts_with(token), "{token:?} at {offset}");
    }
    server.stops();
}

#[test]
fn prompts_come_in_four_shapes_and_one_answer_has_them_all() {
    let w = Workshop::new();
    let server = Server::start(&w, "model --bos never --name tiny");
    let ask = |prompt: Value| {
        let request = json!({
            "prompt": prompt, "max_tokens": 1, "echo": true, "logprobs": 1, "temperature": 0,
            "model": "tiny",
        });
        server.complete(&request)["choices"].clone()
    };
    let one = ask(json!([5, 9, 200, 31]));
    assert_eq!(one.as_array().unwrap().len(), 1);
    let one = &one[0]["logprobs"];
    assert_eq!(one["tokens"].as_array().unwrap().len(), 5, "four of the prompt, and a new one");
    let both = ask(json!([[5, 9, 200, 31], [7]]));
    assert_eq!((&both[0]["index"], &both[1]["index"]), (&0.into(), &1.into()));
    let (alone, beside) = (
        numbers(&one["token_logprobs"].as_array().unwrap()[1..].to_vec().into()),
        numbers(&both[0]["logprobs"]["token_logprobs"].as_array().unwrap()[1..].to_vec().into()),
    );
    assert!(alone.iter().zip(&beside).all(|(a, b)| (a - b).abs() < 1e-5), "{alone:?} {beside:?}");
    assert_eq!(both[1]["logprobs"]["tokens"].as_array().unwrap().len(), 2);
    let text = ask(json!("the barn"));
    let beside = ask(json!(["the barn", "the lake"]));
    assert_eq!(beside[0]["text"], text[0]["text"]);
    let of = |choices: &Value| {
        let logprobs = choices[0]["logprobs"]["token_logprobs"].as_array().unwrap();
        numbers(&logprobs[1..].to_vec().into())
    };
    // Sums are taken in another order beside others.
    let (alone, beside) = (of(&text), of(&beside));
    assert_eq!((alone.len(), beside.len()), (3, 3));
    assert!(alone.iter().zip(&beside).all(|(a, b)| (a - b).abs() < 1e-5), "{alone:?} {beside:?}");
    // The longest prompts: with a new token, and with none.
    assert_eq!(ask(json!(vec![5; POSITIONS]))[0]["finish_reason"], "length");
    let scored = json!({ "prompt": vec![5; POSITIONS + 1], "max_tokens": 0, "echo": true });
    assert_eq!(server.complete(&scored)["usage"]["prompt_tokens"], POSITIONS + 1);
    let single = json!({ "prompt": [5], "max_tokens": 0, "echo": true, "logprobs": 0 });
    assert_eq!(server.complete(&single)["choices"][0]["logprobs"]["token_logprobs"], json!([null]));
    server.stops();
}

#[test]
fn texts_are_those_of_generate() {
    let w = Workshop::new();
    let result = w.ok_json("generate model -p hello -p worlds -n 12");
    let server = Server::start(&w, "model --batch-size 1 --dtype f32");
    let request = json!({
        "prompt": ["hello", "worlds"], "max_tokens": 12, "temperature": 0, "logprobs": 0,
    });
    let reply = server.complete(&request);
    for index in 0..2 {
        let (choice, expected) = (&reply["choices"][index], &result["results"][index]);
        assert_eq!(choice["text"], expected["text"]);
        assert_eq!(choice["finish_reason"], "length");
        let logprobs = &choice["logprobs"];
        assert_eq!(logprobs["tokens"].as_array().unwrap().len(), 12);
        assert_eq!(logprobs["text_offset"][0], 0);
        for (own, top) in numbers(&logprobs["token_logprobs"])
            .iter()
            .zip(logprobs["top_logprobs"].as_array().unwrap())
        {
            let top: Vec<&Value> = top.as_object().unwrap().values().collect();
            assert_eq!(top, [&json!(own)], "without others the token alone");
        }
    }
    assert_eq!(reply["usage"]["completion_tokens"], 24);
    // A stop string ends a text before it, and an echo comes before the text.
    let text = result["results"][0]["text"].as_str().unwrap();
    let stop: String = text.chars().skip(3).take(2).collect();
    let request = json!({
        "prompt": "hello", "max_tokens": 12, "temperature": 0, "stop": [stop, "never"], "echo": true,
    });
    let choice = &server.complete(&request)["choices"][0];
    let expected = text.split(&stop).next().unwrap();
    assert_eq!(choice["text"].as_str().unwrap(), format!("hello{expected}"));
    assert_eq!(choice["finish_reason"], "stop");
    // Drawn: a seed gives the same again, choices and requests without one differ.
    let drawn = |seed: Option<i64>| {
        let request = json!({ "prompt": "hello", "n": 2, "max_tokens": 9, "seed": seed, "top_p": 0.99,
                              "temperature": 1.5 });
        let reply = server.complete(&request);
        [0, 1].map(|index| reply["choices"][index]["text"].as_str().unwrap().to_owned())
    };
    let first = drawn(Some(-7));
    assert_eq!(first, drawn(Some(-7)));
    assert_ne!(first[0], first[1]);
    assert_ne!(drawn(None), drawn(None));
    server.stops();
}

#[test]
fn pieces_of_a_stream_are_the_answer() {
    let w = Workshop::new();
    let server = Server::start(&w, "model");
    let mut request = json!({ "prompt": "Tom saw", "max_tokens": 20, "temperature": 0, "echo": true,
                              "logprobs": 1 });
    let whole = server.complete(&request);
    request["stream"] = true.into();
    request["stream_options"] = json!({ "include_usage": true });
    let events = events(&server, "/v1/completions", &request);
    let parsed: Vec<Value> = events[..events.len() - 1]
        .iter()
        .map(|event| serde_json::from_str(event).unwrap())
        .collect();
    let (last, pieces) = parsed.split_last().unwrap();
    assert_eq!(last["usage"], whole["usage"]);
    assert!(pieces.len() > 3, "{events:?}");
    let choices: Vec<&Value> = pieces.iter().map(|piece| &piece["choices"][0]).collect();
    let text: String = choices.iter().map(|choice| choice["text"].as_str().unwrap()).collect();
    assert_eq!(text, whole["choices"][0]["text"].as_str().unwrap());
    let tokens: Vec<Value> = choices
        .iter()
        .flat_map(|choice| choice["logprobs"]["tokens"].as_array().unwrap().clone())
        .collect();
    assert_eq!(Value::from(tokens), whole["choices"][0]["logprobs"]["tokens"]);
    let finished = choices.iter().filter(|choice| !choice["finish_reason"].is_null());
    assert_eq!(finished.count(), 1);
    server.stops();
}

#[test]
fn chats_go_through_the_template() {
    let w = Workshop::new();
    let template = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}\
                    {% if add_generation_prompt %}[assistant]{% endif %}";
    w.write("model/chat_template.jinja", template);
    let expected = w.ok_json("generate model -p [user]hello[assistant] -n 6 --bos never");
    let expected = &expected["results"][0]["text"];
    let server = Server::start(&w, "model");
    let mut request = json!({
        "messages": [{ "role": "user", "content": [{ "type": "text", "text": "hello" }] }],
        "max_completion_tokens": 6, "temperature": 0,
    });
    let reply = server.post("/v1/chat/completions", &request.to_string()).json();
    assert_eq!(reply["object"], "chat.completion");
    let message = &reply["choices"][0]["message"];
    assert_eq!((&message["role"], &message["content"]), (&"assistant".into(), expected));
    request["stream"] = true.into();
    let events = events(&server, "/v1/chat/completions", &request);
    let mut text = String::new();
    for event in &events[..events.len() - 1] {
        let event: Value = serde_json::from_str(event).unwrap();
        assert_eq!(event["object"], "chat.completion.chunk");
        text.push_str(event["choices"][0]["delta"]["content"].as_str().unwrap());
    }
    assert_eq!(text, expected.as_str().unwrap());
    server.stops();
}

#[test]
fn the_model_is_listed_and_one_connection_serves_many_requests() {
    let w = Workshop::new();
    let server = Server::start(&w, "model --host 127.0.0.1 --limits tokens=64,waiting=8");
    assert_eq!(server.get("/health").json()["status"], "ok");
    let listed = server.get("/v1/models?limit=3").json();
    let model = &listed["data"][0];
    assert_eq!((&model["id"], &model["max_model_len"]), (&"model".into(), &POSITIONS.into()));
    assert_eq!(&server.get("/v1/models/model").json(), model);
    // Two requests at once, then one more.
    let mut stream = server.connect();
    let body = json!({ "prompt": "hello", "max_tokens": 2 }).to_string();
    let both = format!("{}GET /health HTTP/1.1\r\nHost: x\r\n\r\n", post("/v1/completions", &body));
    stream.write_all(both.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    assert_eq!(read_reply(&mut reader).json()["usage"]["completion_tokens"], 2);
    assert_eq!(read_reply(&mut reader).status, 200);
    // A client that asks before it sends.
    let request =
        post("/v1/completions", &body).replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n");
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    stream.write_all(format!("{head}\r\n\r\n").as_bytes()).unwrap();
    assert!(read_head(&mut reader).starts_with("HTTP/1.1 100"));
    stream.write_all(body.as_bytes()).unwrap();
    assert_eq!(read_reply(&mut reader).status, 200);
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    assert!(read_reply(&mut reader).head.contains("Connection: close"));
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    server.stops();
}

#[test]
fn eight_clients_at_once_get_what_each_would_get_alone() {
    let w = Workshop::new();
    let server = Server::start(&w, "model");
    let request = |index: usize| {
        let tokens: Vec<usize> = (0..=index * 3).map(|at| (at * 31 + index * 7) % VOCAB).collect();
        json!({ "prompt": tokens, "max_tokens": 1 + index, "echo": true, "logprobs": 3,
                "temperature": 0 })
    };
    let alone: Vec<Value> = (0..8).map(|index| server.complete(&request(index))).collect();
    std::thread::scope(|scope| {
        for (index, alone) in alone.iter().enumerate() {
            let (server, request) = (&server, request(index));
            scope.spawn(move || {
                for _ in 0..10 {
                    let reply = server.complete(&request);
                    let [found, expected] = [&reply, alone].map(|reply| &reply["choices"][0]);
                    assert_eq!(found["text"], expected["text"]);
                    let [found, expected] = [found, expected].map(|choice| {
                        let own = choice["logprobs"]["token_logprobs"].as_array().unwrap();
                        numbers(&own[1..].to_vec().into())
                    });
                    assert_eq!(found.len(), expected.len());
                    assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5));
                }
            });
        }
    });
    server.stops();
}
