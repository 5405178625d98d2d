"""How long each provider takes to create a sandbox, and to run a first command in it, in one daemon.

Providers that are services (e2b, daytona, vercel) are a second Atoll on this machine: the figure is what Atoll adds
to the service, not what the service takes.
"""

import statistics
import time

import places


def timed(action):
    start = time.monotonic()
    result = action()
    return (time.monotonic() - start) * 1000, result


def life(place, samples: dict) -> None:
    """One sandbox: created, used once, destroyed."""
    created, box = timed(place.create)
    samples["create"].append(created)
    samples["exec"].append(timed(lambda: box.run("true"))[0])
    box.destroy()


def measure_creation(fleet, rounds: int) -> dict:
    with places.world() as world:
        samples = {name: {"create": [], "exec": []} for name in world.places}
        for number in range(rounds + 1):
            for name, place in world.places.items():
                # The first of each warms caches of images and of connections.
                life(place, samples[name] if number else {"create": [], "exec": []})
        return {name: {f"{step}_ms": statistics.median(values) for step, values in steps.items()}
                for name, steps in samples.items()}
