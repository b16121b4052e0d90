"""Loading, facts, errors, and the life of an LLM: closing, pickling, forking, signals."""

import copy
import importlib.metadata
import inspect
import os
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dlmrs
import numpy as np
import pytest
from golden_data import GOLDEN, MASK


def test_facts(sdar: dlmrs.LLM, llada: dlmrs.LLM) -> None:
    assert (sdar.name, sdar.family, sdar.vocab_size, sdar.mask_token_id) == ("tiny-sdar", "SDAR", 640, 3)
    assert (sdar.block_length, sdar.max_model_len, sdar.device, sdar.threads) == (4, 2048, "cpu", 2)
    assert 2 in sdar.stop_token_ids
    assert (llada.family, llada.block_length) == ("LLaDA", None)
    assert repr(sdar) == (
        'LLM("tiny-sdar", family="SDAR", vocab_size=640, block_length=4, max_model_len=2048, device="cpu", threads=2)'
    )
    assert not sdar.closed


def test_the_package() -> None:
    assert dlmrs.__version__ == importlib.metadata.version("dlmrs")
    assert dlmrs.bundled_models() == ["tiny-sdar", "tiny-sdar-draft", "tiny-llada"]
    assert all(hasattr(dlmrs, name) for name in dlmrs.__all__)
    signature = inspect.signature(dlmrs.LLM)
    assert list(signature.parameters)[:6] == ["model", "draft", "device", "draft_device", "dtype", "threads"]
    assert signature.parameters["device"].default == "auto"


def test_inspect_loads_nothing() -> None:
    report = dlmrs.inspect("tiny-sdar")
    assert report["family"] == "SDAR" and report["layers"] == 6
    assert report["mask_token_id"]["value"] == 3
    assert dlmrs.inspect(GOLDEN / "sdar")["mask_token_id"] is None
    assert dlmrs.inspect(GOLDEN / "sdar", mask_token_id=MASK)["mask_token_id"]["value"] == MASK
    with pytest.raises(dlmrs.NotFoundError):
        dlmrs.inspect("no/such/folder")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (dlmrs.NotFoundError, FileNotFoundError),
        (dlmrs.IoError, OSError),
        (dlmrs.CheckpointError, ValueError),
        (dlmrs.UnsupportedModelError, ValueError),
        (dlmrs.InputError, ValueError),
        (dlmrs.CapacityError, MemoryError),
        (dlmrs.TokenizerError, ValueError),
        (dlmrs.TemplateError, ValueError),
        (dlmrs.DeviceError, RuntimeError),
        (dlmrs.NotFiniteError, ValueError),
        (dlmrs.ClosedError, RuntimeError),
    ],
)
def test_every_error_is_also_a_builtin_kind(error: type[Exception], kind: type[Exception]) -> None:
    assert issubclass(error, dlmrs.Error) and issubclass(error, kind)
    assert str(error("what happened")) == "what happened"
    assert str(pickle.loads(pickle.dumps(error("what happened")))) == "what happened"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"model": "no/such/folder"}, dlmrs.NotFoundError, "no/such/folder"),
        ({"model": "bundled:nothing"}, dlmrs.Error, "nothing"),
        ({"model": 5}, dlmrs.InputError, "model: is 5"),
        ({"model": b"x"}, dlmrs.InputError, "model: is b'x'"),
        ({"device": "gpu"}, dlmrs.DeviceError, "'gpu'"),
        ({"device": 5}, dlmrs.InputError, "device: is 5"),
        ({"dtype": 5}, dlmrs.InputError, "dtype: is 5"),
        ({"dtype": "f8"}, dlmrs.InputError, "dtype: 'f8' is unknown; use auto"),
        ({"dtype": "f16", "device": "cpu"}, dlmrs.InputError, "dtype: f16 is not available on a CPU; use auto, f32, bf16, int8 or int4"),
        ({"backend": "magic"}, dlmrs.InputError, "backend: 'magic' is unknown"),
        ({"threads": 0}, dlmrs.InputError, "threads"),
        ({"threads": -1}, dlmrs.InputError, "threads: is -1"),
        ({"threads": 1.5}, dlmrs.InputError, "threads: is 1.5"),
        ({"mask_token_id": 640}, dlmrs.InputError, "mask_token_id"),
        ({"block_length": 0}, dlmrs.InputError, "block_length"),
        ({"max_model_len": 1 << 20}, dlmrs.InputError, "max_model_len"),
        ({"model": GOLDEN / "sdar"}, dlmrs.InputError, "give mask_token_id"),
    ],
)
def test_what_cannot_be_loaded(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        dlmrs.LLM(**{"model": "tiny-sdar", **arguments})


def test_broken_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(dlmrs.CheckpointError, match=r"config\.json"):
        dlmrs.LLM(tmp_path)
    (tmp_path / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    with pytest.raises(dlmrs.UnsupportedModelError, match="LlamaForCausalLM"):
        dlmrs.LLM(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"token_ids": []}, "token_ids: is empty"),
        ({"token_ids": [640]}, "token_ids: holds the id 640"),
        ({"token_ids": [-1]}, r"token_ids\[0\]: is -1"),
        ({"token_ids": "ab"}, "token_ids: is 'ab'"),
        ({"token_ids": [5] * 2049}, "token_ids: has 2049 tokens"),
        ({"positions": [0]}, "positions: has 1 entries for 3 tokens"),
        ({"rows": [3]}, "rows: names row 3 of a pass of 3 rows"),
        ({"rows": [-1]}, r"rows\[0\]: is -1"),
        ({"mask": np.ones((3, 3))}, r"mask: has type float64 and shape \[3, 3\]; a bool array"),
        ({"mask": [[True], [True, False]]}, "mask: is .* a bool array of shape"),
        ({"mask": np.ones(3, dtype=bool)}, r"mask: has type bool and shape \[3\]"),
        ({"mask": np.ones((2, 2), dtype=bool)}, r"mask: is a mask of shape \(2, 2\)"),
        ({"mask": np.zeros((3, 3), dtype=bool)}, "mask: lets row 0 see no key at all"),
    ],
)
def test_bad_forwards(sdar: dlmrs.LLM, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(dlmrs.InputError, match=message):
        sdar.forward(**{"token_ids": [5, 6, 7], **arguments})


def test_forward_rows(sdar: dlmrs.LLM) -> None:
    assert sdar.forward([5, 6, 7]).shape == (3, 640)
    assert sdar.forward([5, 6, 7], rows=[]).shape == (0, 640)
    shifted = sdar.forward([5, 6, 7], positions=[4, 5, 6])
    np.testing.assert_allclose(shifted, sdar.forward([5, 6, 7]), atol=1e-3)  # rotary positions are relative


def test_a_closed_llm_says_so() -> None:
    with dlmrs.LLM("tiny-sdar-draft", threads=1) as llm:
        assert llm.generate("a", dlmrs.SamplingParams(max_tokens=4))
    llm.close()
    assert llm.closed and repr(llm) == '<LLM "tiny-sdar-draft", closed>' and llm.name == "tiny-sdar-draft"
    uses: list[Callable[[], object]] = [
        lambda: llm.generate("a"),
        lambda: llm.forward([1]),
        lambda: llm.encode("a"),
        lambda: llm.vocab_size,
    ]
    for use in uses:
        with pytest.raises(dlmrs.ClosedError, match=r"this LLM \(tiny-sdar-draft\) was closed"):
            use()


def test_pickling_says_what_to_do_instead(sdar: dlmrs.LLM) -> None:
    for use in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="load it there"):
            use(sdar)
    [output] = sdar.generate("a", dlmrs.SamplingParams(max_tokens=4))
    assert pickle.loads(pickle.dumps(output)) == output


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_has_to_load_its_own(sdar: dlmrs.LLM) -> None:
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            sdar.generate("a", dlmrs.SamplingParams(max_tokens=4))
        except dlmrs.ClosedError as error:
            with dlmrs.LLM("tiny-sdar-draft", threads=2) as own:
                own.generate("a", dlmrs.SamplingParams(max_tokens=4))
            status = 0 if "fork" in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert sdar.generate("a", dlmrs.SamplingParams(max_tokens=4))


def test_ctrl_c_works_between_passes() -> None:
    program = """
        import os, signal, threading, time, dlmrs
        llm = dlmrs.LLM("tiny-sdar", threads=1)
        settings = dlmrs.SamplingParams(max_tokens=1900, ignore_eos=True)
        before = llm.generate("9 * 5 = ", dlmrs.SamplingParams(max_tokens=8))[0]
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        started = time.monotonic()
        try:
            for _ in range(1000):
                llm.generate(["1", "2", "3", "4"], settings, decoding=dlmrs.BlockDiffusion(threshold=1.0))
        except KeyboardInterrupt:
            assert time.monotonic() - started < 20
            after = llm.generate("9 * 5 = ", dlmrs.SamplingParams(max_tokens=8))[0]
            assert after.token_ids == before.token_ids
            print("interrupted and well")
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert run.stdout == "interrupted and well\n", run.stderr


def test_import_leaves_numpy_alone() -> None:
    code = "import sys, dlmrs; assert 'numpy' not in sys.modules; dlmrs.LLM('tiny-sdar').forward([1]); assert 'numpy' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_stop_ids_of_the_caller_replace_the_checkpoints() -> None:
    with dlmrs.LLM("tiny-sdar", stop_token_ids=[5, 4]) as llm:
        assert llm.stop_token_ids == [4, 5]
    assert dlmrs.inspect("tiny-sdar", stop_token_ids=[])["stop_token_ids"] == {"value": [], "from": "the caller"}
    with pytest.raises(dlmrs.InputError, match="stop_token_ids.*640"):
        dlmrs.LLM("tiny-sdar", stop_token_ids=[640])


def test_an_error_of_one_request_names_it() -> None:
    with dlmrs.LLM("tiny-sdar") as llm:
        good = dlmrs.SamplingParams(max_tokens=4)
        bad = dlmrs.SamplingParams(max_tokens=4, banned_token_ids=range(640))
        with pytest.raises(dlmrs.InputError, match=r"banned_token_ids \(request 2 of 2\)"):
            llm.generate([[20, 21], [20, 21]], [good, bad])
        assert len(llm.generate([20, 21], good)[0].token_ids) <= 4
