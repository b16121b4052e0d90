//! What a generation allocates beside weights and cache: bounded by rows and tiles, never a tensor of size [canvas, V]. What loading a
//! mixture of experts or a GGUF file allocates beside its weights: next to nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod gguf_writer;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use dlmrs::checkpoint::{Folder, ModelConfig, Names};
use dlmrs::decode::{Canvas, Decoding};
use dlmrs::{Backend, Llm, LoadOptions, Output, Overrides, Precision, Request, SamplingParams};
use gguf_writer::Writer;
use half::bf16;
use peak_alloc::PeakAlloc;
use serde_json::{Value, json};
use tempfile::TempDir;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;
/// Held by each test from beginning to end, as the allocator sees every thread of the process.
static ALONE: Mutex<()> = Mutex::new(());

const VOCAB: usize = 126_464;
const PROMPT: usize = 24;
const SLOTS: usize = 1000;
/// The logits of the canvas alone would be 506 MB.
const LIMIT: usize = 100_000_000;

/// Sizes of an actual vocabulary, with a body that is small enough for a test.
fn config() -> Value {
    json!({
        "architectures": ["LLaDAModelLM"], "model_type": "llada", "d_model": 512, "n_layers": 4, "n_heads": 8, "mlp_hidden_size": 1408,
        "vocab_size": VOCAB, "max_sequence_length": 1024, "rope": true, "rope_theta": 500_000.0, "rope_full_precision": true,
        "rms_norm_eps": 1e-5, "layer_norm_type": "rms", "block_type": "llama", "activation_type": "silu", "weight_tying": true,
    })
}

/// Names and shapes in the order in which they are written.
fn tensors(folder: &Path) -> Vec<(String, Vec<usize>)> {
    let config = ModelConfig::read(&Folder::Disk(folder.to_path_buf())).unwrap();
    let (names, c, f) = (Names::of(config.family), config.hidden, 1408);
    let mut all = vec![(names.embedding.to_string(), vec![config.vocab, c]), (names.final_norm.to_string(), vec![c])];
    for layer in (0..config.layers).map(|index| names.layer(&config, index)) {
        all.extend([layer.input_norm, layer.post_norm].map(|name| (name, vec![c])));
        all.extend([layer.q, layer.k, layer.v, layer.o].map(|name| (name, vec![c, c])));
        all.extend([layer.gate, layer.up].map(|name| (name, vec![f, c])));
        all.push((layer.down, vec![c, f]));
    }
    all
}

/// A random checkpoint in bf16: 155 MB.
fn checkpoint() -> TempDir {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("config.json"), config().to_string()).unwrap();
    write(&folder, &tensors(folder.path()));
    folder
}

/// Writes random numbers in bf16, as a stream.
fn write(folder: &TempDir, tensors: &[(String, Vec<usize>)]) {
    let (mut header, mut end) = (serde_json::Map::new(), 0);
    for (name, shape) in tensors {
        let start = end;
        end += 2 * shape.iter().product::<usize>();
        header.insert(name.clone(), json!({"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}));
    }
    let header = Value::Object(header).to_string();
    let mut file = BufWriter::new(File::create(folder.path().join("model.safetensors")).unwrap());
    file.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
    file.write_all(header.as_bytes()).unwrap();
    let mut state = 1u64;
    for (_, shape) in tensors {
        // Norms near one, products that keep the size of what goes in, an embedding of size one.
        let (mean, size) = match shape[..] {
            [_] => (1.0, 0.2),
            [VOCAB, _] => (0.0, 1.0),
            [.., inputs] => (0.0, 1.0 / (inputs as f32).sqrt()),
            [] => unreachable!("no single numbers"),
        };
        for _ in 0..shape.iter().product() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let uniform = (state >> 40) as f32 / (1 << 23) as f32 - 1.0;
            file.write_all(&bf16::from_f32(mean + 1.7 * size * uniform).to_le_bytes()).unwrap();
        }
    }
    file.flush().unwrap();
}

/// The output, and how far the allocations rose above what was there before.
fn measure(llm: &Arc<Llm>, decoding: Canvas, temperature: f32, top_p: f32) -> (Output, usize) {
    let params = SamplingParams { max_tokens: SLOTS, temperature, top_p, seed: Some(1), ignore_eos: true, ..SamplingParams::default() };
    let prompt = (0..PROMPT as u32).map(|i| 1000 + 37 * i).collect();
    let request = Request { prompt, params, decoding: Some(Decoding::Canvas(decoding)) };
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let output = llm.generate(vec![request], |_, _| true).unwrap().remove(0);
    // A canvas without a cache keeps nothing, so there are no cache bytes to take off.
    (output, ALLOCATOR.peak_usage() - before)
}

#[test]
fn a_canvas_of_logits_never_exists() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = checkpoint();
    let options = LoadOptions { device: "cpu".into(), backend: Backend::Kernels, threads: Some(2), ..LoadOptions::default() };
    let llm = Llm::load(folder.path().to_str().unwrap(), &options, &Overrides::default()).unwrap();
    eprintln!("weights: {} MB", ALLOCATOR.current_usage() / 1_000_000);

    let all_at_once = Canvas { block_length: Some(SLOTS), threshold: Some(0.0), ..Canvas::default() };
    let (output, risen) = measure(&llm, all_at_once, 0.0, 1.0);
    eprintln!("one pass, greedy: {:.1} MB above weights and cache", risen as f64 / 1e6);
    assert_eq!((output.stats.total_passes(), output.stats.scanned_rows, output.token_ids.len()), (1, SLOTS, SLOTS));
    assert!(risen < LIMIT, "{risen} bytes");

    // Filters need whole rows, few at a time.
    let two_steps = Canvas { block_length: Some(SLOTS), steps: Some(2), ..Canvas::default() };
    let (output, risen) = measure(&llm, two_steps, 1.0, 0.9);
    eprintln!("two passes, temperature 1 and top_p 0.9: {:.1} MB above weights and cache", risen as f64 / 1e6);
    assert_eq!((output.stats.total_passes(), output.stats.scanned_rows, output.token_ids.len()), (2, SLOTS + SLOTS / 2, SLOTS));
    assert!(risen < LIMIT, "{risen} bytes");
}

const EXPERTS: usize = 32;
const LAYERS: usize = 4;
/// How far the peak of loading may lie above what stays.
const LOAD: f64 = 1.15;

/// A mixture whose experts are nearly all of it, as in the public ones: 13 million numbers.
fn mixture(stacked: bool) -> TempDir {
    let (c, f, vocab) = (256, 128, 1000);
    let folder = TempDir::new().unwrap();
    let config = json!({
        "architectures": ["SDARMoeForCausalLM"], "model_type": "sdar_moe", "hidden_size": c, "num_hidden_layers": LAYERS,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": vocab, "num_experts": EXPERTS,
        "num_experts_per_tok": 4, "moe_intermediate_size": f, "norm_topk_prob": true, "rms_norm_eps": 1e-6, "rope_theta": 1e6,
        "max_position_embeddings": 1024, "hidden_act": "silu", "mask_token_id": 999,
    });
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let mut all = vec![("model.embed_tokens.weight".to_string(), vec![vocab, c]), ("lm_head.weight".to_string(), vec![vocab, c])];
    all.push(("model.norm.weight".to_string(), vec![c]));
    for layer in 0..LAYERS {
        let mut add = |name: &str, shape: &[usize]| all.push((format!("model.layers.{layer}.{name}"), shape.to_vec()));
        for (name, shape) in [("q", [256, c]), ("k", [128, c]), ("v", [128, c]), ("o", [c, 256])] {
            add(&format!("self_attn.{name}_proj.weight"), &shape);
        }
        for (name, size) in [("input_layernorm", c), ("post_attention_layernorm", c), ("self_attn.q_norm", 64), ("self_attn.k_norm", 64)] {
            add(&format!("{name}.weight"), &[size]);
        }
        add("mlp.gate.weight", &[EXPERTS, c]);
        for (kind, [rows, columns]) in [("gate", [f, c]), ("up", [f, c]), ("down", [c, f])] {
            match stacked {
                true => add(&format!("mlp.experts.{kind}_proj.weight"), &[EXPERTS, rows, columns]),
                false => (0..EXPERTS).for_each(|e| add(&format!("mlp.experts.{e}.{kind}_proj.weight"), &[rows, columns])),
            }
        }
    }
    write(&folder, &all);
    folder
}

/// The peak of allocations while a mixture is read, above what was there before, is near what its weights take in the end, which is what
/// `inspect` says; experts that are stored together are read one by one.
#[test]
fn a_mixture_loads_in_little_more_than_its_size() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for stacked in [false, true] {
        let folder = mixture(stacked);
        let bytes = Llm::inspect(folder.path().to_str().unwrap(), &Overrides::default()).unwrap().weight_bytes;
        for (backend, dtype, wanted) in [
            (Backend::Kernels, Precision::Auto, bytes.auto),
            (Backend::Kernels, Precision::F32, bytes.f32),
            (Backend::Kernels, Precision::Bf16, bytes.bf16),
            (Backend::Kernels, Precision::Int8, bytes.int8),
            (Backend::Kernels, Precision::Int4, bytes.int4),
            (Backend::Plain, Precision::Auto, bytes.f32),
        ] {
            let options = LoadOptions { device: "cpu".into(), backend, threads: Some(2), dtype };
            let before = ALLOCATOR.current_usage();
            ALLOCATOR.reset_peak_usage();
            let llm = Llm::load(folder.path().to_str().unwrap(), &options, &Overrides::default()).unwrap();
            let (peak, size) = (ALLOCATOR.peak_usage() - before, ALLOCATOR.current_usage() - before);
            drop(llm);
            eprintln!("{backend:?}, {}, stacked {stacked}: {peak} bytes at most, {size} in the end, {wanted} of weights", dtype.name());
            assert!(size as f64 >= 0.99 * wanted as f64, "{size} bytes cannot hold {wanted}");
            assert!(peak as f64 <= LOAD * size as f64, "{peak} bytes at most, {size} in the end");
            assert!(size as f64 <= LOAD * wanted as f64, "{size} bytes for {wanted} of weights");
        }
    }
}

/// As above, a GGUF file: quantised blocks are widened one tensor at a time.
#[test]
fn a_gguf_file_loads_in_little_more_than_its_size() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("zeros.gguf");
    write_gguf(&path);
    let options = LoadOptions { device: "cpu".into(), threads: Some(2), ..LoadOptions::default() };
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let llm = Llm::load(path.to_str().unwrap(), &options, &Overrides::default()).unwrap();
    let (peak, size) = (ALLOCATOR.peak_usage() - before, ALLOCATOR.current_usage() - before);
    let wanted = 4 * llm.config().parameters();
    eprintln!("{peak} bytes at most, {size} in the end, {wanted} of weights, {} in the file", path.metadata().unwrap().len());
    assert!(size as f64 >= 0.99 * wanted as f64, "{size} bytes cannot hold {wanted}");
    assert!(peak as f64 <= LOAD * size as f64, "{peak} bytes at most, {size} in the end");
}

/// A LLaDA of 11 million numbers, all zero, as Q8_0.
fn write_gguf(path: &Path) {
    let (c, f, layers, vocab) = (256, 768, 12, 1000);
    let mut writer = Writer::default();
    for (key, value) in [
        ("general.architecture", "llada".into()),
        ("llada.block_count", (layers as u32).into()),
        ("llada.embedding_length", (c as u32).into()),
        ("llada.feed_forward_length", (f as u32).into()),
        ("llada.context_length", 512.into()),
        ("llada.attention.head_count", 4.into()),
        ("llada.attention.layer_norm_rms_epsilon", gguf_writer::Value::F32(1e-5)),
        ("tokenizer.ggml.mask_token_id", 999.into()),
    ] {
        writer = writer.set(key, value);
    }
    let mut matrix = |name: String, rows: usize, columns: usize| {
        let bytes = vec![0; rows * columns / 32 * 34];
        writer.tensors.push(gguf_writer::Tensor { name, shape: vec![rows as u64, columns as u64], kind: 8, bytes });
    };
    matrix("token_embd.weight".to_string(), vocab, c);
    for layer in 0..layers {
        for (name, rows, columns) in [("attn_q", c, c), ("attn_k", c, c), ("attn_v", c, c), ("attn_output", c, c)] {
            matrix(format!("blk.{layer}.{name}.weight"), rows, columns);
        }
        for (name, rows, columns) in [("ffn_gate", f, c), ("ffn_up", f, c), ("ffn_down", c, f)] {
            matrix(format!("blk.{layer}.{name}.weight"), rows, columns);
        }
    }
    for layer in 0..layers {
        for name in ["attn_norm", "ffn_norm"] {
            writer.add(&format!("blk.{layer}.{name}.weight"), &[c], &vec![1.0; c]);
        }
    }
    writer.add("output_norm.weight", &[c], &vec![1.0; c]);
    std::fs::write(path, writer.bytes()).unwrap();
}
