//! What config.json may say.

use dlmrs::Error;
use dlmrs::checkpoint::{Family, FeedForward, NativeAttention, Rope, RopeScaling};
use serde_json::{Value, json};

use crate::common::{Copy, refused};

#[test]
fn families() {
    let sdar = Copy::config_only("sdar").read().unwrap();
    assert_eq!((sdar.family, sdar.attention, sdar.shift), (Family::Sdar, NativeAttention::BlockCausal, false));
    assert_eq!((sdar.hidden, sdar.layers, sdar.heads, sdar.kv_heads, sdar.head_dim, sdar.vocab), (48, 3, 4, 2, 32, 320));
    assert_eq!((sdar.qk_norm, sdar.qkv_bias, sdar.tied, sdar.max_positions), (true, false, false, 1024));
    assert_eq!((sdar.mask_token_id, sdar.block_length, sdar.eos_token_ids.as_slice()), (None, None, &[318][..]));
    assert_eq!(sdar.rope, Rope { theta: 1e6, rotary_dim: 32, full_precision: false, scaling: RopeScaling::None });
    assert!(Copy::config_only("sdar_tied").read().unwrap().tied);

    let llada = Copy::config_only("llada").read().unwrap();
    assert_eq!((llada.family, llada.attention, llada.shift), (Family::Llada, NativeAttention::Bidirectional, false));
    assert_eq!((llada.head_dim, llada.feed_forward.clone()), (12, FeedForward::Dense { intermediate: 80 }));
    assert_eq!((llada.mask_token_id, llada.rms_eps, llada.max_positions), (Some(317), 1e-5, 512));
    assert!(llada.rope.full_precision && !llada.qk_norm && !llada.qkv_bias);

    let dream = Copy::config_only("dream").read().unwrap();
    assert_eq!((dream.family, dream.attention, dream.shift), (Family::Dream, NativeAttention::Bidirectional, true));
    assert!(dream.qkv_bias && !dream.qk_norm && !dream.rope.full_precision);
    assert_eq!(dream.head_dim, 12);

    let fast = Copy::config_only("fast_dllm_v2").read().unwrap();
    assert_eq!((fast.family, fast.attention, fast.shift), (Family::FastDllmV2, NativeAttention::BlockCausal, true));
    assert!(fast.qkv_bias && !fast.qk_norm && !fast.tied && fast.rope.theta == 1e6);
    assert_eq!((fast.head_dim, fast.block_length, fast.mask_token_id), (12, Some(8), None));
}

#[test]
fn collisions_and_strangers() {
    for (architecture, model_type, what) in [
        ("DFlashDraftModel", "qwen3", "DFlash"),
        ("EfficientDLM", "qwen3", "Efficient-DLM"),
        ("SDLMQwen2ForCausalLM", "qwen2", "SDLM"),
        ("Qwen3ForCausalLM", "qwen3", "autoregressive"),
        ("BertModel", "sdar", "not supported"),
    ] {
        let copy = Copy::config_only("sdar").set("architectures", json!([architecture])).set("model_type", json!(model_type));
        let error = refused(copy.read(), &[architecture, model_type, what, "SDARForCausalLM", "LLaDAModelLM", "DreamModel"]);
        assert!(matches!(error, Error::UnsupportedModel { .. }));
    }
    // The first architecture decides, whatever model_type says.
    assert_eq!(Copy::config_only("sdar").set("model_type", json!("qwen3")).read().unwrap().family, Family::Sdar);
}

#[test]
fn architectures_missing_or_odd() {
    for absent in [json!(null), json!([])] {
        refused(Copy::config_only("sdar").set("architectures", absent).read(), &["config.json", "architectures is missing", "SDAR"]);
    }
    refused(Copy::config_only("sdar").without("architectures").read(), &["architectures is missing"]);
    refused(Copy::config_only("sdar").set("architectures", json!("SDARForCausalLM")).read(), &["must be a list"]);
    refused(Copy::config_only("sdar").set("architectures", json!([7])).read(), &["architectures[0] is 7"]);
    // One family's config under another's name is missing that one's keys.
    refused(Copy::config_only("sdar").set("architectures", json!(["LLaDAModelLM"])).read(), &["block_type is missing"]);
}

#[test]
fn required_keys_are_named() {
    for (family, keys) in [
        ("sdar", &["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size", "rms_norm_eps"][..]),
        ("dream", &["max_position_embeddings", "rope_theta", "hidden_size"][..]),
        ("fast_dllm_v2", &["max_position_embeddings", "rope_theta", "vocab_size", "intermediate_size"][..]),
        ("llada", &["d_model", "n_layers", "n_heads", "vocab_size", "rms_norm_eps", "max_sequence_length", "rope_theta", "rope"][..]),
        ("llada", &["mlp_hidden_size", "block_type", "layer_norm_type", "activation_type"][..]),
    ] {
        for key in keys {
            refused(Copy::config_only(family).without(key).read(), &["config.json", key, "missing"]);
        }
    }
}

#[test]
fn sizes_out_of_range() {
    for (family, key) in [
        ("sdar", "num_attention_heads"),
        ("sdar", "num_key_value_heads"),
        ("sdar", "head_dim"),
        ("sdar", "hidden_size"),
        ("sdar", "num_hidden_layers"),
        ("sdar", "vocab_size"),
        ("sdar", "intermediate_size"),
        ("sdar", "max_position_embeddings"),
        ("sdar", "block_size"),
        ("fast_dllm_v2", "bd_size"),
        ("llada", "n_heads"),
        ("llada", "d_model"),
        ("llada", "n_layers"),
        ("llada", "mlp_hidden_size"),
        ("llada", "embedding_size"),
    ] {
        for wrong in [json!(0), json!(-4), json!(2.5), json!(1e30), json!(u64::MAX), json!("4"), json!(true), json!([4]), json!({})] {
            refused(Copy::config_only(family).set(key, wrong.clone()).read(), &[key, "whole number from 1"]);
        }
    }
    refused(Copy::config_only("sdar").set("num_hidden_layers", json!(1025)).read(), &["num_hidden_layers is 1025", "1024"]);
    refused(Copy::config_only("sdar").set("hidden_size", json!(131_073)).read(), &["hidden_size is 131073"]);
    refused(Copy::config_only("sdar").set("vocab_size", json!((4 << 20) + 1)).read(), &["vocab_size is 4194305"]);
    // Each within its bound, but not all together.
    let large = Copy::config_only("sdar").set("hidden_size", json!(131_072)).set("num_hidden_layers", json!(1024));
    refused(large.set("intermediate_size", json!(1 << 20)).read(), &["parameters", "1099511627776"]);
}

#[test]
fn sizes_that_do_not_fit_each_other() {
    refused(Copy::config_only("sdar").set("num_key_value_heads", json!(3)).read(), &["4 query heads", "3 key heads"]);
    refused(Copy::config_only("sdar").set("head_dim", json!(31)).read(), &["head size is 31", "even"]);
    refused(Copy::config_only("dream").set("hidden_size", json!(49)).read(), &["hidden size 49", "4 heads", "head_dim"]);
    refused(Copy::config_only("llada").set("embedding_size", json!(300)).read(), &["embedding_size is 300", "320"]);
    refused(Copy::config_only("sdar").set("eos_token_id", json!(320)).read(), &["eos_token_id is 320", "below 320"]);
    refused(Copy::config_only("sdar").set("eos_token_id", json!([1, -1])).read(), &["eos_token_id is -1"]);
    refused(Copy::config_only("sdar").set("mask_token_id", json!(1_u64 << 40)).read(), &["mask_token_id is 1099511627776"]);
}

#[test]
fn sizes_that_follow_from_others() {
    assert_eq!(Copy::config_only("sdar").without("head_dim").read().unwrap().head_dim, 12);
    assert_eq!(Copy::config_only("sdar").without("num_key_value_heads").read().unwrap().kv_heads, 4);
    assert_eq!(Copy::config_only("llada").set("n_kv_heads", Value::Null).read().unwrap().kv_heads, 4);
    assert_eq!(Copy::config_only("llada").set("embedding_size", json!(384)).read().unwrap().vocab, 384);
    let ratio = Copy::config_only("llada").without("mlp_hidden_size").set("mlp_ratio", json!(4)).read().unwrap();
    assert_eq!(ratio.feed_forward, FeedForward::Dense { intermediate: 192 });
    // Where both are given, the hidden size wins.
    let both = Copy::config_only("llada").set("mlp_ratio", json!(4)).read().unwrap();
    assert_eq!(both.feed_forward, FeedForward::Dense { intermediate: 80 });
}

#[test]
fn what_is_not_implemented_is_refused_by_name_and_value() {
    for (family, key, value) in [
        ("sdar", "hidden_act", json!("gelu")),
        ("sdar", "attention_bias", json!(true)),
        ("sdar", "use_sliding_window", json!(true)),
        ("sdar", "use_regular_causal", json!(true)),
        ("sdar", "attention_layer_norm", json!(true)),
        ("sdar", "quantization_config", json!({"bits": 4})),
        ("dream", "hidden_act", json!("relu")),
        ("fast_dllm_v2", "hidden_act", json!("gelu")),
        ("fast_dllm_v2", "use_sliding_window", json!(true)),
        ("dream", "use_mrope", json!(true)),
        ("dream", "use_sliding_window", json!("yes")),
        ("llada", "block_type", json!("sequential")),
        ("llada", "layer_norm_type", json!("default")),
        ("llada", "activation_type", json!("swiglu")),
        ("llada", "alibi", json!(true)),
        ("llada", "include_bias", json!(true)),
        ("llada", "include_qkv_bias", json!(true)),
        ("llada", "bias_for_layer_norm", json!(true)),
        ("llada", "scale_logits", json!(true)),
        ("llada", "input_emb_norm", json!(true)),
        ("llada", "attention_layer_norm", json!(true)),
        ("llada", "block_group_size", json!(2)),
        ("llada", "rope", json!(false)),
        ("llada", "layer_norm_with_affine", json!(false)),
        ("llada", "rope_scaling", json!({"rope_type": "linear", "factor": 2})),
    ] {
        let shown = if value.is_object() { key.to_string() } else { format!("{key} is {value}") };
        refused(Copy::config_only(family).set(key, value).read(), &["config.json", &shown]);
    }
    let windows = json!(["full_attention", "sliding_attention", "full_attention"]);
    refused(Copy::config_only("sdar").set("layer_types", windows).read(), &["sliding_attention"]);
    // A window that is written down but switched off changes nothing.
    let off = Copy::config_only("sdar").set("sliding_window", json!(4096)).set("use_sliding_window", json!(false));
    off.set("layer_types", json!(["full_attention"])).read().unwrap();
}

fn scaled(value: Value) -> dlmrs::Result<RopeScaling> {
    Ok(Copy::config_only("sdar").set("rope_scaling", value).read()?.rope.scaling)
}

#[test]
fn rope_scaling_is_honoured_or_refused() {
    for none in [json!(null), json!({}), json!({"rope_type": "default"}), json!({"type": "default", "factor": null})] {
        assert_eq!(scaled(none).unwrap(), RopeScaling::None);
    }
    assert_eq!(scaled(json!({"type": "linear", "factor": 4})).unwrap(), RopeScaling::Linear { factor: 4.0 });
    let llama3 = json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192});
    assert!(matches!(scaled(llama3).unwrap(), RopeScaling::Llama3 { original_max_positions: 8192, .. }));
    for kind in ["yarn", "dynamic", "longrope", "mrope", "su"] {
        refused(scaled(json!({"rope_type": kind, "factor": 4.0})), &["rope_scaling", kind, "linear", "llama3"]);
    }
    refused(scaled(json!({"factor": 4.0})), &["rope_type is missing"]);
    refused(scaled(json!({"rope_type": "linear"})), &["rope_scaling", "factor is missing"]);
    refused(scaled(json!({"rope_type": "linear", "factor": 0})), &["factor is 0"]);
    refused(scaled(json!({"rope_type": "linear", "factor": 2, "attention_factor": 3})), &["attention_factor"]);
    refused(scaled(json!({"rope_type": "default", "factor": 2})), &["factor"]);
    refused(scaled(json!({"rope_type": "linear", "type": "yarn", "factor": 2})), &["linear", "yarn"]);
    refused(scaled(json!("linear")), &["rope_scaling is \"linear\"", "object"]);
    refused(scaled(json!({"rope_type": 3})), &["rope_type is 3"]);
}

#[test]
fn rope_parameters_of_transformers_5() {
    let with = |value| Copy::config_only("sdar").without("rope_theta").set("rope_parameters", value);
    let rope = with(json!({"rope_type": "default", "rope_theta": 5e5})).read().unwrap().rope;
    assert_eq!((rope.theta, rope.scaling), (5e5, RopeScaling::None));
    let rope = with(json!({"rope_type": "linear", "rope_theta": 10000, "factor": 2, "partial_rotary_factor": 0.5})).read().unwrap().rope;
    assert_eq!((rope.theta, rope.scaling, rope.rotary_dim), (1e4, RopeScaling::Linear { factor: 2.0 }, 16));
    refused(with(json!({"rope_type": "default"})).read(), &["rope_theta is missing"]);
    refused(with(json!({"full_attention": {"rope_theta": 1e4}, "rope_theta": 1e4})).read(), &["rope_type is missing"]);
    let twice = Copy::config_only("sdar").set("rope_parameters", json!({"rope_type": "default", "rope_theta": 5e5}));
    refused(twice.read(), &["rope_theta is 1000000", "500000"]);
    let differ = with(json!({"rope_theta": 5e5})).set("rope_scaling", json!({"rope_type": "linear", "factor": 2}));
    refused(differ.read(), &["rope_scaling", "rope_parameters", "differ"]);
}

#[test]
fn rotary_dimensions_and_frequencies() {
    let part = |value| Copy::config_only("sdar").set("partial_rotary_factor", value).read();
    assert_eq!(part(json!(0.25)).unwrap().rope.rotary_dim, 8);
    refused(part(json!(0.3)), &["partial_rotary_factor is 0.3", "9.6", "32"]);
    refused(part(json!(1.5)), &["partial_rotary_factor is 1.5"]);
    refused(part(json!(0)), &["partial_rotary_factor is 0"]);

    let rope = Rope { theta: 10_000.0, rotary_dim: 8, full_precision: false, scaling: RopeScaling::None };
    assert_eq!(rope.inverse_frequencies(), [1.0, 0.1, 0.01, 0.001]);
    let halved = Rope { scaling: RopeScaling::Linear { factor: 2.0 }, ..rope.clone() };
    assert_eq!(halved.inverse_frequencies(), [0.5, 0.05, 0.005, 0.0005]);
    // Waves of 6.28, 62.8, 628 and 6283 tokens: kept below 100 / 4, stretched above 100 / 1, between them in part.
    let (low_freq_factor, high_freq_factor) = (1.0, 4.0);
    let scaling = RopeScaling::Llama3 { factor: 8.0, low_freq_factor, high_freq_factor, original_max_positions: 100 };
    let llama3 = Rope { scaling, ..rope }.inverse_frequencies();
    assert_eq!((llama3[0], llama3[2], llama3[3]), (1.0, 0.01 / 8.0, 0.001 / 8.0));
    let smooth = (100.0 / (std::f32::consts::TAU / 0.1) - 1.0) / 3.0;
    assert!((llama3[1] - 0.1 * ((1.0 - smooth) / 8.0 + smooth)).abs() < 1e-7, "{llama3:?}");
}

#[test]
fn config_that_is_no_json() {
    let copy = Copy::config_only("sdar");
    copy.write("config.json", "{\n \"architectures\": [\n  \"SDARForCausalLM\"\n ]\n \"vocab_size\": 3\n}");
    refused(copy.read(), &["config.json", "not valid JSON", "line 5"]);
    copy.write("config.json", "");
    refused(copy.read(), &["config.json", "line 1"]);
    copy.write("config.json", b"{\"a\": \"\xff\xfe\"}");
    refused(copy.read(), &["config.json", "not UTF-8", "offset 7"]);
    copy.write("config.json", "[1, 2]");
    refused(copy.read(), &["config.json", "must hold a JSON object", "[1,2]"]);
    copy.write("config.json", "[".repeat(100_000));
    refused(copy.read(), &["config.json"]);
    copy.write("config.json", "{\"rope_theta\": 1e999}");
    refused(copy.read(), &["config.json", "line 1"]);
}

/// Any key may hold anything: an answer or an error, never a panic, and never a huge allocation.
#[test]
fn odd_values_never_panic() {
    let odd = [
        json!(null),
        json!(0),
        json!(-1),
        json!(1),
        json!(0.5),
        json!(1e300),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(""),
        json!("\u{0}é"),
        json!("x".repeat(100_000)),
        json!([]),
        json!([[[]]]),
        json!({}),
        json!({"rope_type": "linear"}),
        json!(true),
        json!(false),
    ];
    for family in ["sdar", "llada", "dream", "fast_dllm_v2"] {
        let copy = Copy::config_only(family);
        let mut keys: Vec<String> = copy.config.as_object().unwrap().keys().cloned().collect();
        keys.extend(["rope_scaling", "rope_parameters", "layer_types", "block_size", "torch_dtype", "mlp_ratio"].map(String::from));
        for key in keys {
            for value in &odd {
                let mut config = copy.config.clone();
                config[&key] = value.clone();
                copy.write("config.json", config.to_string());
                if let Err(error) = copy.read() {
                    assert!(error.to_string().len() < 1000, "{error}");
                }
            }
        }
    }
}

/// What the config of a mixture of experts may not say.
#[test]
fn mixtures_that_cannot_be() {
    for (family, key, value, words) in [
        ("sdar_moe", "num_experts_per_tok", json!(13), ["num_experts_per_tok is 13", "12 experts"]),
        ("sdar_moe", "norm_topk_prob", json!(null), ["norm_topk_prob", "missing"]),
        ("sdar_moe", "mlp_only_layers", json!([0]), ["mlp_only_layers", "only [] is supported"]),
        ("rnd1", "decoder_sparse_step", json!(2), ["decoder_sparse_step", "only 1"]),
        ("rnd1", "num_experts", json!(0), ["num_experts", "from 1"]),
        ("llada_moe", "norm_topk_prob", json!(true), ["norm_topk_prob", "only false"]),
        ("llada_moe", "shared_expert_intermediate_size", json!(24), ["shared_expert_intermediate_size", "24"]),
        ("llada_moe", "moe_layer_freq", json!([1, 0, 1]), ["moe_layer_freq", "layer 1"]),
        ("llada2_moe", "n_group", json!(3), ["n_group is 3", "divide the 16 experts"]),
        ("llada2_moe", "topk_group", json!(5), ["topk_group is 5", "4 groups"]),
        ("llada2_moe", "n_group", json!(16), ["n_group is 16", "at least two"]),
        ("llada2_moe", "expert_capacity", json!(48), ["expert_capacity is 48", "LLaDA2.2"]),
        ("llada2_moe", "first_k_dense_replace", json!(4), ["first_k_dense_replace", "from 0 to 3"]),
        ("llada2_moe", "score_function", json!("softmax"), ["score_function", "sigmoid"]),
    ] {
        refused(Copy::config_only(family).set(key, value).read(), &words);
    }
}

#[test]
fn experts_that_are_missing_or_stored_in_two_ways() {
    let missing = Copy::of("llada2_moe").tensors(|tensors| drop(tensors.remove("model.layers.2.mlp.experts.7.up_proj.weight")));
    refused(missing.open(), &["model.layers.2.mlp.experts.7.up_proj.weight [24, 48] is missing"]);
    let both = Copy::of("sdar_moe").tensors(|tensors| {
        let tensor = tensors["model.layers.0.mlp.experts.0.up_proj.weight"].clone();
        tensors.insert("model.layers.0.mlp.experts.gate_up_proj".into(), tensor);
    });
    refused(both.open(), &["stored in two ways", "experts.gate_up_proj", "experts.0."]);
    let both = Copy::of("llada_moe").tensors(|tensors| {
        let tensor = tensors["model.layers.2.mlp.experts.0.up_proj.weight"].clone();
        tensors.insert("model.layers.2.mlp.experts.up_proj.weight".into(), tensor);
    });
    refused(both.open(), &["stored in two ways", "experts.up_proj.weight", "experts.0."]);
}

/// Each expert of a fused checkpoint has the numbers that it has where experts are stored one by one.
#[test]
fn fused_experts_are_the_same_experts() {
    let (single, c) = (Copy::of("llada2_moe"), 48);
    let config = single.read().unwrap();
    let FeedForward::Mixture(mixture) = config.feed_forward.clone() else { panic!("a mixture") };
    let expert = |weights: &dlmrs::checkpoint::Weights, layer: usize, index: usize| {
        let names = dlmrs::checkpoint::Names::of(config.family).mixture(weights.expert_layout(), layer);
        names.expert(&mixture, c, index).map(|part| weights.load_rows_f32(&part).unwrap())
    };
    let wanted = single.open().unwrap();
    for gate_up in [false, true] {
        let fused = Copy::of("llada2_moe").tensors(|tensors| fuse(tensors, gate_up)).open().unwrap();
        for (layer, index) in [(1, 0), (1, 15), (2, 7)] {
            assert!(expert(&fused, layer, index) == expert(&wanted, layer, index), "gate_up {gate_up}, layer {layer}, expert {index}");
        }
    }
}

/// Stacks the 16 experts of layers 1 and 2, each [24, 48], [24, 48] and [48, 24].
fn fuse(tensors: &mut crate::common::Tensors, gate_up: bool) {
    for layer in [1, 2] {
        let prefix = format!("model.layers.{layer}.mlp.experts.");
        let mut take = |index: usize, kind: &str| tensors.remove(&format!("{prefix}{index}.{kind}_proj.weight")).unwrap();
        let experts: Vec<_> = (0..16).map(|index| ["gate", "up", "down"].map(|kind| take(index, kind))).collect();
        let stack = |kinds: &[usize], shape: [usize; 3]| {
            let mut tensor = crate::common::Tensor::zeros(experts[0][0].dtype, &shape);
            tensor.bytes = experts.iter().flat_map(|expert| kinds.iter().flat_map(|kind| expert[*kind].bytes.clone())).collect();
            tensor
        };
        let down = stack(&[2], [16, 48, 24]);
        if gate_up {
            tensors.insert(format!("{prefix}gate_up_proj"), stack(&[0, 1], [16, 48, 48]));
            tensors.insert(format!("{prefix}down_proj"), down);
        } else {
            tensors.insert(format!("{prefix}gate_proj.weight"), stack(&[0], [16, 24, 48]));
            tensors.insert(format!("{prefix}up_proj.weight"), stack(&[1], [16, 24, 48]));
            tensors.insert(format!("{prefix}down_proj.weight"), down);
        }
    }
}
