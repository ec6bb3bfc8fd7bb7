//! Flags of a command from the options of its job.
//!
//! [`Face`] makes an argument of every [`Field`] of a job: snake-case keys become hyphenated flags
//! that accept underscores as well, the description is the help, and defaults and bounds are those
//! of the schema. The given arguments become a map of options, which [`read`] turns into the job,
//! as it does with a recipe.

use crate::args::AnyDash;
use clap::builder::{
    PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser, ValueParser,
};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, ValueHint};
use linwright::jobs::{
    AnyJob, Field, GROUPS, JobError, Kind, Name, OTHERS, Options, VERBS, Verb, fields, flag_of,
    read,
};
use serde_json::{Map, Value};
use std::ops::{Deref, RangeInclusive};

/// The options of a job, or a group of them, as arguments of a command.
#[derive(Clone, Debug)]
pub(crate) struct Face<J>(pub(crate) J);

impl<J> Deref for Face<J> {
    type Target = J;

    fn deref(&self) -> &J {
        &self.0
    }
}

impl<J: Options> Args for Face<J> {
    fn augment_args(command: Command) -> Command {
        command.args(arguments_of(&fields::<J>()))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<J: Options> FromArgMatches for Face<J> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        read(&given(&fields::<J>(), matches)).map(Self).map_err(wrong)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The command of a verb, with its help. Its arguments are built on demand: one command is run, but
/// every command is listed.
pub(crate) fn command(verb: &Verb) -> Command {
    let (about, more) = verb.about.split_once("\n\n").unwrap_or((verb.about, ""));
    let command = match verb.grouped() {
        // The display name identifies its arguments.
        Some((_, rest)) => Command::new(rest).display_name(format!("linwright-{}", verb.name)),
        None => Command::new(verb.name),
    };
    let command = command.about(about.trim_end_matches('.').to_owned());
    let command = if more.is_empty() { command } else { command.long_about(verb.about) };
    command.defer(with_arguments)
}

/// The command of a verb with its arguments.
fn with_arguments(command: Command) -> Command {
    let display = command.get_display_name().and_then(|name| name.strip_prefix("linwright-"));
    let verb = display.and_then(Verb::named).or_else(|| Verb::named(command.get_name()));
    let fields = verb.map(|verb| (verb.fields)()).unwrap_or_default();
    let command = command.args(arguments_of(&fields));
    if command.get_arguments().any(clap::Arg::is_hide_short_help_set) {
        command.after_help("--help lists all options")
    } else {
        command
    }
}

/// The arguments of options: those that come first, and the others under their headings.
fn arguments_of(fields: &[Field]) -> Vec<Arg> {
    let count = fields.iter().filter(|field| !field.is_positional).count();
    let with_heading = |field: &Field| match field.heading(count) {
        Some(heading) => argument(field).help_heading(heading).hide_short_help(true),
        None => argument(field),
    };
    fields.iter().map(with_heading).collect()
}

/// The commands of all jobs; those of a group are subcommands of its word.
pub(crate) fn commands() -> Vec<Command> {
    let alone = VERBS.iter().filter(|verb| verb.grouped().is_none()).map(command);
    let grouped = GROUPS.iter().map(|group| {
        let own = |verb: &&Verb| verb.grouped().is_some_and(|(of, _)| of.name == group.name);
        Command::new(group.name)
            .about(group.about)
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommands(VERBS.iter().filter(own).map(command))
    });
    alone.chain(grouped).collect()
}

/// The verb of a command line, with its arguments.
pub(crate) fn verb_of(matches: &ArgMatches) -> Option<(&'static Verb, &ArgMatches)> {
    let (name, given) = matches.subcommand()?;
    if !GROUPS.iter().any(|group| group.name == name) {
        return Some((Verb::named(name)?, given));
    }
    let (rest, given) = given.subcommand()?;
    Some((Verb::named(&format!("{name}-{rest}"))?, given))
}

/// What became of a flag that the command had; `given` begins with words of a command, after values
/// of flags of all commands.
pub(crate) fn renamed(given: &[String], flag: &str) -> Option<String> {
    let called = |place: usize, words: &str| {
        let next = given.get(place + 1).map_or("", String::as_str);
        words == given[place] || words == format!("{} {next}", given[place])
    };
    let (words, fields) = (0..given.len()).find_map(|place| {
        let verb = VERBS.iter().find(|verb| called(place, &verb.words()));
        let verb = verb.map(|verb| (verb.words(), (verb.fields)()));
        let other = || OTHERS.iter().find(|(words, _)| called(place, words));
        verb.or_else(|| other().map(|(words, fields)| ((*words).to_owned(), fields())))
    })?;
    linwright::jobs::renamed(&words, flag, &fields)
        .or_else(|| linwright::jobs::option_elsewhere(flag, &fields))
}

/// The job described by the arguments of its command.
pub(crate) fn job(verb: &Verb, matches: &ArgMatches) -> Result<Box<dyn AnyJob>, Error> {
    (verb.read)(&given(&(verb.fields)(), matches)).map_err(wrong)
}

/// The given options.
fn given(fields: &[Field], matches: &ArgMatches) -> Map<String, Value> {
    let is_given =
        |field: &&Field| matches.value_source(&field.key) == Some(ValueSource::CommandLine);
    let given = fields.iter().filter(is_given);
    given.map(|field| (field.key.clone(), value(matches, field))).collect()
}

fn wrong(error: JobError) -> Error {
    let option = error.option.map_or_else(String::new, |key| format!("--{} ", flag_of(&key)));
    let hint = error.hint.map_or_else(String::new, |hint| format!("\n\n{hint}"));
    Error::raw(ErrorKind::ValueValidation, format!("{option}{}{hint}\n", error.message))
}

/// The value of a given option.
fn value(matches: &ArgMatches, field: &Field) -> Value {
    if field.kind == Kind::Flag {
        return Value::Bool(true);
    }
    let mut values = matches.get_many::<Value>(&field.key).into_iter().flatten().cloned();
    if field.is_list { values.collect() } else { values.next().unwrap_or_default() }
}

fn argument(field: &Field) -> Arg {
    let name = field.value_name.clone().unwrap_or_else(|| field.key.to_uppercase());
    let arg = Arg::new(field.key.clone())
        .help(field.short_help())
        .long_help(field.long_help())
        .conflicts_with_all(&field.conflicts)
        .requires_all(&field.requires)
        .allow_hyphen_values(field.takes_hyphens);
    let mut arg = arg.required(field.is_required);
    if !field.is_positional {
        let flags = std::iter::once(field.key.clone())
            .chain(field.aliases.iter().flat_map(|alias| [alias.clone(), alias.replace('-', "_")]))
            .filter(|flag| *flag != field.flag());
        arg = arg.long(field.flag()).aliases(flags.collect::<Vec<_>>()).short(field.short);
    }
    if field.kind == Kind::Flag {
        return arg.action(ArgAction::SetTrue);
    }
    let hint = if field.is_path { ValueHint::AnyPath } else { ValueHint::Unknown };
    // The long help has the possible values.
    arg = arg.hide_possible_values(true).value_name(name);
    arg = arg.value_parser(parser(&field.kind)).value_hint(hint);
    if let Some(default) = &field.default {
        let default = default.as_str().map_or_else(|| default.to_string(), str::to_owned);
        arg = arg.default_value(default);
    }
    let takes_many = field.takes_many || (field.is_positional && field.is_list);
    arg = if takes_many { arg.num_args(1..) } else { arg };
    match field.is_list {
        true if field.is_delimited => arg.action(ArgAction::Append).value_delimiter(','),
        true => arg.action(ArgAction::Append),
        false => arg.action(ArgAction::Set),
    }
}

/// The parser of one value.
fn parser(kind: &Kind) -> ValueParser {
    match kind {
        Kind::Flag | Kind::Text | Kind::Term(_) => {
            ValueParser::new(StringValueParser::new().map(Value::from))
        }
        Kind::Integer { min, max } => {
            let (within, expected) = (*min..=*max, kind.expected());
            ValueParser::new(move |text: &str| match text.parse::<u64>() {
                Ok(number) if within.contains(&number) => Ok(Value::from(number)),
                _ => Err(format!("expected {expected}")),
            })
        }
        Kind::Number { min, max } => {
            let (within, expected) = (*min..=*max, kind.expected());
            ValueParser::new(move |text: &str| number(text, &within, &expected))
        }
        Kind::Named(names) => {
            let possible = |name: &Name| {
                let value = PossibleValue::new(name.name.clone()).aliases(&name.others);
                name.help.iter().cloned().fold(value, PossibleValue::help)
            };
            let names = PossibleValuesParser::new(names.iter().map(possible));
            ValueParser::new(AnyDash(names.map(Value::from)))
        }
    }
}

/// A number, which JSON can hold.
fn number(text: &str, within: &RangeInclusive<f64>, expected: &str) -> Result<Value, String> {
    let number: f64 = text.parse().map_err(|_| format!("expected {expected}"))?;
    match serde_json::Number::from_f64(number) {
        None => Err(format!("it is not finite, expected {expected}")),
        Some(json) if within.contains(&number) => Ok(Value::Number(json)),
        Some(_) => Err(format!("expected {expected}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright::jobs::{
        Catalogue, Key, STREAMED, Sweep, VERBS, ValueKind, arguments, command as shell_command,
    };

    /// A value of an option that is not its default.
    fn sample(field: &Field) -> Value {
        let one = match (&field.example, &field.kind) {
            (Some(example), _) => example.clone(),
            (None, Kind::Flag) => return Value::Bool(true),
            (None, Kind::Integer { min, max }) => (min + 17).min(*max).into(),
            (None, Kind::Number { .. }) => 0.5.into(),
            (None, Kind::Text) => "a b,c".into(),
            (None, Kind::Named(names)) => names.last().unwrap().name.as_str().into(),
            (None, Kind::Term(catalogue)) => term(catalogue).into(),
        };
        match field.is_list {
            true if field.kind == Kind::Text && field.is_delimited => vec!["a", "b c"].into(),
            true => vec![one].into(),
            false => one,
        }
    }

    /// A term with an option.
    fn term(catalogue: &Catalogue) -> String {
        let with = |is_it: &dyn Fn(&ValueKind) -> bool, value: &str| {
            catalogue.entries.iter().rev().find_map(|entry| {
                let key = &entry.keys.iter().find(|key: &&Key| is_it(&key.kind))?.name;
                let before = match (catalogue.head.as_ref().map(|head| &head.kind), entry.name) {
                    (Some(ValueKind::Named(names)), _) => format!("{}:", names.last()?.name),
                    (Some(_), _) => "1:".to_owned(),
                    (None, "") => String::new(),
                    (None, name) => format!("{name}:"),
                };
                Some(format!("{before}{key}={value}"))
            })
        };
        let is_integer = |kind: &ValueKind| matches!(kind, ValueKind::Integer { .. });
        let is_number = |kind: &ValueKind| matches!(kind, ValueKind::Number { .. });
        let is_text = |kind: &ValueKind| matches!(kind, ValueKind::Text);
        let term = with(&is_integer, "3").or_else(|| with(&is_number, "0.5"));
        term.or_else(|| with(&is_text, "a")).unwrap()
    }

    fn parsed(verb: &Verb, arguments: &[String]) -> Result<Box<dyn AnyJob>, Error> {
        let matches = command(verb).no_binary_name(true).try_get_matches_from(arguments)?;
        job(verb, &matches)
    }

    /// Checks that a job is the same through its flags and through a recipe.
    fn round_trip(verb: &Verb, options: &Map<String, Value>) -> Map<String, Value> {
        let read = |options| (verb.read)(options).unwrap_or_else(|e| panic!("{options:?}: {e}"));
        let job = read(options);
        let flags = arguments(job.as_ref());
        assert_eq!(parsed(verb, &flags).unwrap().all_options(), job.all_options(), "{flags:?}");
        assert_eq!(read(&job.options()).all_options(), job.all_options(), "{options:?}");
        job.all_options()
    }

    /// What an option requires, and what that requires.
    fn needed<'a>(fields: &'a [Field], field: &Field) -> Vec<&'a Field> {
        let mut keys = field.requires.clone();
        let mut next = 0;
        while let Some(key) = keys.get(next) {
            let more = fields.iter().find(|other| other.key == *key).unwrap().requires.clone();
            keys.extend(
                more.into_iter()
                    .filter(|key| *key != field.key && !keys.contains(key))
                    .collect::<Vec<_>>(),
            );
            next += 1;
        }
        fields.iter().filter(|other| keys.contains(&other.key)).collect()
    }

    /// Every option changes the job, the same way by its flag and by its key.
    fn check(verb: &Verb) {
        let fields = (verb.fields)();
        let mut required = Map::new();
        for field in fields.iter().filter(|field| field.is_required) {
            let value = match field.is_list {
                true => vec!["pocket", "b c"].into(),
                false => "pocket".into(),
            };
            required.insert(field.key.clone(), value);
        }
        let plain = round_trip(verb, &required);
        for field in fields.iter().filter(|field| !field.is_required) {
            assert!(field.help.len() > 10, "{} has no help", field.key);
            let mut options = required.clone();
            for needed in needed(&fields, field) {
                options.insert(needed.key.clone(), sample(needed));
            }
            options.insert(field.key.clone(), sample(field));
            let job = round_trip(verb, &options);
            assert_ne!(job, plain, "{} changes nothing", field.key);
            for other in &field.conflicts {
                let other = fields.iter().find(|f| f.key == *other).unwrap();
                let mut both = options.clone();
                both.insert(other.key.clone(), sample(other));
                assert!((verb.read)(&both).is_err(), "{} and {}", field.key, other.key);
            }
        }
    }

    #[test]
    fn flags_and_recipes_give_the_same_job() {
        VERBS.iter().for_each(check);
    }

    /// Texts that users, scripts and attackers may pass as a number.
    const NUMBERS: [&str; 18] = [
        "0",
        "1",
        "2147483648",
        "4294967296",
        "9007199254740993",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "-1",
        "-0",
        "nan",
        "inf",
        "-inf",
        "1e400",
        "0x10",
        " ",
        "",
    ];

    /// Checks what an option of numbers does with a text, as a flag and in a recipe.
    fn check_number(verb: &Verb, field: &Field, text: &str) {
        let of = format!("{} {} = {text:?}", verb.name, field.key);
        let within = match &field.kind {
            Kind::Integer { min, max } => {
                text.parse::<u64>().is_ok_and(|number| (*min..=*max).contains(&number))
            }
            Kind::Number { min, max } => {
                text.parse::<f64>().is_ok_and(|number| (*min..=*max).contains(&number))
            }
            _ => return,
        };
        let (expected, fields) = (field.kind.expected(), (verb.fields)());
        let required = || fields.iter().filter(|other| other.is_required);
        let argument_of = |other: &Field| match other.is_positional {
            true => "pocket".to_owned(),
            false => format!("--{}=pocket", other.flag()),
        };
        let given = format!("--{}={text}", field.flag());
        let arguments = required().map(argument_of).chain([given]);
        let own = Command::new(verb.name).args(fields.iter().map(argument)).no_binary_name(true);
        match own.try_get_matches_from(arguments) {
            Ok(_) => assert!(within, "{of} is taken"),
            Err(error) => {
                let error = error.to_string();
                // Requirements of a flag are reported after its value is read.
                let is_value = error.contains(&expected) && error.contains(&field.flag());
                assert!(is_value != within, "{of}, expected {expected}: {error}");
            }
        }
        // A recipe has the number, or the text of what JSON cannot hold.
        let value = match serde_json::from_str(text) {
            Ok(Value::Number(number)) => Value::Number(number),
            _ => text.into(),
        };
        let pocket = |other: &Field| match other.is_list {
            true => (other.key.clone(), Value::from(vec!["pocket"])),
            false => (other.key.clone(), "pocket".into()),
        };
        let options: Map<String, Value> =
            required().map(pocket).chain([(field.key.clone(), value)]).collect();
        if let Err(error) = (verb.read)(&options) {
            let is_value = error.message.contains(&expected);
            let is_number = options[&field.key].is_number();
            assert!(is_value != (within && is_number), "{of}: {}", error.message);
            assert!(!is_value || error.option.as_ref() == Some(&field.key), "{of}");
        } else {
            assert!(within, "{of} is taken");
        }
    }

    #[test]
    fn every_number_of_every_option_is_bounded_and_its_error_says_so() {
        let mut count = 0;
        for verb in VERBS.iter().chain(STREAMED) {
            for field in (verb.fields)() {
                // A bound of a seed is that of its type.
                let is_bounded = match field.kind {
                    Kind::Integer { max, .. } => max < 1 << 31 || max == u64::MAX,
                    Kind::Number { min, max } => min >= -1e12 && max <= 1e38,
                    Kind::Flag | Kind::Text | Kind::Named(_) | Kind::Term(_) => continue,
                };
                assert!(is_bounded, "{} of {}", field.key, verb.name);
                NUMBERS.iter().for_each(|text| check_number(verb, &field, text));
                count += 1;
            }
        }
        assert!(count > 150, "{count} options");
    }

    #[test]
    fn a_job_is_a_shell_command() {
        let options = serde_json::json!({
            "model": "pocket", "title": "it's", "size": "rate=9.9,8", "no-share": true, "roles": "q-proj",
        });
        let job: Sweep = read(options.as_object().unwrap()).unwrap();
        let line = "linwright sweep pocket --roles=q_proj --size=rate=9.9,rate=8 --no-share \
                    '--title=it'\\''s'";
        assert_eq!(shell_command(&job), line);
    }

    #[test]
    fn wrong_values_name_their_option() {
        for (given, expected) in [
            (["--size=rate=nan", "--layers=1"], "expected keep=SHARE, rank=N"),
            (
                ["--evaluation=max_length=1", "--layers=1"],
                "expected a whole number from 2 to 16777216",
            ),
            (["--evaluation=batch_size=none", "--layers=1"], "expected auto, or thousands"),
            (["--intervention=none", "--layers=1"], "none, expected one of rank-reduction"),
            (["--cache=a", "--no-cache"], "cannot be used with"),
        ] {
            let words = [&["pocket".to_owned()], &given.map(str::to_owned)[..]].concat();
            let error = parsed(Verb::named("sweep").unwrap(), &words).unwrap_err().to_string();
            assert!(error.contains(expected), "{given:?}: {error}");
        }
    }
}
