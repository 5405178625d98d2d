"""The asynchronous client with the face of the synchronous one, so that a test runs with both."""

import asyncio
import inspect


class Blocking:
    """An object of the asynchronous SDK; its methods return when they are done."""

    def __init__(self, made, loop):
        vars(self).update(made=made, loop=loop)

    def __getattr__(self, name):
        return self.wrap(getattr(self.made, name))

    def wrap(self, value):
        if inspect.isroutine(value):
            return lambda *args, **kwargs: self.wrap(self.done(value(*args, **kwargs)))
        if type(value).__module__.startswith("daytona._async."):
            return Blocking(value, self.loop)
        return value

    def done(self, value):
        return self.loop.run_until_complete(value) if inspect.isawaitable(value) else value


def blocking(make):
    """The client that make() returns, which is called in the loop that it needs, and a function that closes it."""
    loop = asyncio.new_event_loop()

    async def start():
        return make()

    client = Blocking(loop.run_until_complete(start()), loop)

    def close():
        client.close()
        loop.close()

    return client, close
