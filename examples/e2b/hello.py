"""E2B's SDK for Python, as it comes from PyPI, with a sandbox of Atoll.

    pip install e2b-code-interpreter && python hello.py

E2B_API_URL, E2B_SANDBOX_URL and E2B_API_KEY say where the daemon is: see docs/e2b.md.
"""

from e2b_code_interpreter import Sandbox

with Sandbox.create(timeout=60, metadata={"example": "hello"}) as sandbox:
    sandbox.files.write("numbers.txt", "1\n2\n39\n")
    largest = sandbox.commands.run("sort -rn numbers.txt | head -n 1")
    print("largest:", largest.stdout.strip())

    execution = sandbox.run_code("""
with open('numbers.txt') as f:
    numbers = [int(line) for line in f]
print('read', len(numbers), 'numbers')
sum(numbers)""")
    print("".join(execution.logs.stdout).strip())
    print("sum:", execution.text)
