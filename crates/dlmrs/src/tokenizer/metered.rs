//! Puts a price on what the engine's fuel does not see.
//!
//! A list that holds another one twice, which holds a third one twice, and so on, is small until something walks through it: forty
//! levels are as long to compare or to print as a list of 2^40 items, and the engine charges for the first level only. So a template
//! is changed before it is compiled: where a value goes into a comparison, a concatenation, a key or a filter that walks through
//! it, a filter of ours goes before, which weighs the value and gives it back unchanged. Lines stay where they are.

use minijinja::Error;
use minijinja::machinery::ast::{BinOpKind, Call, CallArg, Expr, Macro, Stmt};
use minijinja::machinery::parse;
use minijinja::syntax::SyntaxConfig;

use super::limits::{Exceeded, MAX_OPERATORS};

/// The filter that weighs a value to the last item.
pub(super) const WEIGHED: &str = "dlmrs_weighed";
/// The filter that counts a list's items.
pub(super) const COUNTED: &str = "dlmrs_counted";

/// The filter that makes a list of what would become one later.
pub(super) const KEPT: &str = "dlmrs_kept";

/// Filters and tests that look into the items of what they get. Others walk over the first level at most, for which fuel pays.
const LOOKS_INSIDE: &[&str] = &[
    "string",
    "upper",
    "lower",
    "title",
    "capitalize",
    "replace",
    "trim",
    "join",
    "split",
    "lines",
    "indent",
    "pprint",
    "sort",
    "unique",
    "min",
    "max",
    "groupby",
    "dictsort",
    "sum",
    "int",
    "float",
    "abs",
    "round",
    "bool",
    "escape",
    "e",
    "safe",
    "format",
    "select",
    "reject",
    "selectattr",
    "rejectattr",
    "map",
    "attr",
    "batch",
    "slice",
    "eq",
    "equalto",
    "==",
    "ne",
    "!=",
    "lt",
    "lessthan",
    "<",
    "le",
    "<=",
    "gt",
    "greaterthan",
    ">",
    "ge",
    ">=",
    "in",
    "divisibleby",
    "startingwith",
    "endingwith",
    "filter",
    "test",
];

/// The template with its prices.
pub(super) fn metered(source: &str, name: &str, syntax: SyntaxConfig) -> Result<String, Error> {
    let mut meter = Meter { edits: Vec::new(), depth: 0, deepest: 0 };
    meter.statement(&parse(source, name, syntax)?);
    if meter.deepest > MAX_OPERATORS {
        return Err(Exceeded::Operators.into());
    }
    // Inner operands come first, and a stable sort keeps them there.
    meter.edits.sort_by_key(|(at, _)| *at);
    let (mut out, mut done) = (String::with_capacity(source.len() + 20 * meter.edits.len()), 0);
    for (at, text) in meter.edits {
        out.push_str(source.get(done..at).unwrap_or_default());
        out.push_str(&text);
        done = at;
    }
    out.push_str(source.get(done..).unwrap_or_default());
    Ok(out)
}

struct Meter {
    /// What goes in, and at which byte.
    edits: Vec<(usize, String)>,
    /// How far inside an expression this is, and was.
    depth: usize,
    deepest: usize,
}

impl Meter {
    fn statements(&mut self, statements: &[Stmt]) {
        statements.iter().for_each(|statement| self.statement(statement));
    }

    fn statement(&mut self, statement: &Stmt) {
        match statement {
            Stmt::Template(node) => self.statements(&node.children),
            Stmt::EmitExpr(node) => self.inside(&node.expr),
            Stmt::ForLoop(node) => {
                self.all([&node.iter]);
                self.all(&node.filter_expr);
                self.statements(&node.body);
                self.statements(&node.else_body);
            }
            Stmt::IfCond(node) => {
                self.inside(&node.expr);
                self.statements(&node.true_body);
                self.statements(&node.false_body);
            }
            Stmt::WithBlock(node) => {
                self.all(node.assignments.iter().map(|(_, value)| value));
                self.statements(&node.body);
            }
            Stmt::Set(node) => {
                self.all([&node.target, &node.expr]);
                self.through(&node.expr, KEPT);
            }
            Stmt::SetBlock(node) => {
                self.all(&node.filter);
                self.statements(&node.body);
            }
            Stmt::AutoEscape(node) => {
                self.inside(&node.enabled);
                self.statements(&node.body);
            }
            Stmt::FilterBlock(node) => {
                self.inside(&node.filter);
                self.statements(&node.body);
            }
            Stmt::Block(node) => self.statements(&node.body),
            Stmt::Import(node) => self.inside(&node.expr),
            Stmt::FromImport(node) => self.inside(&node.expr),
            Stmt::Extends(node) => self.inside(&node.name),
            Stmt::Include(node) => self.inside(&node.name),
            Stmt::Macro(node) => self.declaration(node),
            Stmt::CallBlock(node) => {
                self.call(&node.call);
                self.declaration(&node.macro_decl);
            }
            Stmt::Do(node) => self.call(&node.call),
            Stmt::EmitRaw(_) | Stmt::Continue(_) | Stmt::Break(_) => (),
        }
    }

    fn declaration(&mut self, node: &Macro) {
        self.all(&node.defaults);
        self.statements(&node.body);
    }

    fn call(&mut self, node: &Call) {
        self.inside(&node.expr);
        self.arguments(&node.args, None);
    }

    fn all<'a, 'b: 'a>(&mut self, expressions: impl IntoIterator<Item = &'a Expr<'b>>) {
        expressions.into_iter().for_each(|expression| self.inside(expression));
    }

    fn arguments(&mut self, arguments: &[CallArg], filter: Option<&'static str>) {
        for argument in arguments {
            let (CallArg::Pos(value) | CallArg::Kwarg(_, value) | CallArg::PosSplat(value) | CallArg::KwargSplat(value)) = argument;
            self.inside(value);
            if let Some(filter) = filter {
                self.through(value, filter);
            }
        }
    }

    /// Looks for operands within an expression.
    fn inside(&mut self, expression: &Expr) {
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        if self.depth <= MAX_OPERATORS {
            self.operands(expression);
        }
        self.depth -= 1;
    }

    fn operands(&mut self, expression: &Expr) {
        match expression {
            Expr::Var(_) | Expr::Const(_) => (),
            Expr::Slice(node) => {
                self.inside(&node.expr);
                self.all([&node.start, &node.stop, &node.step].into_iter().flatten());
            }
            Expr::UnaryOp(node) => self.inside(&node.expr),
            Expr::BinOp(node) => {
                self.all([&node.left, &node.right]);
                if let Some(filter) = priced(node.op) {
                    self.through(&node.left, filter);
                    self.through(&node.right, filter);
                }
            }
            Expr::Compare(node) => {
                for operand in std::iter::once(&node.expr).chain(node.ops.iter().map(|op| &op.expr)) {
                    self.inside(operand);
                    self.through(operand, WEIGHED);
                }
            }
            Expr::IfExpr(node) => {
                self.all([&node.test_expr, &node.true_expr]);
                self.all(&node.false_expr);
            }
            Expr::Filter(node) => {
                self.all(&node.expr);
                let filter = LOOKS_INSIDE.contains(&node.name).then_some(WEIGHED);
                if let (Some(value), Some(filter)) = (&node.expr, filter) {
                    self.through(value, filter);
                }
                self.arguments(&node.args, filter);
            }
            Expr::Test(node) => {
                self.inside(&node.expr);
                let filter = LOOKS_INSIDE.contains(&node.name).then_some(WEIGHED);
                if let Some(filter) = filter {
                    self.through(&node.expr, filter);
                }
                self.arguments(&node.args, filter);
            }
            Expr::GetAttr(node) => self.inside(&node.expr),
            Expr::GetItem(node) => {
                self.all([&node.expr, &node.subscript_expr]);
                // A key of a map is hashed.
                self.through(&node.subscript_expr, WEIGHED);
            }
            Expr::Call(node) => self.call(node),
            Expr::List(node) => self.all(&node.items),
            Expr::Tuple(node) => self.all(&node.items),
            Expr::Map(node) => {
                self.all(&node.keys);
                self.all(&node.values);
                node.keys.iter().for_each(|key| self.through(key, WEIGHED));
            }
        }
    }

    /// Sends an operand through a filter. A filter binds more tightly than any operator, so sums and the like get parentheses.
    fn through(&mut self, operand: &Expr, filter: &'static str) {
        let span = operand.span();
        let (start, end) = (span.start_offset as usize, span.end_offset as usize);
        match operand {
            // Its result is a number, a truth or a text that has been paid for; a tuple is none of a list's promises.
            Expr::Const(_) | Expr::UnaryOp(_) | Expr::Compare(_) | Expr::Test(_) => (),
            Expr::Tuple(_) if filter == KEPT => (),
            Expr::BinOp(node) => match node.op {
                BinOpKind::ScAnd | BinOpKind::ScOr => {
                    self.through(&node.left, filter);
                    self.through(&node.right, filter);
                }
                BinOpKind::Add if filter == COUNTED => (), // each part has been counted
                BinOpKind::Add | BinOpKind::Mul => {
                    self.edits.push((start, "(".to_owned()));
                    self.edits.push((end, format!(")|{filter}")));
                }
                _ => (),
            },
            Expr::IfExpr(node) => {
                self.through(&node.true_expr, filter);
                node.false_expr.iter().for_each(|value| self.through(value, filter));
            }
            _ => self.edits.push((end, format!("|{filter}"))),
        }
    }
}

fn priced(op: BinOpKind) -> Option<&'static str> {
    match op {
        BinOpKind::Eq | BinOpKind::Ne | BinOpKind::Lt | BinOpKind::Lte | BinOpKind::Gt | BinOpKind::Gte | BinOpKind::In => Some(WEIGHED),
        BinOpKind::Concat => Some(WEIGHED),
        BinOpKind::Add | BinOpKind::Mul => Some(COUNTED),
        _ => None,
    }
}
