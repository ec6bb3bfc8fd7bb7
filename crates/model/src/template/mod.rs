//! Sandboxed Jinja templates.
//!
//! Templates come with checkpoints and task files and are not trusted. They cannot access files,
//! and their resources are limited: steps by the engine; the depth of an expression before it is
//! parsed; output ([`MAX_OUTPUT`]), strings and lists ([`MAX_TEXT`]) and their total by an account
//! kept during the run. A run that exceeds a limit is an error.

mod assignment;
mod compile;
mod guarded;
mod ledger;
mod missing;
mod namespace;
#[cfg(test)]
mod tests;

pub use ledger::{MAX_OUTPUT, MAX_TEXT};

use compile::Compiled;
use ledger::{Ledger, refusal};
use minijinja::machinery::{eval, make_string_output};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{FunctionArgs, FunctionResult};
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value,
};
use std::fmt;

/// Largest nesting depth of macro calls and loops.
const MAX_DEPTH: usize = 200;

/// An error in a template, or a limit that was exceeded.
#[derive(Debug)]
pub struct Fault {
    /// Line of the template from 1, if known.
    pub line: Option<usize>,
    /// The error.
    pub error: Error,
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self { line: error.line(), error }
    }
}

/// How a value is printed.
pub type Printer = fn(&mut Output<'_>, &mut State<'_, '_>, &Value) -> Result<(), Error>;

/// How a method is called on a value without methods of its own.
pub type Methods = fn(&mut State<'_, '_>, &Value, &str, &[Value]) -> Result<Value, Error>;

/// A template engine with limits.
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
    /// An engine for a template syntax. `steps` limits the steps of one run.
    #[must_use]
    pub fn new(syntax: SyntaxConfig, steps: u64, printer: Printer, methods: Methods) -> Self {
        let mut environment = Environment::new();
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_fuel(Some(steps));
        environment.set_recursion_limit(MAX_DEPTH);
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
        environment.add_function("namespace", assignment::namespace);
        environment.add_function(compile::KEEP, |state: &mut State<'_, '_>, value: Value| {
            Ledger::of(state).keep(value, false)
        });
        environment.add_function(compile::MULTIPLY, guarded::multiply);
        environment.add_function(compile::CYCLE, guarded::cycle);
        environment.add_function(
            compile::SET_ATTRIBUTE,
            |state: &mut State<'_, '_>, value: Value, target: &Value, name: &str| {
                assignment::set_attribute(state, value, target, name)
            },
        );
        Self { environment, syntax }
    }

    /// How undefined names behave.
    pub fn set_undefined(&mut self, behavior: UndefinedBehavior) {
        self.environment.set_undefined_behavior(behavior);
    }

    /// Adds a filter. The size of its result is accounted for; it must itself keep strings below
    /// [`MAX_TEXT`] bytes.
    pub fn add_filter<F, R, A>(&mut self, name: &'static str, filter: F)
    where
        F: minijinja::functions::Function<R, A>,
        R: FunctionResult,
        A: for<'a> FunctionArgs<'a>,
    {
        guarded::add(&mut self.environment, name, Value::from_function(filter));
    }

    /// Adds a function with short results.
    pub fn add_function<F, R, A>(&mut self, name: &'static str, function: F)
    where
        F: minijinja::functions::Function<R, A>,
        R: FunctionResult,
        A: for<'a> FunctionArgs<'a>,
    {
        self.environment.add_function(name, function);
    }

    /// Checks the syntax of a template.
    ///
    /// # Errors
    /// The syntax error.
    pub fn check(&self, source: &str) -> Result<(), Fault> {
        compile::template(source, &self.syntax).map(|_| ())
    }

    /// Renders a template.
    ///
    /// # Errors
    /// The template's error, or the limit that was exceeded.
    pub fn render(&self, source: &str, variables: Value) -> Result<String, Fault> {
        let compiled = compile::template(source, &self.syntax)?;
        let mut text = String::new();
        self.run(&compiled, variables, &mut make_string_output(&mut text))?;
        Ok(text)
    }

    /// For the error of a template about an undefined value: the field that it asks for, and those
    /// that there are.
    #[must_use]
    pub fn missing(&self, source: &str, variables: &Value, fault: &Fault) -> Option<String> {
        let compiled = compile::template(source, &self.syntax).ok()?;
        self.missing_in(&compiled, variables, fault)
    }

    /// As [`Self::missing`], of an expression.
    #[must_use]
    pub fn missing_in_expression(
        &self,
        source: &str,
        variables: &Value,
        fault: &Fault,
    ) -> Option<String> {
        let compiled = compile::expression(source, &self.syntax).ok()?;
        self.missing_in(&compiled, variables, fault)
    }

    fn missing_in(
        &self,
        compiled: &Compiled<'_>,
        variables: &Value,
        fault: &Fault,
    ) -> Option<String> {
        if fault.error.kind() != ErrorKind::UndefinedError {
            return None;
        }
        let known = |name: &str| self.environment.globals().any(|(global, _)| global == name);
        missing::missing(compiled, variables, fault.line, known)
    }

    /// Evaluates an expression.
    ///
    /// # Errors
    /// The expression's error, or the limit that was exceeded.
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
