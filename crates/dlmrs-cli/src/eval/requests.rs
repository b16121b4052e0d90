//! Problems as requests.

use dlmrs::{Decoding, Llm, Request, SamplingParams};
use dlmrs_tasks::Task;

use super::problems::Asked;
use crate::args::EvalArgs;
use crate::failure::Failure;
use crate::generate::{self, Content, Framing, Source};

/// What the user asks of sampling; what is not said is the task's own.
pub(super) fn params(args: &EvalArgs, task: &dyn Task) -> Result<SamplingParams, Failure> {
    let (given, own) = (args.sampling.params(), task.prompting());
    let stop = match given.stop.is_empty() {
        true => own.stop.iter().map(|stop| (*stop).to_string()).collect(),
        false => given.stop,
    };
    let max_tokens = args.sampling.max_tokens.unwrap_or(own.max_tokens);
    if max_tokens == 0 {
        return Err(Failure::Said("max_tokens: is 0, so there would be no answers; at least 1 is needed".into()));
    }
    Ok(SamplingParams { max_tokens, stop, seed: Some(given.seed.unwrap_or(0)), ..given })
}

/// A request that is wrong only if all are.
pub(super) fn probe(requests: &[Request]) -> Vec<Request> {
    let shortest = |request: &Request| Request { prompt: request.prompt.iter().take(1).copied().collect(), ..request.clone() };
    requests.first().map(shortest).into_iter().collect()
}

/// A problem as the engine takes it.
pub(super) fn request(asked: &Asked, llm: &Llm, args: &EvalArgs, params: &SamplingParams, decoding: &Decoding) -> Result<Request, Failure> {
    let source = Source { place: asked.place.clone(), id: None, content: Content::Text(asked.prompt.clone()) };
    let framing = Framing { args: Some(&args.framing), ..Framing::default() };
    let prompt = generate::encode(source, llm, &framing)?.ids;
    // Noise depends on seed and position: with one seed for all, the same places of all answers would draw the same noise.
    let seed = params.seed.map(|seed| seed.wrapping_add(asked.index as u64));
    Ok(Request { prompt, params: SamplingParams { seed, ..params.clone() }, decoding: Some(decoding.clone()) })
}
