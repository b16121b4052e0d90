"""Streams: events as they come, in threads and in event loops; traces; log messages."""

import asyncio
import gc
import logging
import subprocess
import sys
import threading
from collections.abc import Callable

import dlmrs
import numpy as np
import pytest
from dlmrs import Committed, Finished, Revealed, SamplingParams

QUESTION = "Hugo buys 6 beads for 2 dollars each and 7 marbles for 5 dollars each. How much does Hugo spend?"
CHAT = [{"role": "user", "content": QUESTION}]
PROMPTS = ["The beads cost 6 * 2 =", "Together that is 12 + 35 =", "9 * 5 =", QUESTION]


@pytest.mark.parametrize("name", ["tiny-sdar", "tiny-llada"])
def test_events_add_up_to_the_output(load: Callable[..., dlmrs.LLM], name: str) -> None:
    llm = load(name)
    params = SamplingParams(max_tokens=48)
    whole = llm.chat(CHAT, params)
    events = list(llm.stream(CHAT, params))
    assert isinstance(events[-1], Finished) and sum(isinstance(event, Finished) for event in events) == 1
    output = events[-1].output
    assert (output.text, output.token_ids, output.stats.passes) == (whole.text, whole.token_ids, whole.stats.passes)
    committed = [event for event in events if isinstance(event, Committed)]
    assert "".join(event.text for event in committed) == whole.text
    assert [token for event in committed for token in event.token_ids] == whole.token_ids
    revealed = [event for event in events if isinstance(event, Revealed)]
    assert [event.pass_number for event in revealed] == sorted({event.pass_number for event in revealed})
    for event in revealed:
        assert [output.canvas_token_ids[position] for position in event.positions] == event.token_ids
        assert all(0 < probability <= 1 for probability in event.probabilities)
    assert sum(len(event.positions) for event in revealed) == output.stats.revealed


def test_prompts_of_every_form(sdar: dlmrs.LLM) -> None:
    params = SamplingParams(max_tokens=12)
    [text] = sdar.generate(PROMPTS[0], params)
    assert sdar.stream(PROMPTS[0], params).result().token_ids == text.token_ids
    ids = sdar.encode(PROMPTS[0])
    assert sdar.stream(ids, params).result().token_ids == text.token_ids
    assert sdar.stream(np.array(ids), params).result().token_ids == text.token_ids
    rendered = sdar.encode(sdar.render_chat(CHAT, add_generation_prompt=False), parse_specials=True)
    assert sdar.stream(CHAT, params, add_generation_prompt=False).result().prompt_token_ids == rendered


@pytest.mark.parametrize(
    ("prompt", "settings", "message"),
    [
        ("", {}, "prompt: is empty"),
        (7, {}, "prompt: is 7"),
        ([], {}, "prompt: is empty"),
        ("a", {"tools": []}, "tools: is for the chat template"),
        ("a", {"add_generation_prompt": True}, "add_generation_prompt: is for the chat template"),
        ("a", {"enable_thinking": False}, "enable_thinking: is for the chat template"),
        ("a", {"params": [SamplingParams()]}, "params: is"),
        ("a", {"decoding": dlmrs.Canvas()}, "decoding: is Canvas"),
        (CHAT + ["b"], {}, r"prompt\[1\]"),
        ([99_999], {}, "holds the id 99999"),
    ],
)
def test_refused_when_it_begins(sdar: dlmrs.LLM, prompt: object, settings: dict[str, object], message: str) -> None:
    with pytest.raises(dlmrs.InputError, match=message):
        sdar.stream(prompt, **settings)  # type: ignore[arg-type]


def test_cancel_close_and_drop(sdar: dlmrs.LLM) -> None:
    long = SamplingParams(max_tokens=400, ignore_eos=True)
    stream = sdar.stream(PROMPTS[0], long)
    assert isinstance(next(stream), Revealed) and stream.output is None
    stream.cancel()
    output = stream.result()
    assert output.finish_reason == "cancelled" and len(output.token_ids) < 400
    assert stream.output is output and stream.result() is output and list(stream) == []
    with sdar.stream(PROMPTS[0], long) as closed:
        next(closed)
    assert list(closed) == []
    closed.close()
    with pytest.raises(dlmrs.ClosedError, match="has no output"):
        closed.result()
    dropped = sdar.stream(PROMPTS[0], long)
    next(dropped)
    del dropped
    gc.collect()
    assert sdar.stream(PROMPTS[0], SamplingParams(max_tokens=4)).result().finish_reason == "length"


def test_closing_the_model_ends_its_streams() -> None:
    llm = dlmrs.LLM("tiny-sdar", threads=1)
    stream = llm.stream(PROMPTS[0], SamplingParams(max_tokens=500, ignore_eos=True))
    next(stream)
    llm.close()
    with pytest.raises(dlmrs.ClosedError, match="closed before the end"):
        for _ in stream:
            pass
    assert list(stream) == []
    with pytest.raises(dlmrs.ClosedError, match="was closed"):
        llm.stream("a")


def test_a_request_that_fails_raises_in_its_own_stream(sdar: dlmrs.LLM) -> None:
    bans = SamplingParams(max_tokens=8, banned_token_ids=range(sdar.vocab_size))
    failing, sound = sdar.stream(PROMPTS[0], bans), sdar.stream(PROMPTS[1], SamplingParams(max_tokens=8))
    with pytest.raises(dlmrs.Error):
        failing.result()
    assert len(sound.result().token_ids) == 8


def test_repr(sdar: dlmrs.LLM) -> None:
    stream = sdar.stream(PROMPTS[0], SamplingParams(max_tokens=4))
    assert repr(stream) == '<Stream of "tiny-sdar", 0 tokens given out, not finished>'
    stream.result()
    assert repr(stream) == '<Stream of "tiny-sdar", 4 tokens given out, finished>'


def test_async_iteration_and_await(sdar: dlmrs.LLM) -> None:
    params = SamplingParams(max_tokens=24)
    alone = [sdar.generate(prompt, params)[0].token_ids for prompt in PROMPTS]

    async def read(prompt: str) -> list[int]:
        tokens: list[int] = []
        async for event in sdar.stream(prompt, params):
            if isinstance(event, Committed):
                tokens += event.token_ids
        return tokens

    async def both() -> None:
        assert await asyncio.gather(*map(read, PROMPTS)) == alone
        outputs = await asyncio.gather(*(sdar.stream(prompt, params) for prompt in PROMPTS * 10))
        assert [output.token_ids for output in outputs] == alone * 10

    asyncio.run(both())
    asyncio.run(both())  # another loop


def test_the_loop_runs_while_a_stream_is_awaited(sdar: dlmrs.LLM) -> None:
    async def main() -> int:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticker = asyncio.create_task(tick())
        await sdar.stream(PROMPTS[0], SamplingParams(max_tokens=64, ignore_eos=True))
        ticker.cancel()
        return ticks

    assert asyncio.run(main()) > 16  # a pass for each block of four, at least


def test_cancelling_the_task_cancels_the_request(sdar: dlmrs.LLM) -> None:
    async def main() -> dlmrs.Stream:
        stream = sdar.stream(PROMPTS[0], SamplingParams(max_tokens=500, ignore_eos=True))

        async def wait() -> dlmrs.Output:
            return await stream

        task = asyncio.create_task(wait())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return stream

    assert asyncio.run(main()).result().finish_reason == "cancelled"


def test_errors_reach_the_coroutine(sdar: dlmrs.LLM) -> None:
    async def main() -> None:
        await sdar.stream(PROMPTS[0], SamplingParams(banned_token_ids=range(sdar.vocab_size)))

    with pytest.raises(dlmrs.Error):
        asyncio.run(main())


def test_threads_that_mix_everything(sdar: dlmrs.LLM) -> None:
    """Streams, whole calls, cancels and errors from eight threads at once: what is read whole is as it is alone."""
    settings = [SamplingParams(max_tokens=10 + number) for number in range(5)]
    settings.append(SamplingParams(max_tokens=16, temperature=0.9, seed=3))
    cases = [(prompt, params) for prompt in PROMPTS for params in settings]
    alone = [sdar.generate(prompt, params)[0].token_ids for prompt, params in cases]
    failures: list[object] = []

    def work(first: int) -> None:
        for number in range(25):
            index = (first * 25 + number) % len(cases)
            prompt, params = cases[index]
            match number % 5:
                case 0:
                    tokens = sdar.generate(prompt, params)[0].token_ids
                case 1:
                    stream = sdar.stream(prompt, SamplingParams(max_tokens=300, ignore_eos=True))
                    next(stream)
                    stream.cancel()
                    if stream.result().finish_reason != "cancelled":
                        failures.append("not cancelled")
                    continue
                case 2:
                    try:
                        sdar.stream([99_999])
                    except dlmrs.InputError:
                        continue
                    failures.append("not refused")
                    continue
                case _:
                    tokens = sdar.stream(prompt, params).result().token_ids
            if tokens != alone[index]:
                failures.append((index, tokens))

    threads = [threading.Thread(target=work, args=(first,)) for first in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_two_threads_may_read_one_stream(sdar: dlmrs.LLM) -> None:
    stream = sdar.stream(PROMPTS[0], SamplingParams(max_tokens=100, ignore_eos=True))
    events: list[object] = []
    threads = [threading.Thread(target=lambda: events.extend(stream)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(event, Finished) for event in events) == 1
    assert sum(len(event.token_ids) for event in events if isinstance(event, Committed)) == 100


@pytest.mark.parametrize("name", ["tiny-sdar", "tiny-llada"])
def test_a_trace_tells_how_each_slot_was_decided(load: Callable[..., dlmrs.LLM], name: str) -> None:
    llm = load(name)
    output = llm.chat(CHAT, SamplingParams(max_tokens=32, trace=True))
    trace = output.trace
    assert trace is not None and llm.chat(CHAT, SamplingParams(max_tokens=32)).trace is None
    start = len(output.prompt_token_ids)
    assert len(trace) == output.stats.revealed
    assert trace.positions.tolist() == list(range(start, start + len(trace)))
    assert trace.token_ids.tolist() == output.canvas_token_ids[start : start + len(trace)]
    assert trace.token_ids[: len(output.token_ids)].tolist() == output.token_ids
    assert trace.passes.min() == 1 and trace.passes.max() <= output.stats.total_passes
    assert (trace.probabilities > 0).all() and (trace.entropies >= 0).all() and (trace.margins >= 0).all()
    assert set(trace.how) <= {"ranked", "bound"}
    dtypes = [array.dtype for array in (trace.positions, trace.passes, trace.probabilities, trace.entropies)]
    assert dtypes == [np.int64, np.int64, np.float32, np.float32]
    assert repr(trace) == f"Trace({len(trace)} slots in {trace.passes.max()} passes)"


def test_log_messages_go_through_logging(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="dlmrs"):
        llm = dlmrs.LLM("tiny-sdar", threads=1)
        with pytest.warns(UserWarning, match="differs from 4"):
            llm.generate("a", SamplingParams(max_tokens=2), decoding=dlmrs.BlockDiffusion(block_length=8))
    records = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "dlmrs"]
    assert any(level == "INFO" and message.startswith('loaded model="tiny-sdar"') for level, message in records), records
    assert any(level == "WARNING" and "differs from 4" in message for level, message in records), records


def test_a_process_that_ends_while_event_loops_are_told_ends_well() -> None:
    # What is told to a loop goes through a thread of Rust's, which must not be inside Python when the interpreter ends.
    code = """
import asyncio
import dlmrs

llm = dlmrs.LLM("tiny-sdar", threads=1)
params = dlmrs.SamplingParams(max_tokens=1500, ignore_eos=True)

async def main():
    try:
        await asyncio.wait_for(asyncio.gather(*(llm.stream("9 * 5 =", params) for _ in range(4))), timeout=0.05)
    except asyncio.TimeoutError:
        pass

asyncio.run(main())
"""
    for _ in range(16):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
