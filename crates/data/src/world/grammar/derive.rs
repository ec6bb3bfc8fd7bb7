//! Sampling from a grammar, and the probability of a text.

use super::{Grammar, Node, Sample};
use linwright_tensor::RngStream;

/// Words drawn so far, by variable. Entries of variables not drawn yet may be left over from
/// earlier attempts; the parser ensures that they are not read.
type Words = Vec<&'static str>;

pub(super) fn sample(grammar: &Grammar, stream: &mut RngStream) -> Sample {
    let mut out = Sample { text: String::new(), nats: 0.0 };
    let mut words: Words = vec![""; grammar.variables];
    draw(grammar, &grammar.start, stream, &mut words, &mut out);
    out
}

fn draw(
    grammar: &Grammar,
    nodes: &[Node],
    stream: &mut RngStream,
    words: &mut Words,
    out: &mut Sample,
) {
    for node in nodes {
        match node {
            Node::Choice(parts) => {
                out.nats += (parts.len() as f64).ln();
                let part = &parts[stream.below(parts.len())];
                draw(grammar, part, stream, words, out);
            }
            Node::Draw { variable, list, except } => {
                let ways = list.len() - excluded(list, except, words);
                out.nats += (ways as f64).ln();
                let mut index = stream.below(ways);
                for word in list {
                    if except.iter().any(|&other| words[other] == *word) {
                        continue;
                    }
                    if index == 0 {
                        words[*variable] = word;
                        out.text.push_str(word);
                        break;
                    }
                    index -= 1;
                }
            }
            fixed => out.text.push_str(&written(grammar, fixed, words)),
        }
    }
}

fn excluded(list: &[&str], except: &[usize], words: &Words) -> usize {
    list.iter().filter(|word| except.iter().any(|&other| words[other] == **word)).count()
}

/// Text of a node without a draw.
fn written<'a>(grammar: &Grammar, node: &'a Node, words: &Words) -> std::borrow::Cow<'a, str> {
    match node {
        Node::Text(text) => text.as_str().into(),
        Node::Word(variable) => words[*variable].into(),
        Node::Pronoun(variable, pronoun) => {
            grammar.lexicon.pronoun(words[*variable], *pronoun).into()
        }
        Node::Sum(left, right) => {
            let number = |variable: &usize| words[*variable].parse::<u32>().unwrap_or_default();
            (number(left) + number(right)).to_string().into()
        }
        Node::Choice(_) | Node::Draw { .. } => "".into(),
    }
}

/// Remaining nodes, innermost first.
#[derive(Clone, Copy)]
struct Rest<'a> {
    nodes: &'a [Node],
    after: Option<&'a Self>,
}

pub(super) fn probability(grammar: &Grammar, text: &str) -> f64 {
    let mut words: Words = vec![""; grammar.variables];
    matching(grammar, text, Rest { nodes: &grammar.start, after: None }, &mut words)
}

/// Probability that `rest` derives exactly `text`.
fn matching(grammar: &Grammar, text: &str, rest: Rest<'_>, words: &mut Words) -> f64 {
    let Some((node, nodes)) = rest.nodes.split_first() else {
        return match rest.after {
            Some(after) => matching(grammar, text, *after, words),
            None => f64::from(u8::from(text.is_empty())),
        };
    };
    let next = Rest { nodes, after: rest.after };
    match node {
        Node::Choice(parts) => {
            let one = |part: &Vec<Node>| {
                matching(grammar, text, Rest { nodes: part, after: Some(&next) }, words)
            };
            parts.iter().map(one).sum::<f64>() / parts.len() as f64
        }
        Node::Draw { variable, list, except } => {
            let ways = list.len() - excluded(list, except, words);
            let mut sum = 0.0;
            for word in list {
                if except.iter().any(|&other| words[other] == *word) {
                    continue;
                }
                if let Some(tail) = text.strip_prefix(word) {
                    words[*variable] = word;
                    sum += matching(grammar, tail, next, words);
                }
            }
            sum / ways as f64
        }
        fixed => {
            let expected = written(grammar, fixed, words);
            text.strip_prefix(expected.as_ref())
                .map_or(0.0, |tail| matching(grammar, tail, next, words))
        }
    }
}

pub(super) fn enumerate(grammar: &Grammar) -> Vec<(String, f64)> {
    let words = vec![""; grammar.variables];
    let start = Partial { text: String::new(), probability: 1.0, words };
    let done = extend(grammar, &grammar.start, vec![start]);
    done.into_iter().map(|partial| (partial.text, partial.probability)).collect()
}

/// The start of a text.
#[derive(Clone)]
struct Partial {
    text: String,
    probability: f64,
    words: Words,
}

/// All continuations of each of `partials` with `nodes`.
fn extend(grammar: &Grammar, nodes: &[Node], mut partials: Vec<Partial>) -> Vec<Partial> {
    for node in nodes {
        partials = match node {
            Node::Choice(parts) => {
                let share = 1.0 / parts.len() as f64;
                partials.iter_mut().for_each(|partial| partial.probability *= share);
                parts.iter().flat_map(|part| extend(grammar, part, partials.clone())).collect()
            }
            Node::Draw { variable, list, except } => partials
                .into_iter()
                .flat_map(|partial| draws(&partial, *variable, list, except))
                .collect(),
            fixed => partials
                .into_iter()
                .map(|partial| {
                    let text = partial.text + &written(grammar, fixed, &partial.words);
                    Partial { text, ..partial }
                })
                .collect(),
        };
    }
    partials
}

fn draws(
    Partial { text, probability, words }: &Partial,
    variable: usize,
    list: &[&'static str],
    except: &[usize],
) -> Vec<Partial> {
    let ways = list.len() - excluded(list, except, words);
    let allowed = list.iter().filter(|word| !except.iter().any(|&other| words[other] == **word));
    let go_on = |word: &&'static str| {
        let mut words = words.clone();
        words[variable] = word;
        Partial { text: format!("{text}{word}"), probability: probability / ways as f64, words }
    };
    allowed.map(go_on).collect()
}
