"""The engine under the real lm-evaluation-harness: whole tasks, and each kind of request. Nothing is downloaded."""

import os

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1")

import json
import logging
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dlmrs
import dlmrs.lm_eval
import lm_eval
import numpy as np
import pytest
from datasets import Dataset
from dlmrs.likelihood import Likelihood
from dlmrs.lm_eval import DlmrsLM
from golden_data import GOLDEN, TESTS, word_problems
from lm_eval.api.instance import Instance
from lm_eval.tasks import TaskManager

PROBLEMS = 20
LENGTH = 96
MODELS = ["tiny-sdar", "tiny-llada"]


def solved(text: str) -> str:
    found = re.search(r"#### (-?\d+)", text)
    return found.group(1) if found else "[invalid]"


def in_memory(rows: list[dict[str, Any]]) -> Callable[..., dict[str, Dataset]]:
    def load(**_: Any) -> dict[str, Dataset]:
        return {"test": Dataset.from_list(rows)}

    return load


def task(name: str, rows: list[dict[str, Any]], **settings: Any) -> dict[str, Any]:
    return {"task": name, "custom_dataset": in_memory(rows), "test_split": "test", **settings}


def metric(name: str) -> dict[str, Any]:
    return {"metric": name, "aggregation": "mean", "higher_is_better": True}


def evaluate(asked: dict[str, Any], arguments: dict[str, Any], **settings: Any) -> Any:
    model_args = {"threads": 2, "batch_size": 8, **arguments}
    return lm_eval.simple_evaluate(
        model="dlmrs",
        model_args=model_args,
        tasks=[asked],
        task_manager=TaskManager(include_defaults=False),
        bootstrap_iters=0,
        **settings,
    )


def requests(kind: Any, *arguments: tuple[Any, ...]) -> list[Instance]:
    return [Instance(kind, {}, pair, i) for i, pair in enumerate(arguments)]


@pytest.fixture(scope="module")
def sdar_lm() -> DlmrsLM:
    return DlmrsLM("tiny-sdar", threads=2, batch_size=4)


@pytest.fixture(scope="module")
def llada_lm() -> DlmrsLM:
    return DlmrsLM("tiny-llada", threads=2, batch_size=4, mc_num=8)


@pytest.mark.parametrize(
    ("name", "decoding"), [("tiny-sdar", None), ("tiny-llada", dlmrs.Canvas(threshold=0.9, block_length=8))]
)
def test_a_generating_task_has_the_accuracy_of_chat(load: Any, name: str, decoding: dlmrs.Decoding | None) -> None:
    rows = [{"question": p["question"], "answer": solved(p["answer"])} for p in word_problems(PROBLEMS)]
    asked = task(
        "word_problems",
        rows,
        output_type="generate_until",
        doc_to_text="{{question}}",
        doc_to_target="{{answer}}",
        generation_kwargs={"until": ["\n\n"], "max_gen_toks": LENGTH, "do_sample": False},
        filter_list=[
            {
                "name": "answer",
                "filter": [{"function": "regex", "regex_pattern": r"#### (-?\d+)"}, {"function": "take_first"}],
            }
        ],
        metric_list=[metric("exact_match")],
    )
    options = {} if decoding is None else {"threshold": 0.9, "block_length": 8}
    results = evaluate(asked, {"model": name, **options}, apply_chat_template=True, log_samples=True)
    outputs = load(name).chat(
        [[{"role": "user", "content": row["question"]}] for row in rows],
        dlmrs.SamplingParams(max_tokens=LENGTH),
        decoding=decoding,
    )
    samples = sorted(results["samples"]["word_problems"], key=lambda sample: sample["doc_id"])
    assert [sample["resps"][0][0] for sample in samples] == [output.text for output in outputs]
    right = sum(solved(output.text) == row["answer"] for output, row in zip(outputs, rows, strict=True))
    assert right > PROBLEMS / 2
    assert results["results"]["word_problems"]["exact_match,answer"] == pytest.approx(right / PROBLEMS)


@pytest.mark.parametrize("name", MODELS)
def test_a_multiple_choice_task(name: str) -> None:
    """Right answers against answers of other problems: the model should nearly always know better."""
    problems = word_problems(6)
    rows = [
        {"question": p["question"], "choices": [p["answer"], problems[i - 1]["answer"]]} for i, p in enumerate(problems)
    ]
    asked = task(
        "choices",
        rows,
        output_type="multiple_choice",
        doc_to_text="{{question}}",
        doc_to_choice="{{choices}}",
        doc_to_target=0,
        target_delimiter="",
        metric_list=[metric("acc"), metric("acc_norm")],
    )
    results = evaluate(asked, {"model": name, "mc_num": 4}, apply_chat_template=True)
    assert results["results"]["choices"]["acc,none"] >= 0.75


def test_a_rolling_task(sdar_lm: DlmrsLM) -> None:
    rows = [{"text": f"{p['question']} {p['answer']}"} for p in word_problems(3)]
    asked = task(
        "texts",
        rows,
        output_type="loglikelihood_rolling",
        doc_to_text="",
        doc_to_target="{{text}}",
        metric_list=[{"metric": "bits_per_byte", "aggregation": "bits_per_byte", "higher_is_better": False}],
    )
    found = evaluate(asked, {"model": "tiny-sdar"})["results"]["texts"]["bits_per_byte,none"]
    scores = Likelihood(sdar_lm.llm).score([([], sdar_lm.llm.encode(row["text"])) for row in rows])
    size = sum(len(row["text"].encode()) for row in rows)
    assert found == pytest.approx(-sum(score.log_probability for score in scores) / size / 0.6931471805599453)


def test_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text(
        "".join(json.dumps({"q": f"{i} * 2 =", "a": f" {i * 2}"}) + "\n" for i in range(3))
    )
    (tmp_path / "twice.yaml").write_text(
        f"""
        task: twice
        dataset_path: json
        dataset_kwargs: {{data_files: {{test: {tmp_path / "data.jsonl"}}}}}
        test_split: test
        output_type: loglikelihood
        doc_to_text: "{{{{q}}}}"
        doc_to_target: "{{{{a}}}}"
        target_delimiter: ""
        metric_list: [{{metric: acc, aggregation: mean, higher_is_better: true}}]
        """
    )
    command = [
        sys.executable,
        "-m",
        "dlmrs.lm_eval",
        "run",
        "--model",
        "dlmrs",
        "--model_args",
        "model=tiny-sdar,threads=2",
    ]
    command += ["--tasks", "twice", "--include_path", str(tmp_path), "--batch_size", "2"]
    environment = {**os.environ, "HF_HOME": str(tmp_path / "cache")}
    run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300, env=environment)
    assert run.returncode == 0, run.stderr
    assert re.search(r"\|twice\s*\|.*\|acc\s*\|", run.stdout), run.stdout


def test_generate_until(sdar_lm: DlmrsLM) -> None:
    whole, cut, short, other = sdar_lm.generate_until(
        requests(
            "generate_until",
            ("The beads cost 6 * 2 =", {"max_gen_toks": 24}),
            ("The beads cost 6 * 2 =", {"max_gen_toks": 24, "until": [".", ""]}),
            ("The beads cost 6 * 2 =", {"max_new_tokens": 2, "until": None}),
            ("Together that is 12 + 35 =", {"max_gen_toks": 24, "until": "."}),
        )
    )
    assert cut == whole.split(".")[0] != whole
    assert whole.startswith(short) and len(short) < len(cut)
    [alone] = sdar_lm.llm.generate("Together that is 12 + 35 =", dlmrs.SamplingParams(max_tokens=24, stop="."))
    assert other == alone.text


def test_sampling(sdar_lm: DlmrsLM) -> None:
    ask = "The beads cost 6 * 2 ="
    warm = {"do_sample": True, "temperature": 3.0, "top_p": 0.95, "top_k": 50, "max_gen_toks": 24}
    first, second, third = sdar_lm.generate_until(
        requests("generate_until", (ask, warm), (ask, warm), (ask, {**warm, "seed": 1}))
    )
    assert first != second, "repeats must differ"
    assert second == third, "the second repeat has the next seed"
    assert sdar_lm.generate_until(requests("generate_until", (ask, warm))) == [first]
    cold, greedy = sdar_lm.generate_until(
        requests("generate_until", (ask, {**warm, "do_sample": False}), (ask, {"max_gen_toks": 24}))
    )
    assert cold == greedy


def test_unknown_settings_of_a_task_are_named(sdar_lm: DlmrsLM, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "dlmrs.lm_eval"):
        sdar_lm.generate_until(requests("generate_until", ("a", {"max_gen_toks": 2, "num_beams": 4, "until": []})))
    assert "generation_kwargs: num_beams is unknown here and was ignored; known are until" in caplog.text
    for settings, message in [
        ({"temperature": -1}, "temperature: is -1"),
        ({"until": [5]}, "until: holds 5"),
        ({"max_gen_toks": 2048}, "max_gen_toks: is 2048, which leaves no room for a prompt: the model takes 2048"),
    ]:
        with pytest.raises(dlmrs.InputError, match=message):
            sdar_lm.generate_until(requests("generate_until", ("a", settings)))


def test_loglikelihood(sdar_lm: DlmrsLM, llada_lm: DlmrsLM) -> None:
    for lm in (sdar_lm, llada_lm):
        pairs = [("6 * 2 =", " 12"), ("", "Together that is 47."), ("6 * 2 =", ""), ("", ""), ("6 * 2 = ", "12")]
        found = lm.loglikelihood(requests("loglikelihood", *pairs))
        encode = lm.llm.encode
        wanted = lm.likelihood.score([(encode("6 * 2 ="), encode(" 12")), ([], encode("Together that is 47."))])
        assert found[:2] == [(score.log_probability, score.is_greedy) for score in wanted]
        assert found[2] == found[3] == (0.0, True)
        assert found[4] == found[0], "a space at the context's end belongs to the continuation"
        assert lm.loglikelihood(requests("loglikelihood", pairs[1])) == [found[1]]


def test_long_contexts_lose_their_beginning(caplog: pytest.LogCaptureFixture) -> None:
    lm = DlmrsLM("tiny-sdar", max_length=33, threads=2)
    with caplog.at_level(logging.WARNING, "dlmrs.lm_eval"):
        [long], [short] = (
            lm.loglikelihood(requests("loglikelihood", (context, " 12")))
            for context in (100 * " 7" + 29 * " 3", 60 * " 3")
        )
        assert long[0] < 0
        assert len(lm.generate_until(requests("generate_until", ("7" * 100 + 29 * " 3", {"max_gen_toks": 4})))) == 1
    assert long == short, "of both only the end was seen"
    assert caplog.text.count("1 of 1 contexts do not fit the model's 33 tokens and were cut from the left") == 3
    with pytest.raises(dlmrs.InputError, match=r"continuation: has \d+ tokens, but the model takes at most 32"):
        lm.loglikelihood(requests("loglikelihood", ("a", " 7" * 40)))
    assert lm.loglikelihood_rolling(requests("loglikelihood_rolling", ("",))) == [0.0]
    # 70 tokens and more in windows of 31, each behind one token: every token counts once.
    ids = lm.tok_encode("5" * 70)
    pairs = [([], ids[:31]), (ids[30:31], ids[31:62]), (ids[len(ids) - 32 : 62], ids[62:])]
    wanted = sum(score.log_probability for score in lm.likelihood.score(pairs))
    assert lm.loglikelihood_rolling(requests("loglikelihood_rolling", ("5" * 70,))) == [pytest.approx(wanted)]


def test_the_masks_text_stays_text_and_control_tokens_do_not(sdar_lm: DlmrsLM) -> None:
    chat = [{"role": "user", "content": "Say <|MASK|> twice: <|MASK|>"}]
    ids = sdar_lm.tok_encode(sdar_lm.apply_chat_template(chat))
    assert sdar_lm.llm.mask_token_id not in ids
    assert sdar_lm.llm.decode(ids, skip_special=False) == sdar_lm.llm.render_chat(chat)
    plain = [{"role": "user", "content": "Say it twice."}]
    encoded = sdar_lm.llm.encode(sdar_lm.llm.render_chat(plain), parse_specials=True)
    assert sdar_lm.tok_encode(sdar_lm.apply_chat_template(plain)) == encoded
    [(log_p, _)] = sdar_lm.loglikelihood(requests("loglikelihood", ("Say", " <|MASK|>")))
    assert -1000 < log_p < 0


def test_chat_templates(sdar_lm: DlmrsLM) -> None:
    chat = [{"role": "user", "content": "Go on."}, {"role": "assistant", "content": "The beads cost"}]
    assert sdar_lm.apply_chat_template(chat, add_generation_prompt=False).endswith(
        "<|im_start|>assistant\nThe beads cost"
    )
    assert sdar_lm.chat_template(False) is None
    assert "Another question.<|im_end|>" in (sdar_lm.chat_template(True) or "")
    assert sdar_lm.tokenizer_name == "dlmrs__tiny-sdar"
    with pytest.raises(dlmrs.InputError, match="chat_template: is 'tools'"):
        sdar_lm.chat_template("tools")


@pytest.mark.parametrize("lm", ["sdar_lm", "llada_lm"])
def test_results_go_to_the_harness_cache(lm: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    model: DlmrsLM = request.getfixturevalue(lm)
    cached = lm_eval.api.model.CachingLM(model, str(tmp_path / "cache.db"))
    asked = [
        ("loglikelihood", ("6 * 2 =", " 12")),
        ("loglikelihood_rolling", ("Together that is 47.",)),
        ("generate_until", ("6 * 2 =", {"max_gen_toks": 4})),
    ]
    try:
        first = [getattr(cached, kind)(requests(kind, pair)) for kind, pair in asked]
        assert first == [getattr(cached, kind)(requests(kind, pair)) for kind, pair in asked]
        assert len(cached.dbdict) == 3, "what was added under way has the key that is looked up"
    finally:
        model.set_cache_hook(lm_eval.api.model.CacheHook(None))
        cached.dbdict.close()


def test_arguments(sdar_lm: DlmrsLM) -> None:
    text = "model=tiny-llada,threads=2,steps=8,threshold=0.9,block_length=8,cfg_scale=0.5,batch_size=auto,loglikelihood=left_to_right"
    lm = DlmrsLM.create_from_arg_string(text, {"batch_size": 1, "max_batch_size": 4, "device": "cuda:0"})
    assert lm.decoding == dlmrs.Canvas(steps=8, threshold=0.9, block_length=8, cfg_scale=0.5)
    assert (lm.batch_size, lm.likelihood.method) == (4, "left_to_right")
    assert sdar_lm.decoding == dlmrs.BlockDiffusion()
    blocks = DlmrsLM("tiny-sdar", block_length=8, strategy="margin")
    assert blocks.decoding == dlmrs.BlockDiffusion(block_length=8, strategy="margin")
    assert blocks.llm.block_length == 8
    assert (blocks.rank, blocks.world_size) == (0, 1)


def shifted_blocks(folder: Path) -> str:
    """Random weights of the family whose predictions are shifted in blocks, with the tokenizer of tiny-sdar."""
    bundled = TESTS.parent / "crates" / "dlmrs" / "bundled" / "tiny-sdar"
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(bundled / name, folder / name)
    c, layer = 8, "model.layers.0."
    config = {
        "architectures": ["Fast_dLLM_QwenForCausalLM"], "vocab_size": 640, "hidden_size": c, "intermediate_size": c, "num_hidden_layers": 1,
        "num_attention_heads": 1, "num_key_value_heads": 1, "hidden_act": "silu", "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
        "rope_theta": 1e4, "tie_word_embeddings": True, "bd_size": 8,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (640, c), "model.norm.weight": (c,)}
    shapes |= {f"{layer}{norm}_layernorm.weight": (c,) for norm in ("input", "post_attention")}
    parts = ("self_attn.q", "self_attn.k", "self_attn.v", "self_attn.o", "mlp.gate", "mlp.up", "mlp.down")
    shapes |= {f"{layer}{part}_proj.weight": (c, c) for part in parts}
    shapes |= {f"{layer}self_attn.{part}_proj.bias": (c,) for part in "qkv"}
    generator, header, data = np.random.default_rng(1), {}, b""
    for name, shape in shapes.items():
        values = generator.standard_normal(shape, dtype=np.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    return str(folder)


def test_shifted_predictions_in_blocks(tmp_path: Path) -> None:
    model = DlmrsLM(shifted_blocks(tmp_path), threads=2, max_gen_toks=12, sub_block=4, threshold=0.5)
    assert model.decoding == dlmrs.SubBlockDiffusion(sub_block=4, threshold=0.5)
    assert (model.likelihood.method, model.llm.block_length) == ("left_to_right", 8)
    [text] = model.generate_until(requests("generate_until", ("Mia has 63 beads.", {"until": []})))
    prompt = model.llm.encode("Mia has 63 beads.")
    [output] = model.llm.generate(prompt, dlmrs.SamplingParams(max_tokens=12, seed=0), decoding=model.decoding)
    assert text == output.text
    # What greedy decoding from left to right gives is what the likelihood finds greedy.
    one_by_one = dlmrs.SubBlockDiffusion(sub_block=1)
    [output] = model.llm.generate(prompt, dlmrs.SamplingParams(max_tokens=12, ignore_eos=True), decoding=one_by_one)
    [score] = Likelihood(model.llm).score([(prompt, output.token_ids)])
    assert score.is_greedy and score.log_probability < 0
    for wrong, message in [("steps=4", "decodes by SubBlockDiffusion; use block_length"), ("sub_block=3", "sub_block: is 3")]:
        with pytest.raises(dlmrs.InputError, match=message):
            bad = DlmrsLM.create_from_arg_string(f"model={tmp_path},{wrong}")
            bad.generate_until(requests("generate_until", ("a", {"until": []})))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("threads=2", "model_args: has no model; give model=NAME or model=FOLDER"),
        (
            "model=tiny-sdar,cfg_scale=1",
            "cfg_scale is unknown for this model, which decodes by BlockDiffusion; use block_length",
        ),
        ("model=tiny-llada,entropy_bound=1", "entropy_bound is unknown for this model, which decodes by Canvas"),
        ("model=tiny-sdar,pretrained=x", "model_args: pretrained is unknown"),
        ("model=tiny-sdar,steps=0", "steps: is 0"),
        ("model=tiny-sdar,batch_size=0", "batch_size: is 0; auto or a whole number"),
        ("model=tiny-sdar,batch_size=all", "batch_size: is 'all'"),
        ("model=tiny-sdar,loglikelihood=exact", "loglikelihood: 'exact' is unknown"),
        ("model=tiny-sdar,max_length=100000", "max_model_len"),
        ("model=no/such/folder", "no/such/folder"),
        (f"model={GOLDEN / 'sdar'},mask_token_id=317", "tokenizer"),
    ],
)
def test_bad_arguments(arguments: str, message: str) -> None:
    with pytest.raises(dlmrs.Error, match=message):
        DlmrsLM.create_from_arg_string(arguments)


def test_without_the_harness_the_import_says_what_to_install() -> None:
    program = "import importlib.util as u; u.find_spec = lambda name, package=None: None\nimport dlmrs.lm_eval"
    run = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=120)
    assert "ImportError: dlmrs.lm_eval needs lm-evaluation-harness, which is not installed: pip install" in run.stderr
