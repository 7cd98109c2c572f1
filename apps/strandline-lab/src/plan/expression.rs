//! Arithmetic expressions over named numbers: `({/a} + {/b}) / 1e6`.
//!
//! They consist of numbers, `+ - * /`, parentheses, `max(a, b)` and `min(a, b)`, and names in braces, which the
//! caller resolves.

/// A parsed expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// A number.
    Number(f64),
    /// A name in braces.
    Name(String),
    /// A binary operation.
    Operation(Box<Expression>, Operator, Box<Expression>),
}

/// A binary operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// Their sum.
    Add,
    /// Their difference.
    Subtract,
    /// Their product.
    Multiply,
    /// Their quotient.
    Divide,
    /// The larger one.
    Max,
    /// The smaller one.
    Min,
}

/// Maximum nesting of parentheses.
const DEPTH_MAX: u32 = 50;
/// Operations at most: each one is a level of what is made of an expression.
const OPERATIONS_MAX: u32 = 1000;

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    /// If the text is not an expression; the error says where.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut reader = Reader { text, rest: text, depth: 0, operations: 0 };
        let expression = reader.sum()?;
        match reader.rest.trim_start() {
            "" => Ok(expression),
            left => Err(format!("'{text}': unexpected '{left}'")),
        }
    }

    /// Evaluates the expression; `resolve` returns the values of names.
    ///
    /// # Errors
    /// The error of `resolve`, or a division by zero.
    pub fn value(&self, resolve: &dyn Fn(&str) -> Result<f64, String>) -> Result<f64, String> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::Name(name) => resolve(name),
            Self::Operation(left, operator, right) => {
                let (left, right) = (left.value(resolve)?, right.value(resolve)?);
                match operator {
                    Operator::Add => Ok(left + right),
                    Operator::Subtract => Ok(left - right),
                    Operator::Multiply => Ok(left * right),
                    Operator::Divide if right == 0.0 => Err("division by zero".to_owned()),
                    Operator::Divide => Ok(left / right),
                    Operator::Max => Ok(left.max(right)),
                    Operator::Min => Ok(left.min(right)),
                }
            }
        }
    }

    /// Returns the names in the expression.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Number(_) => Vec::new(),
            Self::Name(name) => vec![name],
            Self::Operation(left, _, right) => [left.names(), right.names()].concat(),
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    depth: u32,
    operations: u32,
}

impl Reader<'_> {
    fn sum(&mut self) -> Result<Expression, String> {
        let mut left = self.product()?;
        while let Some(operator) = self.operator(&[('+', Operator::Add), ('-', Operator::Subtract)])? {
            left = Expression::Operation(Box::new(left), operator, Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Expression, String> {
        let mut left = self.atom()?;
        while let Some(operator) = self.operator(&[('*', Operator::Multiply), ('/', Operator::Divide)])? {
            left = Expression::Operation(Box::new(left), operator, Box::new(self.atom()?));
        }
        Ok(left)
    }

    fn operator(&mut self, known: &[(char, Operator)]) -> Result<Option<Operator>, String> {
        let rest = self.rest.trim_start();
        let Some((sign, operator)) = known.iter().find(|(sign, _)| rest.starts_with(*sign)) else {
            return Ok(None);
        };
        self.rest = rest.strip_prefix(*sign).unwrap_or(rest);
        self.count()?;
        Ok(Some(*operator))
    }

    fn count(&mut self) -> Result<(), String> {
        self.operations += 1;
        if self.operations > OPERATIONS_MAX {
            return Err(format!("expressions are limited to {OPERATIONS_MAX} operations"));
        }
        Ok(())
    }

    /// Reads from after an opening parenthesis to its end: one expression, or with a function several between commas.
    fn enclosed(&mut self, function: Option<Operator>) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("'{}': more than {DEPTH_MAX} parentheses", self.text));
        }
        let mut expression = self.sum()?;
        while let Some((operator, next)) = function.zip(self.rest.trim_start().strip_prefix(',')) {
            self.rest = next;
            self.count()?;
            expression = Expression::Operation(Box::new(expression), operator, Box::new(self.sum()?));
        }
        let after = self.rest.trim_start().strip_prefix(')');
        self.rest = after.ok_or_else(|| format!("'{}': unclosed (", self.text))?;
        self.depth -= 1;
        Ok(expression)
    }

    fn atom(&mut self) -> Result<Expression, String> {
        let rest = self.rest.trim_start();
        if let Some(inner) = rest.strip_prefix('(') {
            self.rest = inner;
            return self.enclosed(None);
        }
        for (name, operator) in [("max(", Operator::Max), ("min(", Operator::Min)] {
            if let Some(inner) = rest.strip_prefix(name) {
                self.rest = inner;
                return self.enclosed(Some(operator));
            }
        }
        if let Some(inner) = rest.strip_prefix('{') {
            let (name, after) =
                inner.split_once('}').ok_or_else(|| format!("'{}': unclosed {{", self.text))?;
            self.rest = after;
            return Ok(Expression::Name(name.trim().to_owned()));
        }
        let end = number_end(rest);
        let (number, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        self.rest = after;
        number.parse().map(Expression::Number).map_err(|_| {
            format!(
                "'{}': expected a number, a {{name}} or ( {}",
                self.text,
                if rest.is_empty() { "at the end".to_owned() } else { format!("before '{rest}'") }
            )
        })
    }
}

/// Returns where a number such as `1.5e-6` ends.
fn number_end(text: &str) -> usize {
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        let exponent = matches!(before, 'e' | 'E') && matches!(c, '+' | '-');
        if !(c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E') || exponent) {
            return at;
        }
        before = c;
    }
    text.len()
}
