"""Waiting for a :class:`dlmrs.Stream` in an event loop, without a thread for each."""

import asyncio

from dlmrs._dlmrs import Stream
from dlmrs.events import Event, Finished
from dlmrs.output import Output


async def next_event(stream: Stream) -> Event:
    """The stream's next event; StopAsyncIteration behind the last one."""
    loop = asyncio.get_running_loop()
    while (event := stream._poll()) is None:
        ready = loop.create_future()

        def wake(ready: asyncio.Future[None] = ready) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_set, ready)

        stream._notify(wake)
        # What came before the call above wakes nobody.
        if (event := stream._poll()) is not None:
            break
        await ready
    return event


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


async def output(stream: Stream) -> Output:
    """The stream's output. If the task that waits is cancelled, so is the request."""
    try:
        async for event in stream:
            if isinstance(event, Finished):
                return event.output
    except asyncio.CancelledError:
        stream.cancel()
        raise
    return stream.result()
