use super::Engine;
use linwright_tensor::Metered;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Value, escape_formatter};
use minijinja_contrib::pycompat::unknown_method_callback;

/// Counts what templates allocate.
#[global_allocator]
static ALLOCATOR: Metered = Metered;

/// The most that a template may hold at a time.
const MAX_BYTES: usize = 300 << 20;

fn engine() -> Engine {
    let syntax = SyntaxConfig::default();
    Engine::new(syntax, 2_000_000, escape_formatter, unknown_method_callback)
}

fn render(template: &str) -> Result<String, String> {
    let variables = Value::from(Serde(serde_json::json!({
        "messages": [{"role": "user", "content": "a b"}, {"role": "assistant", "content": "c"}],
    })));
    engine().render(template, variables).map_err(|fault| fault.error.to_string())
}

/// What a template says when it is stopped, and what it held until then.
fn stopped(template: &str) -> String {
    let (result, bytes) = Metered::peak_bytes(|| render(template));
    let shown: String = template.chars().take(120).collect();
    assert!(bytes < MAX_BYTES, "{shown}: {bytes} bytes");
    match result {
        Err(reason) => reason,
        Ok(text) => panic!("{shown}: made {} bytes", text.len()),
    }
}

#[test]
fn templates_without_measure_are_stopped_within_bounds() {
    let doubled = |step: &str| {
        format!(
            "{{% set n = namespace(x='xy') %}}{{% for i in range(40) %}}{{% set n.x = {step} %}}{{% endfor %}}{{{{ n.x|length }}}}"
        )
    };
    let big = "{% set n = namespace(x='xy' * 100000) %}";
    let printed = "y".repeat(50_000);
    for (template, said) in [
        ("{% set ns=namespace() %}{% set ns.a=ns %}{{ ns }}".into(), "namespace"),
        ("{% set ns=namespace() %}{% set ns.a=[ns] %}{{ ns }}".into(), "namespace"),
        ("{% set ns=namespace() %}{{ namespace(a=dict(b=ns)) }}".into(), "namespace"),
        (doubled("n.x ~ n.x"), "string of"),
        (doubled("n.x + n.x"), "string of"),
        (doubled("n.x * 2"), "string of"),
        (doubled("n.x|replace('x', 'xyxy')"), "string of"),
        (doubled("n.x.replace('', 'xy')"), "string of"),
        (doubled("'%s%s'|format(n.x, n.x)"), "string of"),
        (doubled("'{0}{0}'.format(n.x)"), "string of"),
        (doubled("[n.x, n.x]|join"), "string of"),
        (doubled("n.x.join([n.x, n.x])"), "string of"),
        (doubled("[n.x, n.x]"), "items"),
        (doubled("[n.x, n.x]|string"), "string of"),
        (doubled("(n.x, n.x)"), "items"),
        (doubled("{'a': n.x, 'b': n.x}"), "items"),
        (doubled("(n.x|list) + (n.x|list)"), "items"),
        (doubled("[n.x]").replace("range(40)", "range(9000)"), "deep"),
        (doubled("[1]|batch(1000000000, n.x)"), "items"),
        (doubled("[1]|slice(1000000000, n.x)"), "items"),
        (doubled("[1] * 100000000"), "items"),
        (doubled("n.x|indent(1000000000, true)"), "string of"),
        (doubled("'%1000000000d'|format(1)"), "width"),
        (doubled("'%*d'|format(1000000000, 1)"), "width"),
        (doubled("'{:>1000000000}'.format(1)"), "width"),
        (doubled("'{:>{}}'.format(1, 1000000000)"), "width"),
        (doubled("[n.x, n.x]|tojson"), "string of"),
        (doubled("1|tojson(indent=1000000000)"), "string of"),
        (format!("{big}{{% set l = [n.x] * 90000 %}}"), "string of"),
        (format!("{big}{{{{ range(90000)|map('replace', '1', n.x)|list }}}}"), "bytes of values"),
        (
            format!("{big}{{% for i in range(90000) %}}{{% set n.x = n.x ~ i %}}{{% endfor %}}"),
            "bytes of values",
        ),
        (
            format!(
                "{{% set x %}}{{% for i in range(90000) %}}{printed}{{% endfor %}}{{% endset %}}"
            ),
            "prints",
        ),
        (
            format!(
                "{{% macro m() %}}{{% for i in range(90000) %}}{printed}{{% endfor %}}{{% endmacro %}}{{{{ m() }}}}"
            ),
            "prints",
        ),
        (
            doubled("n.x[0:]").replace("range(40)", "range(90000)").replace("'xy'", "'x' * 90000"),
            "bytes of values",
        ),
        (format!("{{{{ {}1 }}}}", "-".repeat(30_000)), "operators"),
        (format!("{{{{ {}1 }}}}", "not ".repeat(30_000)), "operators"),
        (format!("{{{{ 1{} }}}}", "+1".repeat(30_000)), "operators"),
        (format!("{{{{ x{} }}}}", ".a".repeat(30_000)), "operators"),
        (format!("{{{{ x{} }}}}", "[0]".repeat(30_000)), "operators"),
        (format!("{{{{ x{} }}}}", "|list".repeat(30_000)), "operators"),
        (format!("{{{{ {}1 }}}}", "1 if 1 else ".repeat(30_000)), "operators"),
        (format!("{{% if 1 %}}{}{{% endif %}}", "{% elif 1 %}".repeat(30_000)), "elif"),
        (format!("{{{{ 'a'|map('map'{}) }}}}", ", 'map'".repeat(30_000)), "arguments"),
        ("{% for i in [1] %}{{ loop.cycle() }}{% endfor %}".into(), "cycle"),
    ] {
        let reason = stopped(&template);
        assert!(
            reason.contains(said),
            "{said}: {reason}: {}",
            &template[..template.len().min(150)]
        );
    }
}

#[test]
fn expressions_as_deep_as_is_allowed_are_computed() {
    for (template, want) in [
        (format!("{{{{ {}1 }}}}", "- ".repeat(398)), "1"),
        (format!("{{{{ 1{} }}}}", "+1".repeat(399)), "400"),
        (format!("{{{{ {}1{} }}}}", "[".repeat(70), "]".repeat(70)), "["),
        (format!("{{{{ {}1 }}}}", "0 if 0 else ".repeat(70)), "1"),
        (format!("{{% if 0 %}}{}{{% else %}}z{{% endif %}}", "{% elif 0 %}".repeat(140)), "z"),
    ] {
        let text = render(&template).unwrap_or_else(|error| panic!("{error}: {template}"));
        assert!(text.starts_with(want), "{text}");
    }
}

#[test]
fn what_keeps_account_changes_no_result() {
    for (template, want) in [
        ("{{ 'ab' * 3 }} {{ 2 * 'c' }} {{ [1] * 2 }}", "ababab cc [1, 1]"),
        ("{{ 3 * 4 }} {{ 2 * 1.5 }} {{ true * 3 }}", "12 3.0 3"),
        ("{{ messages[1:] | length }} {{ 'abc'[::-1] }}", "1 cba"),
        ("{% set n = namespace(a=1) %}{% set n.a = n.a + 1 %}{{ n.a }}", "2"),
        ("{% set n = namespace({'a': [1]}) %}{% set n.b = 2 %}{{ n }}", "{'a': [1], 'b': 2}"),
        ("{% for m in messages recursive %}{{ m.role }},{% endfor %}", "user,assistant,"),
        ("{% for i in range(3) %}{{ loop.cycle('a', 'b') }}{% endfor %}", "aba"),
        ("{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f(1) ~ f('b') }}", "<1><b>"),
        ("{% macro w() %}[{{ caller() }}]{% endmacro %}{% call w() %}in{% endcall %}", "[in]"),
        ("{% set x %}a{{ 1 }}{% endset %}{{ x }}{% filter upper %}b{% endfilter %}", "a1B"),
        ("{% if messages[0].content == 'a b' and not false %}y{% else %}n{% endif %}", "y"),
        ("{{ messages | map(attribute='role') | join(', ') }}", "user, assistant"),
        ("{{ messages | selectattr('role', 'equalto', 'user') | list | length }}", "1"),
        ("{{ 'a,b'.split(',') }}{{ 'x-y' | replace('-', '+') }}", "['a', 'b']x+y"),
        ("{{ 'In 2024 %s: %5.1f' | format('x', 2) }}", "In 2024 x:   2.0"),
        ("{{ 'In 2024 {} {:>3}'.format('x', 2) }}", "In 2024 x   2"),
        ("{{ {'a': 1}.items() | list }}{{ [3, 1] | sort | first }}", "[('a', 1)]1"),
        ("{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}", "a1"),
        ("{{ 'a\nb' | indent(2) }}", "a\n  b"),
        ("{% block b %}{{ 'x' ~ 1 }}{% endblock %}", "x1"),
        (
            "{% for i in range(9) if i is odd %}{% if i > 5 %}{% break %}{% endif %}{{ i }}{% endfor %}",
            "135",
        ),
    ] {
        assert_eq!(render(template).as_deref(), Ok(want), "{template}");
    }
}

#[test]
fn faults_name_their_line() {
    let line = |template: &str| engine().render(template, Value::UNDEFINED).unwrap_err().line;
    assert_eq!(line("a\n{{ 'x' * 3 }}\n{{ 1 + 'a' }}"), Some(3));
    assert_eq!(line(&format!("a\n{{{{ {}1 }}}}", "-".repeat(5000))), Some(2));
    assert_eq!(line("a\n{% for x in %}"), Some(2));
    assert!(render("{{ debug() }}").unwrap_err().contains("unknown"));
}

#[test]
fn long_lists_of_messages_are_gone_through() {
    // Every message adds to a list and looks at the rest of the chat.
    let messages: Vec<_> = (0..1000)
        .map(|i| serde_json::json!({"role": "user", "content": format!("{i} {}", "word ".repeat(50))}))
        .collect();
    let template = "{% set n = namespace(l=[], t='') %}{% for m in messages %}\
        {% set n.l = n.l + [m.content|trim] %}{% set rest = messages[loop.index:] %}\
        {{ rest|length }}{{ m.content.split(' ')[0] }}{% endfor %}{{ n.l|length }}";
    let variables = Value::from(Serde(serde_json::json!({ "messages": messages })));
    let text = engine().render(template, variables).unwrap_or_else(|f| panic!("{}", f.error));
    assert!(text.ends_with("01000") || text.ends_with("9991000"), "{}", &text[text.len() - 20..]);
}
