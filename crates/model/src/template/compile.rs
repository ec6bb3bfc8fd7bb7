//! Compilation of a template into instructions that account for memory.
//!
//! The engine limits the steps of a template but not the size of values, and its parser recurses
//! one frame per sign before a number. So the source is checked before it is parsed, and calls of
//! accounting functions are inserted after (or instead of) instructions that create values.

use super::Fault;
use super::ledger::refusal;
use minijinja::Value;
use minijinja::machinery::{CodeGenerator, Instruction, Instructions, Token, ast};
use minijinja::machinery::{parse, parse_expr, tokenize};
use minijinja::syntax::SyntaxConfig;
use std::collections::BTreeMap;

/// Largest number of operators in one expression, commas and brackets aside: each may be one more
/// level of recursion.
const LONGEST_CHAIN: usize = 400;
/// Largest number of `elif` in one template: each nests one level deeper.
const MAX_ELIFS: usize = 400;

/// Function names that no template can contain.
pub(super) const KEEP: &str = " keep";
pub(super) const MULTIPLY: &str = " multiply";
pub(super) const SET_ATTRIBUTE: &str = " set attribute";
pub(super) const CYCLE: &str = " cycle";

/// Instructions of a template and of its blocks.
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

/// Rejects expressions with a deep tree: parser, compiler and destructor recurse one frame per
/// level.
fn check_nesting(source: &str, expression: bool, syntax: &SyntaxConfig) -> Result<(), Fault> {
    // Operators since the last comma, for each open bracket.
    let mut open = vec![0];
    let mut elifs = 0;
    for token in tokenize(source, expression, syntax.clone()) {
        // The parser reports the error and its location.
        let Ok((token, span)) = token else { break };
        match token {
            Token::VariableStart | Token::BlockStart => open = vec![0],
            Token::BracketOpen | Token::ParenOpen | Token::BraceOpen => open.push(1),
            Token::BracketClose | Token::ParenClose | Token::BraceClose => {
                if open.len() > 1 {
                    open.pop();
                }
                // An expression continues after a bracket, as in a()()().
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
        let beyond = match elifs > MAX_ELIFS {
            true => format!("more than {MAX_ELIFS} times elif"),
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

/// Instructions with the accounting calls. Jump targets are adjusted.
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

/// An instruction with its accounting call.
fn with_account<'a>(plain: &Instruction<'a>) -> Vec<Instruction<'a>> {
    use Instruction as I;
    match plain {
        // Literal text is accounted for like other output, since a loop may print it often.
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
