//! GGUF: one file with metadata, tokenizer and tensors, as llama.cpp's converter writes it.
//!
//! A GGUF file takes the place of a checkpoint's folder: its header becomes a config ([`config`]) and a tokenizer in the form of the
//! library's own files ([`tokenizer`]), and its tensors, under llama.cpp's names, are one more shard. Everything behind that is what
//! safetensors go through. The file is mapped, and a header is bounded by the file ([`header`]).

mod config;
mod header;
mod tokenizer;

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::experts::{MixtureParts, Router};
use super::json::Object;
use super::names::{LayerParts, Names};
use super::shard::{self, Bytes, Shard};
use super::{Family, ModelConfig};
use crate::{Error, Result};
use header::Header;

const MAGIC: &[u8; 4] = b"GGUF";
const HEAD: &str = "output.weight";

/// How llama.cpp writes a family.
pub(super) struct Written {
    /// What stands at `general.architecture`.
    pub(super) architecture: &'static str,
    pub(super) names: &'static Names,
    pub(super) qkv_bias: bool,
    pub(super) qk_norm: bool,
    /// What `diffusion.shift_logits` says, where it is missing.
    pub(super) shift: bool,
    /// Whether positions are rotated in f32 whatever the activations are.
    pub(super) full_precision: bool,
    /// The router of a mixture in every layer; None where the feed-forward is dense.
    pub(super) router: Option<Router>,
}

const LAYER: LayerParts = LayerParts {
    prefix: "blk",
    input_norm: "attn_norm.weight",
    qkv: ["attn_q", "attn_k", "attn_v"],
    fused_qkv: false,
    head_norms: ["attn_q_norm.weight", "attn_k_norm.weight"],
    o: "attn_output.weight",
    post_norm: "ffn_norm.weight",
    gate: "ffn_gate.weight",
    up: "ffn_up.weight",
    down: "ffn_down.weight",
    mixture: &MixtureParts {
        router: "ffn_gate_inp.weight",
        bias: "exp_probs_b.bias",
        shared: ["ffn_gate_shexp.weight", "ffn_up_shexp.weight", "ffn_down_shexp.weight"],
        stacked: ["ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight"],
        single: None,
    },
    paired: false,
};

/// What tensors are called, whatever the family.
pub(super) const NAMES: Names = Names { embedding: "token_embd.weight", final_norm: "output_norm.weight", head: HEAD, layer: &LAYER };

/// For families whose graph in llama.cpp rotates neighbouring dimensions, so that the rows of q and k are written in pairs.
pub(super) const PAIRED_NAMES: Names = Names { layer: &LayerParts { paired: true, ..LAYER }, ..NAMES };

/// A GGUF file: mapped, its header read and compared with its length.
#[derive(Debug)]
pub struct Gguf {
    path: PathBuf,
    bytes: Bytes,
    header: Header,
}

impl Gguf {
    /// Whether a path is written like one.
    pub(super) fn is_named(path: &Path) -> bool {
        path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gguf"))
    }

    /// Whether a file is one, or is named like one.
    pub(super) fn is_at(path: &Path) -> Result<bool> {
        let mut first = Vec::new();
        let read = std::fs::File::open(path).and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut first));
        read.map_err(|error| Error::io("read", path, error))?;
        Ok(Self::is_named(path) || first == MAGIC)
    }

    /// Maps the file and reads its header.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = path.display().to_string();
        let Some(bytes) = shard::map(path)? else { return Err(Error::checkpoint(file, "is not there any more")) };
        let header = header::read(bytes.all()).map_err(|message| Error::checkpoint(&file, message))?;
        match header.scalars.get("split.count").and_then(Value::as_u64) {
            Some(parts) if parts > 1 => {
                Err(Error::checkpoint(file, format!("is one of {parts} parts; join them with llama.cpp's `llama-gguf-split --merge`")))
            }
            _ => Ok(Self { path: path.to_path_buf(), bytes, header }),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file, for messages.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Its metadata but for lists, as an object of a config, and what they say.
    pub(super) fn config(&self) -> Result<(Object, ModelConfig)> {
        let metadata = Object::new(self.name(), self.header.scalars.clone());
        let (family, written) = Family::of_gguf(&metadata)?;
        let config = config::read(&metadata, &self.header, family, written)?;
        Ok((metadata, config))
    }

    /// What it says in the form of a file of a folder.
    pub(super) fn text(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let tokenizer = tokenizer::Vocabulary { header: &self.header, bytes: self.bytes.all() };
        let text = match name {
            "tokenizer.json" => tokenizer.whole(),
            "tokenizer_config.json" => tokenizer.roles(),
            _ => Ok(None),
        };
        let text = text.map_err(|message| Error::checkpoint(self.name(), message))?;
        Ok(text.map(|text| text.to_string().into_bytes()))
    }

    /// Its tensors.
    pub(super) fn shard(&self) -> Shard {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Shard { file: self.name(), name, tensors: self.header.tensors.clone(), bytes: self.bytes.clone() }
    }
}

/// A JSON object of these.
fn object<const N: usize>(pairs: [(&str, Value); N]) -> Map<String, Value> {
    pairs.into_iter().map(|(key, value)| (key.to_string(), value)).collect()
}
