//! The prompts that every setting answers.

use std::collections::HashSet;

use dlmrs::Llm;
use dlmrs::sample::noise::{Purpose, Stream};

use crate::args::BenchArgs;
use crate::demo::problems;
use crate::failure::Failure;
use crate::generate::{self, Content, Framing, Prompt, Source};

/// Of random prompts, so that they are the same in every run.
const SEED: u64 = 0;

/// Word problems that come with the command.
const PROBLEMS: usize = 20;

/// Random prompts at most: all of them are in memory.
const RANDOM: usize = 10_000;

/// Prompts in files, before the model is loaded. None: there are no files.
pub(super) fn sources(args: &BenchArgs) -> Result<Option<Vec<Source>>, Failure> {
    if args.prompt_files.is_empty() {
        return Ok(None);
    }
    let mut sources = generate::files(&args.prompt_files, args.jsonl)?;
    let wanted = args.prompts.unwrap_or(sources.len());
    enough(sources.len(), wanted, "the prompts in the files are")?;
    sources.truncate(wanted);
    Ok(Some(sources))
}

/// The prompts as token ids: from files, random, or word problems.
pub(super) fn encode(sources: Option<Vec<Source>>, llm: &Llm, args: &BenchArgs) -> Result<Vec<Prompt>, Failure> {
    match (sources, args.prompt_tokens) {
        (Some(sources), _) => sources.into_iter().map(|source| generate::encode(source, llm, &Framing::default())).collect(),
        (None, Some(tokens)) => random(llm, args.prompts(), tokens),
        (None, None) if llm.tokenizer().is_none() => {
            let message = format!("{} has no tokenizer; give --prompt-tokens N, or --prompt-file with --jsonl and token ids", llm.name());
            Err(Failure::Said(message))
        }
        (None, None) => word_problems(llm, args.prompts()),
    }
}

fn word_problems(llm: &Llm, count: usize) -> Result<Vec<Prompt>, Failure> {
    enough(PROBLEMS, count, "the word problems that come with dlmrs are")?;
    let source = |problem: problems::Problem| Source { place: String::new(), id: None, content: Content::Text(problem.question) };
    problems::first(count)?.into_iter().map(|problem| generate::encode(source(problem), llm, &Framing::default())).collect()
}

fn enough(found: usize, wanted: usize, there: &str) -> Result<(), Failure> {
    match wanted <= found {
        true => Ok(()),
        false => Err(Failure::Said(format!("--prompts: is {wanted}, but {there} {found}; lower it"))),
    }
}

fn random(llm: &Llm, count: usize, tokens: usize) -> Result<Vec<Prompt>, Failure> {
    enough(RANDOM, count, "random prompts are at most")?;
    // The engine refuses it by name; before that, it must not fill the memory.
    let limit = llm.facts().max_model_len;
    if tokens > limit {
        return Err(Failure::Said(format!("--prompt-tokens: is {tokens}, but the model takes at most {limit}; lower it")));
    }
    let ordinary = ordinary(llm);
    if ordinary.is_empty() {
        return Err(Failure::Said(format!("{} has no ordinary tokens for --prompt-tokens; give --prompt-file", llm.name())));
    }
    let prompt = |number: u32| {
        let mut stream = Stream::new(SEED, Purpose::Token, 0, number);
        let ids = (0..tokens).map(|_| ordinary[(stream.uniform() * ordinary.len() as f64) as usize]).collect();
        Prompt { place: String::new(), id: None, ids, has_masks: false }
    };
    Ok((0..count as u32).map(prompt).collect())
}

/// Tokens of text: not the mask, no stop ids, nothing special.
fn ordinary(llm: &Llm) -> Vec<u32> {
    let reserved: HashSet<u32> = llm.facts().stop_token_ids.iter().copied().chain([llm.facts().mask_token_id]).collect();
    let is_text = |id: &u32| match llm.tokenizer() {
        Some(tokenizer) => !tokenizer.is_special(*id) && !tokenizer.is_control(*id) && tokenizer.id_to_token(*id).is_some(),
        None => true,
    };
    (0..llm.config().vocab as u32).filter(|id| !reserved.contains(id)).filter(is_text).collect()
}
