//! The value of an expression, with letters standing for numbers.

/// Nesting beyond this is no answer of a person.
const DEEPEST: usize = 40;

/// Evaluates a normalised expression: numbers, letters, `\pi` and Greek letters, `+ - * / ^`, `\frac`, `\sqrt`, brackets, factors side
/// by side, mixed numbers. None where it is anything else. A letter has the value that `letter` gives to its name.
pub(super) fn value(text: &str, letter: &dyn Fn(&str) -> f64) -> Option<f64> {
    let mut parser = Parser { rest: text, letter, depth: 0 };
    let found = parser.sum()?;
    (parser.rest.is_empty() && found.is_finite()).then_some(found)
}

struct Parser<'a> {
    rest: &'a str,
    letter: &'a dyn Fn(&str) -> f64,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn eat(&mut self, start: &str) -> bool {
        let rest = self.rest.strip_prefix(start);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// As many characters as `belongs` accepts.
    fn run(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let (run, rest) = self.rest.split_at(end);
        self.rest = rest;
        run
    }

    fn sum(&mut self) -> Option<f64> {
        let mut sum = self.product()?;
        loop {
            if self.eat("+") {
                sum += self.product()?;
            } else if self.eat("-") {
                sum -= self.product()?;
            } else {
                return Some(sum);
            }
        }
    }

    /// Factors, also side by side.
    fn product(&mut self) -> Option<f64> {
        let mut negative = false;
        while matches!(self.peek(), Some('+' | '-')) {
            negative ^= self.eat("-");
            self.eat("+");
        }
        let mut product = self.power()?;
        loop {
            if self.eat("*") {
                product *= self.power()?;
            } else if self.eat("/") {
                product /= self.power()?;
            } else if self.peek().is_some_and(|c| c.is_alphanumeric() || matches!(c, '(' | '{' | '\\' | '.')) {
                product *= self.power()?;
            } else {
                return Some(if negative { -product } else { product });
            }
        }
    }

    fn power(&mut self) -> Option<f64> {
        let base = self.atom()?;
        if !self.eat("^") {
            return Some(base);
        }
        let exponent = self.argument()?;
        // Two exponents in a row are not mathematics.
        if self.peek() == Some('^') { None } else { Some(base.powf(exponent)) }
    }

    /// A group in braces, or one character.
    fn argument(&mut self) -> Option<f64> {
        if self.peek() == Some('{') {
            return self.atom();
        }
        let length = self.peek()?.len_utf8();
        let (first, rest) = self.rest.split_at(length);
        if first == "\\" {
            return self.atom();
        }
        self.rest = rest;
        if first.chars().all(char::is_alphabetic) { Some((self.letter)(first)) } else { first.parse().ok() }
    }

    fn atom(&mut self) -> Option<f64> {
        self.depth += 1;
        let found = if self.depth > DEEPEST { None } else { self.group_or_name() };
        self.depth -= 1;
        found
    }

    fn group_or_name(&mut self) -> Option<f64> {
        if self.eat("(") {
            return self.closed(")");
        }
        if self.eat("{") {
            return self.closed("}");
        }
        if self.eat("\\frac") {
            return Some(self.argument()? / self.argument()?);
        }
        if self.eat("\\sqrt") {
            let degree = if self.eat("[") { self.closed("]")? } else { 2.0 };
            let radicand = self.argument()?;
            return Some(if degree == 2.0 { radicand.sqrt() } else { radicand.powf(1.0 / degree) });
        }
        if self.eat("\\") {
            let name = self.run(|c| c.is_ascii_alphabetic());
            self.eat(" ");
            return match name {
                "pi" => Some(std::f64::consts::PI),
                "alpha" | "beta" | "gamma" | "delta" | "theta" | "lambda" | "mu" | "phi" | "omega" => Some((self.letter)(name)),
                _ => None,
            };
        }
        match self.peek()? {
            c if c.is_ascii_digit() || c == '.' => self.number(),
            c if c.is_alphabetic() => {
                let (name, rest) = self.rest.split_at(c.len_utf8());
                self.rest = rest;
                Some((self.letter)(name))
            }
            _ => None,
        }
    }

    fn closed(&mut self, bracket: &str) -> Option<f64> {
        let inner = self.sum()?;
        self.eat(bracket).then_some(inner)
    }

    /// A number; whole, with a fraction of whole numbers behind it, it is a mixed number.
    fn number(&mut self) -> Option<f64> {
        let digits = self.run(|c| c.is_ascii_digit() || c == '.');
        let number: f64 = digits.parse().ok()?;
        if digits.contains('.') || !self.rest.starts_with("\\frac") {
            return Some(number);
        }
        let mut ahead = Parser { rest: self.rest, letter: self.letter, depth: self.depth };
        ahead.eat("\\frac");
        let mut whole = || -> Option<f64> {
            ahead.eat("{");
            let part = ahead.run(|c| c.is_ascii_digit());
            ahead.eat("}").then_some(part)?.parse().ok()
        };
        match (whole(), whole()) {
            (Some(above), Some(below)) => {
                self.rest = ahead.rest;
                Some(number + above / below)
            }
            _ => Some(number),
        }
    }
}
