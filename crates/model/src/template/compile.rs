//! From the source of a template to instructions that keep account.
//!
//! The engine bounds the steps of a template and not what a step makes, and its parser goes down
//! one frame for each sign before a number. So the source is looked at before it is parsed, and
//! calls of functions of our own stand behind (or instead of) the instructions that make values.

use super::Fault;
use super::ledger::refusal;
use minijinja::Value;
use minijinja::machinery::{CodeGenerator, Instruction, Instructions, Token, ast};
use minijinja::machinery::{parse, parse_expr, tokenize};
use minijinja::syntax::SyntaxConfig;
use std::collections::BTreeMap;

/// Operators that may stand in one expression, commas and brackets aside: each can be one more
/// level.
const LONGEST_CHAIN: usize = 400;
/// `elif` in one template: each is a level inside the one before.
const MOST_ELIFS: usize = 400;

/// Names that no template can write.
pub(super) const KEEP: &str = " keep";
pub(super) const MULTIPLY: &str = " multiply";
pub(super) const SET_ATTRIBUTE: &str = " set attribute";
pub(super) const CYCLE: &str = " cycle";

/// The instructions of a template, and those of its blocks.
pub(super) struct Compiled<'a> {
    pub(super) instructions: Instructions<'a>,
    pub(super) blocks: BTreeMap<&'a str, Instructions<'a>>,
}

/// Compiles a template.
pub(super) fn template<'a>(source: &'a str, syntax: &SyntaxConfig) -> Result<Compiled<'a>, Fault> {
    check_nesting(source, false, syntax)?;
    let tree = parse(source, "template", syntax.clone())?;
    let mut generator = CodeGenerator::new("template", source);
    generator.compile_stmt(&tree);
    Ok(compiled(generator))
}

/// Compiles an expression.
pub(super) fn expression<'a>(
    source: &'a str,
    syntax: &SyntaxConfig,
) -> Result<Compiled<'a>, Fault> {
    check_nesting(source, true, syntax)?;
    let tree: ast::Expr<'_> = parse_expr(source)?;
    let mut generator = CodeGenerator::new("expression", source);
    generator.compile_expr(&tree);
    Ok(compiled(generator))
}

fn compiled(generator: CodeGenerator<'_>) -> Compiled<'_> {
    let (instructions, blocks) = generator.finish();
    let blocks = blocks.into_iter().map(|(name, block)| (name, accounted(&block))).collect();
    Compiled { instructions: accounted(&instructions), blocks }
}

/// Refuses expressions whose tree could be deep: the parser, the compiler and the release of a tree
/// take a frame for each level.
fn check_nesting(source: &str, expression: bool, syntax: &SyntaxConfig) -> Result<(), Fault> {
    // Operators since the last comma, for each open bracket.
    let mut open = vec![0];
    let mut elifs = 0;
    for token in tokenize(source, expression, syntax.clone()) {
        // The parser says what is wrong, and where.
        let Ok((token, span)) = token else { break };
        match token {
            Token::VariableStart | Token::BlockStart => open = vec![0],
            Token::BracketOpen | Token::ParenOpen | Token::BraceOpen => open.push(1),
            Token::BracketClose | Token::ParenClose | Token::BraceClose => {
                if open.len() > 1 {
                    open.pop();
                }
                // What follows a bracket goes on from it, as in a()()().
                add(&mut open, 1);
            }
            Token::Comma => {
                if let Some(last) = open.last_mut() {
                    *last = 0;
                }
            }
            Token::Ident("elif") => elifs += 1,
            Token::Ident("not" | "and" | "or" | "in" | "is" | "if" | "else") => add(&mut open, 1),
            Token::Ident(_)
            | Token::TemplateData(_)
            | Token::VariableEnd
            | Token::BlockEnd
            | Token::Str(_)
            | Token::String(_)
            | Token::Int(_)
            | Token::Int128(_)
            | Token::Float(_)
            | Token::Colon
            | Token::Assign => {}
            _ => add(&mut open, 1),
        }
        let beyond = match elifs > MOST_ELIFS {
            true => format!("more than {MOST_ELIFS} times elif"),
            false if open.iter().sum::<usize>() > LONGEST_CHAIN => {
                format!("an expression of more than {LONGEST_CHAIN} operators")
            }
            false => continue,
        };
        return Err(Fault { line: Some(span.start_line.into()), error: refusal(beyond) });
    }
    Ok(())
}

fn add(open: &mut [usize], count: usize) {
    if let Some(last) = open.last_mut() {
        *last += count;
    }
}

/// Instructions with the calls that keep account. Jumps lead where they led.
fn accounted<'a>(plain: &Instructions<'a>) -> Instructions<'a> {
    let mut groups = Vec::new();
    let mut places = Vec::new();
    let mut length = 0;
    while let Some(instruction) = u32::try_from(groups.len()).ok().and_then(|at| plain.get(at)) {
        places.push(length);
        let group = with_account(instruction);
        length += group.len() as u32;
        groups.push(group);
    }
    places.push(length);
    let mut compiled = Instructions::new(plain.name(), plain.source());
    for (at, group) in (0..).zip(groups) {
        let (span, line) = (plain.get_span(at), plain.get_line(at));
        for mut instruction in group {
            use Instruction as I;
            if let I::Iterate(to)
            | I::Jump(to)
            | I::JumpIfFalse(to)
            | I::JumpIfFalseOrPop(to)
            | I::JumpIfTrueOrPop(to)
            | I::BuildMacro(_, to, _) = &mut instruction
                && let Some(place) = places.get(*to as usize)
            {
                *to = *place;
            }
            match (span, line.map(u16::try_from)) {
                (Some(span), _) => compiled.add_with_span(instruction, span),
                (None, Some(Ok(line))) => compiled.add_with_line(instruction, line),
                _ => compiled.add(instruction),
            };
        }
    }
    compiled
}

/// An instruction with its account.
fn with_account<'a>(plain: &Instruction<'a>) -> Vec<Instruction<'a>> {
    use Instruction as I;
    match plain {
        // Texts of the template are printed as others are, since they may be printed often.
        I::EmitRaw(text) => vec![I::LoadConst(Value::from(*text)), I::Emit],
        I::Mul => vec![I::CallFunction(MULTIPLY, Some(2))],
        I::SetAttr(name) => vec![
            I::LoadConst(Value::from(*name)),
            I::CallFunction(SET_ATTRIBUTE, Some(3)),
            I::DiscardTop,
        ],
        I::CallMethod("cycle", count) => vec![I::CallFunction(CYCLE, *count)],
        I::Add
        | I::StringConcat
        | I::Slice
        | I::BuildList(_)
        | I::BuildTuple(_)
        | I::BuildMap(_) => vec![plain.clone(), I::CallFunction(KEEP, Some(1))],
        other => vec![other.clone()],
    }
}
