//! Parsing of templates.

use super::{GrammarError, Lexicon, Node, Pronoun};
use std::collections::BTreeSet;

/// Parses templates over one lexicon; variables are numbered by name.
pub(super) struct Parser<'a> {
    lexicon: &'a Lexicon,
    names: Vec<String>,
}

/// Variables that are drawn on every path to a position, and on some path.
#[derive(Clone, Default)]
struct Bound {
    always: BTreeSet<usize>,
    ever: BTreeSet<usize>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(lexicon: &'a Lexicon) -> Self {
        Self { lexicon, names: Vec::new() }
    }

    pub(super) fn variables(&self) -> usize {
        self.names.len()
    }

    pub(super) fn template(&mut self, text: &str) -> Result<Vec<Node>, GrammarError> {
        let (mut at, mut bound) = (0, Bound::default());
        let nodes = self.sequence(text, &mut at, &mut bound)?;
        match text[at..].chars().next() {
            None => Ok(nodes),
            Some(found) => Err(syntax(at, format!("{found:?} outside of brackets"))),
        }
    }

    /// Parses up to the end, a bar or an unmatched closing bracket.
    fn sequence(
        &mut self,
        text: &str,
        at: &mut usize,
        bound: &mut Bound,
    ) -> Result<Vec<Node>, GrammarError> {
        let mut nodes = Vec::new();
        while let Some(first) = text[*at..].chars().next() {
            match first {
                '|' | ']' => break,
                '[' => nodes.push(self.choice(text, at, bound)?),
                '{' => {
                    let end = text[*at..]
                        .find('}')
                        .ok_or_else(|| syntax(*at, "an unclosed brace".to_owned()))?;
                    let expression = &text[*at + 1..*at + end];
                    nodes.push(self.expression(expression, *at, bound)?);
                    *at += end + 1;
                }
                _ => {
                    let rest = &text[*at..];
                    let len = rest.find(['[', '{', '|', ']']).unwrap_or(rest.len());
                    nodes.push(Node::Text(rest[..len].to_owned()));
                    *at += len;
                }
            }
        }
        Ok(nodes)
    }

    fn choice(
        &mut self,
        text: &str,
        at: &mut usize,
        bound: &mut Bound,
    ) -> Result<Node, GrammarError> {
        let start = *at;
        let (mut parts, mut after) = (Vec::new(), Vec::new());
        loop {
            *at += 1;
            let mut own = bound.clone();
            parts.push(self.sequence(text, at, &mut own)?);
            after.push(own);
            match text.as_bytes().get(*at) {
                Some(b'|') => {}
                Some(_) => break,
                None => return Err(syntax(start, "an unclosed bracket".to_owned())),
            }
        }
        *at += 1;
        for own in &after {
            bound.ever.extend(&own.ever);
        }
        let on_all = |variable: &usize| after.iter().all(|own| own.always.contains(variable));
        bound.always = bound.ever.iter().copied().filter(on_all).collect();
        Ok(Node::Choice(parts))
    }

    fn expression(
        &mut self,
        text: &str,
        at: usize,
        bound: &mut Bound,
    ) -> Result<Node, GrammarError> {
        if let Some((name, draw)) = text.split_once('=') {
            let mut parts = draw.split('!');
            let list_name = parts.next().unwrap_or_default();
            let except =
                parts.map(|part| self.bound(part, bound)).collect::<Result<Vec<_>, _>>()?;
            let list = self.lexicon.list(list_name).unwrap_or_default().to_vec();
            if list.len() <= except.len() {
                return Err(GrammarError::List { name: list_name.to_owned() });
            }
            let variable = self.variable(name);
            if !bound.ever.insert(variable) {
                return Err(GrammarError::Redrawn { name: name.to_owned() });
            }
            bound.always.insert(variable);
            return Ok(Node::Draw { variable, list, except });
        }
        if let Some((left, right)) = text.split_once('+') {
            return Ok(Node::Sum(self.bound(left, bound)?, self.bound(right, bound)?));
        }
        let Some((name, form)) = text.split_once('.') else {
            return Ok(Node::Word(self.bound(text, bound)?));
        };
        let pronoun = match form {
            "he" => Pronoun::Subject,
            "him" => Pronoun::Object,
            "his" => Pronoun::Possessive,
            "He" => Pronoun::CapitalSubject,
            "His" => Pronoun::CapitalPossessive,
            _ => {
                let found = format!("form {form}, expected he, him, his, He or His");
                return Err(syntax(at, found));
            }
        };
        Ok(Node::Pronoun(self.bound(name, bound)?, pronoun))
    }

    fn bound(&mut self, name: &str, bound: &Bound) -> Result<usize, GrammarError> {
        let variable = self.variable(name);
        if bound.always.contains(&variable) {
            Ok(variable)
        } else {
            Err(GrammarError::Unbound { name: name.to_owned() })
        }
    }

    fn variable(&mut self, name: &str) -> usize {
        self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        })
    }
}

fn syntax(at: usize, found: String) -> GrammarError {
    GrammarError::Syntax { at, found }
}
