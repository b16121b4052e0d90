//! Which problems are asked: the task, its data, and the prompts.

use std::path::PathBuf;

use dlmrs_tasks::{Problem, Record, Task, data};
use serde_json::Value;

use super::digest;
use super::shots::Shots;
use crate::args::EvalArgs;
use crate::failure::Failure;

/// What a run asks.
pub(super) struct Problems {
    pub(super) task: &'static dyn Task,
    /// In the order of the data.
    pub(super) asked: Vec<Asked>,
    pub(super) source: Source,
    pub(super) shots: Shots,
}

/// Where records come from.
pub(super) struct Source {
    /// As the user gave it.
    pub(super) name: String,
    pub(super) sha256: String,
    pub(super) records: usize,
}

/// A problem with its prompt.
pub(super) struct Asked {
    /// The record's place in the data, from 0.
    pub(super) index: usize,
    pub(super) id: Option<Value>,
    /// For people.
    pub(super) place: String,
    pub(super) prompt: String,
    pub(super) prompt_sha256: String,
    pub(super) problem: Box<dyn Problem>,
}

/// What data sets call the name of a record.
const IDS: [&str; 4] = ["id", "task_id", "unique_id", "question_id"];

/// The task of those who name none.
const DEFAULT_TASK: &str = "word_problems";

/// A file on the Hugging Face hub begins like this.
const HUB: &str = "hub:";

/// The task as far as it can be told without reading data; None if they decide.
pub(super) fn named_task(args: &EvalArgs) -> Result<Option<&'static dyn Task>, Failure> {
    match (&args.task, &args.data) {
        (Some(name), _) => Ok(Some(dlmrs_tasks::task(name)?)),
        (None, None) => Ok(Some(dlmrs_tasks::task(DEFAULT_TASK)?)),
        (None, Some(_)) => Ok(None),
    }
}

/// Reads everything that is asked.
pub(super) fn read(args: &EvalArgs, named: Option<&'static dyn Task>) -> Result<Problems, Failure> {
    let (records, source) = match (&args.data, named) {
        (Some(file), _) => of_file(file)?,
        (None, Some(task)) if task.bundled().is_some() => bundled(task)?,
        (None, task) => {
            let (name, about) = task.map_or(("the task", ""), |task| (task.name(), task.about()));
            return Err(Failure::Said(format!("{name}: no data are built in; give the file with --data. {about}")));
        }
    };
    let task = match named {
        Some(task) => task,
        None => recognise(&records)?,
    };
    if args.offset >= records.len() {
        return Err(Failure::Said(format!("--offset is {}, but {} has {} records", args.offset, source.name, records.len())));
    }
    let end = args.limit.map_or(records.len(), |limit| args.offset.saturating_add(limit).min(records.len()));
    let shots = Shots::read(args, task)?;
    let mut asked = Vec::with_capacity(end - args.offset);
    for (index, record) in records.iter().enumerate().take(end).skip(args.offset) {
        let problem = task.read(record)?;
        let worked = shots.of(&*problem).map_err(|message| Failure::at(&record.place, message))?;
        if shots.source.as_ref().is_some_and(|shots| shots.sha256 == source.sha256) {
            shots.apart_from(&worked, args.offset..end)?;
        }
        let worked: Vec<&dyn Problem> = worked.iter().map(|shot| &*shot.problem).collect();
        let prompt = task.prompt(&worked, &*problem);
        asked.push(Asked {
            index,
            id: IDS.iter().find_map(|name| record.fields.get(*name)).cloned(),
            place: record.place.clone(),
            prompt_sha256: digest::of_bytes(prompt.as_bytes()),
            prompt,
            problem,
        });
    }
    Ok(Problems { task, asked, source, shots })
}

/// All records of a file, or of a file on the hub.
pub(super) fn of_file(name: &str) -> Result<(Vec<Record>, Source), Failure> {
    let path = match name.strip_prefix(HUB) {
        Some(file) => dlmrs::checkpoint::data_file(file)?,
        None => PathBuf::from(name),
    };
    let sha256 = digest::of_file(&path, &mut |_| true)?;
    let records = data::read(&path)?;
    let source = Source { name: name.to_string(), sha256, records: records.len() };
    Ok((records, source))
}

fn bundled(task: &dyn Task) -> Result<(Vec<Record>, Source), Failure> {
    let records = data::bundled(task)?;
    let sha256 = digest::of_bytes(task.bundled().unwrap_or_default().as_bytes());
    let source = Source { name: format!("the bundled {}", task.name()), sha256, records: records.len() };
    Ok((records, source))
}

/// The task of data for which none was named: the default one, if they look like its own.
fn recognise(records: &[Record]) -> Result<&'static dyn Task, Failure> {
    let own = |record: &&Record| ["question", "answer"].iter().all(|field| record.fields.get(*field).is_some_and(Value::is_string));
    match records.iter().find(|record| !own(record)) {
        None => Ok(dlmrs_tasks::task(DEFAULT_TASK)?),
        Some(record) => {
            let message = format!(
                "has no texts \"question\" and \"answer\", so the data are none of {DEFAULT_TASK}, the task of those who name none; \
                 say with --task which it is (--list-tasks lists them)"
            );
            Err(Failure::at(&record.place, message))
        }
    }
}
