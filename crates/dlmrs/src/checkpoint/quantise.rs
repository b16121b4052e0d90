//! A checkpoint written anew with its weights rounded to integers.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use dlmrs_kernels::{Team, WeightType, quantise_rows};
use half::bf16;
use serde_json::{Map, Value, json};

use super::config::QUANT_METHOD;
use super::footprint::role;
use super::{FeedForward, Folder, ModelConfig, Names, StoredRows, StoredType, TEXTS, Weights, rounded};
use crate::arithmetic::{Precision, rows_at_once, weight_type};
use crate::error::{Error, Result};

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantised {
    /// Bytes of the tensors as they were.
    pub source_bytes: u64,
    /// Bytes of the tensors as they are.
    pub bytes: u64,
    /// How many matrices were rounded.
    pub matrices: usize,
}

/// How a tensor is written.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    F32,
    Bf16,
    Rounded(WeightType),
}

/// A tensor of the new file.
struct Planned {
    source: String,
    /// Its rows, counted over all dimensions but the last.
    rows: usize,
    k: usize,
    shape: Vec<usize>,
    how: How,
}

impl Planned {
    fn name(&self) -> String {
        match self.how {
            How::Rounded(kind) => rounded::name(&self.source, kind),
            _ => self.source.clone(),
        }
    }

    fn row_bytes(&self) -> usize {
        match self.how {
            How::F32 => 4 * self.k,
            How::Bf16 => 2 * self.k,
            How::Rounded(kind) => rounded::row_bytes(kind, self.k),
        }
    }

    fn header(&self, start: usize) -> Value {
        let (dtype, shape) = match self.how {
            How::F32 => ("F32", self.shape.clone()),
            How::Bf16 => ("BF16", self.shape.clone()),
            How::Rounded(_) => ("U8", self.shape.split_last().map_or(vec![], |(_, outer)| [outer, &[self.row_bytes()]].concat())),
        };
        json!({"dtype": dtype, "shape": shape, "data_offsets": [start, start + self.rows * self.row_bytes()]})
    }
}

/// Writes the checkpoint of `folder` to the new folder `out`, its matrices rounded as `precision` says, everything else as it is. The
/// embedding becomes bf16, unless it is the output head too. What is written loads without the original. `progress` is told (tensors
/// written, tensors in all) and ends the writing by returning false; then, and after an error, nothing is left behind.
pub fn quantise(
    folder: &Folder,
    out: &Path,
    precision: Precision,
    threads: Option<usize>,
    progress: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Quantised> {
    if !precision.is_quantised() {
        return Err(Error::input("dtype", format!("is {}, which rounds nothing; use int8, int4 or int4-128", precision.name())));
    }
    if matches!(folder, Folder::Gguf(_)) {
        let message = "is a GGUF file; round the safetensors that it was made from, or load it with a dtype of int8 or int4";
        return Err(Error::input("model", message));
    }
    if out.symlink_metadata().is_ok() {
        return Err(Error::input("out", format!("{} is there already; give a folder that is not", out.display())));
    }
    let team = Team::new(threads).map_err(|message| Error::input("threads", message.trim_start_matches("threads ")))?;
    let config = ModelConfig::read(folder)?;
    let weights = Weights::open(folder, &config)?;
    let plan = plan(&weights, &config, precision)?;
    let partial = Partial::beside(out)?;
    write_texts(folder, &partial.path, precision)?;
    write_weights(&weights, &plan, &partial.path.join("model.safetensors"), &team, progress)?;
    partial.finish(out)?;
    Ok(Quantised {
        source_bytes: weights.stored_bytes(),
        bytes: plan.iter().map(|tensor| (tensor.rows * tensor.row_bytes()) as u64).sum(),
        matrices: plan.iter().filter(|tensor| matches!(tensor.how, How::Rounded(_))).count(),
    })
}

fn plan(weights: &Weights, config: &ModelConfig, precision: Precision) -> Result<Vec<Planned>> {
    let names = weights.names();
    let routers: Vec<String> = (0..config.layers)
        .filter(|index| matches!(config.feed_forward_of(*index), FeedForward::Mixture(_)))
        .map(|index| names.mixture(weights.expert_layout(), index).router())
        .collect();
    let planned = |(name, shape, stored): (&str, &[usize], StoredType)| {
        if stored.rounded().is_some() {
            return Err(Error::input("model", format!("is rounded already: {name} is stored as {}", stored.name())));
        }
        let Some((&k, outer)) = shape.split_last() else {
            return Err(Error::input("model", format!("has a tensor {name} without a size")));
        };
        let how = how(name, shape, stored, names, !weights.has_head(), &routers, precision);
        Ok(Planned { source: name.to_owned(), rows: outer.iter().product(), k, shape: shape.to_vec(), how })
    };
    weights.tensors().map(planned).collect()
}

fn how(name: &str, shape: &[usize], stored: StoredType, names: &Names, tied: bool, routers: &[String], precision: Precision) -> How {
    let as_it_is = if stored == StoredType::Bf16 { How::Bf16 } else { How::F32 };
    if shape.len() < 2 || routers.iter().any(|router| router == name) {
        return as_it_is;
    }
    match weight_type(precision, role(name, names, tied), stored) {
        WeightType::F32 => as_it_is,
        WeightType::Bf16 | WeightType::Bf16Pairs => How::Bf16,
        kind => How::Rounded(kind),
    }
}

/// A folder that is removed again unless it is finished.
struct Partial {
    path: PathBuf,
}

impl Partial {
    fn beside(out: &Path) -> Result<Self> {
        let name = out.file_name().ok_or_else(|| Error::input("out", format!("{} names no folder", out.display())))?;
        let path = out.with_file_name(format!(".{}.{}.partial", name.to_string_lossy(), std::process::id()));
        fs::create_dir(&path).map_err(|error| Error::io("create", &path, error))?;
        Ok(Self { path })
    }

    fn finish(self, out: &Path) -> Result<()> {
        // On most systems a folder takes the place of an empty one without a word, and of no other.
        fs::rename(&self.path, out).map_err(|error| Error::io("create", out, error))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After `finish` there is nothing here any more; before it, what is left is of no use, and the reason is being told already.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn write_texts(folder: &Folder, to: &Path, precision: Precision) -> Result<()> {
    for name in TEXTS {
        let Some(mut text) = folder.read(name)? else { continue };
        if name == "config.json" {
            text = config(folder, &text, precision)?;
        }
        let path = to.join(name);
        fs::write(&path, text).map_err(|error| Error::io("write", &path, error))?;
    }
    Ok(())
}

/// The config, with a word for other programs.
fn config(folder: &Folder, text: &[u8], precision: Precision) -> Result<Vec<u8>> {
    let mut config: Map<String, Value> = serde_json::from_slice(text)
        .map_err(|error| Error::checkpoint(folder.describe("config.json"), format!("is not a JSON object: {error}")))?;
    config.insert("quantization_config".into(), json!({"quant_method": QUANT_METHOD, "dtype": precision.name()}));
    Ok(format!("{:#}\n", Value::Object(config)).into_bytes())
}

fn write_weights(
    weights: &Weights,
    plan: &[Planned],
    path: &Path,
    team: &Team,
    progress: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<()> {
    let failed = |error| Error::io("write", path, error);
    let (mut header, mut end) = (Map::new(), 0);
    for tensor in plan {
        header.insert(tensor.name(), tensor.header(end));
        end += tensor.rows * tensor.row_bytes();
    }
    let mut header = Value::Object(header).to_string();
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    let mut file = BufWriter::new(File::create(path).map_err(failed)?);
    file.write_all(&(header.len() as u64).to_le_bytes()).and_then(|()| file.write_all(header.as_bytes())).map_err(failed)?;
    for (done, tensor) in plan.iter().enumerate() {
        for first in (0..tensor.rows).step_by(rows_at_once(tensor.k)) {
            if !progress(done, plan.len()) {
                return Err(Error::Interrupted);
            }
            let rows = first..(first + rows_at_once(tensor.k)).min(tensor.rows);
            let numbers = weights.load_rows_f32(&StoredRows { tensor: tensor.source.clone(), rows: Some(rows) })?;
            file.write_all(&bytes(tensor, &numbers, team)).map_err(failed)?;
        }
    }
    progress(plan.len(), plan.len());
    file.into_inner().map_err(|error| failed(error.into_error()))?.sync_all().map_err(failed)
}

/// Some rows as they are written; the threads share them.
fn bytes(tensor: &Planned, numbers: &[f32], team: &Team) -> Vec<u8> {
    let kind = match tensor.how {
        How::F32 => return numbers.iter().flat_map(|number| number.to_le_bytes()).collect(),
        How::Bf16 => return numbers.iter().flat_map(|number| bf16::from_f32(*number).to_le_bytes()).collect(),
        How::Rounded(kind) => kind,
    };
    let part = numbers.len().div_ceil(tensor.k * team.threads()).max(1) * tensor.k;
    let parts: Vec<(&[f32], Mutex<Vec<u8>>)> = numbers.chunks(part).map(|part| (part, Mutex::default())).collect();
    team.run(parts.len(), |index| {
        let (numbers, bytes) = &parts[index];
        let mut written = Vec::with_capacity(numbers.len() / tensor.k * tensor.row_bytes());
        rounded::write(&quantise_rows(kind, numbers, tensor.k), &mut written);
        *bytes.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = written;
    });
    parts.into_iter().flat_map(|(_, bytes)| bytes.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)).collect()
}
