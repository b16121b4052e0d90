//! GGUF files, written value by value, so that a test can put a lie anywhere.
#![allow(dead_code)] // each binary of tests uses its part

use std::path::Path;

use safetensors::SafeTensors;
use serde_json::Value as Json;

/// A value of the metadata.
#[derive(Clone)]
pub(crate) enum Value {
    U32(u32),
    F32(f32),
    Bool(bool),
    Text(String),
    Texts(Vec<String>),
    Kinds(Vec<i32>),
    /// The number of a type, and bytes.
    Raw(u32, Vec<u8>),
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::U32(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_string())
    }
}

/// A tensor: its shape with the innermost dimension last, ggml's number of its type, and its bytes.
#[derive(Clone)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) shape: Vec<u64>,
    pub(crate) kind: u32,
    pub(crate) bytes: Vec<u8>,
}

/// A file that is being written.
#[derive(Clone, Default)]
pub(crate) struct Writer {
    pub(crate) metadata: Vec<(String, Value)>,
    pub(crate) tensors: Vec<Tensor>,
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

impl Writer {
    /// Sets a key, in place of what it was.
    pub(crate) fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.metadata.retain(|(other, _)| other != key);
        self.metadata.push((key.to_string(), value.into()));
        self
    }

    pub(crate) fn without(mut self, key: &str) -> Self {
        assert!(self.metadata.iter().any(|(other, _)| other == key), "{key} is not there");
        self.metadata.retain(|(other, _)| other != key);
        self
    }

    pub(crate) fn add(&mut self, name: &str, shape: &[usize], numbers: &[f32]) {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.tensors.push(Tensor { name: name.to_string(), shape: shape.iter().map(|n| *n as u64).collect(), kind: 0, bytes });
    }

    pub(crate) fn tensor(&mut self, name: &str) -> &mut Tensor {
        self.tensors.iter_mut().find(|tensor| tensor.name == name).unwrap_or_else(|| panic!("no tensor {name}"))
    }

    /// The header, and the data behind it.
    pub(crate) fn parts(&self) -> (Vec<u8>, Vec<u8>) {
        let (mut header, mut data) = (b"GGUF".to_vec(), Vec::new());
        header.extend(3_u32.to_le_bytes());
        header.extend((self.tensors.len() as u64).to_le_bytes());
        header.extend((self.metadata.len() as u64).to_le_bytes());
        for (key, value) in &self.metadata {
            text(&mut header, key);
            write(&mut header, value);
        }
        for tensor in &self.tensors {
            text(&mut header, &tensor.name);
            header.extend((tensor.shape.len() as u32).to_le_bytes());
            header.extend(tensor.shape.iter().rev().flat_map(|n| n.to_le_bytes()));
            header.extend(tensor.kind.to_le_bytes());
            header.extend((data.len() as u64).to_le_bytes());
            data.extend(&tensor.bytes);
            data.resize(data.len().next_multiple_of(32), 0);
        }
        header.resize(header.len().next_multiple_of(32), 0);
        (header, data)
    }

    /// The whole file.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let (header, data) = self.parts();
        [header, data].concat()
    }

    /// A LLaDA in f32, from the folder of one without a tokenizer.
    pub(crate) fn llada(folder: &Path) -> Self {
        let config: Json = serde_json::from_slice(&std::fs::read(folder.join("config.json")).unwrap()).unwrap();
        let size = |key: &str| config[key].as_u64().unwrap() as u32;
        let mut writer = Self::default();
        for (key, value) in [
            ("general.architecture", "llada".into()),
            ("llada.block_count", size("n_layers").into()),
            ("llada.embedding_length", size("d_model").into()),
            ("llada.feed_forward_length", size("mlp_hidden_size").into()),
            ("llada.context_length", size("max_sequence_length").into()),
            ("llada.attention.head_count", size("n_heads").into()),
            ("llada.attention.head_count_kv", size("n_heads").into()),
            ("llada.attention.layer_norm_rms_epsilon", Value::F32(config["rms_norm_eps"].as_f64().unwrap() as f32)),
            ("llada.attention.causal", Value::Bool(false)),
            ("llada.rope.freq_base", Value::F32(config["rope_theta"].as_f64().unwrap() as f32)),
            ("diffusion.shift_logits", Value::Bool(false)),
            ("tokenizer.ggml.mask_token_id", 317.into()),
        ] {
            writer = writer.set(key, value);
        }
        let file = std::fs::read(folder.join("model.safetensors")).unwrap();
        for (name, view) in SafeTensors::deserialize(&file).unwrap().tensors() {
            let numbers: Vec<f32> = view.data().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            let (name, heads) = (renamed(&name), size("n_heads") as usize);
            let paired = name.ends_with("attn_q.weight") || name.ends_with("attn_k.weight");
            writer.add(&name, view.shape(), &if paired { in_pairs(&numbers, heads, view.shape()[0]) } else { numbers });
        }
        writer
    }

    /// With a tokenizer of bytes: 256 tokens, a merge, and two special ones.
    pub(crate) fn with_tokenizer(self) -> Self {
        let byte = |n: u32| match n {
            0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => n,
            0..=0x20 => 0x100 + n,
            0x7F..=0xA0 => 0x121 + n - 0x7F,
            _ => 0x143,
        };
        let mut tokens: Vec<String> = (0..256).map(|n| char::from_u32(byte(n)).unwrap().to_string()).collect();
        tokens.push("ab".to_string());
        tokens.extend((257..316).map(|n| format!("[PAD{n}]")));
        tokens.extend(["<|end|>", "<|MASK|>", "<think>", "<|eot|>"].map(String::from));
        let kinds = (0..320).map(|id| [1, 5, 3, 4][usize::from(id > 256) + usize::from(id > 315) + usize::from(id == 318)]).collect();
        self.set("tokenizer.ggml.model", "gpt2")
            .set("tokenizer.ggml.pre", "qwen2")
            .set("tokenizer.ggml.tokens", Value::Texts(tokens))
            .set("tokenizer.ggml.token_type", Value::Kinds(kinds))
            .set("tokenizer.ggml.merges", Value::Texts(vec!["a b".to_string()]))
            .set("tokenizer.ggml.eos_token_id", 316)
            .set("tokenizer.chat_template", "{{ messages[0].content }}<|eot|>")
    }
}

fn write(out: &mut Vec<u8>, value: &Value) {
    let kind = |out: &mut Vec<u8>, kind: u32| out.extend(kind.to_le_bytes());
    match value {
        Value::U32(number) => {
            kind(out, 4);
            out.extend(number.to_le_bytes());
        }
        Value::F32(number) => {
            kind(out, 6);
            out.extend(number.to_le_bytes());
        }
        Value::Bool(flag) => {
            kind(out, 7);
            out.push(u8::from(*flag));
        }
        Value::Text(value) => {
            kind(out, 8);
            text(out, value);
        }
        Value::Texts(values) => {
            kind(out, 9);
            kind(out, 8);
            out.extend((values.len() as u64).to_le_bytes());
            values.iter().for_each(|value| text(out, value));
        }
        Value::Kinds(values) => {
            kind(out, 9);
            kind(out, 5);
            out.extend((values.len() as u64).to_le_bytes());
            out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        Value::Raw(number, bytes) => {
            kind(out, *number);
            out.extend(bytes);
        }
    }
}

/// LLaDA's names to llama.cpp's.
fn renamed(name: &str) -> String {
    let ends =
        [("model.transformer.wte.", "token_embd."), ("model.transformer.ln_f.", "output_norm."), ("model.transformer.ff_out.", "output.")];
    if let Some((old, new)) = ends.iter().find(|(old, _)| name.starts_with(old)) {
        return name.replace(old, new);
    }
    let parts = [
        (".attn_norm.", ".attn_norm."),
        (".q_proj.", ".attn_q."),
        (".k_proj.", ".attn_k."),
        (".v_proj.", ".attn_v."),
        (".attn_out.", ".attn_output."),
        (".ff_norm.", ".ffn_norm."),
        (".ff_proj.", ".ffn_gate."),
        (".up_proj.", ".ffn_up."),
        (".ff_out.", ".ffn_down."),
    ];
    let (old, new) = parts.iter().find(|(old, _)| name.contains(old)).unwrap_or_else(|| panic!("no name for {name}"));
    name.replace("model.transformer.blocks.", "blk.").replace(old, new)
}

/// Rows i and i + D / 2 of each head side by side.
pub(crate) fn in_pairs(numbers: &[f32], heads: usize, rows: usize) -> Vec<f32> {
    let (width, size) = (numbers.len() / rows, rows / heads);
    let mut out = Vec::new();
    for head in 0..heads {
        for i in 0..size / 2 {
            for half in 0..2 {
                let row = head * size + half * size / 2 + i;
                out.extend(&numbers[row * width..(row + 1) * width]);
            }
        }
    }
    out
}
