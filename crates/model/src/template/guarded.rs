//! Guards of the engine's filters, functions and methods, which check the size of a result before
//! it is computed.

use super::ledger::{Ledger, NODE_BYTES, check_items, check_text, refusal};
use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, State, Value, filters, functions};

/// Largest number of arguments of one call; each argument of `map` can name one more filter that
/// maps.
const MAX_ARGUMENTS: usize = 64;
const MAX_MAPS: usize = 8;
/// Largest number of digits of a width in a format.
const WIDEST: usize = 3;
/// Largest width given as a value.
const LARGEST_WIDTH: usize = 999;

/// Adds guards to the filters of an environment.
pub(super) fn guard_filters(environment: &mut Environment<'_>) {
    macro_rules! guarded {
        ($($name:literal => $filter:expr),* $(,)?) => {
            $(add(environment, $name, Value::from_function($filter));)*
        };
    }
    guarded! {
        "safe" => filters::safe, "escape" => filters::escape, "e" => filters::escape,
        "lower" => filters::lower, "upper" => filters::upper, "title" => filters::title,
        "capitalize" => filters::capitalize, "replace" => filters::replace,
        "length" => filters::length, "count" => filters::length,
        "dictsort" => filters::dictsort, "items" => filters::items, "reverse" => filters::reverse,
        "trim" => filters::trim, "join" => filters::join, "split" => filters::split,
        "lines" => filters::lines, "default" => filters::default, "d" => filters::default,
        "round" => filters::round, "abs" => filters::abs, "int" => filters::int,
        "float" => filters::float, "attr" => filters::attr, "first" => filters::first,
        "last" => filters::last, "min" => filters::min, "max" => filters::max,
        "sort" => filters::sort, "list" => filters::list, "string" => filters::string,
        "bool" => filters::bool, "batch" => filters::batch, "slice" => filters::slice,
        "sum" => filters::sum, "indent" => filters::indent, "select" => filters::select,
        "reject" => filters::reject, "selectattr" => filters::selectattr,
        "rejectattr" => filters::rejectattr, "map" => filters::map, "groupby" => filters::groupby,
        "unique" => filters::unique, "chain" => filters::chain, "zip" => filters::zip,
        "pprint" => filters::pprint, "format" => filters::format, "tojson" => filters::tojson,
    }
    environment.remove_global("debug");
    for (name, function) in [
        ("range", Value::from_function(functions::range)),
        ("dict", Value::from_function(functions::dict)),
    ] {
        environment.add_function(name, guarded(name, function));
    }
}

/// Adds a guarded filter.
pub(super) fn add(environment: &mut Environment<'_>, name: &'static str, filter: Value) {
    environment.add_filter(name, guarded(name, filter));
}

/// A guarded filter or function.
fn guarded(
    name: &'static str,
    inner: Value,
) -> impl Fn(&mut State<'_, '_>, Rest<ValueOrKwargs>) -> Result<Value, Error> {
    move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
        let args = args.into_values();
        check_call(state, name, &args)?;
        let value = inner.call(state, &args)?;
        Ledger::of(state).keep(value, makes_texts(name))
    }
}

/// Calls a guarded method. The value is the first of the checked arguments.
pub(super) fn method(
    state: &mut State<'_, '_>,
    value: &Value,
    name: &str,
    args: &[Value],
    inner: impl Fn(&mut State<'_, '_>, &Value, &str, &[Value]) -> Result<Value, Error>,
) -> Result<Value, Error> {
    let all: Vec<Value> = std::iter::once(value).chain(args).cloned().collect();
    match name {
        // The separator comes first.
        "join" if args.len() == 1 => check_join(state, &args[0], Some(value))?,
        _ => check_call(state, name, &all)?,
    }
    let result = inner(state, value, name, args)?;
    Ledger::of(state).keep(result, makes_texts(name))
}

/// Whether the strings inside a result are new.
fn makes_texts(name: &str) -> bool {
    matches!(
        name,
        "map" | "split" | "splitlines" | "lines" | "batch" | "slice" | "zip" | "groupby" | "items"
    )
}

/// Rejects a call with a too large result, before it runs.
fn check_call(state: &mut State<'_, '_>, name: &str, args: &[Value]) -> Result<(), Error> {
    let most = if name == "map" { MAX_MAPS } else { MAX_ARGUMENTS };
    if args.len() > most {
        return Err(refusal(format!("{name}: more than {most} arguments")));
    }
    let Some((value, rest)) = args.split_first() else { return Ok(()) };
    match name {
        "replace" => check_replace(value, rest),
        "join" => check_join(state, value, option(rest, 0, "d")?.as_ref()),
        "indent" => {
            let lines = value.as_str().map_or(0, |text| text.matches('\n').count() + 1);
            let width = option(rest, 0, "width")?.and_then(|width| width.as_usize()).unwrap_or(4);
            check_text(width.saturating_mul(lines))
        }
        "format" => check_format(value, rest),
        "batch" | "slice" => {
            let count = rest.first().and_then(Value::as_usize).unwrap_or(0);
            check_items(count)?;
            check_letters(value)
        }
        "split" => check_split(value, rest),
        "lines" | "splitlines" => {
            check_items(value.as_str().map_or(0, |text| text.matches('\n').count()))
        }
        "tojson" => check_json(state, value, rest),
        "list" | "map" | "select" | "reject" | "selectattr" | "rejectattr" | "sort" | "unique"
        | "groupby" | "chain" | "zip" | "sum" | "min" | "max" => {
            args.iter().try_for_each(check_letters)
        }
        _ => Ok(()),
    }?;
    // A printed argument is printed in full.
    match value.kind() {
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable if prints(name) => {
            Ledger::of(state).measure(value).map(|_| ())
        }
        _ => Ok(()),
    }
}

/// Whether a filter converts non-strings to strings.
fn prints(name: &str) -> bool {
    matches!(
        name,
        "string"
            | "pprint"
            | "escape"
            | "e"
            | "safe"
            | "lower"
            | "upper"
            | "title"
            | "capitalize"
            | "trim"
            | "replace"
            | "indent"
            | "split"
            | "lines"
            | "tojson"
    )
}

/// A positional or named argument.
fn option(args: &[Value], place: usize, name: &str) -> Result<Option<Value>, Error> {
    let named = args.last().and_then(|last| Kwargs::try_from(last.clone()).ok());
    match (args.get(place), named) {
        (Some(value), Some(_)) if place + 1 < args.len() => Ok(Some(value.clone())),
        (_, Some(named)) => named.get(name),
        (value, None) => Ok(value.cloned()),
    }
}

/// A long string must not be iterated over.
fn check_letters(value: &Value) -> Result<(), Error> {
    check_items(value.as_str().map_or(0, str::len))
}

fn check_replace(value: &Value, rest: &[Value]) -> Result<(), Error> {
    let printed = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let [from, to, ..] = rest else { return Ok(()) };
    for part in [value, from, to] {
        if !matches!(part.kind(), ValueKind::String | ValueKind::Number | ValueKind::Bool) {
            return Ok(());
        }
    }
    let (text, from, to) = (printed(value), printed(from), printed(to));
    let count = match from.is_empty() {
        true => text.chars().count() + 1,
        false => text.matches(&from).count(),
    };
    check_text(text.len().saturating_add(count.saturating_mul(to.len())))
}

fn check_join(
    state: &mut State<'_, '_>,
    value: &Value,
    separator: Option<&Value>,
) -> Result<(), Error> {
    let separator = separator.and_then(Value::as_str).map_or(0, str::len);
    let (count, text) = match value.as_str() {
        Some(text) => (text.chars().count(), text.len()),
        None => {
            let extent = Ledger::of(state).measure(value)?;
            (extent.nodes, extent.text)
        }
    };
    check_text(text.saturating_add(count.saturating_mul(separator)))
}

fn check_split(value: &Value, rest: &[Value]) -> Result<(), Error> {
    let Some(text) = value.as_str() else { return Ok(()) };
    let parts = match rest.first().and_then(Value::as_str) {
        Some("") => text.chars().count() + 2,
        Some(separator) => text.matches(separator).count() + 1,
        None => text.split_whitespace().count(),
    };
    let most = rest.get(1).and_then(Value::as_usize).unwrap_or(usize::MAX);
    check_items(parts.min(most.saturating_add(1)))
}

/// Rejects wide fields, and strings that are inserted many times.
fn check_format(value: &Value, rest: &[Value]) -> Result<(), Error> {
    let Some(format) = value.as_str() else { return Ok(()) };
    let fields = Fields::of(format);
    if fields.widest > WIDEST {
        return Err(refusal(format!("format: a width of more than {WIDEST} digits")));
    }
    let named: Option<Kwargs> = rest.last().and_then(|last| Kwargs::try_from(last.clone()).ok());
    let mut given = rest.to_vec();
    if let Some(named) = &named {
        for name in named.args() {
            given.push(named.get(name)?);
        }
    }
    let mut longest = LARGEST_WIDTH;
    for value in &given {
        if fields.widths_are_values {
            check_width(value)?;
        }
        longest = longest.max(text_of(value)?);
    }
    check_text(format.len().saturating_add(fields.count.saturating_mul(longest)))
}

/// Sum of the field widths in a format of either style: `%5d`, `{:>5}`.
#[derive(Default)]
struct Fields {
    count: usize,
    /// Largest number of digits in a field.
    widest: usize,
    /// `%*d`, `{:{}}`.
    widths_are_values: bool,
}

impl Fields {
    fn of(format: &str) -> Self {
        let mut fields = Self::default();
        let (mut percent, mut braces, mut digits) = (false, 0_usize, 0);
        for letter in format.chars() {
            match letter {
                '%' => percent = true,
                '{' => braces += 1,
                '}' => braces = braces.saturating_sub(1),
                letter if letter.is_alphabetic() => percent = false,
                _ => {}
            }
            fields.count += usize::from(matches!(letter, '%' | '{'));
            fields.widths_are_values |= braces > 1 || (percent && letter == '*');
            digits = match letter.is_numeric() && (percent || braces > 0) {
                true => digits + 1,
                false => 0,
            };
            fields.widest = fields.widest.max(digits);
        }
        fields
    }
}

fn check_width(value: &Value) -> Result<(), Error> {
    match value.as_usize() {
        Some(width) if width > LARGEST_WIDTH => {
            Err(refusal(format!("format: a width of more than {LARGEST_WIDTH}")))
        }
        _ => Ok(()),
    }
}

/// Size in bytes of a value's string.
fn text_of(value: &Value) -> Result<usize, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.len());
    }
    let extent = Ledger::default().measure(value)?;
    Ok(extent.text.saturating_add(extent.nodes * NODE_BYTES))
}

/// Rejects indents and separators that make the value too large.
fn check_json(state: &mut State<'_, '_>, value: &Value, rest: &[Value]) -> Result<(), Error> {
    let mut between = 8;
    let width = |value: &Value| match value.as_str() {
        Some(text) => text.len(),
        None => value.as_usize().unwrap_or(0),
    };
    let indent = option(rest, 0, "indent")?.map_or(0, |value| width(&value));
    if let Some(separators) = option(rest, usize::MAX, "separators")?
        && matches!(separators.kind(), ValueKind::Seq)
    {
        between += separators.try_iter()?.map(|part| width(&part)).sum::<usize>();
    }
    let extent = Ledger::of(state).measure(value)?;
    let line = indent.saturating_mul(extent.depth + 1).saturating_add(between);
    check_text(extent.text.saturating_add(extent.nodes.saturating_mul(line)))
}

/// `a * b`.
pub(super) fn multiply(
    state: &mut State<'_, '_>,
    left: Value,
    right: Value,
) -> Result<Value, Error> {
    let (repeated, count) = match (repeatable(&left), repeatable(&right)) {
        (true, _) => (&left, &right),
        (_, true) => (&right, &left),
        _ => return product(&left, &right),
    };
    let Some(count) = count.as_usize() else {
        return Err(refusal("texts and lists can only be multiplied with whole numbers"));
    };
    let value = match repeated.as_str() {
        Some(text) => {
            check_text(text.len().saturating_mul(count))?;
            Value::from(text.repeat(count))
        }
        None => {
            let items: Vec<Value> = repeated.try_iter()?.collect();
            check_items(items.len().saturating_mul(count))?;
            let all = std::iter::repeat_n(items, count).flatten();
            all.collect::<Vec<Value>>().into()
        }
    };
    Ledger::of(state).keep(value, false)
}

fn repeatable(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Iterable)
}

/// The product of two numbers.
fn product(left: &Value, right: &Value) -> Result<Value, Error> {
    let wrong = || {
        let (left, right) = (left.kind(), right.kind());
        refusal(format!("tried to use * operator on unsupported types {left} and {right}"))
    };
    let whole = |value: &Value| match value.is_integer() || value.kind() == ValueKind::Bool {
        true => i128::try_from(value.clone()).ok(),
        false => None,
    };
    if let (Some(left), Some(right)) = (whole(left), whole(right)) {
        let product = left.checked_mul(right);
        let product = product.ok_or_else(|| refusal("the product of two numbers is too large"))?;
        return Ok(i64::try_from(product).map_or_else(|_| Value::from(product), Value::from));
    }
    let float = |value: &Value| match (value.kind(), whole(value)) {
        (_, Some(whole)) => Ok(whole as f64),
        (ValueKind::Number, None) => f64::try_from(value.clone()).map_err(|_| wrong()),
        _ => Err(wrong()),
    };
    Ok(Value::from(float(left)? * float(right)?))
}

/// `loop.cycle(...)`, and other calls of its kind.
pub(super) fn cycle(state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    match args.split_first() {
        Some((value, rest)) if !rest.is_empty() => value.call_method(state, "cycle", rest),
        _ => Err(refusal("cycle: nothing to choose from")),
    }
}
