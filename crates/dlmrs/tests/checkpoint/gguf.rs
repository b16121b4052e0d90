//! GGUF files: what is read from them, and one sentence for each that cannot be.

use std::path::PathBuf;

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor as Candle};
use dlmrs::checkpoint::{Folder, ModelConfig, Weights};
use dlmrs::sample::noise::{Purpose, Stream};
use dlmrs::tokenizer::{Specials, Tokenizer};
use dlmrs::{Llm, LoadOptions, Overrides, Result};
use tempfile::TempDir;

use crate::common::{Copy, golden, refused};
use crate::gguf_writer::{Tensor, Value, Writer, in_pairs};

/// A file in a folder of its own.
struct File {
    folder: TempDir,
}

impl File {
    fn new(bytes: &[u8]) -> Self {
        let file = Self { folder: TempDir::new().unwrap() };
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    fn of(writer: &Writer) -> Self {
        Self::new(&writer.bytes())
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("tiny-q4.gguf")
    }

    fn open(&self) -> Result<Folder> {
        Folder::open(self.path().to_str().unwrap())
    }

    fn weights(&self) -> Result<(ModelConfig, Weights)> {
        let folder = self.open()?;
        let config = ModelConfig::read(&folder)?;
        let weights = Weights::open(&folder, &config)?;
        Ok((config, weights))
    }

    fn load(&self) -> Result<std::sync::Arc<Llm>> {
        let options = LoadOptions { device: "cpu".into(), threads: Some(1), ..LoadOptions::default() };
        Llm::load(self.path().to_str().unwrap(), &options, &Overrides::default())
    }
}

fn llada() -> Writer {
    Writer::llada(&golden("llada"))
}

/// Refused with the file's name and all of these words.
#[track_caller]
fn wrong(writer: &Writer, words: &[&str]) {
    let file = File::of(writer);
    refused(file.load(), &[&["tiny-q4.gguf"], words].concat());
}

#[test]
fn a_file_is_the_folder_that_it_was_made_from() {
    let file = File::of(&llada());
    let (config, weights) = file.weights().unwrap();
    let copy = Copy::of("llada");
    let wanted = ModelConfig { eos_token_ids: Vec::new(), torch_dtype: None, ..copy.read().unwrap() };
    assert_eq!(ModelConfig { mask_token_id: wanted.mask_token_id, ..config.clone() }, wanted);
    assert_eq!(config.mask_token_id, Some(317));
    let folder = copy.open().unwrap();
    assert_eq!((weights.parameters(), weights.stored_bytes()), (folder.parameters(), folder.stored_bytes()));
    for (one, other) in [
        ("blk.0.attn_q.weight", "model.transformer.blocks.0.q_proj.weight"),
        ("blk.2.attn_k.weight", "model.transformer.blocks.2.k_proj.weight"),
        ("blk.1.attn_v.weight", "model.transformer.blocks.1.v_proj.weight"),
        ("blk.1.ffn_down.weight", "model.transformer.blocks.1.ff_out.weight"),
        ("output.weight", "model.transformer.ff_out.weight"),
    ] {
        assert_eq!(weights.load_f32(one).unwrap(), folder.load_f32(other).unwrap(), "{one}");
    }
    assert_eq!((file.open().unwrap().name(), weights.files().len()), ("tiny-q4".to_string(), 1));
}

#[test]
fn a_file_without_an_output_layer_is_tied() {
    let mut writer = llada();
    writer.tensors.retain(|tensor| tensor.name != "output.weight");
    let (config, weights) = File::of(&writer).weights().unwrap();
    assert!(config.tied && !weights.has_head());
}

#[test]
fn linear_scaling_is_honoured_and_other_kinds_are_not() {
    let scaled = llada().set("llada.rope.scaling.type", "linear").set("llada.rope.scaling.factor", Value::F32(4.0));
    let (config, _) = File::of(&scaled).weights().unwrap();
    assert_eq!(config.rope.scaling, dlmrs::checkpoint::RopeScaling::Linear { factor: 4.0 });
    wrong(&scaled.set("llada.rope.scaling.type", "yarn"), &["llada.rope.scaling.type is \"yarn\"", "\"linear\""]);
}

#[test]
fn files_that_are_none() {
    refused(File::new(b"").open(), &["tiny-q4.gguf"]);
    refused(File::new(b"GGU").open(), &["tiny-q4.gguf", "is not a GGUF file"]);
    refused(File::new(b"not at all").open(), &["is not a GGUF file"]);
    let bytes = llada().bytes();
    let version = |version: u32| [b"GGUF", &version.to_le_bytes()[..], &bytes[8..]].concat();
    refused(File::new(&version(1)).open(), &["version 1", "2 and 3"]);
    refused(File::new(&version(3_u32.swap_bytes())).open(), &["big-endian"]);
    assert!(File::new(&version(2)).weights().is_ok());
    refused(File::new(&bytes[..100]).open(), &["cut short", "only 100"]);
    refused(File::new(&bytes[..bytes.len() - 40]).open(), &["cut short", "the tensor", "ends at byte"]);
    // A name that is no file, one that a hub could not have, and a file that is something else.
    refused(Folder::open("somewhere/else.gguf"), &["somewhere/else.gguf", "GGUF file"]);
    let other = TempDir::new().unwrap();
    std::fs::write(other.path().join("x.bin"), "GG").unwrap();
    refused(Folder::open(other.path().join("x.bin").to_str().unwrap()), &["is a file", "GGUF"]);
    std::fs::write(other.path().join("x.bin"), &bytes).unwrap();
    assert!(matches!(Folder::open(other.path().join("x.bin").to_str().unwrap()), Ok(Folder::Gguf(_))));
}

#[test]
fn metadata_that_is_wrong() {
    for (key, value, words) in [
        ("general.architecture", "llama".into(), ["\"llama\", which is not supported", "llada (LLaDA)"]),
        ("llada.embedding_length", Value::U32(0), ["llada.embedding_length is 0", "from 1"]),
        ("llada.attention.head_count", "four".into(), ["llada.attention.head_count is \"four\"", "whole number"]),
        ("llada.attention.head_count_kv", 3.into(), ["4 query heads", "3 key heads"]),
        ("llada.attention.causal", Value::Bool(true), ["llada.attention.causal is true", "only false"]),
        ("llada.attention.value_length", 8.into(), ["llada.attention.value_length is 8", "only"]),
        ("llada.attention.layer_norm_rms_epsilon", Value::F32(f32::NAN), ["layer_norm_rms_epsilon is \"NaN\"", "a number"]),
        ("llada.rope.dimension_count", 3.into(), ["rope.dimension_count is 3", "even"]),
        ("llada.attention.sliding_window", 64.into(), ["sliding_window is 64", "only 0"]),
        ("llada.logit_scale", Value::F32(2.0), ["llada.logit_scale is 2", "supported"]),
        ("llada.block_count", Value::Kinds(vec![3]), ["llada.block_count is {\"values\":1}", "whole number"]),
        ("diffusion.shift_logits", 1.into(), ["diffusion.shift_logits is 1", "true or false"]),
        ("general.alignment", 33.into(), ["general.alignment is 33", "power of two"]),
        ("tokenizer.ggml.mask_token_id", 320.into(), ["mask_token_id is 320", "below 320"]),
        ("a.b", Value::Raw(77, vec![0; 8]), ["\"a.b\"", "type 77"]),
        ("a.b", Value::Raw(9, [&9_u32.to_le_bytes()[..], &[0; 8]].concat()), ["\"a.b\"", "a list of type 9"]),
        ("split.count", 3.into(), ["one of 3 parts", "llama-gguf-split --merge"]),
    ] {
        wrong(&llada().set(key, value), &words);
    }
    for key in ["general.architecture", "llada.block_count", "llada.context_length", "llada.attention.layer_norm_rms_epsilon"] {
        wrong(&llada().without(key), &[key, "is missing"]);
    }
    let mut twice = llada();
    twice.metadata.push(("llada.block_count".to_string(), Value::U32(3)));
    wrong(&twice, &["llada.block_count", "twice"]);
}

#[test]
fn mixtures_that_are_wrong() {
    let mut file = llada().set("general.architecture", "llada-moe");
    for (key, _) in &mut file.metadata {
        *key = key.replace("llada.", "llada-moe.");
    }
    wrong(&file, &["llada-moe.expert_count is missing"]);
    let file = file.set("llada-moe.expert_count", 2).set("llada-moe.expert_feed_forward_length", 24);
    wrong(&file.clone().set("llada-moe.expert_used_count", 3), &["llada-moe.expert_used_count is 3", "only 2 experts"]);
    let words = ["blk.0.ffn_gate_inp.weight [2, 48] is missing", "blk.0.ffn_down_exps.weight [2, 48, 24] is missing"];
    wrong(&file.set("llada-moe.expert_used_count", 1), &words);
}

#[test]
fn a_file_that_names_no_mask_token() {
    wrong(&llada().without("tokenizer.ggml.mask_token_id"), &["mask_token_id", "not found", "give mask_token_id"]);
    wrong(&llada().with_tokenizer().without("tokenizer.ggml.mask_token_id"), &["mask_token_id", "not found", "give mask_token_id"]);
}

#[test]
fn tensors_that_are_wrong() {
    let with = |change: &dyn Fn(&mut Writer)| {
        let mut writer = llada();
        change(&mut writer);
        writer
    };
    let q = "blk.1.attn_q.weight";
    wrong(&with(&|file| file.tensors.retain(|tensor| tensor.name != q)), &[&format!("{q} [48, 48] is missing")]);
    wrong(&with(&|file| file.tensor(q).shape = vec![24, 96]), &[q, "the shape [24, 96], but must be [48, 48]"]);
    wrong(&with(&|file| file.tensor(q).shape = vec![1; 5]), &[q, "5 dimensions"]);
    wrong(&with(&|file| file.tensor(q).shape = vec![u64::MAX, 48]), &[q, "no file could hold"]);
    wrong(&with(&|file| file.tensor(q).kind = 13), &[q, "is stored as Q5_K, but only F32"]);
    wrong(&with(&|file| file.tensor(q).kind = 99), &[q, "is stored as type 99"]);
    wrong(&with(&|file| file.tensor(q).kind = 12), &[q, "rows of 48 numbers as Q4_K, which stores blocks of 256"]);
    wrong(&with(&|file| file.tensors.push(file.tensors[0].clone())), &["twice"]);
    wrong(&with(&|file| file.add("blk.0.attn_q.bias", &[48], &[0.0; 48])), &["blk.0.attn_q.bias", "belongs to no LLaDA model"]);
    wrong(&with(&|file| file.tensors.retain(|tensor| tensor.name != "token_embd.weight")), &["token_embd.weight is missing"]);
    wrong(&with(&|file| file.tensor("token_embd.weight").shape = vec![320 * 48]), &["token_embd.weight has the shape", "two dimensions"]);
    let mut broken = llada();
    broken.tensor(q).bytes[..4].copy_from_slice(&f32::NAN.to_le_bytes());
    wrong(&broken, &[q, "NaN"]);
}

#[test]
fn the_tokenizer_of_a_file() {
    let file = File::of(&llada().with_tokenizer());
    let tokenizer = Tokenizer::from_files(&file.open().unwrap()).unwrap().unwrap();
    assert_eq!((tokenizer.eos_token_id(), tokenizer.mask_token_id(), tokenizer.vocab_size()), (Some(316), Some(317), 320));
    let (a, b, ab) = (97, 98, 256);
    assert_eq!(tokenizer.encode("abba<think><|MASK|>", Specials::Parse).unwrap(), [ab, b, a, 318, 317]);
    // Control tokens are not made from text, and a word is cut by Qwen2's rules: two digits are two words.
    let ids = tokenizer.encode("<|MASK|> é12\n\nab<think>", Specials::AsText).unwrap();
    assert!(ids.iter().all(|id| *id <= 256), "{ids:?}");
    assert_eq!(tokenizer.decode(&ids, false).unwrap(), "<|MASK|> é12\n\nab<think>");
    // NFC: e and an accent are the one letter.
    assert_eq!(tokenizer.encode("e\u{301}", Specials::AsText).unwrap(), tokenizer.encode("é", Specials::AsText).unwrap());
    assert!(tokenizer.is_special(317) && tokenizer.is_control(318) && !tokenizer.is_special(318));
    // What is unused has no text.
    assert_eq!(tokenizer.token_to_id("[PAD257]"), None);
    assert_eq!(tokenizer.chat_template(), Some("{{ messages[0].content }}<|eot|>"));
    let facts = file.load().unwrap().facts().clone();
    assert_eq!((facts.stop_token_ids.as_slice(), facts.stop_token_ids_from), ([316].as_slice(), "the file's metadata"));
}

#[test]
fn every_way_of_cutting_words_is_a_pattern_that_works() {
    let text = "I'll pay 1234 € for\n\n it, DON'T I?";
    for (pre, words) in [
        ("gpt-2", vec!["1234", "'ll"]),
        ("smollm", vec!["1", "2", "'ll"]),
        ("qwen2", vec!["1", "2", "'T"]),
        ("llama-bpe", vec!["123", "4"]),
        ("bailingmoe", vec!["1", "2", "'T"]),
        ("llada-moe", vec!["1", "2", "'T"]),
    ] {
        // A merge happens within a word only, so a merged token shows that these characters were one.
        let mut writer = llada().with_tokenizer().set("tokenizer.ggml.pre", pre);
        let merges: Vec<String> = ["1 2", "12 3", "123 4", "' l", "'l l", "' T"].map(String::from).to_vec();
        for (key, value) in &mut writer.metadata {
            match value {
                Value::Texts(tokens) if key.ends_with("tokens") => {
                    tokens.splice(257..263, ["12", "123", "1234", "'l", "'ll", "'T"].map(String::from));
                }
                Value::Kinds(kinds) => kinds[257..263].fill(1),
                _ => (),
            }
        }
        let file = File::of(&writer.set("tokenizer.ggml.merges", Value::Texts(merges)));
        let tokenizer = Tokenizer::from_files(&file.open().unwrap()).unwrap().unwrap();
        let ids = tokenizer.encode(text, Specials::AsText).unwrap();
        let tokens: Vec<_> = ids.iter().map(|id| tokenizer.id_to_token(*id).unwrap()).collect();
        assert_eq!(tokenizer.decode(&ids, false).unwrap(), text, "{pre}");
        for word in words {
            assert!(tokens.iter().any(|token| token == word), "{word} is no token of {tokens:?} by {pre}");
        }
    }
}

#[test]
fn tokenizers_that_are_wrong() {
    let file = llada().with_tokenizer();
    for (key, value, words) in [
        ("tokenizer.ggml.model", "llama".into(), ["tokenizer.ggml.model is \"llama\"", "only \"gpt2\""]),
        ("tokenizer.ggml.pre", "tekken".into(), ["tokenizer.ggml.pre is \"tekken\"", "qwen2"]),
        ("tokenizer.ggml.tokens", 3.into(), ["tokenizer.ggml.tokens is missing", "a list"]),
        ("tokenizer.ggml.tokens", Value::Kinds(vec![1]), ["tokenizer.ggml.tokens", "not a list of texts"]),
        ("tokenizer.ggml.token_type", Value::Kinds(vec![1]), ["token_type has 1 values", "320 tokens"]),
        ("tokenizer.ggml.token_type", Value::Texts(vec![]), ["token_type", "not a list of whole numbers"]),
        ("tokenizer.ggml.eos_token_id", 400.into(), ["eos_token_id is 400", "below 320"]),
        ("tokenizer.ggml.padding_token_id", 400.into(), ["padding_token_id is 400", "320 tokens"]),
        ("tokenizer.ggml.merges", Value::Texts(vec!["a ß?".into()]), ["merges holds \"a ß?\"", "needs the token \"ß?\""]),
        ("tokenizer.ggml.merges", Value::Texts(vec!["ab".into()]), ["merges holds \"ab\"", "two tokens"]),
    ] {
        wrong(&file.clone().set(key, value), &words);
    }
    wrong(&file.clone().without("tokenizer.ggml.pre"), &["tokenizer.ggml.pre is \"\"", "unknown"]);
    wrong(&file.clone().without("tokenizer.ggml.merges"), &["tokenizer.ggml.merges is missing"]);
    let Some((_, Value::Texts(tokens))) = file.metadata.iter().find(|(key, _)| key == "tokenizer.ggml.tokens") else { panic!("tokens") };
    let mut tokens = tokens.clone();
    tokens[7] = tokens[8].clone();
    wrong(&file.set("tokenizer.ggml.tokens", Value::Texts(tokens)), &["twice, the second time as 8"]);
}

/// A LLaDA of one layer whose rows are as long as the largest blocks.
fn wide(kind: Option<GgmlDType>) -> Writer {
    let (c, f, v, heads) = (256, 512, 320, 4);
    let mut writer = llada();
    writer.tensors.clear();
    for (key, value) in [("block_count", 1), ("embedding_length", 256), ("feed_forward_length", 512)] {
        writer = writer.set(&format!("llada.{key}"), value);
    }
    let matrices = [
        ("token_embd", v, c, 1.0),
        ("output", v, c, 0.1),
        ("blk.0.attn_q", c, c, 0.1),
        ("blk.0.attn_k", c, c, 0.1),
        ("blk.0.attn_v", c, c, 0.1),
        ("blk.0.attn_output", c, c, 0.1),
        ("blk.0.ffn_gate", f, c, 0.1),
        ("blk.0.ffn_up", f, c, 0.1),
        ("blk.0.ffn_down", c, f, 0.1),
    ];
    for (index, (name, rows, columns, size)) in matrices.into_iter().enumerate() {
        let mut random = Stream::new(5, Purpose::Token, index as u32, 0);
        let numbers: Vec<f32> = (0..rows * columns).map(|_| 2.0 * size * (random.uniform() as f32 - 0.5)).collect();
        let paired = name.ends_with("attn_q") || name.ends_with("attn_k");
        let numbers = if paired { in_pairs(&numbers, heads, rows) } else { numbers };
        let name = format!("{name}.weight");
        match kind {
            None => writer.add(&name, &[rows, columns], &numbers),
            Some(kind) => writer.tensors.push(quantised(&name, &numbers, rows, columns, kind)),
        }
    }
    for name in ["output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"] {
        writer.add(&format!("{name}.weight"), &[c], &[1.25; 256]);
    }
    writer
}

fn candle(numbers: &[f32], rows: usize, columns: usize, kind: GgmlDType) -> QTensor {
    let whole = Candle::from_slice(numbers, (rows, columns), &Device::Cpu).unwrap();
    QTensor::quantize(&whole, kind).unwrap()
}

fn quantised(name: &str, numbers: &[f32], rows: usize, columns: usize, kind: GgmlDType) -> Tensor {
    let number = match kind {
        GgmlDType::Q4_0 => 2,
        GgmlDType::Q8_0 => 8,
        GgmlDType::Q4K => 12,
        _ => 14,
    };
    let bytes = candle(numbers, rows, columns, kind).data().unwrap().to_vec();
    Tensor { name: name.to_string(), shape: vec![rows as u64, columns as u64], kind: number, bytes }
}

/// Blocks that Candle quantised: the numbers are those that it makes of them again, to the bit, and the logits stay as near as the type allows.
#[test]
fn blocks_that_candle_quantised() {
    let whole = File::of(&wide(None));
    let (ids, model) = ((0..24).collect::<Vec<u32>>(), whole.load().unwrap());
    let wanted = model.logits(&ids, None, None, None).unwrap().concat();
    for (kind, name, bound) in
        [(GgmlDType::Q8_0, "Q8_0", 0.02), (GgmlDType::Q4_0, "Q4_0", 0.3), (GgmlDType::Q6K, "Q6_K", 0.06), (GgmlDType::Q4K, "Q4_K", 0.2)]
    {
        let file = File::of(&wide(Some(kind)));
        let (_, weights) = file.weights().unwrap();
        assert_eq!(weights.stored_dtypes(), ["F32", name]);
        let (_, whole) = whole.weights().unwrap();
        for (tensor, rows, columns) in [("blk.0.attn_v.weight", 256, 256), ("blk.0.ffn_down.weight", 256, 512)] {
            let numbers = whole.load_f32(tensor).unwrap();
            let again = candle(&numbers, rows, columns, kind).dequantize(&Device::Cpu).unwrap();
            let again = again.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            assert_eq!(weights.load_f32(tensor).unwrap(), again, "{tensor} as {name}");
            let part = dlmrs::checkpoint::StoredRows { tensor: tensor.to_string(), rows: Some(3..5) };
            assert_eq!(weights.load_rows_f32(&part).unwrap(), again[3 * columns..5 * columns]);
        }
        // Rows in pairs are brought back after they are widened.
        let numbers = whole.load_f32("blk.0.attn_q.weight").unwrap();
        let again = candle(&numbers, 256, 256, kind).dequantize(&Device::Cpu).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert_eq!(weights.load_f32("blk.0.attn_q.weight").unwrap(), again);
        let found = file.load().unwrap().logits(&ids, None, None, None).unwrap().concat();
        let square = |numbers: &mut dyn Iterator<Item = f32>| numbers.map(|n| f64::from(n * n)).sum::<f64>();
        let far = square(&mut found.iter().zip(&wanted).map(|(f, w)| f - w)) / square(&mut wanted.iter().copied());
        assert!(far.sqrt() <= bound && far > 0.0, "{name}: {}", far.sqrt());
    }
}
