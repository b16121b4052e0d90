//! Two runs on the same problems.

use std::collections::BTreeMap;
use std::path::Path;

use dlmrs_tasks::Task;
use dlmrs_tasks::statistics::{Paired, paired};
use serde_json::{Map, Value, json};

use super::lines;
use super::outcome::Outcome;
use super::problems::Problems;
use super::results::{RESULTS, read_manifest};
use super::summary::{Seconds, row, tokens_per_pass};
use crate::failure::Failure;

/// Another run.
pub(super) struct Other {
    name: String,
    /// By place in the data.
    outcomes: BTreeMap<usize, Outcome>,
}

impl Other {
    /// Reads another run from its folder or its results, and refuses one on other data.
    pub(super) fn read(path: &Path, problems: &Problems) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let refuse = |message: String| Err(Failure::Said(format!("--against {name}: {message}")));
        let (folder, results) = match path.is_dir() {
            true => (path, path.join(RESULTS)),
            false => (path.parent().unwrap_or(Path::new("")), path.to_path_buf()),
        };
        let (lines, _) = lines::read(&results).map_err(|failure| match failure.message() {
            Some(message) => Failure::Said(format!("--against {name}: {message}")),
            None => failure,
        })?;
        let outcomes: BTreeMap<usize, Outcome> = lines.into_iter().map(|outcome| (outcome.index, outcome)).collect();
        let common = problems.asked.iter().filter_map(|asked| Some((asked, outcomes.get(&asked.index)?)));
        if common.clone().next().is_none() {
            return refuse("has none of the problems that are asked here, so there is nothing to compare".into());
        }
        // A manifest says which data it was; without one, the same prompts do.
        match read_manifest(folder)?.map(|manifest| manifest["data"]["sha256"].clone()) {
            Some(data) if data == problems.source.sha256 => {}
            Some(data) => {
                let ours = &problems.source;
                let message = format!("was run on other data (sha256 {data}) than {} (sha256 \"{}\")", ours.name, ours.sha256);
                return refuse(message + "; runs on the same problems can be compared");
            }
            None => {
                if let Some((asked, _)) = common.clone().find(|(asked, outcome)| asked.prompt_sha256 != outcome.prompt_sha256) {
                    let message = "has another prompt, and there is no manifest.json beside it that says that the data are the same";
                    return refuse(format!("the problem of {} {message}", asked.place));
                }
            }
        }
        for metric in problems.task.metrics() {
            if let Some((asked, _)) = common.clone().find(|(_, outcome)| !outcome.scores.contains_key(*metric)) {
                return refuse(format!("the problem of {} has no score \"{metric}\", so it was another task", asked.place));
            }
        }
        Ok(Self { name, outcomes })
    }

    /// Compares this run with the other one.
    pub(super) fn compare(&self, task: &dyn Task, outcomes: &[Outcome]) -> Comparison {
        let pairs: Vec<(&Outcome, &Outcome)> = outcomes.iter().filter_map(|own| Some((own, self.outcomes.get(&own.index)?))).collect();
        let (here, there): (Vec<&Outcome>, Vec<&Outcome>) = pairs.iter().copied().unzip();
        let metric = |metric: &&'static str| (*metric, paired(pairs.iter().map(|(a, b)| (a.right(metric), b.right(metric)))));
        let sides = |of: &dyn Fn(&[&Outcome]) -> f64| Sides { here: of(&here), there: of(&there) };
        Comparison {
            other: self.name.clone(),
            pairs: pairs.len(),
            unpaired: Sides { here: outcomes.len() - pairs.len(), there: self.outcomes.len() - pairs.len() },
            metrics: task.metrics().iter().map(metric).collect(),
            seconds: sides(&|outcomes| Seconds::new(outcomes).mean),
            tokens_per_pass: sides(&tokens_per_pass),
        }
    }
}

/// A number of each run.
struct Sides<T> {
    here: T,
    there: T,
}

/// Two runs side by side.
pub(super) struct Comparison {
    other: String,
    /// Problems that both asked.
    pairs: usize,
    unpaired: Sides<usize>,
    metrics: Vec<(&'static str, Paired)>,
    seconds: Sides<f64>,
    tokens_per_pass: Sides<f64>,
}

impl Sides<f64> {
    /// None where there is nothing to divide by.
    fn ratio(&self) -> Option<f64> {
        (self.there > 0.0).then(|| self.here / self.there)
    }

    fn json(&self) -> Value {
        json!({"here": self.here, "there": self.there, "ratio": self.ratio()})
    }

    fn text(&self) -> String {
        let ratio = self.ratio().map_or("no ratio".into(), |ratio| format!("{ratio:.2} times"));
        format!("{:.3} here, {:.3} there, {ratio}", self.here, self.there)
    }
}

impl Comparison {
    fn shares(&self, paired: &Paired) -> Sides<f64> {
        let of = self.pairs.max(1) as f64;
        Sides { here: (paired.both + paired.first_only) as f64 / of, there: (paired.both + paired.second_only) as f64 / of }
    }

    pub(super) fn json(&self) -> Value {
        let metric = |(metric, paired): &(&'static str, Paired)| {
            let Sides { here, there } = self.shares(paired);
            let value = json!({
                "here": here,
                "there": there,
                "both": paired.both,
                "here_only": paired.first_only,
                "there_only": paired.second_only,
                "neither": paired.neither,
                "p": paired.p,
            });
            ((*metric).to_string(), value)
        };
        json!({
            "results": self.other,
            "problems": self.pairs,
            "unpaired": {"here": self.unpaired.here, "there": self.unpaired.there},
            "accuracy": self.metrics.iter().map(metric).collect::<Map<_, _>>(),
            "seconds": self.seconds.json(),
            "tokens_per_pass": self.tokens_per_pass.json(),
        })
    }

    pub(super) fn text(&self) -> String {
        let mut lines = vec![format!("\nagainst {}, {} problems in both\n", self.other, self.pairs)];
        let Sides { here, there } = self.unpaired;
        if here + there > 0 {
            lines.push(row("left out", &format!("{here} that only this run has, {there} that only the other has")));
        }
        for (metric, paired) in &self.metrics {
            let Sides { here, there } = self.shares(paired);
            let Paired { both, first_only, second_only, neither, p } = paired;
            lines.push(row(metric, &format!("{:.1} % here, {:.1} % there", 100.0 * here, 100.0 * there)));
            lines.push(row("", &format!("right in both {both}, only here {first_only}, only there {second_only}, in neither {neither}")));
            lines.push(row("", &format!("McNemar's p {p:.3}")));
        }
        lines.push(row("seconds", &self.seconds.text()));
        lines.push(row("tokens a pass", &self.tokens_per_pass.text()));
        lines.concat()
    }
}
