//! Parses requests of OpenAI's API into generation requests for the model.

use super::error::ApiError;
use super::fields::Fields;
use linwright::jobs::ChatTemplateOptions;
use linwright::model::generate::{Ask, Choice, Limits, Ranks};
use linwright::model::tokenizer::chat::Message;
use linwright::model::tokenizer::{Bos, Tokenizer, TokenizerError, beginning};
use linwright::tensor::RngKey;
use serde_json::{Map, Value};

/// Default `max_tokens` of completions, as in OpenAI's API.
const NEW_TOKENS: usize = 16;
/// Largest `logprobs`: alternatives reported per token position.
const MAX_LOGPROBS: usize = 20;
/// Largest `n`: choices per prompt.
const MAX_CHOICES: usize = 16;
/// Largest number of prompts per request.
const MAX_PROMPTS: usize = 1024;
/// Largest number of stop strings, and their largest length in bytes.
const MAX_STOPS: usize = 64;
const MAX_STOP_BYTES: usize = 1024;
/// Largest number of tokens of all choices of a request, each counted once per reported
/// alternative: a response of some ten megabytes.
const MAX_TOTAL_LOGPROBS: usize = 1 << 18;
/// Largest temperature of OpenAI's API.
const MAX_TEMPERATURE: f64 = 2.0;

/// Field of variables for the chat template, as other servers call it.
const TEMPLATE_ARGS: &str = "chat_template_kwargs";

/// Context for parsing requests.
pub(super) struct Rules<'a> {
    pub(super) tokenizer: &'a Tokenizer,
    pub(super) bos: Bos,
    /// What the chat template gets.
    pub(super) template: &'a ChatTemplateOptions,
    /// End-of-sequence tokens.
    pub(super) end_tokens: &'a [u32],
    pub(super) vocab: usize,
    pub(super) positions: usize,
    /// Largest number of bytes of text per token, if bounded.
    pub(super) longest_token: Option<usize>,
    /// Largest number of new tokens per choice.
    pub(super) most_tokens: usize,
    /// Name of the served model.
    pub(super) name: &'a str,
}

/// A prompt.
#[derive(Debug)]
pub(super) struct Prompt {
    pub(super) tokens: Vec<u32>,
    /// Number of special tokens before the text.
    pub(super) added: usize,
    /// The text, for `echo`.
    pub(super) text: String,
}

/// A prompt as the client sent it.
#[derive(Debug)]
enum Raw {
    Text(String),
    Tokens(Vec<u32>),
    /// A conversation formatted by the chat template, with special tokens.
    Chat(String),
}

/// A parsed request before its prompts are tokenized: no larger than its body.
#[derive(Debug)]
pub(super) struct Draft {
    order: Order,
    /// The prompts with their names in messages.
    prompts: Vec<(String, Raw)>,
    /// Requested number of new tokens.
    asked: Option<usize>,
    /// Default number of new tokens, within the context length.
    default: usize,
}

/// A parsed request with tokenized prompts.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) prompts: Vec<Prompt>,
    /// Number of choices per prompt.
    pub(super) choices: usize,
    pub(super) echo: bool,
    /// Number of alternatives reported per position (`logprobs`), if any.
    pub(super) logprobs: Option<usize>,
    pub(super) stop: Vec<String>,
    pub(super) stream: bool,
    /// Whether a stream ends with token counts.
    pub(super) usage: bool,
    pub(super) is_chat: bool,
    choice: Choice,
    limits: Limits,
}

impl Order {
    /// The generation requests for the model; choices of one prompt are adjacent.
    pub(super) fn asks(&self) -> Vec<Ask> {
        let ranks = self.logprobs.map(|top| Ranks { top, prompt: self.echo });
        let indices = (0..).zip(self.prompts.iter().flat_map(|p| vec![p; self.choices]));
        let ask = |(index, prompt): (u64, &Prompt)| Ask {
            prompt: prompt.tokens.clone(),
            choice: Choice { key: self.choice.key.fold_index(index), ..self.choice.clone() },
            limits: self.limits.clone(),
            ranks,
        };
        indices.map(ask).collect()
    }

    fn within_bounds(self) -> Result<Self, ApiError> {
        let each = |prompt: &Prompt| prompt.tokens.len() + self.limits.new_tokens;
        let tokens = self.choices * self.prompts.iter().map(each).sum::<usize>();
        let logprobs = tokens.saturating_mul(1 + self.logprobs.unwrap_or(0));
        if logprobs > MAX_TOTAL_LOGPROBS {
            return Err(ApiError::new(
                400,
                format!(
                    "the request asks for {tokens} tokens in all, with the {} most likely ones at each, \
                 which are {logprobs} log-probabilities; a request may have {MAX_TOTAL_LOGPROBS}: \
                 divide it",
                    self.logprobs.unwrap_or(0)
                ),
            ));
        }
        Ok(self)
    }
}

impl Raw {
    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Chat(text) => text.len(),
            Self::Tokens(tokens) => size_of_val(tokens.as_slice()),
        }
    }

    /// A lower bound of its number of tokens, and whether it may have more, in words.
    fn least_tokens(&self, rules: &Rules<'_>) -> (usize, &'static str) {
        match (self, rules.longest_token) {
            (Self::Tokens(tokens), _) => (tokens.len(), ""),
            (Self::Text(text) | Self::Chat(text), Some(most)) => {
                (text.len().div_ceil(most), "at least ")
            }
            (Self::Text(_) | Self::Chat(_), None) => (0, "at least "),
        }
    }
}

impl Draft {
    /// Parses the body of a completion; `number` counts requests.
    ///
    /// # Errors
    /// With an error response that names the invalid field.
    pub(super) fn completion(
        mut fields: Fields,
        rules: &Rules<'_>,
        number: u64,
    ) -> Result<Self, ApiError> {
        rules.check_model(&mut fields)?;
        let expected = "a string, a list of tokens, or a list of such";
        let prompts = rules.prompts(fields.required("prompt", expected)?)?;
        let echo = fields.flag("echo")?;
        let logprobs = fields.count("logprobs", 0..=MAX_LOGPROBS)?;
        let asked = fields.count("max_tokens", 0..=rules.most_tokens)?;
        if asked == Some(0) && !echo {
            let message = "max_tokens is 0; expected at least 1 without echo";
            return Err(ApiError::new(400, message).param("max_tokens"));
        }
        let default = NEW_TOKENS.min(rules.most_tokens);
        let order = Order { echo, logprobs, ..rest(&mut fields, rules, number)? };
        let n = order.choices as u64;
        fields.neutral("best_of", |best| best.as_u64() == Some(n), "the value of n")?;
        fields.neutral("suffix", |suffix| suffix == "", "no suffix")?;
        fields.finish()?;
        Ok(Self { order, prompts, asked, default })
    }

    /// Parses the body of a chat completion.
    ///
    /// # Errors
    /// With an error response that names the invalid field.
    pub(super) fn chat(
        mut fields: Fields,
        rules: &Rules<'_>,
        number: u64,
    ) -> Result<Self, ApiError> {
        rules.check_model(&mut fields)?;
        let messages = fields.required("messages", "a list of messages")?;
        let prompt = rules.conversation(messages, fields.take(TEMPLATE_ARGS))?;
        let most = 1..=rules.most_tokens;
        let old = fields.count("max_tokens", most.clone())?;
        let asked = fields.count("max_completion_tokens", most)?.or(old);
        let order = Order { is_chat: true, ..rest(&mut fields, rules, number)? };
        let none = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
        fields.neutral("tools", none, "no tools")?;
        fields.neutral("tool_choice", |one| one == "none" || one == "auto", "none")?;
        fields.neutral("logprobs", |one| one == false, "false")?;
        fields.neutral("top_logprobs", |one| one == 0, "0")?;
        fields.neutral("response_format", |one| one["type"] == "text", "text")?;
        fields.finish()?;
        let prompts = vec![("messages".to_owned(), prompt)];
        Ok(Self { order, prompts, asked, default: rules.most_tokens })
    }

    /// Bytes of all prompts; a token counts as the size of its id.
    pub(super) fn bytes(&self) -> usize {
        self.prompts.iter().map(|(_, raw)| raw.bytes()).sum()
    }

    /// Rejects prompts that cannot fit, before tokenizing: their bytes give a lower bound of their
    /// tokens.
    ///
    /// # Errors
    /// If a prompt is too long for the model.
    pub(super) fn fits(&self, rules: &Rules<'_>) -> Result<(), ApiError> {
        let least = self.prompts.iter().map(|(_, raw)| raw.least_tokens(rules));
        let (longest, at_least) = least.max().unwrap_or_default();
        self.new_tokens(rules, longest, at_least).map(drop)
    }

    /// Tokenizes the prompts.
    ///
    /// # Errors
    /// If a prompt cannot be encoded, or is too long for the model.
    pub(super) fn encode(self, rules: &Rules<'_>) -> Result<Order, ApiError> {
        let encode = |(name, raw): &(String, Raw)| rules.encode(name, raw);
        let prompts: Vec<Prompt> = self.prompts.iter().map(encode).collect::<Result<_, _>>()?;
        let longest = prompts.iter().map(|prompt| prompt.tokens.len()).max().unwrap_or(0);
        let new_tokens = self.new_tokens(rules, longest, "")?;
        let limits = Limits { new_tokens, ..self.order.limits };
        Order { prompts, limits, ..self.order }.within_bounds()
    }

    /// Number of new tokens of a choice after a prompt of `longest` tokens; errors show `at_least`
    /// before that number.
    fn new_tokens(
        &self,
        rules: &Rules<'_>,
        longest: usize,
        at_least: &str,
    ) -> Result<usize, ApiError> {
        // One more than there are positions, since the last token is not fed back.
        let room = (rules.positions + 1).saturating_sub(longest);
        let new_tokens = self.asked.unwrap_or(self.default.min(room.max(1)));
        if new_tokens > room || longest > rules.positions + 1 {
            return Err(ApiError::new(
                400,
                format!(
                    "the longest prompt has {at_least}{longest} tokens and max_tokens is {new_tokens}; \
                     the model has {} positions, and the last token needs none",
                    rules.positions
                ),
            )
            .code("context_length_exceeded"));
        }
        Ok(new_tokens)
    }
}

/// Parses the common fields of completions and chats, without prompts and new tokens.
fn rest(fields: &mut Fields, rules: &Rules<'_>, number: u64) -> Result<Order, ApiError> {
    let choices = fields.count("n", 1..=MAX_CHOICES)?.unwrap_or(1);
    let stream = fields.flag("stream")?;
    let choice = choice(fields, number)?;
    let stop = stop(fields)?;
    let usage = match fields.take("stream_options") {
        None => false,
        Some(options) => options["include_usage"].as_bool().ok_or_else(|| {
            ApiError::field("stream_options", &options, "an object with include_usage")
        })?,
    };
    for name in ["frequency_penalty", "presence_penalty"] {
        fields.neutral(name, |penalty| penalty.as_f64() == Some(0.0), "0")?;
    }
    let empty = |bias: &Value| bias.as_object().is_some_and(Map::is_empty);
    fields.neutral("logit_bias", empty, "an empty object")?;
    // The user has no effect.
    fields.take("user");
    let limits = Limits { new_tokens: 0, end_tokens: rules.end_tokens.to_vec() };
    let (prompts, echo, logprobs, is_chat) = (Vec::new(), false, None, false);
    Ok(Order { prompts, choices, echo, logprobs, stop, stream, usage, is_chat, choice, limits })
}

/// Parses the sampling options.
fn choice(fields: &mut Fields, number: u64) -> Result<Choice, ApiError> {
    let mut choice = Choice::greedy();
    choice.temperature = fields.number("temperature", 0.0..=MAX_TEMPERATURE)?.unwrap_or(1.0) as f32;
    choice.top_p = fields.number("top_p", 0.0..=1.0)?.map(|share| share as f32);
    choice.top_k = fields.count("top_k", 1..=1 << 24)?;
    choice.min_p = fields.number("min_p", 0.0..=1.0)?.map(|share| share as f32);
    if let Some(penalty) = fields.number("repetition_penalty", 1e-3..=1e3)? {
        choice.repetition_penalty = penalty as f32;
    }
    choice.key = match fields.take("seed") {
        None => RngKey::new(0).fold("request").fold_index(number),
        Some(seed) => match (seed.as_u64(), seed.as_i64()) {
            (Some(seed), _) => RngKey::new(seed),
            (None, Some(seed)) => RngKey::new(seed.cast_unsigned()),
            (None, None) => return Err(ApiError::field("seed", &seed, "a whole number")),
        },
    };
    Ok(choice)
}

/// Parses the stop strings.
fn stop(fields: &mut Fields) -> Result<Vec<String>, ApiError> {
    let Some(value) = fields.take("stop") else { return Ok(Vec::new()) };
    let expected = format!(
        "a string or a list of at most {MAX_STOPS} strings, each of 1 to {MAX_STOP_BYTES} bytes"
    );
    let strings = match &value {
        Value::String(one) => vec![one.clone()],
        Value::Array(many) => {
            many.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect()
        }
        _ => Vec::new(),
    };
    let listed = value.as_array().map_or(1, Vec::len);
    let fits = |one: &String| (1..=MAX_STOP_BYTES).contains(&one.len());
    if strings.len() != listed || listed > MAX_STOPS || !strings.iter().all(fits) {
        return Err(ApiError::field("stop", &value, expected));
    }
    Ok(strings)
}

impl Rules<'_> {
    /// Rejects requests for another model.
    fn check_model(&self, fields: &mut Fields) -> Result<(), ApiError> {
        match fields.take("model") {
            None => Ok(()),
            Some(Value::String(name)) if name == self.name => Ok(()),
            Some(other) => {
                let error = ApiError::field("model", &other, format!("{:?}", self.name));
                Err(error.status(404).code("model_not_found"))
            }
        }
    }

    /// Parses the prompts of a completion, in any of their four shapes, with their names in
    /// messages.
    fn prompts(&self, value: Value) -> Result<Vec<(String, Raw)>, ApiError> {
        let only = |raw| Ok(vec![("prompt".to_owned(), raw)]);
        let list = match value {
            Value::String(text) => return only(Raw::Text(text)),
            Value::Array(list) if list.iter().all(Value::is_number) && !list.is_empty() => {
                return only(self.tokens("prompt", &list)?);
            }
            Value::Array(list) => list,
            other => {
                let expected = "a string, a list of tokens, or a list of such";
                return Err(ApiError::field("prompt", &other, expected));
            }
        };
        if !(1..=MAX_PROMPTS).contains(&list.len()) {
            let expected = format!("1 to {MAX_PROMPTS} prompts");
            return Err(ApiError::field("prompt", &Value::Array(list), expected));
        }
        let one = |(index, one): (usize, Value)| {
            let name = format!("prompt[{index}]");
            let raw = match one {
                Value::String(text) => Raw::Text(text),
                Value::Array(tokens) => self.tokens(&name, &tokens)?,
                other => {
                    return Err(ApiError::field(name, &other, "a string or a list of tokens"));
                }
            };
            Ok((name, raw))
        };
        list.into_iter().enumerate().map(one).collect()
    }

    fn tokens(&self, name: &str, list: &[Value]) -> Result<Raw, ApiError> {
        let mut tokens = Vec::with_capacity(list.len());
        for (index, value) in list.iter().enumerate() {
            let token = value.as_u64().and_then(|token| u32::try_from(token).ok());
            let Some(token) = token.filter(|&token| (token as usize) < self.vocab) else {
                let expected = format!("a token, a whole number from 0 to {}", self.vocab - 1);
                return Err(ApiError::field(format!("{name}[{index}]"), value, expected));
            };
            tokens.push(token);
        }
        Ok(Raw::Tokens(tokens))
    }

    /// A tokenized prompt.
    fn encode(&self, name: &str, raw: &Raw) -> Result<Prompt, ApiError> {
        let prompt = match raw {
            Raw::Text(text) => {
                let first = self.tokenizer.first(self.bos)?;
                let encoded = self.tokenizer.encode(text, false).map_err(|error| {
                    ApiError::new(400, format!("{name} cannot be encoded: {error}")).param(name)
                })?;
                let of_text = encoded.len();
                let tokens = beginning(first, encoded);
                Prompt { added: tokens.len() - of_text, tokens, text: text.clone() }
            }
            Raw::Tokens(tokens) => {
                let text = self.tokenizer.decode(tokens, false).map_err(|error| match error {
                    TokenizerError::UnknownId { .. } => {
                        ApiError::new(400, format!("{name}: {error}"))
                    }
                    other => other.into(),
                })?;
                Prompt { tokens: tokens.clone(), added: 0, text }
            }
            // The template writes the special tokens, including the first.
            Raw::Chat(text) => {
                let tokens = self.tokenizer.encode(text, false)?;
                Prompt { tokens, added: 0, text: text.clone() }
            }
        };
        if prompt.tokens.is_empty() {
            let message = format!("{name} is empty; expected at least one token");
            return Err(ApiError::new(400, message).param(name));
        }
        Ok(prompt)
    }

    /// Formats the messages of a chat with the model's chat template, which receives these
    /// variables in addition to those of the server.
    fn conversation(&self, value: Value, variables: Option<Value>) -> Result<Raw, ApiError> {
        if !self.tokenizer.has_chat() {
            let message = "the model has no chat template; use /v1/completions";
            return Err(ApiError::new(400, message).code("no_chat_template"));
        }
        let Value::Array(list) = value else {
            return Err(ApiError::field("messages", &value, "a list of messages"));
        };
        let list = list.into_iter().enumerate();
        let messages: Vec<Message> =
            list.map(|(index, value)| message(index, value)).collect::<Result<_, _>>()?;
        let mut template = self.template.clone();
        if let Some(value) = variables {
            let wrong = |reason| ApiError::field(TEMPLATE_ARGS, &value, reason);
            let Value::Object(given) = value.clone() else {
                return Err(wrong("an object of variables".to_owned()));
            };
            let own = template.chat_template_args.take().unwrap_or_default();
            let all = own.with(given).map_err(|reason| wrong(format!("others: {reason}")))?;
            template.chat_template_args = Some(all);
        }
        let text = self
            .tokenizer
            .chat_with(&messages, &template.chat())
            .map_err(|error| ApiError::new(400, format!("messages: {error}")).param("messages"))?;
        Ok(Raw::Chat(text))
    }
}

/// Parses one message; text parts of its content are joined.
fn message(index: usize, mut value: Value) -> Result<Message, ApiError> {
    let name = format!("messages[{index}]");
    if let Some(Value::Array(parts)) = value.get("content") {
        let text = |(at, part): (usize, &Value)| match (part["type"].as_str(), &part["text"]) {
            (Some("text"), Value::String(text)) => Ok(text.clone()),
            _ => Err(ApiError::field(format!("{name}.content[{at}]"), part, "a part of text")),
        };
        let joined: String = parts.iter().enumerate().map(text).collect::<Result<_, _>>()?;
        value["content"] = joined.into();
    }
    match (value.get("role"), value.get("content")) {
        (Some(Value::String(_)), None | Some(Value::String(_) | Value::Null)) => {}
        _ => {
            return Err(ApiError::field(
                name,
                &value,
                "an object with the strings role and content",
            ));
        }
    }
    let shown = value.clone();
    serde_json::from_value(value).map_err(|error| {
        ApiError::field(
            name,
            &shown,
            format!("a message: {}", linwright::run::shown_reason(&error.to_string())),
        )
    })
}
