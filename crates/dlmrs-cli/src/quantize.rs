//! `dlmrs quantize`: a model written with its weights rounded to integers, and what that cost.

use std::sync::Arc;

use dlmrs::checkpoint::{Folder, Quantised, quantise};
use dlmrs::{Error, Llm, LoadOptions, Precision, Request, SamplingParams};
use serde_json::json;

use crate::args::QuantizeArgs;
use crate::console::Console;
use crate::demo::problems;
use crate::failure::Failure;
use crate::generate::{self, Content, Framing, Source};

/// Writes the model and compares it with its source.
pub(crate) fn run(args: &QuantizeArgs, console: &mut Console<'_>, interrupt: &dyn Fn() -> bool) -> Result<(), Failure> {
    let precision: Precision = args.dtype.parse()?;
    let sources = sources(args)?;
    let folder = Folder::open(&args.model)?;
    let written = quantise(&folder, &args.out, precision, args.threads, &mut |done, all| {
        console.show_wait(&format!("quantize: {} % of {}", 100 * done / all.max(1), args.model));
        !interrupt()
    });
    console.clear_progress();
    let written = written?;
    let compared = if args.no_compare { None } else { compare(args, sources, console, interrupt)? };
    let text = match args.json {
        true => as_json(args, &written, compared.as_ref()),
        false => as_text(args, &written, compared.as_ref()),
    };
    Ok(console.print(&format!("{text}\n"))?)
}

/// What both models are asked: prompts from files, or word problems.
fn sources(args: &QuantizeArgs) -> Result<Vec<Source>, Failure> {
    if args.prompt_files.is_empty() {
        let source = |problem: problems::Problem| Source { place: String::new(), id: None, content: Content::Text(problem.question) };
        return Ok(problems::first(8)?.into_iter().map(source).collect());
    }
    generate::files(&args.prompt_files, args.jsonl)
}

/// How far the rounded model agrees with its source.
struct Compared {
    /// How the source's weights are held.
    source: &'static str,
    prompts: usize,
    /// Masked slots with the same most likely token, and all.
    slots: (usize, usize),
    /// Tokens of answers that are the same at the same place, and all.
    tokens: (usize, usize),
}

/// None, and a word why, where there is too little memory for the source, or no tokenizer for text.
fn compare(
    args: &QuantizeArgs,
    sources: Vec<Source>,
    console: &mut Console<'_>,
    interrupt: &dyn Fn() -> bool,
) -> Result<Option<Compared>, Failure> {
    let source = match load(&args.model, args, console, interrupt) {
        Ok(llm) => llm,
        Err(error @ Error::Capacity { .. }) => {
            console.say("warning", &format!("written, but not compared with its source: {error}"));
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    if source.tokenizer().is_none() && args.prompt_files.is_empty() {
        console.say("warning", "written, but not compared: the model has no tokenizer; give --prompt-file with --jsonl and token ids");
        return Ok(None);
    }
    let prompts: Vec<Vec<u32>> = sources
        .into_iter()
        .map(|prompt| generate::encode(prompt, &source, &Framing::default()).map(|prompt| prompt.ids))
        .collect::<Result<_, _>>()?;
    let held = source.model().weights();
    let own = answers(&source, &prompts, args.max_tokens, interrupt)?;
    let own_guesses = guesses(&source, &prompts, &own)?;
    // Only one of the two is in memory at a time.
    drop(source);
    let rounded = load(&args.out.to_string_lossy(), args, console, interrupt)?;
    let answers = answers(&rounded, &prompts, args.max_tokens, interrupt)?;
    let guesses = guesses(&rounded, &prompts, &own)?;
    let same = own_guesses.iter().zip(&guesses).filter(|(own, other)| own == other).count();
    Ok(Some(Compared { source: held, prompts: prompts.len(), slots: (same, guesses.len()), tokens: alike(&own, &answers) }))
}

fn load(model: &str, args: &QuantizeArgs, console: &mut Console<'_>, interrupt: &dyn Fn() -> bool) -> dlmrs::Result<Arc<Llm>> {
    let options = LoadOptions { device: "cpu".into(), threads: args.threads, ..LoadOptions::default() };
    let llm = Llm::load_with(model, &options, &args.overrides.overrides(), &mut |done, parts| {
        console.show_wait(&format!("loading: {} % of {model}", 100 * done / parts));
        !interrupt()
    });
    console.clear_progress();
    llm
}

/// Greedy answers by the model's own method.
fn answers(llm: &Arc<Llm>, prompts: &[Vec<u32>], max_tokens: usize, interrupt: &dyn Fn() -> bool) -> dlmrs::Result<Vec<Vec<u32>>> {
    let request = |prompt: &Vec<u32>| {
        let params = SamplingParams { max_tokens, ..SamplingParams::default() };
        Request { prompt: prompt.clone(), params, decoding: None }
    };
    let outputs = llm.generate_with(prompts.iter().map(request).collect(), &mut |_, _| true, || !interrupt())?;
    Ok(outputs.into_iter().map(|output| output.token_ids).collect())
}

/// The most likely token of every second slot of these answers, all of them masked.
fn guesses(llm: &Llm, prompts: &[Vec<u32>], answers: &[Vec<u32>]) -> dlmrs::Result<Vec<usize>> {
    let mut all = Vec::new();
    for (prompt, answer) in prompts.iter().zip(answers) {
        let mut tokens = [prompt.as_slice(), answer].concat();
        let masked: Vec<u32> = (prompt.len() as u32..tokens.len() as u32).step_by(2).collect();
        for slot in &masked {
            tokens[*slot as usize] = llm.facts().mask_token_id;
        }
        // The row that predicts a slot is the one before it, where predictions are shifted.
        let rows = masked.iter().map(|slot| slot.saturating_sub(u32::from(llm.config().shift))).collect();
        let most_likely = |row: &Vec<f32>| (0..row.len()).fold(0, |best, id| if row[id] > row[best] { id } else { best });
        all.extend(llm.logits(&tokens, None, None, Some(rows))?.iter().map(most_likely));
    }
    Ok(all)
}

/// Tokens that are the same at the same place, and places.
fn alike(own: &[Vec<u32>], other: &[Vec<u32>]) -> (usize, usize) {
    let pairs = || own.iter().zip(other);
    let same = pairs().map(|(own, other)| own.iter().zip(other).filter(|(own, other)| own == other).count()).sum();
    (same, pairs().map(|(own, other)| own.len().max(other.len())).sum())
}

fn percent((same, all): (usize, usize)) -> f64 {
    if all == 0 { 100.0 } else { 100.0 * same as f64 / all as f64 }
}

fn as_text(args: &QuantizeArgs, written: &Quantised, compared: Option<&Compared>) -> String {
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let mut text = format!(
        "{}: {} matrices as {}, {:.1} MB of weights instead of {:.1} MB",
        args.out.display(),
        written.matrices,
        args.dtype,
        megabytes(written.bytes),
        megabytes(written.source_bytes)
    );
    if let Some(Compared { source, prompts, slots, tokens }) = compared {
        text.push_str(&format!(
            "\ncompared with its source ({source}) on {prompts} prompts: the most likely token is the same in {} of {} masked slots ({:.1} %), \
             and {} of {} tokens of the answers are ({:.1} %)",
            slots.0,
            slots.1,
            percent(*slots),
            tokens.0,
            tokens.1,
            percent(*tokens)
        ));
    }
    text
}

fn as_json(args: &QuantizeArgs, written: &Quantised, compared: Option<&Compared>) -> String {
    let compared = compared.map(|compared| {
        json!({
            "source_dtype": compared.source, "prompts": compared.prompts,
            "slots": compared.slots.1, "same_top_1": compared.slots.0,
            "tokens": compared.tokens.1, "same_tokens": compared.tokens.0,
        })
    });
    let report = json!({
        "out": args.out.display().to_string(), "dtype": args.dtype, "matrices": written.matrices,
        "bytes": written.bytes, "source_bytes": written.source_bytes, "compared": compared,
    });
    format!("{report:#}")
}
