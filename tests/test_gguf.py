"""GGUF files against the folders that they were written from."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dlmrs
import gguf
import numpy as np
import pytest
from gguf_files import Floats, Type, convert, everything, read_tensors, write_folder
from golden_data import GOLDEN, MASK, TESTS, cases, tensors, word_problems

Load = Callable[..., dlmrs.LLM]
TINY = TESTS.parent / "crates" / "dlmrs" / "bundled" / "tiny-llada"
PROMPT = list(range(40, 64)) + [3] * 8
"""Tokens, and masks of tiny-llada."""


def open_file(path: Path, **options: Any) -> dlmrs.LLM:
    return dlmrs.LLM(path, threads=2, **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tiny-llada in f32, tokenizer and all."""
    return convert(TINY, tmp_path_factory.mktemp("gguf") / "tiny-llada-f32.gguf", everything(Type.F32), pre="smollm", stops=(0, 2))


@pytest.fixture(scope="module")
def same(whole: Path) -> dlmrs.LLM:
    return open_file(whole)


def test_logits_of_f32_are_the_same_bits(llada: dlmrs.LLM, same: dlmrs.LLM) -> None:
    np.testing.assert_array_equal(same.forward(PROMPT), llada.forward(PROMPT))


@pytest.mark.parametrize("decoding", [dlmrs.Canvas(), dlmrs.Canvas(cache="dual", threshold=0.9)])
def test_text_and_tokens_are_the_same(llada: dlmrs.LLM, same: dlmrs.LLM, decoding: dlmrs.Canvas) -> None:
    conversations = [[{"role": "user", "content": problem["question"]}] for problem in word_problems(4)]
    params = dlmrs.SamplingParams(max_tokens=64)
    wanted = llada.chat(conversations, params, decoding=decoding)
    found = same.chat(conversations, params, decoding=decoding)
    assert [output.text for output in found] == [output.text for output in wanted]
    assert all("####" in output.text for output in found)
    for one, other in zip(found, wanted, strict=True):
        assert (one.token_ids, one.prompt_token_ids) == (other.token_ids, other.prompt_token_ids)
        assert one.finish_reason == other.finish_reason


def test_the_tokenizer_is_the_same(llada: dlmrs.LLM, same: dlmrs.LLM) -> None:
    texts = ["Mia buys 12 marbles for 5 dollars.", "a\n\n  b", "x<|im_end|>y <|MASK|>", "Zürich 3,500!", "'ll don't", ""]
    params = dlmrs.SamplingParams(max_tokens=1)
    for text in texts[:-1]:
        [one], [other] = llada.generate([text], params), same.generate([text], params)
        assert one.prompt_token_ids == other.prompt_token_ids, text
    messages = [{"role": "user", "content": text} for text in texts]
    assert llada.render_chat(messages) == same.render_chat(messages)


def test_inspect_says_where_things_were_found(whole: Path) -> None:
    report = dlmrs.inspect(whole)
    folder = dlmrs.inspect(TINY)
    for key in ("family", "layers", "hidden", "heads", "kv_heads", "head_dim", "vocab", "rope", "parameters", "feed_forward"):
        assert report[key] == folder[key], key
    assert report["mask_token_id"] == {"value": 3, "from": "the file's metadata"}
    assert report["stop_token_ids"]["value"] == folder["stop_token_ids"]["value"] == [0, 2]
    assert report["weights"]["dtypes"] == ["F32"]


# The largest root mean square difference to the logits of the same weights in f32, as a share of theirs; bf16 is what the model was
# stored in.
BOUNDS = {Type.F16: 1e-5, Type.BF16: 0.0, Type.Q8_0: 0.01, Type.Q4_0: 0.15}
# The same for random weights in f32.
RANDOM_BOUNDS = {Type.F32: 0.0, Type.F16: 1e-3, Type.BF16: 1e-2, Type.Q8_0: 0.02, Type.Q4_0: 0.3}


def share(found: Floats, wanted: Floats) -> float:
    return float(np.sqrt(np.square(found - wanted).mean() / np.square(wanted).mean()))


def dequantised(folder: Path, path: Path, kind: Type) -> Path:
    """The folder with each matrix as the `gguf` package widens it again from its own blocks."""

    def widened(tensor: Floats) -> Floats:
        if tensor.ndim == 1:
            return tensor
        if kind == Type.F16:
            return tensor.astype(np.float16).astype(np.float32)
        return gguf.dequantize(gguf.quantize(np.ascontiguousarray(tensor), kind), kind)

    config = json.loads((folder / "config.json").read_text())
    return write_folder(path, config, {name: widened(tensor) for name, tensor in read_tensors(folder / "model.safetensors").items()})


@pytest.mark.parametrize("kind", BOUNDS)
def test_each_type(llada: dlmrs.LLM, tmp_path: Path, kind: Type) -> None:
    path = convert(TINY, tmp_path / f"{kind.name}.gguf", everything(kind), pre="smollm", stops=(0, 2))
    assert kind.name in dlmrs.inspect(path)["weights"]["dtypes"]
    found, wanted = open_file(path).forward(PROMPT), llada.forward(PROMPT)
    assert share(found, wanted) <= BOUNDS[kind]
    # What is left is the rounding of the weights and nothing else.
    folder = dequantised(TINY, tmp_path / "widened", kind)
    np.testing.assert_array_equal(found, open_file(folder).forward(PROMPT))


def blocks(kind: Type, rows: int, columns: int, random: np.random.Generator) -> Any:
    """Random blocks of a type that the package reads and does not write: every byte is one, but for scales of a sensible size."""
    size, length = gguf.GGML_QUANT_SIZES[kind]
    found = random.integers(0, 256, (rows * columns // size, length), dtype=np.uint8)
    scale = np.full((len(found), 1), 2e-4, np.float16) * random.uniform(0.5, 1.5, (len(found), 1)).astype(np.float16)
    if kind == Type.Q4_K:
        found[:, :2] = scale.view(np.uint8)
        found[:, 2:4] = (scale * np.float16(7)).view(np.uint8)
    else:
        found[:, 192:208] = random.integers(-32, 32, (len(found), 16), dtype=np.int8).view(np.uint8)
        found[:, 208:] = scale.view(np.uint8)
    return found.reshape(rows, -1)


def random_model(config: dict[str, Any], random: np.random.Generator) -> dict[str, Floats]:
    """A Dream with one layer."""
    c, f, v = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    kv = c * config["num_key_value_heads"] // config["num_attention_heads"]
    matrices = {"self_attn.q_proj": (c, c), "self_attn.k_proj": (kv, c), "self_attn.v_proj": (kv, c), "self_attn.o_proj": (c, c)}
    matrices |= {"mlp.gate_proj": (f, c), "mlp.up_proj": (f, c), "mlp.down_proj": (c, f)}

    def normal(*shape: int, scale: float) -> Floats:
        return random.normal(0, scale, shape).astype(np.float32)

    found = {f"model.layers.0.{name}.weight": normal(*shape, scale=0.1) for name, shape in matrices.items()}
    for name in ("q", "k", "v"):
        found[f"model.layers.0.self_attn.{name}_proj.bias"] = normal(c if name == "q" else kv, scale=0.1)
    for name in ("layers.0.input_layernorm", "layers.0.post_attention_layernorm", "norm"):
        found[f"model.{name}.weight"] = 1 + normal(c, scale=0.2)
    return found | {"model.embed_tokens.weight": normal(v, c, scale=1), "lm_head.weight": normal(v, c, scale=0.1)}


def dream(hidden: int, intermediate: int) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((GOLDEN / "dream" / "config.json").read_text())
    return config | {"hidden_size": hidden, "intermediate_size": intermediate, "num_hidden_layers": 1}


@pytest.mark.parametrize("kind", [Type.Q4_K, Type.Q6_K])
def test_blocks_that_the_package_only_reads(tmp_path: Path, kind: Type) -> None:
    random = np.random.default_rng(7)
    config = dream(256, 512)
    model = random_model(config, random)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.DREAM, 1)
    raw = {}
    for name, tensor in model.items():
        if tensor.ndim == 2:
            new = names.get_name(name, try_suffixes=(".weight",))
            assert new is not None
            rows, columns = tensor.shape
            raw[new] = blocks(kind, rows, columns, random)
            model[name] = gguf.dequantize(raw[new], kind)
    folder = write_folder(tmp_path / "folder", config, model)
    path = convert(folder, tmp_path / "file.gguf", everything(kind), raw=raw)
    assert dlmrs.inspect(path)["weights"]["dtypes"] == ["F32", kind.name]
    ids = [*range(30), *[MASK] * 4]
    wanted = open_file(folder).forward(ids)
    assert wanted.std() > 0.1
    np.testing.assert_array_equal(open_file(path).forward(ids), wanted)


@pytest.mark.parametrize("kind", RANDOM_BOUNDS)
def test_dream(tmp_path: Path, kind: Type) -> None:
    config = dream(64, 96)
    folder = write_folder(tmp_path / "folder", config, random_model(config, np.random.default_rng(3)))
    path = convert(folder, tmp_path / "file.gguf", everything(kind))
    widened = open_file(dequantised(folder, tmp_path / "widened", kind))
    found = open_file(path)
    ids = list(range(20))
    np.testing.assert_array_equal(found.forward(ids), widened.forward(ids))
    assert share(found.forward(ids), open_file(folder).forward(ids)) <= RANDOM_BOUNDS[kind]
    # Shifted, by its schedule, with a cache: the same tokens.
    params = dlmrs.SamplingParams(max_tokens=16)
    for decoding in (None, dlmrs.Canvas(cache="prefix", threshold=0.3, block_length=8)):
        [one], [other] = (llm.generate([ids], params, decoding=decoding) for llm in (found, widened))
        assert one.token_ids == other.token_ids


@pytest.mark.parametrize("family", ["llada", "dream", "llada_moe", "rnd1"])
def test_logits_of_the_references(tmp_path: Path, family: str) -> None:
    path = convert(GOLDEN / family, tmp_path / f"{family}.gguf", everything(Type.F32))
    llm = open_file(path, mask_token_id=MASK)
    folder = dlmrs.inspect(GOLDEN / family)
    assert {key: dlmrs.inspect(path)[key] for key in ("family", "shift", "feed_forward")} == {
        key: folder[key] for key in ("family", "shift", "feed_forward")
    }
    for case in cases(family, "forward"):
        wanted = tensors(GOLDEN / family / "logits.safetensors")[case["logits"]]
        assert np.abs(llm.forward(case["input_ids"]) - wanted).max() <= 2e-4, case["name"]


def test_what_the_file_says_of_the_shift_counts(tmp_path: Path) -> None:
    for number, (shift, wanted) in enumerate([(None, True), (True, True), (False, False)]):
        path = convert(GOLDEN / "dream", tmp_path / f"{number}.gguf", everything(Type.F32), shift=shift)
        assert dlmrs.inspect(path)["shift"] is wanted


def test_what_is_no_model_is_refused_in_a_sentence(whole: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.gguf"
    short.write_bytes(whole.read_bytes()[:-1000])
    with pytest.raises(dlmrs.CheckpointError, match=r"short\.gguf: is cut short: the tensor .* ends at byte"):
        dlmrs.LLM(short)
    other = tmp_path / "other.gguf"
    writer = gguf.GGUFWriter(other, "llama")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(dlmrs.Error, match=r'general\.architecture is "llama", which is not supported; supported are llada \(LLaDA\)'):
        dlmrs.inspect(other)
    with pytest.raises(dlmrs.Error, match="mask_token_id: not found in .*golden.gguf"):
        dlmrs.LLM(convert(without_mask(tmp_path), tmp_path / "golden.gguf", everything(Type.F32)))


def without_mask(folder: Path) -> Path:
    """The golden LLaDA, whose mask token nobody names."""
    config = json.loads((GOLDEN / "llada" / "config.json").read_text())
    config.pop("mask_token_id", None)
    return write_folder(folder / "nameless", config, read_tensors(GOLDEN / "llada" / "model.safetensors"))


def run(*arguments: object) -> str:
    command = [sys.executable, "-m", "dlmrs", *map(str, arguments)]
    found = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_the_command(whole: Path, tmp_path: Path) -> None:
    report = run("inspect", whole)
    for line in ("family          LLaDA (LLaDAModelLM)", "mask token      3 (from the file's metadata)", "methods         Canvas: identical"):
        assert line in report.splitlines()
    question = word_problems(1)[0]["question"]
    assert run("generate", whole, question, "--max-tokens", 64) == run("generate", "tiny-llada", question, "--max-tokens", 64)
    run("eval", whole, "--limit", 2, "--out", tmp_path / "run")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    digest = hashlib.sha256(whole.read_bytes()).hexdigest()
    assert digest in json.dumps(manifest) and whole.name in json.dumps(manifest)
