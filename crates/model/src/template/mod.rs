//! Templates: Jinja of files that may not mean well.
//!
//! Templates come with checkpoints and task files. They reach no file, and what they may do is
//! bounded: their steps by the engine; the depth of an expression before it is parsed; what they
//! print ([`MOST_OUTPUT`]), the texts and lists that they make ([`MOST_TEXT`]) and all of these
//! together by an account that is kept while they run. A run that goes beyond is an error.

mod compile;
mod guarded;
mod ledger;
mod namespace;
#[cfg(test)]
mod tests;

pub use ledger::{MOST_OUTPUT, MOST_TEXT};

use compile::Compiled;
use ledger::{Ledger, refusal};
use minijinja::machinery::{eval, make_string_output};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{FunctionArgs, FunctionResult};
use minijinja::{AutoEscape, Environment, Error, Output, State, UndefinedBehavior, Value};
use std::fmt;

/// Calls of macros and loops inside each other.
const DEEPEST: usize = 200;

/// What is wrong with a template, or the bound that it meets.
#[derive(Debug)]
pub struct Fault {
    /// The line of the template, from one, where it is known.
    pub line: Option<usize>,
    /// What it is.
    pub error: Error,
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self { line: error.line(), error }
    }
}

/// How a value is printed.
pub type Printer = fn(&mut Output<'_>, &mut State<'_, '_>, &Value) -> Result<(), Error>;

/// How a method is called on a value that has none of its own.
pub type Methods = fn(&mut State<'_, '_>, &Value, &str, &[Value]) -> Result<Value, Error>;

/// The engine, with the bounds of all templates.
pub struct Engine {
    environment: Environment<'static>,
    syntax: SyntaxConfig,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl Engine {
    /// An engine for templates of a syntax. `steps` bounds the steps of one run.
    #[must_use]
    pub fn new(syntax: SyntaxConfig, steps: u64, printer: Printer, methods: Methods) -> Self {
        let mut environment = Environment::new();
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_fuel(Some(steps));
        environment.set_recursion_limit(DEEPEST);
        environment.set_formatter(move |out, state, value| {
            let text = match value.as_str() {
                Some(text) => text.len(),
                None => Ledger::of(state).measure(value)?.text,
            };
            Ledger::of(state).print(text)?;
            printer(out, state, value)
        });
        environment.set_unknown_method_callback(move |state, value, name, args| {
            guarded::method(state, value, name, args, methods)
        });
        guarded::guard_filters(&mut environment);
        environment.add_function("namespace", namespace::namespace);
        environment.add_function(compile::KEEP, |state: &mut State<'_, '_>, value: Value| {
            Ledger::of(state).keep(value, false)
        });
        environment.add_function(compile::MULTIPLY, guarded::multiply);
        environment.add_function(compile::CYCLE, guarded::cycle);
        environment.add_function(
            compile::SET_ATTRIBUTE,
            |state: &mut State<'_, '_>, value: Value, target: &Value, name: &str| {
                namespace::set_attribute(state, value, target, name)
            },
        );
        Self { environment, syntax }
    }

    /// What is said of names that have no value.
    pub fn set_undefined(&mut self, behavior: UndefinedBehavior) {
        self.environment.set_undefined_behavior(behavior);
    }

    /// Adds a filter. What it makes is counted; that it makes no more than a text of
    /// [`MOST_TEXT`] bytes is its own care.
    pub fn add_filter<F, R, A>(&mut self, name: &'static str, filter: F)
    where
        F: minijinja::functions::Function<R, A>,
        R: FunctionResult,
        A: for<'a> FunctionArgs<'a>,
    {
        guarded::add(&mut self.environment, name, Value::from_function(filter));
    }

    /// Adds a function whose results are short.
    pub fn add_function<F, R, A>(&mut self, name: &'static str, function: F)
    where
        F: minijinja::functions::Function<R, A>,
        R: FunctionResult,
        A: for<'a> FunctionArgs<'a>,
    {
        self.environment.add_function(name, function);
    }

    /// Whether a template is written as templates are.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, source: &str) -> Result<(), Fault> {
        compile::template(source, &self.syntax).map(|_| ())
    }

    /// The text that a template makes.
    ///
    /// # Errors
    /// What is wrong with the template, or the bound that it meets.
    pub fn render(&self, source: &str, variables: Value) -> Result<String, Fault> {
        let compiled = compile::template(source, &self.syntax)?;
        let mut text = String::new();
        self.run(&compiled, variables, &mut make_string_output(&mut text))?;
        Ok(text)
    }

    /// The value of an expression.
    ///
    /// # Errors
    /// What is wrong with the expression, or the bound that it meets.
    pub fn evaluate(&self, source: &str, variables: Value) -> Result<Value, Fault> {
        let compiled = compile::expression(source, &self.syntax)?;
        let mut unused = String::new();
        let value = self.run(&compiled, variables, &mut make_string_output(&mut unused))?;
        let value = value.ok_or_else(|| refusal("an expression without a value"))?;
        // It is handed on in full.
        Ledger::default().measure(&value)?;
        Ok(value)
    }

    fn run(
        &self,
        compiled: &Compiled<'_>,
        variables: Value,
        output: &mut Output<'_>,
    ) -> Result<Option<Value>, Error> {
        let Compiled { instructions, blocks } = compiled;
        let none = AutoEscape::None;
        let (value, state) =
            eval(&self.environment, instructions, variables, blocks, output, none)?;
        drop(state);
        Ok(value)
    }
}
