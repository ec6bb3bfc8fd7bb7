//! Jobs as shell commands.

use super::{AnyJob, Pairs, Verb};
use serde_json::Value;

/// A job as a shell command: the options that are not their defaults.
#[must_use]
pub fn command(job: &dyn AnyJob) -> String {
    let verb = Verb::named(job.verb()).map_or_else(|| job.verb().to_owned(), Verb::words);
    let mut words = vec!["linwright".to_owned(), verb];
    words.extend(arguments(job).iter().map(|argument| quoted(argument)));
    words.join(" ")
}

/// The arguments of a job that are not its defaults, positional ones first. If one of these looks
/// like an option, they are last, behind `--`: what is added belongs before all.
#[must_use]
pub fn arguments(job: &dyn AnyJob) -> Vec<String> {
    let (given, all) = (job.options(), job.all_options());
    let fields = Verb::named(job.verb()).map(|verb| (verb.fields)()).unwrap_or_default();
    let (mut positional, mut flags) = (Vec::new(), Vec::new());
    for field in fields {
        let flag = field.flag();
        if field.is_positional {
            match &all[&field.key] {
                Value::Array(values) => positional.extend(values.iter().map(text)),
                value => positional.push(text(value)),
            }
            continue;
        }
        match given.get(&field.key) {
            None => {}
            Some(Value::Bool(_)) => flags.push(format!("--{flag}")),
            Some(Value::Array(list)) => {
                let list: Vec<String> = list.iter().map(text).collect();
                let is_one = field.is_delimited || field.pairs == Pairs::Divided;
                let list = if is_one { vec![list.join(",")] } else { list };
                flags.extend(list.iter().map(|value| format!("--{flag}={value}")));
            }
            Some(value) => flags.push(format!("--{flag}={}", text(value))),
        }
    }
    match positional.iter().any(|value| value.starts_with('-')) {
        true => [flags, vec!["--".to_owned()], positional].concat(),
        false => [positional, flags].concat(),
    }
}

/// A value as an argument; whole numbers have no point.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => number.as_f64().unwrap_or_default().to_string(),
        value => value.to_string(),
    }
}

/// A word for a shell, which it reads as one argument of these bytes.
#[must_use]
pub fn quoted(argument: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:@".contains(c);
    // A word of nothing is no word, and one that begins with = is a path to zsh.
    let is_word = !argument.is_empty() && !argument.starts_with('=');
    if is_word && argument.chars().all(is_plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;
    use linwright_tensor::RngKey;
    use std::process::Command;

    /// Characters that mean something to some shell, letters, and one of two bytes.
    const CHARACTERS: &str = "aB0 \t\n\r'\"\\`$(){}[]<>|&;*?!#~=%^-_./,:@+\u{7f}\u{1b}é";

    #[test]
    fn shells_read_the_words_that_were_quoted() {
        let all: Vec<char> = CHARACTERS.chars().collect();
        let mut stream = RngKey::new(54).stream();
        let mut word = |_| (0..stream.below(9)).map(|_| all[stream.below(all.len())]).collect();
        let mut words: Vec<String> = (0..400).map(&mut word).collect();
        let hard =
            ["", "-", "--", "=x", "~", "a\nSHARD\nb", "$(id)", "'", "\\", "{0..2}", "*", "!!"];
        words.extend(hard.map(str::to_owned));
        let mut tried = 0;
        for shell in ["bash", "dash", "sh"] {
            let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            let script = format!("printf '%s\\0' {}", quoted.join(" "));
            let Ok(done) = Command::new(shell).args(["-c", &script]).output() else { continue };
            let found: Vec<&str> =
                str::from_utf8(&done.stdout).unwrap().split_terminator('\0').collect();
            assert_eq!(found, words, "{shell}");
            tried += 1;
        }
        assert!(tried > 0, "there is a shell");
    }
}
