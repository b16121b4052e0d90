//! `dlmrs eval`: how often a model is right, and what that costs.

mod against;
mod digest;
mod judge;
mod lines;
mod manifest;
mod model_files;
mod outcome;
mod problems;
mod recorder;
mod requests;
mod results;
mod settings;
mod shots;
mod summary;

use dlmrs::Request;
use dlmrs_tasks::Context;

use crate::args::EvalArgs;
use crate::batch;
use crate::console::Console;
use crate::failure::Failure;
use against::Other;
use judge::Judge;
use manifest::Facts;
use outcome::Outcome;
use problems::{Asked, Problems};
use recorder::{Pace, Recorder};
use results::Results;
use summary::Summary;

/// Reads the problems, loads the model, checks everything, and asks.
pub(crate) fn run(args: &EvalArgs, console: &mut Console<'_>, interrupt: &dyn Fn() -> bool) -> Result<(), Failure> {
    let model = match &args.model {
        Some(model) if !args.list_tasks => model,
        _ => return list(console),
    };
    let named = problems::named_task(args)?;
    // Before anything is read. Data without a task are word problems, which run no code.
    let judge = named.map(|task| Judge::of_task(args, task, console)).transpose()?.flatten();
    let problems = problems::read(args, named)?;
    let other = args.against.as_deref().map(|path| Other::read(path, &problems)).transpose()?;
    let mut results = args.out.as_deref().map(|folder| Results::claim(folder, args.resume)).transpose()?;
    let old = results.as_ref().map(Results::manifest).transpose()?.flatten();

    let llm = console.load(model, &args.load, &args.overrides.overrides(), interrupt)?;
    let decoding = args.decoding.decoding(&llm)?;
    let params = requests::params(args, problems.task)?;
    let request = |asked| requests::request(asked, &llm, args, &params, &decoding);
    let mut requests: Vec<Request> = problems.asked.iter().map(request).collect::<Result<_, _>>()?;
    let places: Vec<&str> = problems.asked.iter().map(|asked| asked.place.as_str()).collect();
    // Settings that are wrong for every problem are told without the place of the first.
    batch::check(&llm, &requests::probe(&requests), &[])?;
    batch::check(&llm, &requests, &places)?;

    let mut outcomes = match (&mut results, &args.out) {
        (Some(results), Some(folder)) => {
            let model_files = model_files::digests(model, console, interrupt)?;
            let draft_files = match args.load.draft_name() {
                Some(draft) => model_files::digests(draft, console, interrupt)?,
                None => serde_json::Value::Null,
            };
            let chat = args.framing.is_chat(llm.require_tokenizer()?);
            let facts = Facts {
                args,
                llm: &llm,
                model_files,
                draft_files,
                problems: &problems,
                params: &params,
                decoding: &decoding,
                chat,
                judge: judge.as_ref(),
            };
            let new = manifest::manifest(&facts)?;
            if let Some(old) = &old {
                manifest::check_same(folder, old, &new)?;
            }
            let outcomes = results.begin(&new, old.as_ref())?;
            check_done(&outcomes, &problems, &folder.display().to_string())?;
            outcomes
        }
        _ => Vec::new(),
    };

    let done = outcomes.len();
    let requests = requests.split_off(done);
    let seeds: Vec<u64> = requests.iter().filter_map(|request| request.params.seed).collect();
    if let Some(results) = results.as_ref().filter(|_| !requests.is_empty()) {
        results.reopen()?;
    }
    let mut recorder = Recorder {
        task: problems.task,
        context: Context { python: judge.as_ref().map(Judge::path) },
        asked: &problems.asked[done..],
        seeds: &seeds,
        results: results.as_mut(),
        pace: Pace::new(problems.task, &outcomes),
        outcomes: &mut outcomes,
        console,
    };
    let ran = batch::run(&llm, requests, &places[done..], args.batch, interrupt, &mut recorder);
    console.clear_progress();
    if let (Err(Failure::Interrupted), Some(_)) = (&ran, &results) {
        console.note(&format!("dlmrs: {} of {} problems are done; --resume goes on", outcomes.len(), problems.asked.len()));
    }
    ran?;

    let summary = Summary::new(llm.name(), problems.task, &outcomes);
    let comparison = other.map(|other| other.compare(problems.task, &outcomes));
    if let Some(results) = &results {
        results.finish(&summary.json())?;
    }
    let text = match args.json {
        true => {
            let mut json = summary.json();
            if let Some(comparison) = &comparison {
                json["against"] = comparison.json();
            }
            format!("{json:#}\n")
        }
        false => summary.text() + &comparison.map(|comparison| comparison.text()).unwrap_or_default(),
    };
    console.print(&text)?;
    match outcomes.iter().find_map(|outcome| outcome.error.as_ref()) {
        Some(error) if outcomes.iter().all(|outcome| outcome.error.is_some()) => {
            Err(Failure::Said(format!("no problem got an answer; the first one's error is: {error}")))
        }
        _ => Ok(()),
    }
}

/// The tasks, and what they need.
fn list(console: &mut Console<'_>) -> Result<(), Failure> {
    let mut text = String::new();
    for task in dlmrs_tasks::tasks() {
        let prompting = task.prompting();
        let (shots, tokens, metrics) = (prompting.shots, prompting.max_tokens, task.metrics().join(", "));
        text += &format!("{}\n    {}\n    {shots} worked examples, up to {tokens} tokens; scores: {metrics}\n", task.name(), task.about());
        if task.runs_code() {
            text += "    runs what the model writes: needs --allow-code-execution\n";
        }
    }
    Ok(console.print(&text)?)
}

/// What was done before must be the beginning of what is asked now.
fn check_done(outcomes: &[Outcome], problems: &Problems, folder: &str) -> Result<(), Failure> {
    let same = |(outcome, asked): (&Outcome, &Asked)| outcome.index == asked.index && outcome.prompt_sha256 == asked.prompt_sha256;
    let wrong = outcomes.iter().zip(&problems.asked).position(|pair| !same(pair));
    let line = match wrong {
        None if outcomes.len() <= problems.asked.len() => return Ok(()),
        wrong => wrong.unwrap_or(problems.asked.len()) + 1,
    };
    let message = format!("line {line} of results.jsonl is of another problem than this run asks there; give another folder");
    Err(Failure::Said(format!("--out {folder}: {message}")))
}
