//! Worked examples, which stand before the question in a prompt.

use std::ops::Range;

use dlmrs_tasks::{Problem, Task};

use super::problems::{Source, of_file};
use crate::args::EvalArgs;
use crate::failure::Failure;

/// The worked examples of a run.
pub(super) struct Shots {
    /// How many each prompt has.
    pub(super) wanted: usize,
    /// None if there are none.
    pub(super) source: Option<Source>,
    found: Vec<Shot>,
}

/// A record that may be a worked example.
pub(super) struct Shot {
    index: usize,
    place: String,
    pub(super) problem: Box<dyn Problem>,
}

impl Shots {
    /// Reads the records that may be worked examples.
    pub(super) fn read(args: &EvalArgs, task: &dyn Task) -> Result<Self, Failure> {
        let wanted = args.shots.unwrap_or(task.prompting().shots);
        let file = match (&args.shots_data, wanted) {
            (None, 0) => return Ok(Self { wanted, source: None, found: Vec::new() }),
            (None, _) => return Err(Failure::Said(needs_data(args, task, wanted))),
            (Some(_), 0) => return Err(Failure::Said("--shots-data has no effect without shots; leave it out, or say --shots N".into())),
            (Some(file), _) => file,
        };
        let (records, source) = of_file(file)?;
        let mut found: Vec<Shot> = Vec::new();
        for (index, record) in records.into_iter().enumerate() {
            let problem = task.read(&record)?;
            let grouped = problem.group().is_some();
            found.push(Shot { index, place: record.place, problem });
            // Without groups no later record can be wanted.
            if !grouped && found.len() == wanted {
                break;
            }
        }
        Ok(Self { wanted, source: Some(source), found })
    }

    /// The first ones of a problem's group.
    pub(super) fn of(&self, problem: &dyn Problem) -> Result<Vec<&Shot>, String> {
        let own: Vec<&Shot> = self.found.iter().filter(|shot| shot.problem.group() == problem.group()).take(self.wanted).collect();
        if own.len() == self.wanted {
            return Ok(own);
        }
        let group = problem.group().map(|group| format!(" of {group:?}")).unwrap_or_default();
        let file = self.source.as_ref().map(|source| source.name.as_str()).unwrap_or_default();
        let (wanted, has) = (self.wanted, own.len());
        Err(format!("is asked with {wanted} worked examples{group}, but {file} has {has} of them; lower --shots, or give more records"))
    }

    /// Refuses worked examples that are problems of the same run.
    pub(super) fn apart_from(&self, worked: &[&Shot], asked: Range<usize>) -> Result<(), Failure> {
        let Some(shot) = worked.iter().find(|shot| asked.contains(&shot.index)) else { return Ok(()) };
        let message = "is both a worked example and a problem, so a prompt would hold its answer; \
                       leave the worked examples out with --offset, or take them from another file";
        Err(Failure::at(&shot.place, message))
    }
}

fn needs_data(args: &EvalArgs, task: &dyn Task, wanted: usize) -> String {
    let asked = match args.shots {
        Some(_) => format!("--shots {wanted} needs worked examples"),
        None => format!("{} is asked with {wanted} worked examples", task.name()),
    };
    let own = match &args.data {
        Some(file) => format!(" (or, to take the data's own first records, --shots-data {file} --offset {wanted})"),
        None => String::new(),
    };
    format!("{asked}: give their file with --shots-data{own}; --shots 0 asks without")
}
