//! MATH: where the answer stands and what counts as the same.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests

use dlmrs_tasks::{Context, Problem, Record, data, task};
use proptest::prelude::*;
use serde_json::json;

fn exercise(solution: &str) -> Box<dyn Problem> {
    let fields = json!({"problem": "What is it?", "solution": solution, "level": "Level 1", "type": "Algebra"});
    task("math").unwrap().read(&Record { place: "here".into(), fields: fields.as_object().unwrap().clone() }).unwrap()
}

/// (flexible, strict) of an answer to an exercise.
fn scores(wanted: &str, answer: &str) -> (bool, bool) {
    let found = exercise(&format!("So it is $\\boxed{{{wanted}}}$.")).score(answer, Context::default()).unwrap();
    (found[0], found[1])
}

fn equal(a: &str, b: &str) -> bool {
    scores(a, &format!("\\boxed{{{b}}}")).0
}

#[test]
fn pairs_that_mean_the_same() {
    let pairs = [
        ("2", " $2$ "),
        ("2", "2.0"),
        ("0.5", ".5"),
        ("007", "7"),
        ("-3", "\u{2212}3"),
        ("5", "5."),
        ("\\frac{1}{2}", "\\dfrac{1}{2}"),
        ("\\frac{1}{2}", "\\tfrac12"),
        ("\\frac{1}{2}", "1/2"),
        ("\\frac{1}{2}", "0.5"),
        ("\\frac{1}{2}", "\\frac{2}{4}"),
        ("-\\frac{2}{3}", "\\frac{-2}{3}"),
        ("-\\frac{2}{3}", "\\frac{2}{-3}"),
        ("\\frac{3}{2}", "1\\frac{1}{2}"),
        ("\\frac{3}{2}", "1 \\frac12"),
        ("\\frac{\\sqrt{3}}{2}", "\\frac{\\sqrt3}2"),
        ("\\frac{\\sqrt{2}}{2}", "\\frac{1}{\\sqrt{2}}"),
        ("3\\sqrt{2}", "\\sqrt{18}"),
        ("3\\sqrt{2}", "3 \\sqrt 2"),
        ("\\sqrt[3]{8}", "2"),
        ("10,000", "10000"),
        ("1,234,567.5", "1234567.5"),
        ("10{,}000", "10000"),
        ("10,\\!000", "10000"),
        ("\\$32.50", "32.5"),
        ("5", "5 dollars"),
        ("50\\%", "50"),
        ("90^\\circ", "90"),
        ("90^{\\circ}", "90 degrees"),
        ("90", "90°"),
        ("5\\text{ cm}", "5"),
        ("5\\text{ cm}^2", "5"),
        ("5\\mbox{ m}", "5 \\text{ meters}"),
        ("12", "12 square units."),
        ("3\\pi", "3\\pi \\text{ cm}^{3}"),
        ("x=5", "5"),
        ("5", "x = 5"),
        ("f(x)=x+1", "1 + x"),
        ("2\\pi r", "2 r \\pi"),
        ("\\pi r^2", "r^{2}\\pi"),
        ("\\left(1, 2\\right)", "(1,2)"),
        ("\\left( \\frac12, 3 \\right]", "(0.5, 3]"),
        ("[2,5)", "x \\in [2, 5)"),
        ("(3, \\frac{\\pi}{2})", "\\left(3,\\dfrac{\\pi}{2}\\right)"),
        ("\\{1,2,3\\}", "\\{3, 2, 1\\}"),
        ("\\{1,2\\}", "2, 1"),
        ("1,2", "2 \\text{ and } 1"),
        ("1,2,3", "1, 2, and 3"),
        ("3,-3", "\\pm 3"),
        ("1+\\sqrt{2},1-\\sqrt{2}", "1 \\pm \\sqrt{2}"),
        ("(-\\infty,-1)\\cup(2,\\infty)", "(-\\infty, -1) \\cup (2, \\infty)"),
        ("(-\\infty,-1)\\cup(2,\\infty)", "(2,\\infty) \\cup (-\\infty,-1)"),
        ("x \\le 3", "x\\leq3"),
        ("2<x<5", "2 < x < \\frac{10}{2}"),
        ("y = 2x + 3", "y=3+2x"),
        ("(x+1)^2", "x^2+2x+1"),
        ("2x+3", "3 + 2x"),
        ("x^{10}", "x^{5+5}"),
        ("(B)", "B"),
        ("\\text{(B)}", "(\\text{B})"),
        ("\\text{Evelyn}", "Evelyn"),
        ("\\text{even}", "Even"),
        ("6 \\cdot 7", "42"),
        ("2^{10}", "1024"),
        ("101_2", "101_{2}"),
        ("\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", "\\begin{pmatrix}1\\\\2\\end{pmatrix}"),
        ("\\boxed{7}", "7"),
    ];
    for (a, b) in pairs {
        assert!(equal(a, b), "{a}  should be  {b}");
        assert!(equal(b, a), "{b}  should be  {a}");
    }
}

#[test]
fn pairs_that_do_not() {
    let pairs = [
        ("2", "3"),
        ("2", "-2"),
        ("2", ""),
        ("0.5", "5"),
        ("\\frac{1}{2}", "\\frac{2}{1}"),
        ("\\frac{1}{3}", "0.33"),
        ("\\frac{1}{3}", "0.333333"),
        ("\\frac12", "12"),
        ("\\sqrt{2}", "2"),
        ("\\sqrt{2}", "1.414"),
        ("\\sqrt{12}", "\\sqrt{1}2"),
        ("1\\frac12", "\\frac12"),
        ("10,000", "10"),
        ("1000000000000", "1000000000001"),
        ("123456789012345678901", "123456789012345678902"),
        ("(1,2)", "(2,1)"),
        ("(1,2)", "[1,2]"),
        ("(1,2)", "(1,2]"),
        ("(1,2)", "(1,2,3)"),
        ("1,2", "1"),
        ("1,2", "1,2,2"),
        ("1,1,2", "1,2,2"),
        ("\\{1,2\\}", "\\{1,3\\}"),
        ("\\pm 3", "3"),
        ("(0,1)\\cup(2,3)", "(0,1)"),
        ("x<3", "x>3"),
        ("x<3", "x\\leq 3"),
        ("y=2x", "x=2y"),
        ("x+1", "x-1"),
        ("x^2", "2x"),
        ("x^{12}", "x^12"),
        ("x", "y"),
        ("ab", "a"),
        ("B", "C"),
        ("\\text{Evelyn}", "Evelny"),
        ("\\text{even}", "odd"),
        ("101_2", "101"),
        ("101_2", "101_3"),
        ("5\\text{ cm}", "6\\text{ cm}"),
        ("\\pi", "3.14159265"),
        ("\\frac{1}{0}", "1"),
        ("\\sqrt{-1}", "1"),
    ];
    for (a, b) in pairs {
        assert!(!equal(a, b), "{a}  should not be  {b}");
        assert!(b.is_empty() || !equal(b, a), "{b}  should not be  {a}");
    }
}

#[test]
fn the_answer_is_found() {
    // The answer, flexible, strict, where 12 is right.
    let cases = [
        ("Final Answer: The final answer is $12$. I hope it is correct.", true, true),
        ("Final Answer: The final answer is 12. I hope it is correct.", true, true),
        ("So $\\boxed{12}$.\nFinal Answer: The final answer is $12$. I hope it is correct.", true, true),
        ("Final Answer: The final answer is $12$", true, true), // cut off
        ("Final Answer: The final answer is $12$. I hope it is correct.\n\nProblem: 13. \\boxed{13}", true, true),
        ("Final Answer: The final answer is $13$. I hope it is correct. \\boxed{12}", false, false), // the sentence goes first
        ("It is $\\boxed{12}$.", true, false),
        ("$\\boxed{11}$, no, $\\boxed{12}$.", true, false),
        ("$\\boxed{12}$, no, $\\boxed{11}$.", false, false),
        ("$\\boxed {12}$", true, false),
        ("$\\boxed 12$ and so on", true, false),
        ("$\\fbox{12}$", true, false),
        ("\\boxed{\\frac{24}{2}}", true, false),
        ("\\boxed{12", false, false),
        ("\\boxed{}", false, false),
        ("The final answer is 12.", false, false),
        ("12", false, false),
        ("", false, false),
    ];
    for (answer, flexible, strict) in cases {
        assert_eq!(scores("12", answer), (flexible, strict), "{answer:?}");
    }
    assert_eq!(task("math").unwrap().metrics(), ["flexible", "strict"]);
    assert_eq!(scores("\\{1, 2\\}", "\\boxed{\\{2, 1\\}}"), (true, false)); // braces that are signs
}

#[test]
fn the_prompt() {
    let shot = exercise("Clearly $\\boxed{12}$.");
    let prompt = task("math").unwrap().prompt(&[shot.as_ref()], exercise("\\boxed{3}").as_ref());
    let wanted = "Problem:\nWhat is it?\n\nSolution: Clearly $\\boxed{12}$.\n\
                  Final Answer: The final answer is $12$. I hope it is correct.\n\n\
                  Problem:\nWhat is it?\n\nSolution:";
    assert_eq!(prompt, wanted);
    assert_eq!(shot.score(&shot.worked(), Context::default()).unwrap(), [true, true]);
}

#[test]
fn records() {
    let read = |fields: serde_json::Value| {
        let record = Record { place: "line 1 of math.jsonl".into(), fields: fields.as_object().unwrap().clone() };
        data::problems(task("math").unwrap(), &[record]).map(|mut problems| problems.remove(0))
    };
    // MATH-500 gives the answer apart.
    let apart = read(json!({"problem": "?", "solution": "Thus 4.", "answer": "4", "subject": "Algebra"})).unwrap();
    assert_eq!(apart.score("\\boxed{4}", Context::default()).unwrap(), [true, false]);
    let none = read(json!({"problem": "?", "solution": "Thus 4."})).err().unwrap().to_string();
    assert_eq!(none, "line 1 of math.jsonl: the field \"solution\" has no \\boxed{answer}");
    assert!(read(json!({"solution": "\\boxed{4}"})).err().unwrap().to_string().contains("\"problem\" is missing"));
}

#[test]
fn deep_and_long_answers_are_no_trouble() {
    for part in ["(", "{", "\\frac", "\\sqrt", "-", "^", "\\text{", "\\{", "1,", "\\boxed{", "x=", "\\"] {
        for count in [30, 190, 100_000] {
            let text = part.repeat(count);
            assert!(!scores("12", &format!("Final Answer: The final answer is {text}")).0);
            scores("12", &format!("\\boxed{{{text}"));
        }
    }
    let nested = format!("{}1{}", "(".repeat(400), ")".repeat(400));
    equal(&nested, "2");
}

proptest! {
    #[test]
    fn any_text_is_judged(a in "[-+*/^_=<,.(){}\\[\\]0-9a-c $%\\\\]{0,40}", b in "\\PC{0,40}") {
        equal("\\frac{1}{2}", &a);
        equal("\\frac{1}{2}", &b);
        scores("x^2", &format!("Final Answer: The final answer is {a}{b}"));
    }

    #[test]
    fn fractions_and_decimals_agree(numerator in -999i32..999, power in 0u32..4) {
        let decimal = f64::from(numerator) / 10f64.powi(power as i32);
        let fraction = format!("\\frac{{{numerator}}}{{{}}}", 10u32.pow(power));
        prop_assert!(equal(&fraction, &decimal.to_string()), "{} {}", fraction, decimal);
        prop_assert!(!equal(&fraction, &(decimal + 0.001).to_string()) || power > 3);
    }
}
