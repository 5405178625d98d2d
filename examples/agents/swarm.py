"""Three agents at the same time, then one that needs their results: they share a memory."""

from atoll import call

NOTE = ("python3 -c \"import json, os; path = os.environ['ATOLL_SWARM_MEMORY']; memory = json.load(open(path)); "
        "{}; json.dump(memory, open(path, 'w'))\"")

swarm = call("POST", "/api/swarms?wait=true", {
    "concurrency": 3,
    "tasks": [
        {"name": "api", "instruction": NOTE.format("memory['api'] = '/items'")},
        {"name": "tests", "instruction": NOTE.format("memory['tests'] = 12")},
        {"name": "docs", "instruction": NOTE.format("memory['docs'] = 'README.md'")},
        {"name": "review", "dependsOn": ["api", "tests", "docs"],
         "instruction": NOTE.format("memory['review'] = f'{len(memory)} results'")},
    ],
})
for member in swarm["members"]:
    print(f"{member['name']}: {member['state']}")
print("Memory:", swarm["memory"])
