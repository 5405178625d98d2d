# What code written by language models expects, for contexts in Python, JavaScript, TypeScript, Bash, R and
# Java. Built by `make code-interpreter`; until then the host's interpreters serve.
FROM debian:bookworm
ARG LARGE="r-base-core default-jdk-headless gcc libc6-dev make"
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        python3 python3-pip python3-venv python3-numpy python3-pandas python3-matplotlib python3-scipy \
        python3-sympy python3-pil python3-requests python3-sklearn python3-seaborn python3-bs4 python3-lxml \
        python3-openpyxl python3-docx python3-yaml python3-tabulate python3-dateutil python3-pytest \
        fonts-dejavu-core fonts-liberation2 nodejs npm node-typescript \
        bash ca-certificates curl file git jq less procps ripgrep tzdata unzip wget xz-utils zip $LARGE && \
    rm -rf /var/lib/apt/lists/* /usr/share/doc/* /usr/share/man/*
# A sandbox has no system Python worth protecting from pip.
RUN printf '[global]\nbreak-system-packages = true\n' >/etc/pip.conf && \
    (id user >/dev/null 2>&1 || useradd --create-home --uid 1000 --shell /bin/bash user)
# matplotlib looks through all fonts on its first use and remembers them.
RUN python3 -c 'import matplotlib.font_manager' && \
    su - user -c "python3 -c 'import matplotlib.font_manager'"
USER user
WORKDIR /home/user
