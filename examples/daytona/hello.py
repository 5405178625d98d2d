"""Daytona's SDK for Python, as it comes from PyPI, with a sandbox of Atoll.

    pip install daytona && python hello.py

DAYTONA_API_URL and DAYTONA_API_KEY say where the daemon is: see docs/daytona.md.
"""

from daytona import CreateSandboxFromSnapshotParams, Daytona

daytona = Daytona()
sandbox = daytona.create(CreateSandboxFromSnapshotParams(language="python", labels={"example": "hello"}))
try:
    sandbox.fs.upload_file(b"1\n2\n39\n", "numbers.txt")
    largest = sandbox.process.exec("sort -rn numbers.txt | head -n 1")
    print("largest:", largest.result.strip())

    run = sandbox.process.code_run('print(sum(int(line) for line in open("numbers.txt")))')
    print("sum:", run.result.strip())
finally:
    sandbox.delete()
