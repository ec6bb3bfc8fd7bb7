use super::{ChatOptions, Date, Message, Tokenizer};
use crate::tokenizer::TokenizerError;
use serde_json::{Value, json};
use std::path::Path;

const VOCAB: &str = "[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\n";

fn tokenizer(settings: &Value, files: &[(&str, &str)]) -> Result<Tokenizer, TokenizerError> {
    let settings = settings.to_string();
    let own = [("vocab.txt", VOCAB), ("tokenizer_config.json", settings.as_str())];
    let files: Vec<(String, Vec<u8>)> = own
        .iter()
        .chain(files)
        .map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()))
        .collect();
    Tokenizer::from_files(Path::new("x"), &files, None).map(Option::unwrap)
}

fn chat(template: &str) -> Result<String, TokenizerError> {
    tokenizer(&json!({ "chat_template": template }), &[])?.chat(&[Message::new("user", "hi")], true)
}

#[test]
fn templates_are_found_in_their_order() {
    let messages = [Message::new("user", "hi")];
    let named = json!({"chat_template": [
        {"name": "default", "template": "D {{ cls_token }}"},
        {"name": "tool_use", "template": "T"},
        {"name": "rag", "template": "R {{ documents[0].title }}"},
    ]});
    let many = tokenizer(&named, &[]).unwrap();
    assert!(many.has_chat());
    assert_eq!(many.chat(&messages, false).unwrap(), "D [CLS]");
    let tools = ChatOptions { tools: Some(json!([])), ..ChatOptions::default() };
    assert_eq!(many.chat_with(&messages, &tools).unwrap(), "T");
    let rag = ChatOptions {
        template: Some("rag".into()),
        documents: Some(json!([{"title": "X"}])),
        ..ChatOptions::default()
    };
    assert_eq!(many.chat_with(&messages, &rag).unwrap(), "R X");
    let other = ChatOptions { template: Some("no".into()), ..ChatOptions::default() };
    let error = many.chat_with(&messages, &other).unwrap_err().to_string();
    assert!(error.contains("\"no\"; there are: default, tool_use, rag"), "{error}");

    let file = [("chat_template.jinja", "J"), ("chat_template.json", r#"{"chat_template": "S"}"#)];
    assert_eq!(tokenizer(&named, &file).unwrap().chat(&messages, false).unwrap(), "J");
    let json = tokenizer(&json!({}), &file[1..]).unwrap();
    assert_eq!(json.chat(&messages, false).unwrap(), "S");
    let none = tokenizer(&json!({}), &[]).unwrap();
    assert!(!none.has_chat());
    let error = none.chat(&messages, false).unwrap_err();
    assert!(matches!(error, TokenizerError::NoTemplate { .. }), "{error}");
}

#[test]
fn the_date_is_given_or_that_of_today() {
    let text = "{{ strftime_now('%d %b %Y') if strftime_now is defined else 'no date' }}";
    let dated = ChatOptions { date: Date::new(2024, 7, 26), ..ChatOptions::default() };
    let templated = tokenizer(&json!({ "chat_template": text }), &[]).unwrap();
    assert_eq!(templated.chat_with(&[Message::new("user", "")], &dated).unwrap(), "26 Jul 2024");
    assert!(templated.chat_asks_date());
    assert_eq!(chat("{{ strftime_now('%F') }}").unwrap(), Date::today().to_string());
    assert!(!tokenizer(&json!({"chat_template": "x"}), &[]).unwrap().chat_asks_date());
    // A time of day is that of the date, or the clock's.
    let timed = tokenizer(&json!({ "chat_template": "{{ strftime_now('%FT%T') }}" }), &[]).unwrap();
    assert!(timed.chat_asks_time() && !templated.chat_asks_time());
    let at = ChatOptions { date: "2024-07-26T14:05:09".parse().ok(), ..ChatOptions::default() };
    let messages = [Message::new("user", "")];
    assert_eq!(timed.chat_with(&messages, &at).unwrap(), "2024-07-26T14:05:09");
    let seconds = |text: &str| text.parse::<u64>().unwrap();
    let before = seconds(&Date::now().format("%s"));
    let printed = seconds(&chat("{{ strftime_now('%s') }}").unwrap());
    assert!((before..before + 600).contains(&printed), "{before} {printed}");
}

#[test]
fn what_a_template_misses_is_named_beside_what_there_is() {
    for (template, said) in [
        (
            "{{ messages[0].content }}{{ persona.name }}",
            "field `persona` is missing; the fields are [",
        ),
        ("{% for m in messages %}{{ m.name.first }}{% endfor %}", "undefined"),
        ("{% set a = 1 %}{{ a }}{{ extra | tojson }}", "field `extra` is missing"),
        ("{{ tools if tools is defined }}{{ config.x.y }}", "field `config` is missing"),
    ] {
        let error = chat(template).unwrap_err().to_string();
        assert!(error.contains(said), "{template}: {error}");
    }
    let error = chat("{{ persona.name }}").unwrap_err().to_string();
    for there in ["\"messages\"", "\"add_generation_prompt\"", "\"tools\"", "\"cls_token\""] {
        assert!(error.contains(there), "{error}");
    }
}

#[test]
fn failures_name_template_line_and_reason() {
    for (template, line, said) in [
        ("a\n{{ raise_exception('no\nway') }}", 2, "no\nway"),
        ("a\nb\n{% for x in %}", 3, "syntax error"),
        ("{% if true %}", 1, "syntax error"),
        ("\n{{ messages[0].content.none.more }}", 2, "undefined"),
        ("{{ messages[0] + 1 }}", 1, "+"),
        ("{{ nothing | tojson }}", 1, "undefined"),
        ("{{ 1 | tojson(indent=99) }}", 1, "indent"),
        ("{{ 1 | tojson(oops=1) }}", 1, "oops"),
        ("{% include 'secret' %}", 1, "secret"),
        ("{{ messages.pop() }}", 1, "pop"),
    ] {
        let error = chat(template).unwrap_err();
        let shown = error.to_string();
        let TokenizerError::Template { name, line: found, reason, .. } = error else {
            panic!("{shown}")
        };
        assert_eq!((name.as_str(), found), ("default", line), "{shown}");
        assert!(reason.contains(said), "{said}: {shown}");
        assert!(shown.starts_with("x/tokenizer_config.json: chat template \"default\""), "{shown}");
    }
    let templated = tokenizer(&json!({"chat_template": "x"}), &[]).unwrap();
    assert!(templated.chat(&[], true).unwrap_err().to_string().contains("without messages"));
    for wrong in [json!(5), json!(["x"]), json!([{"name": "a"}]), json!({"a": 1})] {
        // The error is reported only when a template is requested.
        let faulty = tokenizer(&json!({ "chat_template": wrong }), &[]).unwrap();
        assert!(faulty.has_chat());
        let error = faulty.chat(&[Message::new("user", "hi")], true).unwrap_err().to_string();
        assert!(error.contains("x/tokenizer_config.json: chat_template"), "{error}");
    }
    let large = "x".repeat(2 << 20);
    let faulty = tokenizer(&json!({}), &[("chat_template.jinja", &large)]).unwrap();
    let error = faulty.chat(&[Message::new("user", "hi")], true).unwrap_err();
    assert!(error.to_string().contains("2097152 bytes"), "{error}");
}

#[test]
fn templates_without_end_are_stopped() {
    let numbers = "{% set n = range(90000) %}";
    let steps =
        format!("{numbers}{{% for i in n %}}{{% for j in n %}}{{% endfor %}}{{% endfor %}}");
    let output =
        format!("{numbers}{{% set x = 'x' * 90000 %}}{{% for i in n %}}{{{{ x }}}}{{% endfor %}}");
    let macros = "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}".to_owned();
    let nested = format!("{}x{}", "{% if true %}".repeat(5000), "{% endif %}".repeat(5000));
    let brackets = format!("{{{{ {}1{} }}}}", "(".repeat(5000), ")".repeat(5000));
    for (template, said) in [
        (steps, "steps"),
        (output, "bytes"),
        (macros, "recursion"),
        (nested, "recursion"),
        (brackets, "operators"),
        ("{{ 'x' * 2000000000 }}".to_owned(), "a string of more"),
        ("{{ range(1000000000) | list }}".to_owned(), "too many"),
    ] {
        let error = chat(&template).unwrap_err().to_string();
        assert!(error.contains(said), "{said}: {}", error.chars().take(300).collect::<String>());
    }
}
